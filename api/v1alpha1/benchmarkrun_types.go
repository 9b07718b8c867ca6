package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkRunSpec is one run: which database, which workload, how much load, what must hold.
//
// It is immutable but for runID, cancel, suspend and ttlSecondsAfterFinished: a new runID runs the same manifest again, so that a Git
// repository can ask for a re-run without renaming anything. A new name does the same and keeps the old result.
//
// +kubebuilder:validation:XValidation:rule="!has(self.workload.tpcc) || self.workload.tpcc.keyingAndThinkTimePercent == 0 || self.load.arrival == 'Closed'",messageExpression="'keyingAndThinkTimePercent is %d, but arrival %s has neither keying nor think times: set spec.load.arrival to Closed, or leave it 0'.format([self.workload.tpcc.keyingAndThinkTimePercent, self.load.arrival])",fieldPath=".workload.tpcc.keyingAndThinkTimePercent"
// +kubebuilder:validation:XValidation:rule="self.databaseRef == oldSelf.databaseRef && self.seed == oldSelf.seed && self.workload == oldSelf.workload && self.load == oldSelf.load && has(self.faults) == has(oldSelf.faults) && (!has(self.faults) || self.faults == oldSelf.faults) && has(self.faultInjection) == has(oldSelf.faultInjection) && (!has(self.faultInjection) || self.faultInjection == oldSelf.faultInjection) && has(self.objectives) == has(oldSelf.objectives) && (!has(self.objectives) || self.objectives == oldSelf.objectives) && has(self.verify) == has(oldSelf.verify) && (!has(self.verify) || self.verify == oldSelf.verify) && has(self.functionalTests) == has(oldSelf.functionalTests) && (!has(self.functionalTests) || self.functionalTests == oldSelf.functionalTests) && has(self.deadline) == has(oldSelf.deadline) && (!has(self.deadline) || self.deadline == oldSelf.deadline) && has(self.baselineRef) == has(oldSelf.baselineRef) && (!has(self.baselineRef) || self.baselineRef == oldSelf.baselineRef)",message="the spec of a BenchmarkRun cannot change, except runID, cancel, suspend and ttlSecondsAfterFinished: create a run with another name, or change runID to run this one again"
type BenchmarkRunSpec struct {
	// DatabaseRef names the GeoDatabase, in the same namespace.
	// +required
	DatabaseRef LocalReference `json:"databaseRef"`

	// RunID tells one run of this object from the next: changing it, and nothing else, runs again. The status then
	// starts over.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +optional
	RunID string `json:"runID,omitempty"`

	// Seed of every random choice of the workload. The same manifests and seed give the same simulated result.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=1
	// +optional
	Seed int64 `json:"seed"`

	// Workload is what clients do.
	// +required
	Workload Workload `json:"workload"`

	// Load is how many clients there are, how they arrive, and for how long. Every field has a default: {} is a
	// closed loop of 100 clients per region for 30 s after 10 s of warm-up.
	// +required
	Load Load `json:"load"`

	// Faults is a timeline, relative to the start of measuring.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Faults []Fault `json:"faults,omitempty"`

	// FaultInjection says who injects the faults on a cluster: Auto, which is the default, or ChaosMesh for everything but faults
	// of links, which are always merged into the emulation of the link. Without a cluster it says nothing.
	// +kubebuilder:validation:Enum=Auto;ChaosMesh
	// +optional
	FaultInjection FaultInjection `json:"faultInjection,omitempty"`

	// Objectives that the results must meet for the verdict Passed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Objectives []Objective `json:"objectives,omitempty"`

	// Verify lists what is checked about the answers and the data at the end.
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Verify []Verification `json:"verify,omitempty"`

	// FunctionalTests come before the run, each as a short run of its own on the same database, with rows and a result of its own,
	// called as this one, in at most 23 characters, with -deadlock or -snapshot behind. This run begins when all have passed;
	// otherwise nothing of it is measured. On a cluster they are BenchmarkRuns that this one owns, which have their turns right before it.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +optional
	FunctionalTests []FunctionalTest `json:"functionalTests,omitempty"`

	// Deadline for the whole run, from its start. Unset, it is what the load takes (all
	// warm-ups, repetitions and the pauses between them) plus 15m.
	// +kubebuilder:validation:XValidation:rule="self > duration('0s') && self <= duration('8760h')",message="must be longer than 0s and at most 8760h, for example 15m"
	// +optional
	Deadline *Duration `json:"deadline,omitempty"`

	// BaselineRef names a BenchmarkRun, in the same namespace, that this one is compared with at its end: see status.baseline
	// and the condition NotRegressed. The comparison does not change the verdict.
	// +optional
	BaselineRef *LocalReference `json:"baselineRef,omitempty"`

	// Cancel ends a run that is under way, with the verdict Invalid and the reason Cancelled. Take it back when you change
	// runID: a run that starts with it is cancelled at once.
	// +kubebuilder:default=false
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// Suspend, when true, keeps a run on a cluster from beginning: it takes no database, and others may go first. Taken back, it lets
	// the run begin. A run that has its database already goes on to its end, and so does one that is cancelled.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// TTLSecondsAfterFinished is after how many seconds from its end a cluster deletes the run, by its verdict. Its result stays, in the
	// ConfigMap that status.reportRef names. A verdict that is not listed keeps the run.
	// +optional
	TTLSecondsAfterFinished *TTLSecondsAfterFinished `json:"ttlSecondsAfterFinished,omitempty"`
}

// FunctionalTest is a test that a database passes before it is measured (Dike, section 4.2 and figure 13).
// +kubebuilder:validation:Enum=GlobalDeadlock;GlobalSnapshot
type FunctionalTest string

const (
	// FunctionalGlobalDeadlock adds to five balances of several partitions in any order: no transaction may be left without an
	// answer, and some must be committed.
	FunctionalGlobalDeadlock FunctionalTest = "GlobalDeadlock"
	// FunctionalGlobalSnapshot reads four balances that are always changed together, while they are: those that it reads must be
	// equal.
	FunctionalGlobalSnapshot FunctionalTest = "GlobalSnapshot"
)

// TTLSecondsAfterFinished is how long runs are kept, by their verdicts.
//
// +kubebuilder:validation:XValidation:rule="has(self.passed) || has(self.failed) || has(self.invalid)",message="no verdict is listed: set at least one of passed, failed, invalid, or leave ttlSecondsAfterFinished out to keep the run"
type TTLSecondsAfterFinished struct {
	// Passed is for the verdict Passed, in seconds; 0 is at once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	// +optional
	Passed *int32 `json:"passed,omitempty"`
	// Failed is for the verdict Failed, in seconds; 0 is at once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	// +optional
	Failed *int32 `json:"failed,omitempty"`
	// Invalid is for the verdict Invalid, in seconds; 0 is at once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	// +optional
	Invalid *int32 `json:"invalid,omitempty"`
}

// Workload holds exactly one workload.
//
// +kubebuilder:validation:XValidation:rule="[has(self.smallbank), has(self.rmw), has(self.ycsb), has(self.tpcc), has(self.micro), has(self.social)].exists_one(x, x)",messageExpression="has(self.smallbank) || has(self.rmw) || has(self.ycsb) || has(self.tpcc) || has(self.micro) || has(self.social) ? 'more than one of smallbank, rmw, ycsb, tpcc, micro, social is set: keep exactly one workload' : 'no workload is set: set exactly one of smallbank, rmw, ycsb, tpcc, micro, social'"
type Workload struct {
	// SmallBank is the banking benchmark of Alomari et al. (2008), with transactions split into phases.
	// +optional
	SmallBank *SmallBank `json:"smallbank,omitempty"`
	// RMW is the microbenchmark of Detock (Nguyen et al., 2023): transactions that read and write random records.
	// +optional
	RMW *RMW `json:"rmw,omitempty"`
	// YCSB is the Yahoo! Cloud Serving Benchmark (Cooper et al., 2010): its core workloads A to F, free mixes, and transactions of
	// several operations.
	// +optional
	YCSB *YCSB `json:"ycsb,omitempty"`
	// TPCC is the order-entry workload of TPC Benchmark C, revision 5.11.
	// +optional
	TPCC *TPCC `json:"tpcc,omitempty"`
	// Micro is the microbenchmark of SDUR (Sciascia and Pedone, 2012): transactions that read and update two small
	// items, of one partition or of two.
	// +optional
	Micro *Micro `json:"micro,omitempty"`
	// Social is the social network of SDUR: users post messages, follow each other and read their timelines.
	// +optional
	Social *Social `json:"social,omitempty"`
}

