// Package history proves that a database's answers were right. Clients record a history: for each transaction when it
// was sent and answered, how it ended, and which versions of which rows it read and overwrote. Check turns a history
// into the direct serialization graph and looks for a cycle: there is a serial order exactly when there is none. Weaker
// levels allow some cycles: see isolation, and graph.components for snapshots.
//
// Transactions also scan ranges. The reads before a scan identify the rows that it met, and therefore the rows of the
// history that it has not met. A transaction that writes such a row first follows the scan, so that a phantom is an
// ordinary edge.
//
// The check is cheap and exact because a version is named by the transaction that wrote it. Which transaction read from
// which is therefore recorded, not guessed. Transactions also report the version that they overwrite, so that the order
// of a row's versions is a chain. A checker that sees only values has to recover both (Elle, section 4).
//
// Recording needs nothing from an engine. Trace wraps a stored procedure so that it keeps the version of a row inside
// the row's value. The wrapped procedure returns after its result the versions that it read and overwrote. Tap is a
// layer between a load generator and its environment, which calls the wrapped procedures and writes the history. An
// engine that knows the versions itself can use Recorder alone.
//
// Sources: A. Adya, Weak Consistency: A Generalized Theory and Optimistic Implementations for Distributed Transactions,
// MIT 1999, for the graph and the anomalies; K. Kingsbury and P. Alvaro, Elle: Inferring Isolation Anomalies from
// Experimental Observations, VLDB 2020, for the anomalies' names and what an explanation should look like; A. Cerone
// and A. Gotsman, Analysing Snapshot Isolation, JACM 2018; R. Tarjan, Depth-First Search and Linear Graph Algorithms,
// 1972.
package history
