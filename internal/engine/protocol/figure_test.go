package protocol

import (
	"maps"
	"strings"
	"testing"
)

var figureEngine = &Engine{Name: "e", Figures: []Figure{
	{Name: "done", Kind: Counter}, {Name: "open", Kind: Gauge}, {Name: "sometimes", Kind: Counter},
}}

// FigureWatch accepts all valid changes of counters and gauges, and refuses all others.
func TestFigureWatch(t *testing.T) {
	readings := func(done, open int64) []Reading { return []Reading{{"done", done}, {"open", open}} }
	for name, tc := range map[string]struct {
		looks [][]Reading
		want  string // substring of the error of the last call of Look; empty for none
	}{
		"counters grow and stay":       {[][]Reading{readings(0, 3), readings(2, 3), readings(2, 4)}, ""},
		"a gauge falls":                {[][]Reading{readings(0, 3), readings(2, 1), readings(2, -1)}, ""},
		"a counter falls":              {[][]Reading{readings(0, 3), readings(2, 3), readings(1, 3)}, "counter done of engine e fell from 2 to 1"},
		"a counter falls below 0":      {[][]Reading{readings(-1, 0)}, "counter done of engine e fell from 0 to -1"},
		"it falls back to 0":           {[][]Reading{readings(1<<40, 0), readings(0, 0)}, "fell from 1099511627776 to 0"},
		"not declared":                 {[][]Reading{{{"done", 0}, {"other", 0}}}, "reports other, which Engine.Figures does not declare"},
		"another name later":           {[][]Reading{readings(0, 0), {{"done", 0}, {"sometimes", 0}}}, "figure 2 of a replica of engine e is sometimes, and was open before"},
		"another order later":          {[][]Reading{readings(0, 0), {{"open", 0}, {"done", 0}}}, "figure 1 of a replica of engine e is open"},
		"one more later":               {[][]Reading{readings(0, 0), append(readings(0, 0), Reading{"sometimes", 1})}, "reports 3 figures, and reported 2 before"},
		"twice":                        {[][]Reading{{{"done", 0}, {"done", 0}}}, "reports done twice"},
		"a figure that is not there":   {[][]Reading{{{"done", 0}}, {{"done", 1}}}, ""},
		"no figures":                   {[][]Reading{nil, nil}, ""},
		"the first look at a late one": {[][]Reading{readings(1000, 7)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewFigureWatch(figureEngine)
			for i, r := range tc.looks {
				err := w.Look(r)
				switch {
				case i < len(tc.looks)-1 || tc.want == "":
					if err != nil {
						t.Errorf("look %d: %v", i+1, err)
					}
				case err == nil || !strings.Contains(err.Error(), tc.want):
					t.Errorf("%v, want %s", err, tc.want)
				}
			}
		})
	}
}

// Declarations distinguish counters from gauges. An undeclared reading is neither.
func TestByKind(t *testing.T) {
	counters, gauges := figureEngine.ByKind([]Reading{{"done", 5}, {"open", 2}, {"other", 7}})
	if !maps.Equal(counters, map[string]int64{"done": 5}) || !maps.Equal(gauges, map[string]int64{"open": 2}) {
		t.Errorf("counters %v, gauges %v", counters, gauges)
	}
}
