package experiment

import (
	"math"
	"strings"
	"testing"
)

// The expected figures were computed by hand from equation 3 of Dike.
func TestScalability(t *testing.T) {
	tests := map[string]struct {
		throughputs, nodes, want []float64
		wrong                    string
	}{
		"linear":                  {throughputs: []float64{300, 600}, nodes: []float64{3, 6}, want: []float64{1}},
		"a node loses a fifth":    {throughputs: []float64{300, 480}, nodes: []float64{3, 6}, want: []float64{0.75}}, // 100 and 80: 1 - 20/80
		"a node gains a quarter":  {throughputs: []float64{300, 750}, nodes: []float64{3, 6}, want: []float64{0.8}},  // 100 and 125: 1 - 25/125
		"nothing gained by nodes": {throughputs: []float64{300, 300}, nodes: []float64{3, 9}, want: []float64{-1}},   // 100 and 33.3: 1 - 66.7/33.3
		"each step":               {throughputs: []float64{100, 160, 160}, nodes: []float64{1, 2, 4}, want: []float64{0.75, 0}},
		"nothing before":          {throughputs: []float64{0, 100}, nodes: []float64{1, 2}, want: []float64{0}},
		"nothing after":           {throughputs: []float64{100, 0}, nodes: []float64{1, 2}, wrong: "size 2 has no throughput"},
		"unlike lengths":          {throughputs: []float64{100}, nodes: []float64{1, 2}, wrong: "1 throughputs and 2 sizes"},
		"one size":                {throughputs: []float64{100}, nodes: []float64{1}, wrong: "two at least"},
		"no nodes":                {throughputs: []float64{100, 200}, nodes: []float64{0, 2}, wrong: "size 0 is not greater than 0"},
		"the larger first":        {throughputs: []float64{200, 100}, nodes: []float64{2, 1}, wrong: "size 1 follows 2; sizes must grow"},
		"the same size":           {throughputs: []float64{200, 100}, nodes: []float64{2, 2}, wrong: "size 2 follows 2; sizes must grow"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := scalability(tc.throughputs, tc.nodes)
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Fatalf("%v, error %v, want %q", got, err, tc.wrong)
				}
				return
			}
			if err != nil || len(got) != len(tc.want) {
				t.Fatalf("%v, error %v, want %v", got, err, tc.want)
			}
			for i := range got {
				if math.Abs(got[i]-tc.want[i]) > 1e-9 {
					t.Errorf("%v, want %v", got, tc.want)
				}
			}
		})
	}
}
