package run

import (
	"testing"
	"time"
)

func TestClocksOfSeveralMachines(t *testing.T) {
	type clock struct {
		machine       string
		ahead, within time.Duration
	}
	for name, tt := range map[string]struct {
		clocks []clock
		want   time.Duration
	}{
		"one machine":      {[]clock{{"a", 5, 1000}, {"a", -5, 1000}}, 0},
		"two":              {[]clock{{"a", 10 * time.Millisecond, time.Millisecond}, {"b", -4 * time.Millisecond, 2 * time.Millisecond}}, 17*time.Millisecond + clockDrift},
		"no error is told": {[]clock{{"a", 0, 0}, {"b", 0, 0}}, clockDrift},
	} {
		var c clockSpread
		for _, x := range tt.clocks {
			c.add(x.machine, x.ahead, x.within)
		}
		if got := c.bound(); got != tt.want {
			t.Errorf("%s: clocks are %s apart, want %s", name, got, tt.want)
		}
	}
}
