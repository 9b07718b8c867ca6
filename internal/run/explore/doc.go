// Package explore looks for executions in which a protocol is wrong. A seed determines a scenario: a topology with
// delays, jitter and loss, the protocol's parameters, clock offsets, a schedule of faults, and clients that run
// SmallBank or key-value transactions on a few contended rows. The scenario runs in the simulator. Afterwards three
// properties must hold: the history that the clients recorded is strictly serializable, the copies of the data are
// equal, and every transaction was answered once the faults were over. The same seed always gives the same scenario and
// the same execution, so a seed is enough to reproduce a failure.
//
// The method follows FoundationDB's simulation tests (Zhou et al., FoundationDB: A Distributed Unbundled Transactional
// Key Value Store, SIGMOD 2021, section 4). Package history is the checker.
//
// Faults: cuts of single links or of all links of a region, which heal later; clocks that differ by up to 100 ms; and
// crashes of single nodes or all nodes of a region, which restart from their logs. A region is lost permanently only if
// the protocol declares that it survives the loss (protocol.Engine.Tolerance). Single nodes are not lost permanently,
// because no protocol here replaces the lost partition of a copy, and the remaining partitions of that copy would make
// no progress.
package explore
