package store

// ShardSums holds checksums of the rows of a shard at a node. All copies of a shard must agree on every field.
type ShardSums struct {
	// Shard is its number in the layout, Everywhere for the rows that every node holds.
	Shard int `json:"shard"`
	// Sums are the workload's, by name.
	Sums map[string]int64 `json:"sums,omitempty"`
	// Digest covers all rows; in a traced run with their versions.
	Digest uint64 `json:"digest,string"`
	Rows   int64  `json:"rows"`
}

// Everywhere is the shard number of rows that belong to no shard.
const Everywhere = -1
