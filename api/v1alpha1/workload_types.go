package v1alpha1

// Workload contains exactly one workload.
//
// +kubebuilder:validation:XValidation:rule="[has(self.smallbank), has(self.rmw), has(self.ycsb), has(self.tpcc), has(self.micro), has(self.social)].exists_one(x, x)",messageExpression="has(self.smallbank) || has(self.rmw) || has(self.ycsb) || has(self.tpcc) || has(self.micro) || has(self.social) ? 'more than one of smallbank, rmw, ycsb, tpcc, micro, social is set: keep exactly one workload' : 'no workload is set: set exactly one of smallbank, rmw, ycsb, tpcc, micro, social'"
type Workload struct {
	// SmallBank is the banking benchmark of Alomari et al. (2008), with transactions split into phases.
	// +optional
	SmallBank *SmallBank `json:"smallbank,omitempty"`
	// RMW is the microbenchmark of Detock (Nguyen et al., 2023): transactions that read and write random records.
	// +optional
	RMW *RMW `json:"rmw,omitempty"`
	// YCSB is the Yahoo! Cloud Serving Benchmark (Cooper et al., 2010): its core workloads A to F, custom mixes, and
	// transactions of several operations.
	// +optional
	YCSB *YCSB `json:"ycsb,omitempty"`
	// TPCC is the order-entry workload of TPC Benchmark C, revision 5.11.
	// +optional
	TPCC *TPCC `json:"tpcc,omitempty"`
	// Micro is the microbenchmark of SDUR (Sciascia and Pedone, 2012): transactions that read and update two small items,
	// in one or two partitions.
	// +optional
	Micro *Micro `json:"micro,omitempty"`
	// Social is the social network of SDUR: users post messages, follow each other and read their timelines.
	// +optional
	Social *Social `json:"social,omitempty"`
}

// SmallBank is the workload of "SmallBank on Detock".
type SmallBank struct {
	// Customers is the number of customers, each with a checking and a savings balance.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	// +kubebuilder:default=100000
	// +optional
	Customers int64 `json:"customers,omitempty"`
	// Mix is the share of each transaction type.
	// +kubebuilder:default={balance: 40, writeCheck: 25, depositChecking: 15, transactSavings: 15, amalgamate: 5}
	// +optional
	Mix SmallBankMix `json:"mix,omitzero"`
	// MultiHomePercent is the share of final phases that access accounts with different home regions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiHomePercent int32 `json:"multiHomePercent"`
	// MultiPartitionPercent is the share of final phases that access accounts in different partitions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiPartitionPercent int32 `json:"multiPartitionPercent"`
	// HotPercent is the skew of the choice of customers: 0 is uniform, 100 is the most skewed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	HotPercent int32 `json:"hotPercent"`
	// HotSkew sets how hotPercent skews the choice. With Share, the default, hotPercent is the share of the draws
	// that use NURand; the remaining draws are uniform. With Range, all draws use NURand, which clause 2.1.6 of
	// TPC-C defines. Its constant A is then hotPercent of the customers, as in the code of SmallBank on Detock.
	// +optional
	HotSkew SmallBankHotSkew `json:"hotSkew,omitempty"`
	// Lookups sets the home regions of the customers that multi-home transactions look up by name. With Local, the
	// default, they have their home in the client's region. With AnyHome, as in the code of SmallBank on Detock, they can
	// have any home, so lookups may be remote.
	// +optional
	Lookups SmallBankLookups `json:"lookups,omitempty"`
	// ForeignSingleHomePercent is the share of single-home final phases whose home is not the client's region. Every
	// other region is equally likely.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ForeignSingleHomePercent int32 `json:"foreignSingleHomePercent,omitempty"`
	// DependentPercent is the share of transactions that are not split into phases. Such a transaction reads the
	// customer's id by name and then uses the accounts of that id, which are not known in advance. Engines that must know
	// all rows in advance look them up first.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	DependentPercent int32 `json:"dependentPercent,omitempty"`
	// PaddingBytes is the number of bytes added to the arguments of each transaction, lookups included, and to its result.
	// It models other contents of a real system's messages, such as keys, values and traces. Only Geobench's own engines
	// support it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	PaddingBytes int32 `json:"paddingBytes,omitempty"`
	// MixPhases lists mixes for successive equal parts of the measured time. It replaces mix. Warm-ups use the first mix.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MixPhases []SmallBankMix `json:"mixPhases,omitempty"`
	// Sunflower moves the load from region to region: each entry applies to an equal part of the measured time.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Sunflower []SunflowerTarget `json:"sunflower,omitempty"`
}

