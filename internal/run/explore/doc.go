// Package explore looks for executions in which a protocol is wrong. A seed makes a world: a topology with delays, jitter
// and loss, the protocol's parameters, clocks that disagree, a schedule of faults, and clients that run SmallBank or
// key-value transactions on a few hot rows. The world runs in the simulator, and then three things must hold: the history
// that the clients recorded is strictly serializable, the copies of the data are equal, and every transaction was
// answered once the faults were over. The same seed makes the same world and the same execution, so a failure is a number.
//
// The method is that of FoundationDB's simulation tests (Zhou et al., FoundationDB: A Distributed Unbundled
// Transactional Key Value Store, SIGMOD 2021, section 4); the oracle is package history's.
//
// Faults. Links between regions are cut and healed, alone or all of a region; clocks are up to 100 ms apart; nodes, alone
// or all of a region, crash and start again from their logs; a region is lost for good where the protocol says that it
// survives that: see survives. Single nodes are not lost for good, because no protocol here replaces the lost partition of a copy,
// so that the rest of this copy stands still.
package explore
