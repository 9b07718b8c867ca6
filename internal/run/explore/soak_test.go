package explore

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/calvin"
)

// The shards of a sequence of seeds contain each seed exactly once.
func TestShards(t *testing.T) {
	for _, s := range []Seeds{{First: 1, Count: 100}, {First: 7, Count: 3}, {First: 1, Count: 1}, {First: 5, Count: 20, Step: 3}} {
		for _, n := range []uint64{1, 2, 3, 16} {
			found := map[uint64]int{}
			for i := range n {
				shard := s.Shard(i, n)
				for j := range shard.Count {
					found[shard.at(j)]++
				}
			}
			for j := range s.Count {
				if found[s.at(j)] != 1 {
					t.Errorf("%v in %d shards: seed %d is run %d times", s, n, s.at(j), found[s.at(j)])
				}
			}
			if len(found) != int(s.Count) {
				t.Errorf("%v in %d shards are %d seeds", s, n, len(found))
			}
		}
	}
	for want, s := range map[string]Seeds{
		"no seeds": {First: 4}, "seeds 4 to 6": {First: 4, Count: 3}, "seed 4": {First: 4, Count: 1, Step: 9}, "seeds 4, 6, ... to 12": {First: 4, Count: 5, Step: 2},
	} {
		if s.String() != want {
			t.Errorf("%+v is called %q, not %q", s, s, want)
		}
	}
}

// An exploration that is stopped and resumed has the same results as an uninterrupted exploration. Only the exploration
// that created a progress file can be resumed from it.
func TestProgress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	seeds := Seeds{First: 3, Count: 12, Step: 2}
	open := func() *Progress {
		t.Helper()
		p, err := OpenProgress(path, "v1", "usual", seeds)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	whole := Soak(t.Context(), Config{Engine: calvin.Engine}, seeds, nil)
	for _, stop := range []int{1, 6, 100} {
		ctx, cancel := context.WithCancel(t.Context())
		p, told := open(), 0
		Soak(ctx, Config{Engine: calvin.Engine}, seeds.After(p.Of("calvin").Seeds.Count), func(r *Result) {
			if p.Add(r); told == stop {
				cancel()
			}
			told++
		})
		cancel()
		if err := p.Save(); err != nil {
			t.Fatal(err)
		}
	}
	if got := open().Of("calvin"); *got != whole {
		t.Errorf("stopped twice: %v\nat once: %v", got, &whole)
	}
	if got := open().Of("janus").Seeds.Count; got != 0 {
		t.Errorf("%d seeds of janus have been run", got)
	}
	for want, other := range map[string]func() (*Progress, error){
		`its build is "v1", not "v2"`:                       func() (*Progress, error) { return OpenProgress(path, "v2", "usual", seeds) },
		`its scenarios are "usual", not "hostile"`:          func() (*Progress, error) { return OpenProgress(path, "v1", "hostile", seeds) },
		`its seeds are "seeds 3, 5, ... to 25", not "seeds`: func() (*Progress, error) { return OpenProgress(path, "v1", "usual", Seeds{First: 3, Count: 12}) },
	} {
		if _, err := other(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is no error: %v", want, err)
		}
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenProgress(path, "v1", "usual", seeds); err == nil || !strings.Contains(err.Error(), "is not the progress of an exploration") {
		t.Errorf("half a file: %v", err)
	}
}

// The summary states the smallest seed that fails, even if a larger failing seed finished before it.
func TestLeastSeedIsNamed(t *testing.T) {
	c := configOf(t, "janus-without-read-write-edges", 0)
	sum := Soak(t.Context(), c, Seeds{First: 2, Count: 10}, nil)
	if sum.Least != 4 || !strings.Contains(sum.String(), " failed, the least of them 4") {
		t.Error(&sum)
	}
}