// SmallBankHotSkew is the meaning of hotPercent.
// +kubebuilder:validation:Enum=Share;Range
type SmallBankHotSkew string

const (
	// SmallBankHotSkewShare means that hotPercent is the share of draws that use NURand.
	SmallBankHotSkewShare SmallBankHotSkew = "Share"
	// SmallBankHotSkewRange means that hotPercent sets the range of NURand, which all draws use.
	SmallBankHotSkewRange SmallBankHotSkew = "Range"
)

// SmallBankLookups selects the home regions of the customers that are looked up.
// +kubebuilder:validation:Enum=Local;AnyHome
type SmallBankLookups string

const (
	// SmallBankLookupsLocal looks up only customers of the client's region.
	SmallBankLookupsLocal SmallBankLookups = "Local"
	// SmallBankLookupsAnyHome looks up customers of any region for multi-home transactions.
	SmallBankLookupsAnyHome SmallBankLookups = "AnyHome"
)

// SmallBankMix is the share of each transaction type in percent; the shares sum to 100.
//
// +kubebuilder:validation:XValidation:rule="self.balance + self.writeCheck + self.depositChecking + self.transactSavings + self.amalgamate == 100",messageExpression="'balance + writeCheck + depositChecking + transactSavings + amalgamate is %d: it must be 100 (percent)'.format([self.balance + self.writeCheck + self.depositChecking + self.transactSavings + self.amalgamate])"
type SmallBankMix struct {
	// Balance reads the sum of both balances.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Balance int32 `json:"balance"`
	// WriteCheck deducts a check from the checking balance, with a penalty of 1 on overdraft.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	WriteCheck int32 `json:"writeCheck"`
	// DepositChecking adds to the checking balance.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	DepositChecking int32 `json:"depositChecking"`
	// TransactSavings deposits to or withdraws from the savings balance.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	TransactSavings int32 `json:"transactSavings"`
	// Amalgamate moves all money of one customer to the checking balance of another customer.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Amalgamate int32 `json:"amalgamate"`
}

// SunflowerTarget is a region that temporarily attracts load from all regions.
type SunflowerTarget struct {
	// Region that attracts the load.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +required
	Region string `json:"region"`
	// HitPercent is the share of every client's transactions that access data of that region.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +required
	HitPercent int32 `json:"hitPercent"`
}

// HomeRanks orders other regions by distance from the clients of a region.
type HomeRanks struct {
	// Region of the clients.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +required
	Region string `json:"region"`
	// Others lists all other home regions, the nearest first.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=31
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=24
	// +required
	Others []string `json:"others"`
}