// SmallBank is the workload of "SmallBank on Detock".
type SmallBank struct {
	// Customers is the number of accounts, each with a checking and a savings balance.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	// +kubebuilder:default=100000
	// +optional
	Customers int64 `json:"customers,omitempty"`
	// Mix is the share of each transaction.
	// +kubebuilder:default={balance: 40, writeCheck: 25, depositChecking: 15, transactSavings: 15, amalgamate: 5}
	// +optional
	Mix SmallBankMix `json:"mix,omitzero"`
	// MultiHomePercent is the share of final phases that touch accounts with different home regions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiHomePercent int32 `json:"multiHomePercent"`
	// MultiPartitionPercent is the share of final phases that touch accounts of different partitions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiPartitionPercent int32 `json:"multiPartitionPercent"`
	// HotPercent is the skew of the choice of customers: 0 is uniform, 100 the most skewed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	HotPercent int32 `json:"hotPercent"`
	// HotSkew says what hotPercent skews. Share, and without it: so many draws are NURand's, the others uniform. Range: all are NURand's
	// of TPC-C (clause 2.1.6), whose constant A is so much of the customers, as in the code of SmallBank on Detock.
	// +optional
	HotSkew SmallBankHotSkew `json:"hotSkew,omitempty"`
	// Lookups says where the customers of multi-home transactions may live. Local, and without it: the names that are looked up are in the
	// client's region. AnyHome: they are those of all regions, as in the code of SmallBank on Detock, so that their lookups may be remote.
	// +optional
	Lookups SmallBankLookups `json:"lookups,omitempty"`
	// ForeignSingleHomePercent is the share of single-home final phases whose home is not the client's region but another one, each as
	// often as the others.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ForeignSingleHomePercent int32 `json:"foreignSingleHomePercent,omitempty"`
	// DependentPercent is the share of transactions that are not split into phases: one transaction reads the customer's id by name and then
	// works with the accounts of that id, which nobody can know before. Engines that must know a transaction's rows beforehand look for
	// them first.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	DependentPercent int32 `json:"dependentPercent,omitempty"`
	// PaddingBytes is by how much the arguments of each transaction, lookups included, and its result are longer than what they say, in
	// bytes: what a system's messages carry besides, such as keys, values and marks of where a transaction has been. It travels wherever
	// the arguments and the result do. Geobench's own engines alone can carry it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	PaddingBytes int32 `json:"paddingBytes,omitempty"`
	// MixPhases are mixes that follow each other in equal parts of the measured time, in the place of mix. Warm-ups have the
	// first.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MixPhases []SmallBankMix `json:"mixPhases,omitempty"`
	// Sunflower moves the load from region to region: each entry is active for an equal share of the measured time.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Sunflower []SunflowerTarget `json:"sunflower,omitempty"`
}

// SmallBankHotSkew says what hotPercent skews.
// +kubebuilder:validation:Enum=Share;Range
type SmallBankHotSkew string

const (
	// SmallBankHotSkewShare is a share of skewed draws.
	SmallBankHotSkewShare SmallBankHotSkew = "Share"
	// SmallBankHotSkewRange is the range of NURand.
	SmallBankHotSkewRange SmallBankHotSkew = "Range"
)

// SmallBankLookups says where names are looked up.
// +kubebuilder:validation:Enum=Local;AnyHome
type SmallBankLookups string

const (
	// SmallBankLookupsLocal looks up names of the client's region alone.
	SmallBankLookupsLocal SmallBankLookups = "Local"
	// SmallBankLookupsAnyHome looks up names of any region for multi-home transactions.
	SmallBankLookupsAnyHome SmallBankLookups = "AnyHome"
)

// SmallBankMix is the share of each transaction in percent; the shares sum to 100.
//
// +kubebuilder:validation:XValidation:rule="self.balance + self.writeCheck + self.depositChecking + self.transactSavings + self.amalgamate == 100",messageExpression="'balance + writeCheck + depositChecking + transactSavings + amalgamate is %d: it must be 100 (percent)'.format([self.balance + self.writeCheck + self.depositChecking + self.transactSavings + self.amalgamate])"
type SmallBankMix struct {
	// Balance reads the sum of both balances.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Balance int32 `json:"balance"`
	// WriteCheck takes a check from the checking balance, with a penalty of 1 on overdraft.
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
	// TransactSavings adds to or takes from the savings balance.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	TransactSavings int32 `json:"transactSavings"`
	// Amalgamate moves all money of one customer to the checking balance of another.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Amalgamate int32 `json:"amalgamate"`
}

// SunflowerTarget is a region that draws load from the others for a while.
type SunflowerTarget struct {
	// Region that the clients turn to.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +required
	Region string `json:"region"`
	// HitPercent is the share of transactions, of every client, that go to that region's data.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +required
	HitPercent int32 `json:"hitPercent"`
}

// HomeRanks is the order in which a region's clients take other regions for near.
type HomeRanks struct {
	// Region of the clients.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +required
	Region string `json:"region"`
	// Others are all other regions that rows call home, the nearest first.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=31
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=24
	// +required
	Others []string `json:"others"`
}

// RMW reads and writes random records.
//
// +kubebuilder:validation:XValidation:rule="self.writesPerTransaction <= self.recordsPerTransaction",messageExpression="'writesPerTransaction %d is more than recordsPerTransaction (%d): a transaction can write at most the records that it touches'.format([self.writesPerTransaction, self.recordsPerTransaction])",fieldPath=".writesPerTransaction"
// +kubebuilder:validation:XValidation:rule="self.hotRecordsPerTransaction <= self.recordsPerTransaction",messageExpression="'hotRecordsPerTransaction %d is more than recordsPerTransaction (%d)'.format([self.hotRecordsPerTransaction, self.recordsPerTransaction])",fieldPath=".hotRecordsPerTransaction"
// +kubebuilder:validation:XValidation:rule="self.hotRecordsPerTransaction == 0 || self.hotRecords > 0",message="hotRecordsPerTransaction needs hotRecords greater than 0: it says how many records are hot",fieldPath=".hotRecords"
type RMW struct {
	// Records in the database.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	// +kubebuilder:default=100000
	// +optional
	Records int64 `json:"records,omitempty"`
	// RecordsPerTransaction is how many distinct records a transaction touches.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	RecordsPerTransaction int32 `json:"recordsPerTransaction,omitempty"`
	// WritesPerTransaction is how many of those are written; the others are only read.
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
	// MultiHomePercent is the share of transactions that touch records with different home regions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiHomePercent int32 `json:"multiHomePercent"`
	// HomesPerMultiHome is how many home regions a multi-home transaction touches.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=32
	// +kubebuilder:default=2
	// +optional
	HomesPerMultiHome int32 `json:"homesPerMultiHome,omitempty"`
	// OtherHomesThetaPercent, if it is set, draws the homes beside the client's by how near they are: the k-th nearest region, by
	// declared round trips, in proportion to 1 / k^theta. It is theta in hundredths: 100 is Zipf's law. Without it each is drawn as
	// often as the others.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	OtherHomesThetaPercent *int32 `json:"otherHomesThetaPercent,omitempty"`
	// OtherHomesRanks are the orders by which otherHomesThetaPercent knows what is near, in the place of the declared round trips: one for
	// each region that rows call home.
	// +listType=map
	// +listMapKey=region
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +optional
	OtherHomesRanks []HomeRanks `json:"otherHomesRanks,omitempty"`
	// MultiPartitionPercent is the share of transactions that touch records of different partitions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiPartitionPercent int32 `json:"multiPartitionPercent"`
	// PartitionsPerMultiPartition is how many partitions a multi-partition transaction touches.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=2
	// +optional
	PartitionsPerMultiPartition int32 `json:"partitionsPerMultiPartition,omitempty"`
	// HotRecords is the number of hot records of each partition and home; 0 is no hot records, all are chosen uniformly.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +kubebuilder:default=0
	// +optional
	HotRecords int64 `json:"hotRecords"`
	// HotRecordsPerTransaction is how many of a transaction's records are hot ones.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	// +optional
	HotRecordsPerTransaction int32 `json:"hotRecordsPerTransaction"`
	// ForeignSingleHomePercent is the share of single-home transactions whose home is not the client's region but another one, each as
	// often as the others.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ForeignSingleHomePercent int32 `json:"foreignSingleHomePercent,omitempty"`
	// DependentPercent is the share of transactions whose last record depends on what they read in the first one: it is one of two records, of the
	// same home and partition. Engines that must know a transaction's rows beforehand look for them first.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	DependentPercent int32 `json:"dependentPercent,omitempty"`
	// Types are types of transactions, each with a share of its own, that differ from the parameters above in what they say. Without
	// them there is one, called rmw.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Types []RMWType `json:"types,omitempty"`
	// MixPhases are mixes of the types that follow each other in equal parts of the measured time, in the place of the types'
	// percent. Warm-ups have the first.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MixPhases []RMWMix `json:"mixPhases,omitempty"`
}

// RMWMix is the share of each type.
type RMWMix struct {
	// Percents are the shares of the types, in their order; they sum to 100.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=100
	// +required
	Percents []int32 `json:"percents"`
}

