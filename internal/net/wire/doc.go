// Package wire connects the processes of a database. It sends frames over TCP, with many frames per system call.
//
// Each pair of nodes shares one Link, which can be resumed. Messages arrive in order and exactly once while both
// processes run, even if the underlying TCP connections fail. The sender keeps every batch until it is acknowledged.
// When a connection is replaced, each side reports the last frame that it has received, and the other side continues
// from there. If a peer returns as another process, it has lost its state, which breaks the database: see
// Config.Broken.
//
// A client and a node share a Conn, which ends with its TCP connection.
//
// Links and Conns emulate the network on request. A message waits in the sender's delay line until its arrival time
// according to geo.Path. So a single machine can host a database with links between continents. Every node continuously
// probes its peers through the same delay lines, so that the declared network can be compared with the measured
// network.
package wire
