// Package wire joins the processes of a database: frames over TCP, many per system call.
//
// Two nodes share a single Link, which is resumable. Messages arrive in order and exactly once while both processes
// live, even if the underlying TCP connections fail. The sender keeps every batch until it is acknowledged. When a
// connection is replaced, each side reports what it has received, and the other side continues from there. A peer that
// returns as another process has lost its state, which ends the database: see Config.Broken.
//
// Between a client and a node there is a Conn, which ends with its TCP connection.
//
// Both emulate the network on request. A message waits in the sender's delay line until geo.Path says that it arrives.
// So a single process on one machine can host a database with links between continents. Every node continuously probes
// its peers through the same delay lines, so that the declared network can be compared with the real network.
package wire