// RMWType is a type of transactions. What it leaves out is as in the workload's own parameters.
type RMWType struct {
	// Name of the type, as results have it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^[a-z][A-Za-z0-9]*$`
	// +required
	Name string `json:"name"`
	// Percent of the transactions that are of the type; those of all types sum to 100. Not used with mixPhases.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// RecordsPerTransaction is how many distinct records a transaction touches.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	RecordsPerTransaction *int32 `json:"recordsPerTransaction,omitempty"`
	// WritesPerTransaction is how many of those are written.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	WritesPerTransaction *int32 `json:"writesPerTransaction,omitempty"`
	// HotRecords is the number of hot records of each partition and home.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	HotRecords *int64 `json:"hotRecords,omitempty"`
	// HotRecordsPerTransaction is how many of a transaction's records are hot ones.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	HotRecordsPerTransaction *int32 `json:"hotRecordsPerTransaction,omitempty"`
	// MultiHomePercent is the share of the type's transactions that touch records with different home regions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MultiHomePercent *int32 `json:"multiHomePercent,omitempty"`
	// MultiPartitionPercent is the share of the type's transactions that touch records of different partitions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MultiPartitionPercent *int32 `json:"multiPartitionPercent,omitempty"`
	// ForeignSingleHomePercent is the share of the type's single-home transactions whose home is not the client's region.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ForeignSingleHomePercent *int32 `json:"foreignSingleHomePercent,omitempty"`
	// DependentPercent is the share of the type's transactions whose last record depends on what they read in the first one.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	DependentPercent *int32 `json:"dependentPercent,omitempty"`
}

// YCSB reads, updates, inserts and scans records.
//
// +kubebuilder:validation:XValidation:rule="has(self.preset) != has(self.mix)",messageExpression="has(self.preset) ? 'preset and mix are both set: keep one of them' : 'neither preset nor mix is set: choose a preset from A to F, or give the shares of a mix'"
// +kubebuilder:validation:XValidation:rule="self.fieldCount * self.fieldBytes <= 65536",messageExpression="'fieldCount x fieldBytes is %d: a record can have at most 65536 bytes'.format([self.fieldCount * self.fieldBytes])",fieldPath=".fieldBytes"
// +kubebuilder:validation:XValidation:rule="self.locality == 'Home' || self.multiHomePercent == 0",messageExpression="'multiHomePercent is %d, but with locality None records are drawn wherever they live: leave it 0, or set locality to Home'.format([self.multiHomePercent])",fieldPath=".multiHomePercent"
// +kubebuilder:validation:XValidation:rule="self.locality == 'Home' || self.multiPartitionPercent == 0",messageExpression="'multiPartitionPercent is %d, but with locality None records are drawn wherever they live: leave it 0, or set locality to Home'.format([self.multiPartitionPercent])",fieldPath=".multiPartitionPercent"
// +kubebuilder:validation:XValidation:rule="self.locality == 'Home' || !(has(self.distribution) ? self.distribution == 'Latest' : has(self.preset) && self.preset == 'D')",message="Latest needs locality Home: a client knows the latest records of its own region only",fieldPath=".distribution"
// +kubebuilder:validation:XValidation:rule="has(self.hotRecords) == (has(self.distribution) && self.distribution == 'OneHotPerHome')",messageExpression="has(self.hotRecords) ? 'hotRecords is for the distribution OneHotPerHome alone: set that, or leave it out' : 'the distribution OneHotPerHome needs hotRecords: it says how many records of each home and partition are hot'",fieldPath=".hotRecords"
// +kubebuilder:validation:XValidation:rule="self.locality == 'Home' || !has(self.distribution) || self.distribution != 'OneHotPerHome'",message="OneHotPerHome needs locality Home: with None a transaction has no homes of its own",fieldPath=".distribution"
// +kubebuilder:validation:XValidation:rule="self.locality == 'Home' || !has(self.homesThetaPercent)",message="homesThetaPercent needs locality Home: with None records are drawn wherever they live",fieldPath=".homesThetaPercent"
type YCSB struct {
	// Preset is a core workload of YCSB: A is 50% reads and 50% updates, B 95% reads and 5% updates, C reads only, D
	// 95% reads of the latest records and 5% inserts, E 95% scans and 5% inserts, F 50% reads and 50%
	// read-modify-writes.
	// +optional
	Preset YCSBPreset `json:"preset,omitempty"`
	// Mix is the share of each operation, in place of a preset.
	// +optional
	Mix *YCSBMix `json:"mix,omitempty"`
	// Records in the database at the beginning.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	// +kubebuilder:default=100000
	// +optional
	Records int64 `json:"records,omitempty"`
	// FieldCount is the number of fields of a record.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	FieldCount int32 `json:"fieldCount,omitempty"`
	// FieldBytes is the size of a field. A record has 16 bytes more than its fields.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	// +kubebuilder:default=100
	// +optional
	FieldBytes int32 `json:"fieldBytes,omitempty"`
	// WriteAllFields makes updates and read-modify-writes replace all fields of a record; otherwise they replace one of
	// them, chosen at random. An update of all fields is blind: it does not read the record.
	// +kubebuilder:default=false
	// +optional
	WriteAllFields bool `json:"writeAllFields"`
	// OperationsPerTransaction is how many operations a transaction has, each drawn by the mix. Their records may
	// coincide.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	OperationsPerTransaction int32 `json:"operationsPerTransaction,omitempty"`
	// Distribution of the records that are chosen. Unset, it is that of the preset: Latest for D, Zipfian for the
	// others and for a mix.
	// +optional
	Distribution YCSBDistribution `json:"distribution,omitempty"`
	// ThetaPercent is the exponent of the distributions Zipfian and Latest, in hundredths: 99 is a theta of 0.99, 0 is
	// uniform.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=99
	// +optional
	ThetaPercent int32 `json:"thetaPercent"`
	// HotRecordsPercent is the share of records that are hot, with the distribution Hotspot.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=20
	// +optional
	HotRecordsPercent int32 `json:"hotRecordsPercent,omitempty"`
	// HotRecords is how many records of each home and partition are hot, with the distribution OneHotPerHome.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	HotRecords *int64 `json:"hotRecords,omitempty"`
	// HotOperationsPercent is the share of operations that choose a hot record, with the distribution Hotspot.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=80
	// +optional
	HotOperationsPercent int32 `json:"hotOperationsPercent"`
	// MaxScanRecords is the most records of a scan; scans have 1 to as many, each length as often as the others.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=100
	// +optional
	MaxScanRecords int32 `json:"maxScanRecords,omitempty"`
	// Locality is Home when clients work on records that call their own region home, but for multi-home transactions,
	// and None when they work on all records, wherever these live.
	// +kubebuilder:default=Home
	// +optional
	Locality YCSBLocality `json:"locality,omitempty"`
	// MultiHomePercent is the share of transactions that touch records with different home regions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiHomePercent int32 `json:"multiHomePercent"`
	// HomesPerMultiHome is how many home regions a multi-home transaction touches.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=32
	// +kubebuilder:default=2
	// +optional
	HomesPerMultiHome int32 `json:"homesPerMultiHome,omitempty"`
	// ForeignSingleHomePercent is the share of single-home transactions whose home is not the client's region but another one, each as
	// often as the others. It needs locality Home.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ForeignSingleHomePercent int32 `json:"foreignSingleHomePercent,omitempty"`
	// HomesThetaPercent, if it is set, takes the place of homesPerMultiHome: multi-home transactions touch two homes or
	// more, up to all of them, k + 1 homes in proportion to 1 / k^theta. It is theta in hundredths; 0 is uniform. The types of
	// transactions are then oneHome, twoHomes and moreHomes.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	HomesThetaPercent *int32 `json:"homesThetaPercent,omitempty"`
	// MultiPartitionPercent is the share of transactions that touch records of different partitions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiPartitionPercent int32 `json:"multiPartitionPercent"`
	// PartitionsPerMultiPartition is how many partitions a multi-partition transaction touches.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=2
	// +optional
	PartitionsPerMultiPartition int32 `json:"partitionsPerMultiPartition,omitempty"`
}

// YCSBPreset is a core workload of YCSB.
// +kubebuilder:validation:Enum=A;B;C;D;E;F
type YCSBPreset string

// YCSBDistribution says which records are chosen how often.
// +kubebuilder:validation:Enum=Uniform;Zipfian;Latest;Hotspot;OneHotPerHome
type YCSBDistribution string

const (
	// YCSBUniform: all records alike.
	YCSBUniform YCSBDistribution = "Uniform"
	// YCSBZipfian: the record of rank k in proportion to 1 / k^theta.
	YCSBZipfian YCSBDistribution = "Zipfian"
	// YCSBLatest: as Zipfian, where the latest record has rank 1.
	YCSBLatest YCSBDistribution = "Latest"
	// YCSBHotspot: a share of operations on a share of the records, and the others on the rest; uniform in both.
	YCSBHotspot YCSBDistribution = "Hotspot"
	// YCSBOneHotPerHome: the first operation of a transaction in each of its homes chooses one of the first hotRecords
	// records there, the others choose among the rest; uniform in both.
	YCSBOneHotPerHome YCSBDistribution = "OneHotPerHome"
)

// YCSBLocality says where the records live that a client works on.
// +kubebuilder:validation:Enum=Home;None
type YCSBLocality string

const (
	// YCSBHome: in the client's region, but for multi-home transactions.
	YCSBHome YCSBLocality = "Home"
	// YCSBAnywhere: anywhere.
	YCSBAnywhere YCSBLocality = "None"
)

