package buggify

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// TestPlan checks that half of the points are disabled in a scenario. All other points fire at the rates of the plan,
// until the time that the plan sets.
func TestPlan(t *testing.T) {
	some := []*Point{New("test.one", "It is rare"), New("test.two", "It is rare, too")}
	on, seeds := 0, 400
	for seed := range uint64(seeds) {
		p := NewPlan(seed, time.Second)
		n := p.Node(1)
		for _, q := range some {
			rate, fired := p.Rate(q), 0
			if rate > 0 {
				on++
			}
			for range 1000 {
				if n.Fires(q, time.Second-1) {
					fired++
				}
			}
			if low, high := rate*10-60, rate*10+60; fired < low || fired > high || rate == 0 && fired > 0 {
				t.Errorf("seed %d: %s has fired %d times of 1000, its rate is %d%%", seed, q.Name, fired, rate)
			}
			if n.Fires(q, time.Second) {
				t.Errorf("seed %d: %s fires when the plan is over", seed, q.Name)
			}
		}
	}
	if share := float64(on) / float64(2*seeds); share < 0.4 || share > 0.6 {
		t.Errorf("%.0f%% of the points are on, want half", 100*share)
	}
}

// The points of a restarted node fire at the same evaluations as before, even if other points are evaluated in between.
// At a different node, they fire at different evaluations.
func TestNodesAnswerAlikeAgain(t *testing.T) {
	q, other := New("test.again", "It is rare"), New("test.other", "It is rare, too")
	differ := false
	for seed := range uint64(50) {
		p := NewPlan(seed, time.Hour)
		first, again, another := p.Node(1), p.Node(1), p.Node(2)
		for range 100 {
			a := first.Fires(q, 0)
			again.Fires(other, 0)
			if a != again.Fires(q, 0) {
				t.Fatalf("seed %d: another answer", seed)
			}
			differ = differ || a != another.Fires(q, 0)
		}
	}
	if !differ {
		t.Error("all nodes do the same")
	}
	if (*Plan)(nil).Node(1).Fires(q, 0) {
		t.Error("without a plan nothing is rare")
	}
	if !Is(q.Mark) {
		t.Error("a point's mark is not known for one")
	}
}

// Every point in the source is named after its package, and evaluated somewhere in that package.
func TestPointsAreAsked(t *testing.T) {
	declared := regexp.MustCompile(`(?m)(\w+)\s+= buggify\.New(?:Replaced)?\("([a-z]+)\.[a-z0-9-]+", "[A-Z][^"]*[^".]"\)`)
	asked := regexp.MustCompile(`\.(?:Buggify|Fires)\((\w+)[,)]`)
	found := 0
	err := filepath.WalkDir("../..", func(dir string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || filepath.Base(dir) == "buggify" {
			return err
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return err
		}
		points, calls := map[string]string{}, map[string]bool{}
		for _, f := range files {
			source, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
				points[m[1]] = m[2]
			}
			for _, m := range asked.FindAllStringSubmatch(string(source), -1) {
				calls[m[1]] = true
			}
		}
		for name, part := range points {
			found++
			if !calls[name] {
				t.Errorf("%s: nobody asks for %s", dir, name)
			}
			if part != filepath.Base(dir) {
				t.Errorf("%s: %s is named after %s", dir, name, part)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 20 {
		t.Errorf("there are %d points", found)
	}
}
