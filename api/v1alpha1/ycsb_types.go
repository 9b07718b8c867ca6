package v1alpha1

// YCSB is a workload of transactions that read, update, insert and scan records.
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
	// Preset is a core workload of YCSB. A is 50% reads and 50% updates; B is 95% reads and 5% updates; C is reads only.
	// D is 95% reads of the latest records and 5% inserts; E is 95% scans and 5% inserts; F is 50% reads and 50%
	// read-modify-writes.
	// +optional
	Preset YCSBPreset `json:"preset,omitempty"`
	// Mix is the share of each operation. It replaces preset.
	// +optional
	Mix *YCSBMix `json:"mix,omitempty"`
	// Records is the initial number of records.
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
	// FieldBytes is the size of a field. A record is 16 bytes longer than its fields.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	// +kubebuilder:default=100
	// +optional
	FieldBytes int32 `json:"fieldBytes,omitempty"`
	// WriteAllFields makes updates and read-modify-writes replace all fields of a record; otherwise they replace one
	// field, chosen at random. An update of all fields is blind: it does not read the record.
	// +kubebuilder:default=false
	// +optional
	WriteAllFields bool `json:"writeAllFields"`
	// OperationsPerTransaction is the number of operations in a transaction, each drawn from the mix. Several operations
	// may use the same record.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	OperationsPerTransaction int32 `json:"operationsPerTransaction,omitempty"`
	// Distribution by which records are chosen. The default is the distribution of the preset: Latest for D, Zipfian for
	// all other presets and for a mix.
	// +optional
	Distribution YCSBDistribution `json:"distribution,omitempty"`
	// ThetaPercent is the exponent of the distributions Zipfian and Latest, in hundredths: 99 is a theta of 0.99, and 0
	// is uniform.
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
	// HotRecords is the number of hot records in each partition of each home, with the distribution OneHotPerHome.
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
	// MaxScanRecords is the maximum number of records of a scan. Scan lengths are uniform between 1 and this number.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=100
	// +optional
	MaxScanRecords int32 `json:"maxScanRecords,omitempty"`
	// Locality is Home or None. With Home, clients use records whose home is their region, except in multi-home
	// transactions. With None, they use all records, regardless of home.
	// +kubebuilder:default=Home
	// +optional
	Locality YCSBLocality `json:"locality,omitempty"`
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
	// ForeignSingleHomePercent is the share of single-home transactions whose home is not the client's region. Every
	// other region is equally likely. It requires locality Home.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ForeignSingleHomePercent int32 `json:"foreignSingleHomePercent,omitempty"`
	// HomesThetaPercent, if set, replaces homesPerMultiHome. Multi-home transactions then access at least two homes and
	// at most all of them: k + 1 homes with a probability proportional to 1 / k^theta. The value is theta in hundredths;
	// 0 is uniform. The transaction types are then oneHome, twoHomes and moreHomes.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	HomesThetaPercent *int32 `json:"homesThetaPercent,omitempty"`
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
}

// YCSBPreset is a core workload of YCSB.
// +kubebuilder:validation:Enum=A;B;C;D;E;F
type YCSBPreset string

// YCSBDistribution is the distribution by which records are chosen.
// +kubebuilder:validation:Enum=Uniform;Zipfian;Latest;Hotspot;OneHotPerHome
type YCSBDistribution string

const (
	// YCSBUniform chooses all records with equal probability.
	YCSBUniform YCSBDistribution = "Uniform"
	// YCSBZipfian chooses the record of rank k with a probability proportional to 1 / k^theta.
	YCSBZipfian YCSBDistribution = "Zipfian"
	// YCSBLatest is YCSBZipfian with ranks by age: the latest record has rank 1.
	YCSBLatest YCSBDistribution = "Latest"
	// YCSBHotspot directs a share of the operations to a share of the records, and the remaining operations to the
	// remaining records. The choice within both sets is uniform.
	YCSBHotspot YCSBDistribution = "Hotspot"
	// YCSBOneHotPerHome makes the first operation of a transaction in each of its homes choose one of the first
	// hotRecords records there. Later operations choose among the remaining records. Both choices are uniform.
	YCSBOneHotPerHome YCSBDistribution = "OneHotPerHome"
)

// YCSBLocality selects the records that a client works on, by home.
// +kubebuilder:validation:Enum=Home;None
type YCSBLocality string

const (
	// YCSBHome restricts clients to records of their region, except in multi-home transactions.
	YCSBHome YCSBLocality = "Home"
	// YCSBAnywhere allows all records.
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
	// Update writes one field of a record, or all fields.
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
