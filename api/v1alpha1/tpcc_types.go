package v1alpha1

// TPCC is the workload of TPC Benchmark C, revision 5.11: terminals at warehouses enter orders, payments and
// deliveries.
type TPCC struct {
	// WarehousesPerPartition is the number of warehouses in each partition of each region. A copy of a warehouse takes
	// about 130 MB of memory.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=1
	// +optional
	WarehousesPerPartition int32 `json:"warehousesPerPartition,omitempty"`
	// Mix is the share of each transaction (clause 5.2.3).
	// +kubebuilder:default={newOrder: 45, payment: 43, orderStatus: 4, delivery: 4, stockLevel: 4, updateStock: 0, updateBalance: 0, selectBalance: 0}
	// +optional
	Mix TPCCMix `json:"mix,omitzero"`
	// MixPhases lists mixes for successive equal parts of the measured time. It replaces mix. Warm-ups use the first mix.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MixPhases []TPCCMix `json:"mixPhases,omitempty"`
	// Dike contains the parameters of Dike's benchmark that are not in TPC-C. The benchmark is from Qu et al., How
	// Good is the Distributed Databases in Supporting Transaction Processing, 2022.
	// +optional
	Dike *TPCCDike `json:"dike,omitempty"`
	// Remote sets the shares of transactions that use a remote warehouse, and the location of that warehouse.
	// +kubebuilder:default={orderLinePercent: 1, paymentPercent: 15}
	// +optional
	Remote TPCCRemote `json:"remote,omitzero"`
	// ByLastNamePercent is the share of payment and orderStatus transactions that find their customer by last name
	// instead of number. In clauses 2.5.1.2 and 2.6.1.2 of TPC-C it is 60 percent. For such a transaction, engines
	// that must know all rows in advance first look them up.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=60
	// +optional
	ByLastNamePercent int32 `json:"byLastNamePercent"`
	// RollbackPercent is the share of newOrder transactions that order a nonexistent item and roll back (clause 2.4.1.4).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	RollbackPercent int32 `json:"rollbackPercent"`
	// Districts is Any or Own. With Any, newOrder, payment and orderStatus choose one of the warehouse's ten
	// districts at random, as in clause 2.4.1.2 of TPC-C. With Own, they use the district of their terminal, as in
	// BenchBase. With ten terminals per warehouse, no two concurrent orders then use the same district.
	// +kubebuilder:default=Any
	// +optional
	Districts TPCCDistricts `json:"districts,omitempty"`
	// Warehouses is Own or Any. With Own, a terminal works at one warehouse of its region, as in clause 2.4.1.1 of
	// TPC-C. With Any, each transaction chooses one of all warehouses at random, as in Minerva's evaluation. All
	// regions then use the same rows.
	// +kubebuilder:default=Own
	// +optional
	Warehouses TPCCWarehouses `json:"warehouses,omitempty"`
	// RowsPercent scales the number of items, and of customers, orders and stock rows per warehouse, in percent of clause
	// 1.2.1. It does not scale the number of warehouses or their ten districts, where most conflicts occur.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=100
	// +optional
	RowsPercent int32 `json:"rowsPercent,omitempty"`
	// KeyingAndThinkTimePercent scales the keying and think times of clause 5.2.5.7 in a closed loop. With 0 there are
	// none. With 100, the value of the specification, a terminal enters a transaction about every 20 s.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	// +optional
	KeyingAndThinkTimePercent int32 `json:"keyingAndThinkTimePercent"`
}

// TPCCDistricts selects the districts that a terminal's transactions use.
// +kubebuilder:validation:Enum=Any;Own
type TPCCDistricts string

const (
	// DistrictsAny chooses a random district of the terminal's warehouse for each transaction.
	DistrictsAny TPCCDistricts = "Any"
	// DistrictsOwn uses the district of the terminal.
	DistrictsOwn TPCCDistricts = "Own"
)

// TPCCWarehouses selects the warehouses that a terminal's transactions use.
// +kubebuilder:validation:Enum=Own;Any
type TPCCWarehouses string

const (
	// WarehousesOwn uses the warehouse of the terminal.
	WarehousesOwn TPCCWarehouses = "Own"
	// WarehousesAny chooses one of all warehouses at random for each transaction.
	WarehousesAny TPCCWarehouses = "Any"
)

// TPCCMix is the share of each transaction type in percent; the shares sum to 100. The last three types are from Dike.
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
	// StockLevel counts the items in a district's last 20 orders whose stock is low (clause 2.8).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	StockLevel int32 `json:"stockLevel"`
	// UpdateStock takes items from the stock of the warehouses that the parameters in dike select: dUpdateStock of Dike.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	UpdateStock int32 `json:"updateStock,omitempty"`
	// UpdateBalance adds the same amount to the balances of a group of warehouses, in any order: dUpdateBalance of Dike,
	// a test for global deadlocks.
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

