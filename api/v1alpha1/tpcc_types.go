package v1alpha1

// TPCC is the workload of TPC Benchmark C, revision 5.11: terminals of warehouses enter orders, payments and
// deliveries.
type TPCC struct {
	// WarehousesPerPartition is the number of warehouses of each partition of each region. A copy of a warehouse takes
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
	// MixPhases are mixes that follow each other in equal parts of the measured time, in the place of mix. Warm-ups have the
	// first.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MixPhases []TPCCMix `json:"mixPhases,omitempty"`
	// Dike has the parameters of Dike's benchmark that TPC-C does not have (Qu et al., How Good is the Distributed
	// Databases in Supporting Transaction Processing, 2022).
	// +optional
	Dike *TPCCDike `json:"dike,omitempty"`
	// Remote sets how many transactions use a warehouse other than their terminal's, and where that warehouse is.
	// +kubebuilder:default={orderLinePercent: 1, paymentPercent: 15}
	// +optional
	Remote TPCCRemote `json:"remote,omitzero"`
	// ByLastNamePercent is the share of payment and orderStatus transactions that find their customer by last name instead
	// of number (clauses 2.5.1.2 and 2.6.1.2). Engines that must know the rows of a transaction in advance first have to
	// look them up for such a transaction.
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
	// Districts is Any or Own. With Any, newOrder, payment and orderStatus draw one of the warehouse's ten districts
	// (clause 2.4.1.2). With Own, they use the district of their terminal, as in BenchBase: with ten terminals for each
	// warehouse, no two orders use the same district.
	// +kubebuilder:default=Any
	// +optional
	Districts TPCCDistricts `json:"districts,omitempty"`
	// Warehouses is Own or Any. With Own, a terminal works at one warehouse of its region (clause 2.4.1.1). With Any, each
	// transaction draws one of all warehouses, wherever it is placed, as in Minerva's evaluation: all regions use the same
	// rows.
	// +kubebuilder:default=Own
	// +optional
	Warehouses TPCCWarehouses `json:"warehouses,omitempty"`
	// RowsPercent scales the number of items, and of customers, orders and stock per warehouse, in percent of clause
	// 1.2.1. It does not scale the number of warehouses or their ten districts, where most conflicts occur.
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

// TPCCDistricts selects the districts that a terminal's transactions use.
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
	// ContentionIntensities is the number of newOrder transactions that compete at any time for district 1 of warehouse 1,
	// in all regions together. Several values apply in turn, in equal parts of the measured time (Dike, definition 1). The
	// load needs at least this number of clients. The results report the measured number, on average over each part. A run
	// that is off by more than 10% is invalid.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=1000000
	// +optional
	ContentionIntensities []int32 `json:"contentionIntensities,omitempty"`
	// WarehousesThetaPercent distributes the warehouses unevenly: the k-th partition (partitions of the first region
	// first) has a share in proportion to 1 / k^theta. The value is theta in hundredths, for example 99 or 150. Each
	// partition has at least one warehouse. The total number of warehouses does not change.
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
	// CoAccessPartitions is the number of partitions in a co-access group.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=15
	// +kubebuilder:default=2
	// +optional
	CoAccessPartitions int32 `json:"coAccessPartitions,omitempty"`
	// BalanceGroup is the number of warehouses that share a balance, to which updateBalance adds and which selectBalance
	// reads.
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

// TPCCRemote sets how many transactions use a remote warehouse, which is any warehouse except their terminal's, and
// where it is. Without multiHomePercent and multiPartitionPercent every other warehouse is equally likely (clauses
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
	// NewOrderPercent is the share of newOrder transactions in which a remote warehouse supplies one line. Papers on
	// distributed databases use this definition. It replaces orderLinePercent.
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
	// DistributionDegree is the number of partitions that these transactions touch (a partition belongs to one region):
	// Dike's disDegree.
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
