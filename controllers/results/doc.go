// Package results defines how the results of runs and experiments are stored in ConfigMaps: keys, size limits and
// reading.
package results