// YCSBMix is the share of each operation in percent; the shares sum to 100.
//
// +kubebuilder:validation:XValidation:rule="self.read + self.update + self.insert + self.scan + self.readModifyWrite == 100",messageExpression="'read + update + insert + scan + readModifyWrite is %d: it must be 100 (percent)'.format([self.read + self.update + self.insert + self.scan + self.readModifyWrite])"
type YCSBMix struct {
	// Read reads a record.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Read int32 `json:"read"`
	// Update writes one field of a record, or all.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Update int32 `json:"update"`
	// Insert adds a record.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Insert int32 `json:"insert"`
	// Scan reads consecutive records.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Scan int32 `json:"scan"`
	// ReadModifyWrite reads a record and writes it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	ReadModifyWrite int32 `json:"readModifyWrite"`
}

// TPCC is the workload of TPC Benchmark C, revision 5.11: terminals of warehouses enter orders, payments and
// deliveries.
type TPCC struct {
	// WarehousesPerPartition is the number of warehouses of each partition of each region. A copy of one takes about
	// 130 MB of memory.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=1
	// +optional
	WarehousesPerPartition int32 `json:"warehousesPerPartition,omitempty"`
	// Mix is the share of each transaction (clause 5.2.3).
	// +kubebuilder:default={newOrder: 45, payment: 43, orderStatus: 4, delivery: 4, stockLevel: 4, updateStock: 0, updateBalance: 0, selectBalance: 0}
	// +optional
	Mix TPCCMix `json:"mix,omitzero"`
	// MixPhases are mixes that follow each other in equal parts of the measured time, in the place of mix. Warm-ups have the
	// first.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MixPhases []TPCCMix `json:"mixPhases,omitempty"`
	// Dike has the parameters of Dike's benchmark (Qu et al., How Good is the Distributed Databases in Supporting Transaction
	// Processing, 2022) that TPC-C does not know.
	// +optional
	Dike *TPCCDike `json:"dike,omitempty"`
	// Remote says how many transactions use another warehouse than their terminal's, and where that one is.
	// +kubebuilder:default={orderLinePercent: 1, paymentPercent: 15}
	// +optional
	Remote TPCCRemote `json:"remote,omitzero"`
	// ByLastNamePercent is the share of payment and orderStatus that look their customer up by last name, not by number
	// (clauses 2.5.1.2 and 2.6.1.2). Engines that must know the rows of a transaction beforehand have to look for those
	// of such a transaction first.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=60
	// +optional
	ByLastNamePercent int32 `json:"byLastNamePercent"`
	// RollbackPercent is the share of newOrder that ask for an item which does not exist, and roll back (clause
	// 2.4.1.4).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	RollbackPercent int32 `json:"rollbackPercent"`
	// Districts is Any (newOrder, payment and orderStatus draw one of the warehouse's ten districts, clause 2.4.1.2) or
	// Own (they use their terminal's, as BenchBase does: with ten terminals for each warehouse, no two orders meet in a
	// district).
	// +kubebuilder:default=Any
	// +optional
	Districts TPCCDistricts `json:"districts,omitempty"`
	// Warehouses is Own (a terminal works at one warehouse of its region, clause 2.4.1.1) or Any (each transaction draws
	// one of all warehouses, wherever it is placed, as in Minerva's evaluation: all regions use the same rows).
	// +kubebuilder:default=Own
	// +optional
	Warehouses TPCCWarehouses `json:"warehouses,omitempty"`
	// RowsPercent is how many items, and how many customers, orders and stock of each warehouse there are, in percent of
	// clause 1.2.1. Warehouses and their ten districts, on which most transactions meet, are as many as ever.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=100
	// +optional
	RowsPercent int32 `json:"rowsPercent,omitempty"`
	// KeyingAndThinkTimePercent scales the keying and think times of clause 5.2.5.7 in a closed loop: 0 is none, 100
	// the specification's, with which a terminal enters a transaction every 20 s or so.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	// +optional
	KeyingAndThinkTimePercent int32 `json:"keyingAndThinkTimePercent"`
}

// TPCCDistricts says whose districts a terminal's transactions use.
// +kubebuilder:validation:Enum=Any;Own
type TPCCDistricts string

const (
	// DistrictsAny draws a district of the terminal's warehouse for each transaction.
	DistrictsAny TPCCDistricts = "Any"
	// DistrictsOwn takes the terminal's own.
	DistrictsOwn TPCCDistricts = "Own"
)

// TPCCWarehouses says at which warehouses a terminal's transactions work.
// +kubebuilder:validation:Enum=Own;Any
type TPCCWarehouses string

const (
	// WarehousesOwn is the terminal's own.
	WarehousesOwn TPCCWarehouses = "Own"
	// WarehousesAny draws one of all warehouses for each transaction.
	WarehousesAny TPCCWarehouses = "Any"
)

// TPCCMix is the share of each transaction in percent; the shares sum to 100. The last three are Dike's.
//
// +kubebuilder:validation:XValidation:rule="self.newOrder + self.payment + self.orderStatus + self.delivery + self.stockLevel + self.updateStock + self.updateBalance + self.selectBalance == 100",messageExpression="'the shares sum to %d: they must sum to 100 (percent)'.format([self.newOrder + self.payment + self.orderStatus + self.delivery + self.stockLevel + self.updateStock + self.updateBalance + self.selectBalance])"
type TPCCMix struct {
	// NewOrder enters an order of 5 to 15 lines (clause 2.4).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	NewOrder int32 `json:"newOrder"`
	// Payment enters a customer's payment (clause 2.5).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Payment int32 `json:"payment"`
	// OrderStatus reads a customer's last order (clause 2.6).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	OrderStatus int32 `json:"orderStatus"`
	// Delivery delivers the oldest order of each district (clause 2.7).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Delivery int32 `json:"delivery"`
	// StockLevel counts the items of a district's last 20 orders that run short (clause 2.8).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	StockLevel int32 `json:"stockLevel"`
	// UpdateStock takes items from the stock of the warehouses of partitions that dike names: dUpdateStock of Dike.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	UpdateStock int32 `json:"updateStock,omitempty"`
	// UpdateBalance adds the same to the balances of a group of warehouses, in any order: dUpdateBalance of Dike, a test of
	// global deadlocks.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	UpdateBalance int32 `json:"updateBalance,omitempty"`
	// SelectBalance reads the balances of a group of warehouses, which must be equal: dSelectBalance of Dike, a test of
	// global snapshots.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	SelectBalance int32 `json:"selectBalance,omitempty"`
}

// TPCCDike has the parameters of Dike's benchmark that TPC-C does not know. Its distribution ratio and degree are in remote.
type TPCCDike struct {
	// ContentionIntensities is how many newOrder compete, at any time, for district 1 of warehouse 1, in all regions together;
	// several follow each other in equal parts of the measured time (Dike, definition 1). It needs as many clients at
	// least. The results say how many really did, on average over each part, and a run that is off by more than 10% is invalid.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=1000000
	// +optional
	ContentionIntensities []int32 `json:"contentionIntensities,omitempty"`
	// WarehousesThetaPercent spreads the warehouses unevenly: the k-th partition (those of the first region first) has a
	// share of all in proportion to 1 / k^theta. It is theta in hundredths, for example 99 or 150; each partition has
	// one warehouse at least. There are as many in all as without.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	WarehousesThetaPercent *int32 `json:"warehousesThetaPercent,omitempty"`
	// PartitionsThetaPercent skews the partitions that updateStock works in: the k-th in proportion to 1 / k^theta. It is theta
	// in hundredths; unset, updateStock works in its terminal's warehouse.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	PartitionsThetaPercent *int32 `json:"partitionsThetaPercent,omitempty"`
	// CoAccessPercent is the share of updateStock that takes from all warehouses of a co-access group: these are
	// coAccessPartitions partitions that follow each other, with the first warehouse of each.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	CoAccessPercent int32 `json:"coAccessPercent,omitempty"`
	// CoAccessPartitions is how many partitions a co-access group has.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=15
	// +kubebuilder:default=2
	// +optional
	CoAccessPartitions int32 `json:"coAccessPartitions,omitempty"`
	// BalanceGroup is how many warehouses have a balance in common, to which updateBalance adds and which selectBalance reads.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=15
	// +kubebuilder:default=4
	// +optional
	BalanceGroup int32 `json:"balanceGroup,omitempty"`
	// BalancesThetaPercent skews the groups that updateBalance and selectBalance choose: the k-th in proportion to 1 / k^theta.
	// It is theta in hundredths.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=80
	// +optional
	BalancesThetaPercent *int32 `json:"balancesThetaPercent,omitempty"`
}