// RMW is a workload of transactions that read and write random records.
//
// +kubebuilder:validation:XValidation:rule="self.writesPerTransaction <= self.recordsPerTransaction",messageExpression="'writesPerTransaction %d is more than recordsPerTransaction (%d): a transaction can write at most the records that it touches'.format([self.writesPerTransaction, self.recordsPerTransaction])",fieldPath=".writesPerTransaction"
// +kubebuilder:validation:XValidation:rule="self.hotRecordsPerTransaction <= self.recordsPerTransaction",messageExpression="'hotRecordsPerTransaction %d is more than recordsPerTransaction (%d)'.format([self.hotRecordsPerTransaction, self.recordsPerTransaction])",fieldPath=".hotRecordsPerTransaction"
// +kubebuilder:validation:XValidation:rule="self.hotRecordsPerTransaction == 0 || self.hotRecords > 0",message="hotRecordsPerTransaction needs hotRecords greater than 0: it says how many records are hot",fieldPath=".hotRecords"
type RMW struct {
	// Records is the number of records in the database.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	// +kubebuilder:default=100000
	// +optional
	Records int64 `json:"records,omitempty"`
	// RecordsPerTransaction is the number of distinct records that a transaction accesses.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	RecordsPerTransaction int32 `json:"recordsPerTransaction,omitempty"`
	// WritesPerTransaction is the number of records that a transaction writes, at most recordsPerTransaction. It only
	// reads its remaining records.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	WritesPerTransaction int32 `json:"writesPerTransaction"`
	// ValueBytes is the size of a record's value.
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=65536
	// +kubebuilder:default=100
	// +optional
	ValueBytes int32 `json:"valueBytes,omitempty"`
	// MultiHomePercent is the share of transactions that access records with different home regions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiHomePercent int32 `json:"multiHomePercent"`
	// HomesPerMultiHome is the number of home regions that a multi-home transaction accesses.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=32
	// +kubebuilder:default=2
	// +optional
	HomesPerMultiHome int32 `json:"homesPerMultiHome,omitempty"`
	// OtherHomesThetaPercent, if set, chooses the homes other than the client's home by distance. The k-th nearest
	// region, by declared round-trip time, has a probability proportional to 1 / k^theta. The value is theta in
	// hundredths: 100 is Zipf's law. By default, all homes are equally likely.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	OtherHomesThetaPercent *int32 `json:"otherHomesThetaPercent,omitempty"`
	// OtherHomesRanks overrides the order of regions for otherHomesThetaPercent, with one entry for each home region. By
	// default, the declared round-trip times determine the order.
	// +listType=map
	// +listMapKey=region
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +optional
	OtherHomesRanks []HomeRanks `json:"otherHomesRanks,omitempty"`
	// MultiPartitionPercent is the share of transactions that access records in different partitions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiPartitionPercent int32 `json:"multiPartitionPercent"`
	// PartitionsPerMultiPartition is the number of partitions that a multi-partition transaction accesses.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=2
	// +optional
	PartitionsPerMultiPartition int32 `json:"partitionsPerMultiPartition,omitempty"`
	// HotRecords is the number of hot records in each partition of each home. With 0 there are none, and all records are
	// chosen uniformly.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +kubebuilder:default=0
	// +optional
	HotRecords int64 `json:"hotRecords"`
	// HotRecordsPerTransaction is the number of hot records among the records of a transaction.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	// +optional
	HotRecordsPerTransaction int32 `json:"hotRecordsPerTransaction"`
	// ForeignSingleHomePercent is the share of single-home transactions whose home is not the client's region. Every
	// other region is equally likely.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ForeignSingleHomePercent int32 `json:"foreignSingleHomePercent,omitempty"`
	// DependentPercent is the share of transactions whose last record depends on the value of the first record. The last
	// record is then one of two records with the same home and partition. Engines that must know all rows in advance look
	// them up first.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	DependentPercent int32 `json:"dependentPercent,omitempty"`
	// Types are transaction types, each with a share, that override some of the parameters above. By default, there is
	// one type, rmw.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Types []RMWType `json:"types,omitempty"`
	// MixPhases lists mixes of the types for successive equal parts of the measured time. It replaces the types' percent.
	// Warm-ups use the first mix.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MixPhases []RMWMix `json:"mixPhases,omitempty"`
}

// RMWMix is the share of each transaction type.
type RMWMix struct {
	// Percents are the shares of the types in percent, in the order of types; they sum to 100.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=100
	// +required
	Percents []int32 `json:"percents"`
}

// RMWType is a transaction type. Fields that are not set take the values of the workload's parameters.
type RMWType struct {
	// Name of the type in results.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^[a-z][A-Za-z0-9]*$`
	// +required
	Name string `json:"name"`
	// Percent of the transactions that have this type. The percentages of all types sum to 100. It is not used with
	// mixPhases.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// RecordsPerTransaction is the number of distinct records that a transaction accesses.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	RecordsPerTransaction *int32 `json:"recordsPerTransaction,omitempty"`
	// WritesPerTransaction is the number of records that a transaction writes, at most recordsPerTransaction.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	WritesPerTransaction *int32 `json:"writesPerTransaction,omitempty"`
	// HotRecords is the number of hot records in each partition of each home.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	HotRecords *int64 `json:"hotRecords,omitempty"`
	// HotRecordsPerTransaction is the number of hot records among the records of a transaction.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	HotRecordsPerTransaction *int32 `json:"hotRecordsPerTransaction,omitempty"`
	// MultiHomePercent is the share of the type's transactions that access records with different home regions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MultiHomePercent *int32 `json:"multiHomePercent,omitempty"`
	// MultiPartitionPercent is the share of the type's transactions that access records in different partitions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MultiPartitionPercent *int32 `json:"multiPartitionPercent,omitempty"`
	// ForeignSingleHomePercent is the share of the type's single-home transactions whose home is not the client's region.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ForeignSingleHomePercent *int32 `json:"foreignSingleHomePercent,omitempty"`
	// DependentPercent is the share of the type's transactions whose last record depends on the value of the first
	// record.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	DependentPercent *int32 `json:"dependentPercent,omitempty"`
}

