// Package history proves that the answers of a database were right. Clients record a history: when each transaction was
// sent and answered, its outcome, and which versions of which rows it read and overwrote. Check builds the direct
// serialization graph of a history and looks for a cycle. A serial order exists if and only if there is no cycle.
// Weaker levels allow some cycles: see package isolation, and graph.components for snapshots.
//
// Transactions also scan ranges. The reads before a scan identify the rows that it found, and therefore also the rows
// of the history that it did not find. The first writer of such a row follows the scan, so a phantom becomes an
// ordinary edge of the graph.
//
// The check is cheap and exact because a version is named after the transaction that wrote it. The history thus records
// which transaction read from which, and nothing has to be guessed. Transactions also report the version that they
// overwrite, so the order of a row's versions is a chain. A checker that sees only values must infer both (Elle,
// section 4).
//
// Recording needs no support from an engine. Trace wraps a stored procedure so that the version of a row is stored in
// the row's value. The wrapped procedure appends to its result the versions that it read and overwrote. Tap is a layer
// between a load generator and its environment that calls the wrapped procedures and writes the history. An engine that
// knows the versions itself can use Recorder alone.
//
// Sources:
//   - for the graph and the anomalies: A. Adya, Weak Consistency: A Generalized Theory and Optimistic Implementations
//     for Distributed Transactions, MIT 1999.
//   - for the names of anomalies and the form of explanations: K. Kingsbury and P. Alvaro, Elle: Inferring Isolation
//     Anomalies from Experimental Observations, VLDB 2020.
//   - A. Cerone and A. Gotsman, Analysing Snapshot Isolation, JACM 2018.
//   - R. Tarjan, Depth-First Search and Linear Graph Algorithms, 1972.
package history