// TPCCRemote says how many transactions use a remote warehouse, which is any but their terminal's, and where it is.
// Without multiHomePercent and multiPartitionPercent it is any other warehouse, each as often as the others (clauses
// 2.4.1.5 and 2.5.1.2).
//
// +kubebuilder:validation:XValidation:rule="[has(self.orderLinePercent), has(self.newOrderPercent), has(self.distributionRatioPercent)].filter(x, x).size() == 1",messageExpression="has(self.orderLinePercent) || has(self.newOrderPercent) ? 'several of orderLinePercent, newOrderPercent and distributionRatioPercent are set: keep one, which says how remote orders are counted' : 'orderLinePercent, newOrderPercent and distributionRatioPercent are all missing: set orderLinePercent (1 in TPC-C) or one of the others'"
// +kubebuilder:validation:XValidation:rule="has(self.distributionRatioPercent) == has(self.distributionDegree)",messageExpression="has(self.distributionDegree) ? 'distributionDegree is set without distributionRatioPercent: set both, or neither' : 'distributionRatioPercent is set without distributionDegree: set both, or neither'"
type TPCCRemote struct {
	// OrderLinePercent is the share of order lines that a remote warehouse supplies, 1 in TPC-C (clause 2.4.1.5). With
	// 1, about 10% of newOrder have such a line.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	OrderLinePercent *int32 `json:"orderLinePercent,omitempty"`
	// NewOrderPercent is the share of newOrder of which a remote warehouse supplies one line, as papers on distributed
	// databases count. It takes the place of orderLinePercent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	NewOrderPercent *int32 `json:"newOrderPercent,omitempty"`
	// DistributionRatioPercent is the share of newOrder, and of stockLevel, that touch several partitions: Dike's disRatio (section
	// 4.2.1). It takes the place of orderLinePercent; all others of these stay in their terminal's warehouse.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	DistributionRatioPercent *int32 `json:"distributionRatioPercent,omitempty"`
	// DistributionDegree is how many partitions those touch, each of one region: Dike's disDegree.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=15
	// +optional
	DistributionDegree *int32 `json:"distributionDegree,omitempty"`
	// PaymentPercent is the share of payment by a customer of a remote warehouse (clause 2.5.1.2).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=15
	// +optional
	PaymentPercent int32 `json:"paymentPercent"`
	// MultiHomePercent is the share of remote warehouses that are in another region.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MultiHomePercent *int32 `json:"multiHomePercent,omitempty"`
	// MultiPartitionPercent is the share of remote warehouses that are in another partition; it is drawn independently
	// of multiHomePercent. One that is in neither is another warehouse of the same partition.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MultiPartitionPercent *int32 `json:"multiPartitionPercent,omitempty"`
}

// Micro reads and updates two items of 4 bytes in each transaction. A partition is that of one region, as the groups of
// servers of the paper are: a database of two regions with two partitions each has four.
type Micro struct {
	// ItemsPerPartition is the number of items of each partition of each region.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000000000
	// +kubebuilder:default=1000000
	// +optional
	ItemsPerPartition int64 `json:"itemsPerPartition,omitempty"`
	// GlobalPercent is the share of transactions that update an item of a partition of their client's region and one of
	// any other partition. The rest update two items of one partition of the region.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	GlobalPercent int32 `json:"globalPercent"`
}

// Social is a network of users, each with a list of its consumers (those who follow it), one of its producers (those
// whom it follows) and its newest posts.
//
// +kubebuilder:validation:XValidation:rule="self.producersPerUser <= self.listLimit",messageExpression="'producersPerUser %d is more than listLimit (%d), the most that a list can hold'.format([self.producersPerUser, self.listLimit])",fieldPath=".producersPerUser"
// +kubebuilder:validation:XValidation:rule="self.producersPerUser < self.usersPerPartition",messageExpression="'producersPerUser %d is not less than usersPerPartition (%d): a user follows others, each once'.format([self.producersPerUser, self.usersPerPartition])",fieldPath=".producersPerUser"
type Social struct {
	// UsersPerPartition is the number of users of each partition of each region.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100000000
	// +kubebuilder:default=100000
	// +optional
	UsersPerPartition int64 `json:"usersPerPartition,omitempty"`
	// Mix is the share of each transaction.
	// +kubebuilder:default={timelinePermille: 850, postPermille: 75, followPermille: 75}
	// +optional
	Mix SocialMix `json:"mix,omitzero"`
	// GlobalFollowPercent is the share of follows whose two users are in different partitions, and of those that are
	// loaded.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=50
	// +optional
	GlobalFollowPercent int32 `json:"globalFollowPercent"`
	// ProducersPerUser is how many others each user follows at the beginning, and by how many it is followed.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	ProducersPerUser int32 `json:"producersPerUser,omitempty"`
	// ListLimit is the most users that a list of producers or of consumers can hold. A follow that finds a list full
	// leaves both as they are.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1000
	// +optional
	ListLimit int32 `json:"listLimit,omitempty"`
	// PostBytes is the size of a message.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	// +kubebuilder:default=140
	// +optional
	PostBytes int32 `json:"postBytes,omitempty"`
	// PostsPerUser is how many posts of each user are kept: the newest.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=10
	// +optional
	PostsPerUser int32 `json:"postsPerUser,omitempty"`
	// PostsPerTimeline is how many posts a timeline shows: the newest of all producers.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=20
	// +optional
	PostsPerTimeline int32 `json:"postsPerTimeline,omitempty"`
}

