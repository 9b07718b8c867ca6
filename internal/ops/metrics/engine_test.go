package metrics

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Each engine's figures are served as declared: counters as events, and gauges as state. A figure that is not declared
// is omitted.
func TestEngineFiguresAreServedByKind(t *testing.T) {
	for _, e := range engines.All() {
		readings := []protocol.Reading{{Name: "not_declared", Value: 1}}
		for _, f := range e.Figures {
			readings = append(readings, protocol.Reading{Name: f.Name, Value: int64(len(f.Name))})
		}
		served := map[string]*Definition{}
		PutEngine(func(d *Definition, v float64, labels ...string) {
			if len(labels) != 1 || served[labels[0]] != nil || v != float64(len(labels[0])) {
				t.Errorf("%s: %s %v is served as %v, or twice", e.Name, d.Name, labels, v)
			}
			served[labels[0]] = d
		}, e, readings)
		if len(served) != len(e.Figures) {
			t.Errorf("%s: %d series of %d figures", e.Name, len(served), len(e.Figures))
		}
		for _, f := range e.Figures {
			want := EngineEvents
			if f.Kind == protocol.Gauge {
				want = EngineState
			}
			if d := served[f.Name]; d != want || string(d.Type) != f.Kind.String() {
				t.Errorf("%s: the %v %s is served as %+v", e.Name, f.Kind, f.Name, d)
			}
		}
	}
	for _, c := range []struct {
		engine, figure string
	}{{"sdur", "pending"}, {"sdur", "leads"}, {"oceanvista", "functors_kept"}, {"spanner", "prepared"}, {"janus", "scc_max"}, {"calvin", "log_position"}} {
		e, _ := engines.Lookup(c.engine)
		if f, _ := e.Figure(c.figure); f.Kind != protocol.Gauge {
			t.Errorf("%s of %s is a %v", c.figure, c.engine, f.Kind)
		}
	}
}
