package invariant

import (
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

var (
	grows = New("test.grows", "a figure grows")
	same  = New("test.same", "all say the same")
)

func checker() *Checker {
	return NewChecker("toy", &geo.Topology{Regions: []string{"a", "b"}, Partitions: 1, Replicas: 1})
}

func TestFirstBrokenIsKept(t *testing.T) {
	c := checker()
	c.At(1, time.Second)
	c.Grows(grows, "log", 5)
	c.Grows(grows, "log", 5)
	c.Agree(same, "term 3", geo.NodeID(1))
	c.At(0, 2*time.Second)
	c.Grows(grows, "log", 4) // value of another node
	c.Agree(same, "term 3", geo.NodeID(1))
	if b := c.Broken(); b != nil {
		t.Fatalf("nothing is wrong, but %v", b)
	}
	c.At(1, 3*time.Second)
	c.Grows(grows, "log", 4)
	c.Agree(same, "term 3", geo.NodeID(0))
	if got, want := c.Broken().String(), "b/0/0 of toy at 3s breaks test.grows (a figure grows): log was 5 and is 4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNodesDisagree(t *testing.T) {
	c := checker()
	c.At(0, 0)
	c.Agree(same, "term 3", 1)
	c.At(1, time.Second)
	c.Agree(same, "term 3", 2)
	if b := c.Broken(); b == nil || b.Invariant != same || !strings.HasSuffix(b.String(), "term 3 is 2 here, and was 1 on a/0/0") {
		t.Errorf("%v", b)
	}
}

// TestForget checks that facts reported by a single node are dropped when that node restarts. Facts that another node
// has confirmed remain.
func TestForget(t *testing.T) {
	c := checker()
	c.Grows(grows, "log", 5)
	c.Agree(same, 1, "alone")
	c.Agree(same, 2, "shared")
	c.At(1, 0)
	c.Agree(same, 2, "shared")
	c.Forget(0)
	c.At(0, 0)
	c.Grows(grows, "log", 3)
	c.Agree(same, 1, "otherwise")
	if c.Broken() != nil {
		t.Error(c.Broken())
	}
	c.Agree(same, 2, "otherwise")
	if c.Broken() == nil {
		t.Error("what another node has heard was forgotten")
	}
}

func TestNames(t *testing.T) {
	for name, doc := range map[string]string{"": "d", "nodot": "d", "a.b": "", "a.c": "two\nlines", "test.same": "taken"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q (%q) was registered", name, doc)
				}
			}()
			New(name, doc)
		}()
	}
}
