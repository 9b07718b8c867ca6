package explore

import (
	"regexp"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/primary"
)

// miscounting is a primary that reports its number of pending transactions as the counter commits. The value decreases
// when transactions finish, but a counter must not decrease.
type miscounting struct{ *primary.Replica }

func (m miscounting) Readings(dst []protocol.Reading) []protocol.Reading {
	dst = m.Replica.Readings(dst)
	for i := range dst {
		if dst[i].Name == "commits" {
			dst[i].Value = int64(m.Pending())
		}
	}
	return dst
}

// inventive is a primary that reports an undeclared figure.
type inventive struct{ *primary.Replica }

func (v inventive) Readings(dst []protocol.Reading) []protocol.Reading {
	return append(v.Replica.Readings(dst), protocol.Reading{Name: "wonders", Value: 1})
}

// A decreasing counter and an undeclared reading are different kinds of problems. Every scenario of these engines shows
// the engine's problem, and can be shrunk like scenarios with other problems.
func TestMisreportedFiguresAreTold(t *testing.T) {
	for name, tc := range map[string]struct {
		replica func(*primary.Replica) protocol.Replica
		want    string
	}{
		"a counter falls": {func(r *primary.Replica) protocol.Replica { return miscounting{r} },
			`^figures: node \S+ at \S+: counter commits of engine wrong fell from \d+ to \d+; declare it as a gauge, or count what happened$`},
		"not declared": {func(r *primary.Replica) protocol.Replica { return inventive{r} },
			`^figures: node \S+ at \S+: engine wrong reports wonders, which Engine\.Figures does not declare$`},
	} {
		t.Run(name, func(t *testing.T) {
			e := primary.Engine.Variant("wrong", func(c protocol.Config) protocol.Replica { return tc.replica(primary.Engine.New(c).(*primary.Replica)) })
			r := Run(Config{Engine: e, Seed: 3})
			if !r.Has(Misreported) || len(r.Problems) != 1 {
				t.Fatalf("%v", r)
			}
			if ok, _ := regexp.MatchString(tc.want, r.Problems[0].Text); !ok {
				t.Errorf("%q", r.Problems[0].Text)
			}
			if !strings.Contains(r.String(), "WRONG: figures: ") {
				t.Errorf("%v", r)
			}
		})
	}
}

// No engine reports a figure that contradicts its declaration. This holds even if nodes are lost and replaced, restart
// from logs and checkpoints, or load the rows again.
func TestFiguresOfEngines(t *testing.T) {
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			for seed := range uint64(2) {
				for _, c := range []Config{{}, {Replace: true}, {Checkpoints: true}, {Wide: true}} {
					c.Engine, c.Seed = e, seed+1
					if r := Run(c); r.Has(Misreported) {
						t.Error(r)
					}
				}
			}
		})
	}
}
