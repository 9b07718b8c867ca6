// Package metrics defines the Prometheus metrics of Geobench: a table of all metrics with their types, units and
// labels, and collectors. All components take their metrics from this table. docs/metrics.md is generated from the
// table, so the documentation matches the served metrics.
//
// Cardinality is bounded: labels are runs, databases, regions, nodes, transaction types and classes, and short fixed
// lists. There is no label for a client, a key or a transaction; exemplars identify individual transactions.
package metrics

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Type is the type of a metric, as in OpenMetrics.
type Type string

// The types in use.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Definition is a metric, and a row of the table in docs/metrics.md.
type Definition struct {
	// Name is the exported name. Counters end in _total, and units are base units (seconds, bytes).
	Name string
	Help string
	Type Type
	// Labels are the names of the labels, in the order in which callers pass the values.
	Labels []string
	// Buckets are the upper bounds of the buckets of a classic histogram. The native histogram has a resolution of 10%.
	Buckets []float64
}

// Source is a group of metrics that are served at the same endpoint.
type Source struct {
	// Name is the heading of the group in the documentation, and About is its introduction.
	Name, About string
	Metrics     []*Definition
}

// nativeFactor is the growth factor between consecutive buckets of a native histogram.
const nativeFactor = 1.1

// maxNativeBuckets is the maximum number of buckets of a native histogram. Beyond this number, the resolution halves.
const maxNativeBuckets = 160

var sources []*Source

func source(name, about string) *Source {
	s := &Source{Name: name, About: about}
	sources = append(sources, s)
	return s
}

func (s *Source) define(t Type, name, help string, labels []string, buckets ...float64) *Definition {
	d := &Definition{Name: name, Help: help, Type: t, Labels: labels, Buckets: buckets}
	s.Metrics = append(s.Metrics, d)
	return d
}

// All returns all metrics that Geobench serves, grouped by source.
func All() []*Source { return sources }

// Desc returns the metric's description with fixed values for its first labels.
func (d *Definition) Desc(fixed ...string) *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.Labels[len(fixed):], d.fixed(fixed))
}

func (d *Definition) fixed(values []string) prometheus.Labels {
	// A wrong number of labels is a programming error, which the first sample reveals.
	if len(values) > len(d.Labels) {
		panic(fmt.Sprintf("metrics: %s has %d labels, not %d", d.Name, len(d.Labels), len(values)))
	}
	l := prometheus.Labels{}
	for i, v := range values {
		l[d.Labels[i]] = v
	}
	return l
}

// CounterVec returns the metric as a counter with fixed values for its first labels.
func (d *Definition) CounterVec(fixed ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help, ConstLabels: d.fixed(fixed)}, d.Labels[len(fixed):])
}

// HistogramVec returns the metric as a native and classic histogram with fixed values for its first labels.
func (d *Definition) HistogramVec(fixed ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: d.Name, Help: d.Help, ConstLabels: d.fixed(fixed), Buckets: d.Buckets,
		NativeHistogramBucketFactor: nativeFactor, NativeHistogramMaxBucketNumber: maxNativeBuckets,
	}, d.Labels[len(fixed):])
}

// Value returns a sample of a gauge or a counter. labels are the values of all labels.
func (d *Definition) Value(v float64, labels ...string) prometheus.Metric {
	return d.value(d.Desc(), v, labels)
}

func (d *Definition) value(desc *prometheus.Desc, v float64, labels []string) prometheus.Metric {
	t := prometheus.GaugeValue
	if d.Type == Counter {
		t = prometheus.CounterValue
	}
	return prometheus.MustNewConstMetric(desc, t, v, labels...)
}

// Collector serves metrics whose values it reads at each scrape.
type Collector struct {
	fixed   []string
	descs   map[*Definition]*prometheus.Desc
	collect func(put Put)
}

// Put emits a sample. labels are the values of the labels that are not fixed.
type Put func(d *Definition, v float64, labels ...string)

// NewCollector returns a collector of metrics with fixed values for their first labels.
func NewCollector(of []*Definition, collect func(put Put), fixed ...string) *Collector {
	c := &Collector{fixed: slices.Clone(fixed), descs: map[*Definition]*prometheus.Desc{}, collect: collect}
	for _, d := range of {
		c.descs[d] = d.Desc(fixed...)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.collect(func(d *Definition, v float64, labels ...string) { ch <- d.value(c.descs[d], v, labels) })
}
