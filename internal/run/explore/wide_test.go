package explore

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/oceanvista"
)

// Every engine passes all checks with parameters from their whole ranges, clients that retry, small thresholds and
// second runs.
func TestWide(t *testing.T) {
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			sum := Soak(t.Context(), Config{Engine: e, Wide: true}, Seeds{First: 1, Count: 5}, func(r *Result) {
				if !r.Passed() {
					t.Error(r)
				}
			})
			if t.Log(&sum); sum.Committed < 20 {
				t.Errorf("little was explored: %v", &sum)
			}
		})
	}
}

// With small thresholds, a node can lag permanently. Such a node must count as lost, because these scenarios would not
// finish otherwise.
func TestStragglers(t *testing.T) {
	for name, c := range map[string]Config{
		"a member of the group lacks entries":           {Seed: 50, Hostile: true, Buggify: true},
		"a new incarnation has joined without knowing":  {Seed: 24, Replace: true, Buggify: true},
		"the other partitions of its copy wait for it":  {Seed: 386, Hostile: true},
		"the group gives up two that were cut off":      {Seed: 193, Hostile: true, Slow: true},
		"the next run begins without it, and is longer": {Seed: 235, Replace: true, Buggify: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.Engine, c.Wide = oceanvista.Engine, true
			r := Run(c)
			if !r.Passed() || r.Stragglers == 0 {
				t.Errorf("%d stragglers: %v", r.Stragglers, r)
			}
		})
	}
}

// A scenario that uses too much memory is stopped and reported.
func TestBloated(t *testing.T) {
	e, _ := engines.Lookup("calvin")
	r := Run(Config{Engine: e, Seed: 1, MaxBytes: 1})
	if !r.Has(Bloated) || len(r.Problems) != 1 {
		t.Error(r)
	}
}

// Wide scenarios that failed with earlier versions of the engines pass.
func TestWideThatFailed(t *testing.T) {
	for _, tc := range []struct {
		what, engine string
		c            Config
	}{
		{"an id came again before the resolver had heard that its first transaction had ended", "detock", Config{Seed: 99}},
		{"gossip each millisecond and a timeout of minutes took more events than a scenario may have", "oceanvista",
			Config{Seed: 1153, Hostile: true, Buggify: true}},
		{"a second run sent ids whose first transactions had no answer yet", "oceanvista",
			Config{Seed: 1652, Hostile: true, Buggify: true}},
		{"a replica lacked a batch that all others had discarded", "minerva", Config{Seed: 324, Checkpoints: true}},
		{"replicas lacked batches that the others had discarded", "minerva", Config{Seed: 291, Hostile: true, Buggify: true}},
		{"a new incarnation lacked a batch that the others had discarded", "minerva", Config{Seed: 155, Replace: true, Buggify: true}},
		{"replicas gave up on a batch that disconnected replicas had", "minerva", Config{Seed: 1000875, Hostile: true, Buggify: true}},
		{"replicas believed a replica that was behind", "minerva", Config{Seed: 1002531, Hostile: true, Buggify: true}},
	} {
		t.Run(fmt.Sprintf("%s %d", tc.engine, tc.c.Seed), func(t *testing.T) {
			tc.c.Engine, _ = engines.Lookup(tc.engine)
			tc.c.Wide = true
			if r := Run(tc.c); !r.Passed() {
				t.Errorf("%s:\n%v", tc.what, r)
			}
		})
	}
}

// Wide scenarios contain all documented variations, and parameters from their whole ranges.
func TestWorldsThatAreWide(t *testing.T) {
	e, _ := engines.Lookup("sunstorm")
	seen := map[string]int{}
	for seed := range uint64(300) {
		w := worldOf(t, Config{Engine: e, Seed: seed, Wide: true})
		for what, is := range map[string]bool{
			"attempts": w.wide.attempts > 1, "shrink": w.wide.shrink > 0, "padding": w.wide.padding > 0, "again": w.wide.again, "plain": w.wide.plain, "pairs": w.load.pairs,
			"many rows": w.load.rows > 12,
			"short lag": w.params.Duration("copyLag") > 0 && w.params.Duration("copyLag") < time.Millisecond, "long lag": w.params.Duration("copyLag") > 4*time.Second,
			"large pages": w.params.Int("keysPerPage") > 1000,
		} {
			if is {
				seen[what]++
			}
		}
		if bytes := w.wide.padding * w.wide.paddingBytes; bytes > mostPadding {
			t.Errorf("seed %d: %d bytes of rows that nobody uses", seed, bytes)
		}
	}
	for _, what := range []string{"attempts", "shrink", "padding", "again", "plain", "pairs", "many rows", "short lag", "long lag", "large pages"} {
		if seen[what] < 10 {
			t.Errorf("%d of 300 scenarios have %s", seen[what], what)
		}
	}
}

// Drawn values are within the bounds of their parameters, and some are close to each bound.
func TestWideParameters(t *testing.T) {
	r := newRNG(1, streamWide)
	duration := protocol.Parameter{Name: "d", Default: "1s", Min: time.Millisecond, Max: time.Minute}
	number := protocol.Parameter{Name: "n", Default: "5", Integer: true, MinInt: 1, MaxInt: 1 << 20}
	least, most, low, high := time.Hour, time.Duration(0), int64(1<<62), int64(0)
	for range 2000 {
		text := wideParam(duration, r)
		if err := duration.Check(text); err != nil {
			t.Fatal(err)
		}
		d, _ := time.ParseDuration(text)
		least, most = min(least, d), max(most, d)
		text = wideParam(number, r)
		if err := number.Check(text); err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.ParseInt(text, 10, 64)
		low, high = min(low, n), max(high, n)
	}
	// If the range contains only two values, both of them are drawn, and no others.
	two, drawn := protocol.Parameter{Name: "two", Default: "1", Integer: true, MinInt: 1, MaxInt: 2}, map[string]int{}
	for range 100 {
		drawn[wideParam(two, r)]++
	}
	if drawn["1"] == 0 || drawn["2"] == 0 || len(drawn) != 2 {
		t.Errorf("of 1 and 2 were drawn %v", drawn)
	}
	if least != time.Millisecond || most < 50*time.Second || low != 1 || high < 900_000 {
		t.Errorf("durations from %v to %v, integers from %d to %d", least, most, low, high)
	}
}