// Micro reads and updates two items of 4 bytes in each transaction. A partition belongs to one region, like the groups
// of servers in the paper. So a database of two regions with two partitions each has four partitions.
type Micro struct {
	// ItemsPerPartition is the number of items in each partition of each region.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000000000
	// +kubebuilder:default=1000000
	// +optional
	ItemsPerPartition int64 `json:"itemsPerPartition,omitempty"`
	// GlobalPercent is the share of transactions that update one item in a partition of the client's region and one item
	// in any other partition. The remaining transactions update two items in one partition of the region.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	GlobalPercent int32 `json:"globalPercent"`
}

// Social is a social network of users. Each user has a list of consumers, a list of producers and the user's newest
// posts. Consumers are users who follow the user, and producers are users whom the user follows.
//
// +kubebuilder:validation:XValidation:rule="self.producersPerUser <= self.listLimit",messageExpression="'producersPerUser %d is more than listLimit (%d), the most that a list can hold'.format([self.producersPerUser, self.listLimit])",fieldPath=".producersPerUser"
// +kubebuilder:validation:XValidation:rule="self.producersPerUser < self.usersPerPartition",messageExpression="'producersPerUser %d is not less than usersPerPartition (%d): a user follows others, each once'.format([self.producersPerUser, self.usersPerPartition])",fieldPath=".producersPerUser"
type Social struct {
	// UsersPerPartition is the number of users in each partition of each region.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100000000
	// +kubebuilder:default=100000
	// +optional
	UsersPerPartition int64 `json:"usersPerPartition,omitempty"`
	// Mix is the share of each transaction type.
	// +kubebuilder:default={timelinePermille: 850, postPermille: 75, followPermille: 75}
	// +optional
	Mix SocialMix `json:"mix,omitzero"`
	// GlobalFollowPercent is the share of follows between users in different partitions, in the initial data and during
	// the run.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=50
	// +optional
	GlobalFollowPercent int32 `json:"globalFollowPercent"`
	// ProducersPerUser is the initial number of producers of each user, which is also the initial number of consumers.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	ProducersPerUser int32 `json:"producersPerUser,omitempty"`
	// ListLimit is the maximum length of a list of producers or consumers. A follow has no effect if either list is full.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1000
	// +optional
	ListLimit int32 `json:"listLimit,omitempty"`
	// PostBytes is the size of a post in bytes.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	// +kubebuilder:default=140
	// +optional
	PostBytes int32 `json:"postBytes,omitempty"`
	// PostsPerUser is the number of newest posts that are kept for each user; older posts are dropped.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=10
	// +optional
	PostsPerUser int32 `json:"postsPerUser,omitempty"`
	// PostsPerTimeline is the number of posts in a timeline: the newest posts of all producers.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=20
	// +optional
	PostsPerTimeline int32 `json:"postsPerTimeline,omitempty"`
}

// SocialMix is the share of each transaction type, per mille; the shares sum to 1000.
//
// +kubebuilder:validation:XValidation:rule="self.timelinePermille + self.postPermille + self.followPermille == 1000",messageExpression="'timelinePermille + postPermille + followPermille is %d: it must be 1000 (per mille)'.format([self.timelinePermille + self.postPermille + self.followPermille])"
type SocialMix struct {
	// TimelinePermille is the share of timeline reads, which return the newest posts of all producers of a user.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	// +optional
	TimelinePermille int32 `json:"timelinePermille"`
	// PostPermille is the share of posts.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	// +optional
	PostPermille int32 `json:"postPermille"`
	// FollowPermille is the share of follows.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	// +optional
	FollowPermille int32 `json:"followPermille"`
}
