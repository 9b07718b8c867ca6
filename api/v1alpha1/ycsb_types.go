package v1alpha1

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
	// Preset is a core workload of YCSB. A is 50% reads and 50% updates, B 95% reads and 5% updates, C reads only. D is
	// 95% reads of the latest records and 5% inserts, E 95% scans and 5% inserts, F 50% reads and 50% read-modify-writes.
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
	// WriteAllFields makes updates and read-modify-writes replace all fields of a record; otherwise they replace one
	// field, chosen at random. An update of all fields is blind: it does not read the record.
	// +kubebuilder:default=false
	// +optional
	WriteAllFields bool `json:"writeAllFields"`
	// OperationsPerTransaction is the number of operations of a transaction, each drawn by the mix. Their records may
	// coincide.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	OperationsPerTransaction int32 `json:"operationsPerTransaction,omitempty"`
	// Distribution of the chosen records. The default is the distribution of the preset: Latest for D, Zipfian for all
	// other presets and for a mix.
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
	// HotRecords is the number of hot records of each home and partition, with the distribution OneHotPerHome.
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
	// MaxScanRecords is the largest number of records of a scan. Scan lengths are uniform between 1 and this number.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=100
	// +optional
	MaxScanRecords int32 `json:"maxScanRecords,omitempty"`
	// Locality is Home or None. With Home, clients work on records with their region as the home, except in multi-home
	// transactions. With None, they work on all records, in any region.
	// +kubebuilder:default=Home
	// +optional
	Locality YCSBLocality `json:"locality,omitempty"`
	// MultiHomePercent is the share of transactions that touch records with different home regions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiHomePercent int32 `json:"multiHomePercent"`
	// HomesPerMultiHome is the number of home regions that a multi-home transaction touches.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=32
	// +kubebuilder:default=2
	// +optional
	HomesPerMultiHome int32 `json:"homesPerMultiHome,omitempty"`
	// ForeignSingleHomePercent is the share of single-home transactions with a home other than the client's region. Every
	// other region is equally likely. It needs locality Home.
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
	// PartitionsPerMultiPartition is the number of partitions that a multi-partition transaction touches.
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
	// YCSBHotspot sends a share of the operations to a share of the records, and the remaining operations to the remaining
	// records; the choice is uniform in both sets.
	YCSBHotspot YCSBDistribution = "Hotspot"
	// YCSBOneHotPerHome: the first operation of a transaction in each of its homes chooses one of the first hotRecords
	// records there. The later operations choose among the remaining records. Both choices are uniform.
	YCSBOneHotPerHome YCSBDistribution = "OneHotPerHome"
)

// YCSBLocality selects the records that a client works on, by home.
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
