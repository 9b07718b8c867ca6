package v1alpha1

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