// TPCCDike contains the parameters of Dike's benchmark that are not in TPC-C. Dike's distribution ratio and degree are
// in remote.
type TPCCDike struct {
	// ContentionIntensities is the number of newOrder transactions that compete at any time for district 1 of warehouse
	// 1, over all regions. Several values apply in turn, in equal parts of the measured time (Dike, definition 1). The
	// load needs at least this number of clients. The result reports the mean measured number for each part. A run is
	// Invalid if the mean differs by more than 10%.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=1000000
	// +optional
	ContentionIntensities []int32 `json:"contentionIntensities,omitempty"`
	// WarehousesThetaPercent distributes the warehouses unevenly over partitions: the share of the k-th partition
	// (partitions of the first region first) is proportional to 1 / k^theta. The value is theta in hundredths, for
	// example 99 or 150. Each partition has at least one warehouse. The total number of warehouses does not change.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	WarehousesThetaPercent *int32 `json:"warehousesThetaPercent,omitempty"`
	// PartitionsThetaPercent skews the choice of the partition for updateStock: the k-th partition is chosen in proportion
	// to 1 / k^theta. The value is theta in hundredths. By default, updateStock uses the warehouse of its terminal.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	PartitionsThetaPercent *int32 `json:"partitionsThetaPercent,omitempty"`
	// CoAccessPercent is the share of updateStock transactions that take items from all warehouses of a co-access group.
	// A group is the first warehouse of each of coAccessPartitions consecutive partitions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	CoAccessPercent int32 `json:"coAccessPercent,omitempty"`
	// CoAccessPartitions is the number of partitions in a co-access group.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=15
	// +kubebuilder:default=2
	// +optional
	CoAccessPartitions int32 `json:"coAccessPartitions,omitempty"`
	// BalanceGroup is the number of warehouses whose balances updateBalance changes, and selectBalance reads, together.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=15
	// +kubebuilder:default=4
	// +optional
	BalanceGroup int32 `json:"balanceGroup,omitempty"`
	// BalancesThetaPercent skews the choice of the group for updateBalance and selectBalance: the k-th group is chosen in
	// proportion to 1 / k^theta. The value is theta in hundredths.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=80
	// +optional
	BalancesThetaPercent *int32 `json:"balancesThetaPercent,omitempty"`
}

// TPCCRemote sets the shares of transactions that use a remote warehouse, and the location of that warehouse. A remote
// warehouse is any warehouse other than the terminal's own. Without multiHomePercent and multiPartitionPercent, every
// other warehouse is equally likely (clauses 2.4.1.5 and 2.5.1.2).
//
// +kubebuilder:validation:XValidation:rule="[has(self.orderLinePercent), has(self.newOrderPercent), has(self.distributionRatioPercent)].filter(x, x).size() == 1",messageExpression="has(self.orderLinePercent) || has(self.newOrderPercent) ? 'several of orderLinePercent, newOrderPercent and distributionRatioPercent are set: keep one, which says how remote orders are counted' : 'orderLinePercent, newOrderPercent and distributionRatioPercent are all missing: set orderLinePercent (1 in TPC-C) or one of the others'"
// +kubebuilder:validation:XValidation:rule="has(self.distributionRatioPercent) == has(self.distributionDegree)",messageExpression="has(self.distributionDegree) ? 'distributionDegree is set without distributionRatioPercent: set both, or neither' : 'distributionRatioPercent is set without distributionDegree: set both, or neither'"
type TPCCRemote struct {
	// OrderLinePercent is the share of order lines that a remote warehouse supplies. The share in TPC-C is 1
	// (clause 2.4.1.5). With 1, about 10% of newOrder transactions have such a line.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	OrderLinePercent *int32 `json:"orderLinePercent,omitempty"`
	// NewOrderPercent is the share of newOrder transactions in which a remote warehouse supplies one line, as defined in
	// papers on distributed databases. It replaces orderLinePercent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	NewOrderPercent *int32 `json:"newOrderPercent,omitempty"`
	// DistributionRatioPercent is the share of newOrder and stockLevel transactions that access several partitions.
	// It is disRatio in section 4.2.1 of the paper on Dike. All other transactions of these types use only their
	// terminal's warehouse. It replaces orderLinePercent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	DistributionRatioPercent *int32 `json:"distributionRatioPercent,omitempty"`
	// DistributionDegree is the number of partitions that the transactions of distributionRatioPercent access (a partition
	// belongs to one region): Dike's disDegree.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=15
	// +optional
	DistributionDegree *int32 `json:"distributionDegree,omitempty"`
	// PaymentPercent is the share of payment transactions by a customer of a remote warehouse (clause 2.5.1.2).
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
	// MultiPartitionPercent is the share of remote warehouses that are in another partition. It is drawn independently of
	// multiHomePercent. A remote warehouse in the same region and partition is another warehouse of that partition.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MultiPartitionPercent *int32 `json:"multiPartitionPercent,omitempty"`
}