// SocialMix is the share of each transaction, per mille; the shares sum to 1000.
//
// +kubebuilder:validation:XValidation:rule="self.timelinePermille + self.postPermille + self.followPermille == 1000",messageExpression="'timelinePermille + postPermille + followPermille is %d: it must be 1000 (per mille)'.format([self.timelinePermille + self.postPermille + self.followPermille])"
type SocialMix struct {
	// TimelinePermille is the share of timelines: the newest posts of all whom a user follows.
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

// Load is how many clients there are in each region, how their transactions arrive, and for how long.
//
// +kubebuilder:validation:XValidation:rule="self.duration > self.warmup",messageExpression="'duration %s is not longer than warmup (%s): measure for longer than the warm-up'.format([self.duration, self.warmup])",fieldPath=".duration"
// +kubebuilder:validation:XValidation:rule="self.arrival == 'Closed' || self.ratePerSecond > 0",messageExpression="'ratePerSecond is 0, but arrival %s is an open loop: say how many transactions arrive per second in each region'.format([self.arrival])",fieldPath=".ratePerSecond"
// +kubebuilder:validation:XValidation:rule="self.arrival != 'Closed' || self.ratePerSecond == 0",messageExpression="'ratePerSecond is %d, but arrival Closed has no rate: set arrival to Constant or Poisson, or leave ratePerSecond 0'.format([self.ratePerSecond])",fieldPath=".ratePerSecond"
// +kubebuilder:validation:XValidation:rule="self.arrival == 'Closed' || self.thinkTime == duration('0s')",messageExpression="'thinkTime is %s, but arrival %s has no think time: set arrival to Closed, or leave thinkTime 0s'.format([self.thinkTime, self.arrival])",fieldPath=".thinkTime"
// +kubebuilder:validation:XValidation:rule="!has(self.curve) || self.arrival != 'Closed' || !has(self.curve.stepsPercent) || self.curve.stepsPercent.exists(p, p * self.clientsPerRegion >= 50)",messageExpression="'stepsPercent of clientsPerRegion %d is less than half a client in every step, so that nothing would be sent: take more clients, or higher steps'.format([self.clientsPerRegion])",fieldPath=".curve.stepsPercent"
// +kubebuilder:validation:XValidation:rule="self.workersPerRegion <= self.clientsPerRegion",messageExpression="'workersPerRegion %d is more than clientsPerRegion (%d): each worker needs a client'.format([self.workersPerRegion, self.clientsPerRegion])",fieldPath=".workersPerRegion"
// +kubebuilder:validation:XValidation:rule="!has(self.retry) || self.retry.backoff < self.requestTimeout",messageExpression="'backoff %s is not shorter than requestTimeout (%s), which covers all attempts: there would be no time for a second one'.format([self.retry.backoff, self.requestTimeout])",fieldPath=".retry.backoff"
type Load struct {
	// ClientsPerRegion is the number of concurrent clients in each region; in an open loop, the largest number of
	// transactions that are under way at once.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=100
	// +optional
	ClientsPerRegion int32 `json:"clientsPerRegion,omitempty"`
	// WorkersPerRegion is the number of worker processes that share a region's clients.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=1
	// +optional
	WorkersPerRegion int32 `json:"workersPerRegion,omitempty"`
	// Coordinator is the node of its region that a client sends a transaction to: FirstKey (a node of the partition that holds the first
	// key, as without it) or RoundRobin (each in turn, whatever the keys, as clients that know nothing of partitions). It is
	// for Geobench's own engines; engines whose nodes must ask each other for homes (parameter masters) pay for the latter.
	// +optional
	Coordinator Coordinator `json:"coordinator,omitempty"`
	// Arrival is Closed (a client sends its next transaction after the answer and its think time), Constant or Poisson
	// (transactions arrive at ratePerSecond whatever the database does; latency counts from the intended start).
	// +kubebuilder:default=Closed
	// +optional
	Arrival Arrival `json:"arrival,omitempty"`
	// RatePerSecond is how many transactions arrive per second in each region, in an open loop.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +kubebuilder:default=0
	// +optional
	RatePerSecond int64 `json:"ratePerSecond"`
	// Curve makes the load change over the measured time of each repetition. Unset, it is the same all the time.
	// +optional
	Curve *LoadCurve `json:"curve,omitempty"`
	// ThinkTime is the mean of what passes between an answer and the client's next transaction, in a closed loop: think times
	// are exponentially distributed, as in TPC-C, and at most ten times the mean.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('1h')",message="must be 0s to 1h"
	// +kubebuilder:default="0s"
	// +optional
	ThinkTime Duration `json:"thinkTime"`
	// RequestTimeout after which a transaction without an answer counts as timed out. It covers all attempts of a
	// transaction and the pauses between them, from the first sending.
	// +kubebuilder:validation:XValidation:rule="self > duration('0s') && self <= duration('1h')",message="must be longer than 0s and at most 1h, for example 30s"
	// +kubebuilder:default="30s"
	// +optional
	RequestTimeout Duration `json:"requestTimeout,omitzero"`
	// Retry says which transactions their clients try again, and how often. Unset, none: a transaction that was not
	// committed is counted, and its client goes on with another one.
	// +optional
	Retry *Retry `json:"retry,omitempty"`
	// Warmup runs the load without measuring, before each repetition.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('168h')",message="must be 0s to 168h, for example 10s"
	// +kubebuilder:default="10s"
	// +optional
	Warmup Duration `json:"warmup"`
	// Duration of one measured repetition.
	// +kubebuilder:validation:XValidation:rule="self <= duration('168h')",message="must be at most 168h, for example 30s"
	// +kubebuilder:default="30s"
	// +optional
	Duration Duration `json:"duration,omitzero"`
	// Repetitions of the warm-up and the measured period, on the same data.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	Repetitions int32 `json:"repetitions,omitempty"`
	// Resources of one worker pod, whose clients share as many processors as the CPU limit (else the request), and one by default; its memory limit is 8Gi by default. A run whose worker uses over 80% of its CPU is Invalid.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// LoadCurve says how much of the load there is at a time of the measured window: of ratePerSecond in an open loop, of
// clientsPerRegion in a closed one. Every repetition follows it from the beginning, and warms up with the load that it begins with.
//
// +kubebuilder:validation:XValidation:rule="(self.shape == 'Steps') == has(self.stepsPercent)",messageExpression="self.shape == 'Steps' ? 'stepsPercent is missing, but shape is Steps: say how much of the load there is in each of the equal parts of the measured time, for example [100, 20, 60]' : 'stepsPercent is set, but shape %s has no steps: set shape to Steps, or leave stepsPercent out'.format([self.shape])",fieldPath=".stepsPercent"
// +kubebuilder:validation:XValidation:rule="self.shape == 'Gaussian' || !has(self.peakAtPercent)",messageExpression="'peakAtPercent is %d, but shape %s has no peak: set shape to Gaussian, or leave peakAtPercent out'.format([self.peakAtPercent, self.shape])",fieldPath=".peakAtPercent"
// +kubebuilder:validation:XValidation:rule="self.shape == 'Gaussian' || !has(self.deviationPercent)",messageExpression="'deviationPercent is %d, but shape %s has no deviation: set shape to Gaussian, or leave deviationPercent out'.format([self.deviationPercent, self.shape])",fieldPath=".deviationPercent"
// +kubebuilder:validation:XValidation:rule="!has(self.stepsPercent) || self.stepsPercent.exists(p, p > 0)",message="stepsPercent has no step above 0, so that nothing would be sent: make one at least 1",fieldPath=".stepsPercent"
type LoadCurve struct {
	// Shape is Uniform (the same load all the time, as without a curve), Gaussian (it rises to its peak and falls again, as Dike's
	// dynamic load) or Steps.
	// +required
	Shape LoadShape `json:"shape"`
	// PeakAtPercent is when a Gaussian load is all of the load, in percent of the measured time; 50 if it is left out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	PeakAtPercent *int32 `json:"peakAtPercent,omitempty"`
	// DeviationPercent is the standard deviation of a Gaussian load, in percent of the measured time; 15 if it is left out.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	DeviationPercent *int32 `json:"deviationPercent,omitempty"`
	// StepsPercent is the load in each of the equal parts of the measured time, in percent of the whole load.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=100
	// +optional
	StepsPercent []int32 `json:"stepsPercent,omitempty"`
}

// LoadShape is the shape of a LoadCurve.
// +kubebuilder:validation:Enum=Uniform;Gaussian;Steps
type LoadShape string

const (
	// LoadUniform is the same load all the time.
	LoadUniform LoadShape = "Uniform"
	// LoadGaussian rises and falls as the density of a normal distribution.
	LoadGaussian LoadShape = "Gaussian"
	// LoadSteps is another load in each of several equal parts of the measured time.
	LoadSteps LoadShape = "Steps"
)

// Coordinator says which node of its region a client sends a transaction to.
// +kubebuilder:validation:Enum=FirstKey;RoundRobin
type Coordinator string

const (
	// CoordinatorFirstKey is a node of the partition that holds the transaction's first key.
	CoordinatorFirstKey Coordinator = "FirstKey"
	// CoordinatorRoundRobin is each node of the region in turn.
	CoordinatorRoundRobin Coordinator = "RoundRobin"
)

// Arrival says how transactions arrive.
// +kubebuilder:validation:Enum=Closed;Constant;Poisson
type Arrival string

const (
	// ArrivalClosed is a closed loop: each client has one transaction under way.
	ArrivalClosed Arrival = "Closed"
	// ArrivalConstant is an open loop with equal gaps.
	ArrivalConstant Arrival = "Constant"
	// ArrivalPoisson is an open loop with exponentially distributed gaps.
	ArrivalPoisson Arrival = "Poisson"
)

// Retry says which transactions their clients try again. Only those are that left no trace: what was aborted or
// refused. An unknown outcome may have been committed and is never tried again, and neither is what the procedure
// itself has aborted, since it would end alike. Each attempt is a transaction of its own to the database; latencies
// count from when the first one was due.
//
// +kubebuilder:validation:XValidation:rule="has(self.attempts) && self.attempts >= 1",messageExpression="!has(self.attempts) ? 'attempts is missing, and a retry needs a bound: say how often a transaction is sent at most, the first attempt included, for example 3' : 'attempts %d is no bound: make it 1 to 100, the first attempt included'.format([self.attempts])",fieldPath=".attempts"
// +kubebuilder:validation:XValidation:rule="self.maxBackoff >= self.backoff",messageExpression="'maxBackoff %s is shorter than backoff (%s): make it at least that'.format([self.maxBackoff, self.backoff])",fieldPath=".maxBackoff"
type Retry struct {
	// Attempts is how often a transaction is sent at most, the first attempt included: 1 to 100, where 1 tries nothing
	// again, for a sweep over attempts to begin with. It has no default.
	// +kubebuilder:validation:Maximum=100
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// Backoff is the pause between the first answer and the second attempt. Each further pause is twice as long. An
	// attempt that would begin after requestTimeout is not made.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('1h')",message="must be 0s to 1h, for example 10ms"
	// +kubebuilder:default="10ms"
	// +optional
	Backoff Duration `json:"backoff"`
	// MaxBackoff bounds the pauses, before jitter.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('1h')",message="must be 0s to 1h, for example 1s"
	// +kubebuilder:default="1s"
	// +optional
	MaxBackoff Duration `json:"maxBackoff"`
	// Jitter is how much longer or shorter a pause may be, at random, in percent: 50 is half to one and a half times as
	// long.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=50
	// +optional
	Jitter int32 `json:"jitter"`
	// Causes of the outcomes that are tried again: Conflict (the concurrency control has aborted the transaction) and
	// Node (a node has refused it or could not be reached).
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:default={Conflict}
	// +optional
	Causes []RetryCause `json:"causes,omitempty"`
}

// RetryCause is why a transaction was not committed, where a second attempt may be.
// +kubebuilder:validation:Enum=Conflict;Node
type RetryCause string

const (
	// RetryConflict is the concurrency control, which has aborted the transaction for the sake of others.
	RetryConflict RetryCause = "Conflict"
	// RetryNode is a node that refused the transaction, being overloaded, not ready or out of reach.
	RetryNode RetryCause = "Node"
)

// Objective is a bound on a measured figure.
//
// +kubebuilder:validation:XValidation:rule="has(self.min) || has(self.max)",message="min and max are both missing: an objective needs at least one bound"
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !self.metric.startsWith('latency') || (type(self.max) == string && size(self.max) <= 18 && duration(self.max) >= duration('0s'))",message="the bound of a latency is a duration, for example 250ms",fieldPath=".max"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !self.metric.startsWith('latency') || (type(self.min) == string && size(self.min) <= 18 && duration(self.min) >= duration('0s'))",message="the bound of a latency is a duration, for example 1ms",fieldPath=".min"
// +kubebuilder:validation:XValidation:rule="!has(self.max) || self.metric.startsWith('latency') || (type(self.max) == int && self.max >= 0 && self.max <= 2147483647)",messageExpression="'max is %s: the bound of %s must be a whole number from 0 to 2147483647, for example 1000'.format([self.max, self.metric])",fieldPath=".max"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || self.metric.startsWith('latency') || (type(self.min) == int && self.min >= 0 && self.min <= 2147483647)",messageExpression="'min is %s: the bound of %s must be a whole number from 0 to 2147483647, for example 1000'.format([self.min, self.metric])",fieldPath=".min"
type Objective struct {
	// Metric that is bounded: throughput (committed transactions per second), latencyP50 to latencyP99 (of the transactions
	// that were due, but for aborted ones), abortPPM or unknownPPM (aborted, or without an answer, of all, in parts per
	// million). A transaction that is tried again counts once, by how its last attempt ended.
	// +required
	Metric Metric `json:"metric"`
	// Transaction restricts the metric to one type, for example balance; unset, it is over all.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Transaction string `json:"transaction,omitempty"`
	// Region restricts the metric to clients of one region; unset, it is over all.
	// +kubebuilder:validation:MaxLength=24
	// +optional
	Region string `json:"region,omitempty"`
	// Min is the least value that holds: a duration for latencies, else an integer.
	// +optional
	Min *Bound `json:"min,omitempty"`
	// Max is the greatest value that holds: a duration for latencies, else an integer.
	// +optional
	Max *Bound `json:"max,omitempty"`
}

// Metric is a measured figure that an objective can bound.
// +kubebuilder:validation:Enum=throughput;latencyP50;latencyP90;latencyP95;latencyP99;abortPPM;unknownPPM
type Metric string

const (
	// MetricThroughput is committed transactions per second.
	MetricThroughput Metric = "throughput"
	// MetricLatencyP50 is the median latency.
	MetricLatencyP50 Metric = "latencyP50"
	// MetricLatencyP90 is the 90th percentile of the latency.
	MetricLatencyP90 Metric = "latencyP90"
	// MetricLatencyP95 is the 95th percentile of the latency.
	MetricLatencyP95 Metric = "latencyP95"
	// MetricLatencyP99 is the 99th percentile of the latency.
	MetricLatencyP99 Metric = "latencyP99"
	// MetricAbortPPM is the share of aborted transactions, in parts per million. Aborted attempts that were tried again
	// do not count.
	MetricAbortPPM Metric = "abortPPM"
	// MetricUnknownPPM is the share, of the transactions that were due, of those without an answer, in parts per million: the
	// outcome is not known, as after requestTimeout, or they hung when the window closed (they had waited for more than a
	// second and three times the 99th percentile), or they were never sent.
	MetricUnknownPPM Metric = "unknownPPM"
)

// Verification is a check of the answers and the data.
// +kubebuilder:validation:Enum=Invariants;ReadCommitted;SnapshotIsolation;SessionSnapshotIsolation;StrongSnapshotIsolation;Serializable;SessionSerializable;StrictSerializable;Convergence;Isolation
type Verification string

const (
	// VerifyInvariants checks the workload's invariants at the end, for example the sum of all money.
	VerifyInvariants Verification = "Invariants"
	// VerifyReadCommitted checks that the recorded history holds no read of what was aborted or unfinished, and that
	// information flows in no circle.
	VerifyReadCommitted Verification = "ReadCommitted"
	// VerifySnapshotIsolation checks that each transaction read from a snapshot, and that of transactions that ran at
	// once and wrote the same row only one was committed. Snapshots may be old.
	VerifySnapshotIsolation Verification = "SnapshotIsolation"
	// VerifySessionSnapshotIsolation checks that snapshots also hold what the same client had seen and written before.
	VerifySessionSnapshotIsolation Verification = "SessionSnapshotIsolation"
	// VerifyStrongSnapshotIsolation checks that snapshots also hold what any client was told of before.
	VerifyStrongSnapshotIsolation Verification = "StrongSnapshotIsolation"
	// VerifySerializable checks that the recorded history has a serial order.
	VerifySerializable Verification = "Serializable"
	// VerifySessionSerializable checks that the serial order also agrees with the order of each client's transactions.
	VerifySessionSerializable Verification = "SessionSerializable"
	// VerifyStrictSerializable checks that the serial order also agrees with real time.
	VerifyStrictSerializable Verification = "StrictSerializable"
	// VerifyIsolation checks that the recorded history has the isolation level that the database's engine promises.
	VerifyIsolation Verification = "Isolation"
	// VerifyConvergence checks that all copies of the data are equal at the end.
	VerifyConvergence Verification = "Convergence"
)

// Stage of a run.
// +kubebuilder:validation:Enum=Preflight;Provision;Emulate;Load;Warmup;Measure;Recover;Collect;Evaluate;Completed;Failed
type Stage string

const (
	// StagePreflight checks that the manifest is possible here.
	StagePreflight Stage = "Preflight"
	// StageProvision waits until the database is ready.
	StageProvision Stage = "Provision"
	// StageEmulate waits until the network is injected and verified.
	StageEmulate Stage = "Emulate"
	// StageLoad puts the data set into the database.
	StageLoad Stage = "Load"
	// StageWarmup runs the load without measuring.
	StageWarmup Stage = "Warmup"
	// StageMeasure runs the load and measures.
	StageMeasure Stage = "Measure"
	// StageRecover waits until all faults are gone.
	StageRecover Stage = "Recover"
	// StageCollect gathers the workers' reports.
	StageCollect Stage = "Collect"
	// StageEvaluate judges objectives, invariants and history.
	StageEvaluate Stage = "Evaluate"
	// StageCompleted is the end of a run that has a result, good or bad.
	StageCompleted Stage = "Completed"
	// StageFailed is the end of a run that has no result.
	StageFailed Stage = "Failed"
)

// Verdict of a run.
// +kubebuilder:validation:Enum=Passed;Failed;Invalid
type Verdict string

const (
	// VerdictPassed means that every objective holds and every check passed.
	VerdictPassed Verdict = "Passed"
	// VerdictFailed means that a sound measurement missed an objective or a check.
	VerdictFailed Verdict = "Failed"
	// VerdictInvalid means that the measurement cannot be trusted, for example because the driver was the bottleneck, or that
	// there is none: the run was refused, or stopped before its end.
	VerdictInvalid Verdict = "Invalid"
)

// Conditions of a BenchmarkRun.
const (
	// ConditionAccepted is true once Preflight found the manifest possible.
	ConditionAccepted = "Accepted"
	// ConditionDatabaseReady is true while the database serves this run.
	ConditionDatabaseReady = "DatabaseReady"
	// ConditionDataLoaded is true once the data set is in the database.
	ConditionDataLoaded = "DataLoaded"
	// ConditionWorkersCreated is true once every worker Job was made. From then on a Job that is missing is never made
	// again: its workers may have run.
	ConditionWorkersCreated = "WorkersCreated"
	// ConditionMeasured is true once every worker has reported.
	ConditionMeasured = "Measured"
	// ConditionDatabaseQuiet is true once every node has finished all transactions: only then can the data be judged.
	ConditionDatabaseQuiet = "DatabaseQuiet"
	// ConditionManifestsUnchanged is false when the database or its network was edited while the run went on as it had
	// begun.
	ConditionManifestsUnchanged = "ManifestsUnchanged"
	// ConditionNotRegressed says how the run compares with its baseline: true for an improvement or no difference, false for
	// a regression, unknown while it cannot be said.
	ConditionNotRegressed = "NotRegressed"
	// ConditionCompleted is true when the run is over; its reason is the verdict's.
	ConditionCompleted = "Completed"
	// ConditionCleanupFailed is true when something of the run could not be removed.
	ConditionCleanupFailed = "CleanupFailed"
)

// BenchmarkRunStatus is how far a run is and what it found.
type BenchmarkRunStatus struct {
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// RunID is the spec.runID that this status describes.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	RunID string `json:"runID,omitempty"`
	// Execution names one execution of the run: it is random, and chosen when the run starts. A run that returns to an earlier
	// runID is another execution, whose objects have other names and whose result has another seal.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Execution string `json:"execution,omitempty"`
	// Stage summarises the conditions: what the run does now.
	// +optional
	Stage Stage `json:"stage,omitempty"`
	// StageStartTime is when the stage began; each stage has a deadline.
	// +optional
	StageStartTime *metav1.Time `json:"stageStartTime,omitempty"`
	// Conditions: Accepted, DatabaseReady, NetworkVerified, DataLoaded, Measured, Completed; and Ready, Reconciling, Stalled,
	// Succeeded, by which other tools judge the run.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// StartTime is when Preflight began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// WarmupStartTime is the instant at which all workers begin their warm-up, set before they are told.
	// +optional
	WarmupStartTime *metav1.MicroTime `json:"warmupStartTime,omitempty"`
	// MeasureStartTime is the instant at which all workers begin to measure, set before they are told.
	// +optional
	MeasureStartTime *metav1.MicroTime `json:"measureStartTime,omitempty"`
	// CompletionTime is when the run reached Completed or Failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Verdict is set when the run is over.
	// +optional
	Verdict Verdict `json:"verdict,omitempty"`
	// Reason is a CamelCase word for the verdict, for example ObjectiveMissed, DriverBound, DeadlineExceeded.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says in a sentence what went wrong, where, and what would be right.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// DatabaseUID is the GeoDatabase that the run began with.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	DatabaseUID string `json:"databaseUID,omitempty"`
	// DatabaseIncarnation is the database's incarnation that the data was loaded into. When the database has another
	// one before the end, nodes were replaced and the answers cannot be trusted.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	DatabaseIncarnation string `json:"databaseIncarnation,omitempty"`
	// Repetitions that are done, in order.
	// +listType=map
	// +listMapKey=index
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Repetitions []RepetitionStatus `json:"repetitions,omitempty"`
	// Faults of the timeline, each with where it is in its life.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Faults []FaultStatus `json:"faults,omitempty"`
	// Summary of all regions and transactions.
	// +optional
	Summary *RunSummary `json:"summary,omitempty"`
	// Regions, each with what its clients saw.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Regions []RunRegionStatus `json:"regions,omitempty"`
	// Objectives and whether they hold, in the order of the spec.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Objectives []ObjectiveStatus `json:"objectives,omitempty"`
	// Checks of the answers and the data.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Checks []CheckStatus `json:"checks,omitempty"`
	// Baseline is the comparison with spec.baselineRef.
	// +optional
	Baseline *BaselineStatus `json:"baseline,omitempty"`
	// ReportRef names the ConfigMap that holds the full result document.
	// +optional
	ReportRef *LocalReference `json:"reportRef,omitempty"`
	// ReportDigest is the digest of that document: a ConfigMap that holds another one was made by somebody else.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	ReportDigest string `json:"reportDigest,omitempty"`
	// ManifestsDigest is the digest of the manifests that the run began with. It is judged by these, and its result shows them,
	// whatever is edited meanwhile.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	ManifestsDigest string `json:"manifestsDigest,omitempty"`
	// MeasuredDigest stands for what the run measures: the specs of itself, of its database and of its network, but for the name of the
	// database and for what can change of a run. Runs with equal ones measure the same, and an Experiment takes a run for one of its
	// points by it.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	MeasuredDigest string `json:"measuredDigest,omitempty"`
}

// BaselineStatus is how a run compares with another.
type BaselineStatus struct {
	// Name of the BenchmarkRun that is the baseline.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// Verdict of the comparison.
	// +optional
	Verdict Change `json:"verdict,omitempty"`
	// Message names what is worse or better, with confidence intervals, or why it cannot be said.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// Change is how a result compares with its baseline.
// +kubebuilder:validation:Enum=Regression;Improvement;NoDifference;Undecided
type Change string

const (
	// ChangeRegression means significantly worse.
	ChangeRegression Change = "Regression"
	// ChangeImprovement means significantly better.
	ChangeImprovement Change = "Improvement"
	// ChangeNoDifference means that no significant difference was found.
	ChangeNoDifference Change = "NoDifference"
	// ChangeUndecided means that there are too few repetitions to tell a difference from chance, or that a result is missing.
	ChangeUndecided Change = "Undecided"
)

// RepetitionStatus is one measured period.
type RepetitionStatus struct {
	// Index counts from 1.
	// +kubebuilder:validation:Minimum=1
	// +required
	Index int32 `json:"index"`
	// StartTime is the instant at which all workers began to measure.
	// +optional
	StartTime *metav1.MicroTime `json:"startTime,omitempty"`
	// Committed transactions.
	// +optional
	Committed int64 `json:"committed"`
	// Aborted transactions, for any reason.
	// +optional
	Aborted int64 `json:"aborted"`
	// ThroughputPerSecond is committed transactions per second.
	// +optional
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// LatencyMicroseconds of the transactions that were due, but for aborted ones.
	// +optional
	LatencyMicroseconds LatencyMicroseconds `json:"latencyMicroseconds"`
	// AbortPPM is aborted transactions of all, in parts per million.
	// +optional
	AbortPPM int64 `json:"abortPPM"`
}

// RunSummary is the gist of a measurement.
type RunSummary struct {
	// Committed transactions.
	// +optional
	Committed int64 `json:"committed"`
	// Aborted transactions, for any reason.
	// +optional
	Aborted int64 `json:"aborted"`
	// ThroughputPerSecond is committed transactions per second.
	// +optional
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// OfferedPerSecond is the transactions that were due per second, sent or not; only in an open loop.
	// +optional
	OfferedPerSecond int64 `json:"offeredPerSecond,omitempty"`
	// LeastServed is the region of which the smallest share of the transactions that were due committed; only in an
	// open loop. A region that is served badly does not show in the throughput of all regions together.
	// +optional
	LeastServed *ServedRegion `json:"leastServed,omitempty"`
	// ClientsBusy is true where the run is Invalid for no other reason than that all clients of a region were busy, so that
	// arrivals of an open loop were never sent: the database serves less than the rate, or needs more clientsPerRegion for it.
	// +optional
	ClientsBusy bool `json:"clientsBusy,omitempty"`
	// LatencyMicroseconds of the transactions that were due, but for aborted ones.
	// +optional
	LatencyMicroseconds LatencyMicroseconds `json:"latencyMicroseconds"`
	// AbortPPM is aborted transactions of all, in parts per million.
	// +optional
	AbortPPM int64 `json:"abortPPM"`
	// BytesPerTransaction is bytes sent between nodes per committed transaction.
	// +optional
	BytesPerTransaction int64 `json:"bytesPerTransaction"`
	// CrossRegionBytesPerTransaction is the part of those that left a region.
	// +optional
	CrossRegionBytesPerTransaction int64 `json:"crossRegionBytesPerTransaction"`
	// MultiHomePPM is the share of multi-home transactions among all, in parts per million.
	// +optional
	MultiHomePPM int64 `json:"multiHomePPM"`
	// MultiPartitionPPM is the share of multi-partition transactions among all, in parts per million.
	// +optional
	MultiPartitionPPM int64 `json:"multiPartitionPPM"`
}

// ServedRegion is the share of a region's transactions that committed.
type ServedRegion struct {
	// Name of the region.
	// +kubebuilder:validation:MaxLength=24
	// +required
	Name string `json:"name"`
	// CommittedPPM is the number of transactions that committed in the measured windows, in parts per million of the
	// transactions that were due. It can exceed 1000000, because some were due before the windows opened.
	// +required
	CommittedPPM int64 `json:"committedPPM"`
	// ChancePPM is three standard deviations of CommittedPPM: transactions are in flight when windows open and close.
	// +optional
	ChancePPM int64 `json:"chancePPM,omitempty"`
}

// RunRegionStatus is what the clients of a region saw.
type RunRegionStatus struct {
	// Name of the region.
	// +kubebuilder:validation:MaxLength=24
	// +required
	Name string `json:"name"`
	// Committed transactions.
	// +optional
	Committed int64 `json:"committed"`
	// ThroughputPerSecond is committed transactions per second.
	// +optional
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// LatencyMicroseconds of the transactions that were due, but for aborted ones.
	// +optional
	LatencyMicroseconds LatencyMicroseconds `json:"latencyMicroseconds"`
	// AbortPPM is aborted transactions of all, in parts per million.
	// +optional
	AbortPPM int64 `json:"abortPPM"`
}

// ObjectiveStatus says whether an objective holds.
type ObjectiveStatus struct {
	// Name of the objective, for example latencyP99(balance, us-west-2) <= 250ms.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
	// Measured value with its unit, for example 231.4ms, and what was left out.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Measured string `json:"measured"`
	// Holds is true when the measured value is within the bounds.
	// +optional
	Holds bool `json:"holds"`
}

// CheckStatus is the outcome of a check.
type CheckStatus struct {
	// Name of the check, for example smallbank-total.
	// +kubebuilder:validation:MaxLength=128
	// +required
	Name string `json:"name"`
	// Passed is true when the check found nothing wrong.
	// +optional
	Passed bool `json:"passed"`
	// Message says what was compared.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// BenchmarkRun is one run of a workload against a database.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=brun;br,categories=geobench
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.stage`
// +kubebuilder:printcolumn:name="Database",type=string,JSONPath=`.spec.databaseRef.name`
// +kubebuilder:printcolumn:name="Test of",type=string,JSONPath=`.metadata.labels['geobench\.dev/run']`
// +kubebuilder:printcolumn:name="Txn/s",type=integer,JSONPath=`.status.summary.throughputPerSecond`
// +kubebuilder:printcolumn:name="P50(us)",type=string,JSONPath=`.status.summary.latencyMicroseconds.p50`
// +kubebuilder:printcolumn:name="P99(us)",type=string,JSONPath=`.status.summary.latencyMicroseconds.p99`
// +kubebuilder:printcolumn:name="Aborts(ppm)",type=integer,JSONPath=`.status.summary.abortPPM`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.verdict`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 32 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",messageExpression="'metadata.name ' + self.metadata.name + ' names worker pods together with the region: it must be at most 32 lower-case letters, digits and dashes, and start with a letter'"
type BenchmarkRun struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec says what to run; it is immutable but for runID, cancel, suspend and ttlSecondsAfterFinished.
	// +required
	Spec BenchmarkRunSpec `json:"spec"`
	// Status says how far the run is and what it found. Until the operator has seen the run, observedGeneration is -1.
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status BenchmarkRunStatus `json:"status,omitzero"`
}

// BenchmarkRunList is a list of runs.
//
// +kubebuilder:object:root=true
type BenchmarkRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BenchmarkRun `json:"items"`
}
