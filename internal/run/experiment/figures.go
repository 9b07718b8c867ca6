package experiment

import (
	"fmt"
	"math"

	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// counterNamed returns a metric for an engine's counter, summed over all nodes. Callers must check that the results
// contain the counter.
func counterNamed(name string) *metric {
	return &metric{name: name, title: name, of: func(d *result.Document) float64 {
		sum := int64(0)
		for i := range d.Nodes {
			sum += d.Nodes[i].Counters[name]
		}
		return float64(sum)
	}}
}

// gaugeNamed returns a metric for an engine's gauge at the end of a run. The metric is the maximum over all nodes,
// because a sum of log positions or terms is meaningless. Callers must check that the results contain the gauge.
func gaugeNamed(name string) *metric {
	return &metric{name: name, title: name + " at the end", of: func(d *result.Document) float64 {
		most := math.NaN()
		for i := range d.Nodes {
			// The negated comparison also accepts the first value, because every comparison with NaN is false.
			if v, ok := d.Nodes[i].Gauges[name]; ok && !(float64(v) <= most) {
				most = float64(v)
			}
		}
		return most
	}}
}

// declares returns an error if the point's engine is a Geobench engine that does not declare a figure of this name and
// kind. For other databases it accepts any name.
func (p *Point) declares(name string, kind protocol.Kind) error {
	if p.manifests == nil || p.manifests.Database == nil {
		return nil
	}
	e, ok := engines.Lookup(p.manifests.Database.Spec.Engine.Name)
	if !ok {
		return nil
	}
	f, declared := e.Figure(name)
	switch {
	case !declared:
		var names []string
		for _, other := range e.Figures {
			if other.Kind == kind {
				names = append(names, other.Name)
			}
		}
		return lookupf("%s: engine %s has no %s %s%s", p.Label, e.Name, kind, name, nearest(name, names))
	case f.Kind != kind:
		return lookupf("%s: %s of engine %s is a %s and not a %s; write %[4]s('%[2]s', ...)", p.Label, name, e.Name, f.Kind, kind)
	}
	return nil
}

// reports returns an error if the results of a point lack a figure of this name and kind. For a counter, the results
// must also cover the complete activity of each node.
func (r *Results) reports(p *Point, name string, kind protocol.Kind) error {
	for _, run := range p.Runs {
		d, err := r.Document(run)
		if err != nil {
			return err
		}
		known := map[string]bool{}
		for i := range d.Nodes {
			figures := d.Nodes[i].Counters
			if kind == protocol.Gauge {
				figures = d.Nodes[i].Gauges
			}
			for name := range figures {
				known[name] = true
			}
		}
		if !known[name] {
			return fmt.Errorf("%s: engine %s has no %s %s%s", p.Label, d.Engine, kind, name, nearest(name, keys(known)))
		}
		if why := d.LeastFigures(); why != "" && kind == protocol.Counter {
			return fmt.Errorf("counter %s of %s: %s", name, p.Label, why)
		}
	}
	return nil
}
