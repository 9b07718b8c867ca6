package experiment

import (
	"fmt"
	"math"

	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// counterNamed is a counter of the engine, summed up over all nodes; the runs of its system must have it.
func counterNamed(name string) *metric {
	return &metric{name: name, title: name, of: func(d *result.Document) float64 {
		sum := int64(0)
		for i := range d.Nodes {
			sum += d.Nodes[i].Counters[name]
		}
		return float64(sum)
	}}
}

// gaugeNamed is a gauge of the engine at the end of a run, the largest of all nodes; the runs of its system must have
// it. A sum over nodes would mean nothing for positions and terms.
func gaugeNamed(name string) *metric {
	return &metric{name: name, title: name + " at the end", of: func(d *result.Document) float64 {
		most := math.NaN()
		for i := range d.Nodes {
			if v, ok := d.Nodes[i].Gauges[name]; ok && !(float64(v) <= most) {
				most = float64(v)
			}
		}
		return most
	}}
}

// declares returns an error if an engine of Geobench does not declare a figure of this name and kind. It accepts any
// figure of other engines.
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

// reports returns an error unless the results of a point have a figure of this name and kind. A counter must be of all
// that each node did.
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
