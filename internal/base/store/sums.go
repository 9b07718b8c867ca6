package store

// ShardSums holds checksums of a shard's rows at a node. All copies of a shard must agree on every field.
type ShardSums struct {
	// Shard is the number of the shard in the layout; Everywhere for the rows that every node stores.
	Shard int `json:"shard"`
	// Sums holds the workload's checksums by name.
	Sums map[string]int64 `json:"sums,omitempty"`
	// Digest covers all rows; in a traced run it includes their versions.
	Digest uint64 `json:"digest,string"`
	Rows   int64  `json:"rows"`
}

// Everywhere is the shard number of rows that every node stores.
const Everywhere = -1
