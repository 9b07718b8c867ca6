// Package wire joins the processes of a database: frames over TCP, many per system call.
//
// Between two nodes there is one Link, and it is resumable: messages arrive in order and exactly once for as long as
// both processes live, whatever happens to the TCP connections below. The sender keeps every batch until it is
// acknowledged; when a connection is replaced, each side says what it has received and the other goes on from there. A
// peer that comes back as another process has lost its state, which ends the database: see Config.Broken.
//
// Between a client and a node there is a Conn, which ends with its TCP connection.
//
// Both emulate the network when asked to: what is sent waits in its sender's delay line until geo.Path says that it
// arrives, so that one process on one machine can hold a database with continents in between. Every node probes its
// peers all the time through the same delay lines, so that the declared network can be compared with the real one.
package wire
