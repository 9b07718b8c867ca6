// Package explore looks for executions in which a protocol is wrong. A seed makes a scenario: a topology with delays,
// jitter and loss, the protocol's parameters, and clocks that disagree. It also has a schedule of faults, and clients
// that run SmallBank or key-value transactions on a few hot rows. The scenario runs in the simulator, and then three
// things must hold. The history that the clients recorded is strictly serializable, the copies of the data are equal,
// and every transaction was answered once the faults were over. The same seed makes the same scenario and the same
// execution, so a failure is a number.
//
// The method follows FoundationDB's simulation tests (Zhou et al., FoundationDB: A Distributed Unbundled Transactional
// Key Value Store, SIGMOD 2021, section 4); the oracle is package history.
//
// Faults. Links between regions are cut and healed, single links or all links of a region, and clocks are up to 100 ms
// apart. Nodes, alone or all of a region, crash and restart from their logs. A region is lost permanently if the
// protocol declares that it survives that: see survives. Single nodes are not lost permanently, because no protocol
// here replaces the lost partition of a copy. The remaining partitions of this copy would stand still.
package explore
