// Package collect fills the metrics of package metrics. Worker counts the transactions of a load generator. The Put
// functions report a run's stage, faults, limits and prices.
package collect
