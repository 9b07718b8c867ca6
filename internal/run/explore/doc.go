// Package explore searches for executions in which a protocol violates its guarantees. A seed determines a scenario: a
// topology with delays, jitter and loss, the protocol's parameters, clock offsets, a schedule of faults, and clients.
// The clients run SmallBank or key-value transactions on a few contended rows.
//
// The scenario runs in the simulator. Afterwards the recorded history must be strictly serializable, the copies of the
// data must be equal, and every transaction must have an answer. The same seed always yields the same scenario and the
// same execution, so the seed suffices to reproduce a failure.
//
// The method follows FoundationDB's simulation tests (Zhou et al., FoundationDB: A Distributed Unbundled Transactional
// Key Value Store, SIGMOD 2021, section 4). Package history is the checker.
//
// Links are cut, singly or all links of a region, and heal later. Clocks differ by up to 100 ms. Single nodes or all
// nodes of a region crash and restart from their logs. A region is lost permanently only if the protocol declares that
// it survives the loss (protocol.Engine.Tolerance). A single node is never lost permanently. No protocol replaces the
// lost partition of a copy, so the other partitions of that copy would make no progress.
package explore
