// Package podclient queries the pods of databases and runs over mutual TLS: nodes, workers and the sidecars of the
// emulation.
package podclient
