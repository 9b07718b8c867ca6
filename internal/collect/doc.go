// Package collect turns what load generators and runs know into the metrics of package metrics: Worker counts a load generator's
// transactions, and the Put functions hand out a run's stage, faults, limits and prices.
package collect
