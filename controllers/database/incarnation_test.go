package database

import (
	"testing"
	"time"
)

func TestLossBackoff(t *testing.T) {
	now := time.Now()
	i := &Incarnation{born: now}
	want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second}
	for n, d := range want {
		if i.lossDelay() != d {
			t.Errorf("after %d losses: %s, want %s", n, i.lossDelay(), d)
		}
		i.losses = i.lossesAt(now.Add(time.Minute))
	}
	i.losses = 1000
	if i.lossDelay() != lossBackoffMax {
		t.Errorf("after many losses: %s", i.lossDelay())
	}
	if n := i.lossesAt(now.Add(time.Hour)); n != 0 {
		t.Errorf("%d losses are remembered for ever", n)
	}
}
