package store

// ShardSums contains checksums of a shard's rows at a node. Every field must be the same in all copies of the shard.
type ShardSums struct {
	// Shard is the number of the shard in the layout, or Everywhere for the rows that every node stores.
	Shard int `json:"shard"`
	// Sums contains the workload's checksums by name.
	Sums map[string]int64 `json:"sums,omitempty"`
	// Digest covers all rows; in a traced run it includes their versions.
	Digest uint64 `json:"digest,string"`
	Rows   int64  `json:"rows"`
}

// Everywhere is the shard number of rows that every node stores.
const Everywhere = -1
