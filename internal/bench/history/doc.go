// Package history proves that a database's answers were right. Clients record a history: for each transaction when it was
// sent and answered, how it ended, and which versions of which rows it read and overwrote. Check turns a history into
// the direct serialization graph and looks for a cycle: there is a serial order exactly when there is none. Weaker levels
// allow some cycles: see isolation, and graph.components for snapshots.
//
// Transactions also look at ranges. A scan says which rows it met, by the reads before it, and so which rows of the
// history it has not met: whoever writes one of those first comes after the scan, so that a phantom is an edge as
// others are.
//
// What makes this cheap and exact is that a version is named by the transaction that wrote it, so that who read from whom
// is recorded, not guessed, and that transactions report the version that they overwrite, so that the order of a row's
// versions is a chain. A checker that sees values alone has to recover both (Elle, section 4).
//
// Recording needs nothing from an engine: Trace wraps a stored procedure so that it keeps the version of a row inside
// the row's value and returns what it read and overwrote behind its result, and Tap stands between a load generator and
// its world, calls the wrapped procedures and writes the history down. An engine that knows the versions itself can use
// Recorder alone.
//
// Sources: A. Adya, Weak Consistency: A Generalized Theory and Optimistic Implementations for Distributed Transactions,
// MIT 1999, for the graph and the anomalies; K. Kingsbury and P. Alvaro, Elle: Inferring Isolation Anomalies from
// Experimental Observations, VLDB 2020, for the anomalies' names and what an explanation should look like; A. Cerone and
// A. Gotsman, Analysing Snapshot Isolation, JACM 2018; R. Tarjan, Depth-First Search and Linear Graph Algorithms, 1972.
package history
