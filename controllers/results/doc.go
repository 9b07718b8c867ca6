// Package results keeps what runs and experiments have found in ConfigMaps: the keys, the limits and how a document is
// read.
package results
