package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/geobench/geobench/internal/experiment"
	"github.com/geobench/geobench/internal/experiment/experimenttest"
)

func play(t *testing.T, e *experiment.Experiment, o Options) *experiment.Results {
	t.Helper()
	if o.Folder == "" {
		o.Folder = t.TempDir()
	}
	r, err := Play(t.Context(), []*experiment.Experiment{e}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTheSameBytes plays an experiment with one and with two at a time, and compares documents and report.
func TestTheSameBytes(t *testing.T) {
	var reports [][]byte
	var files []map[string]string
	for _, parallel := range []int{1, 2} {
		e := experimenttest.MustRead(t, experimenttest.Small)
		folder := t.TempDir()
		b, err := json.Marshal(experiment.NewReport([]*experiment.Experiment{e}, play(t, e, Options{Folder: folder, Parallel: parallel})))
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, b)
		files = append(files, contents(t, folder))
	}
	if !bytes.Equal(reports[0], reports[1]) {
		t.Errorf("two reports:\n%s\n%s", reports[0], reports[1])
	}
	if len(files[0]) != 4 {
		t.Errorf("%d documents, want 4", len(files[0]))
	}
	for name, text := range files[0] {
		if files[1][name] != text {
			t.Errorf("%s differs", name)
		}
	}
}

func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		b, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name()] = string(b)
	}
	return out
}

func TestResume(t *testing.T) {
	e := experimenttest.MustRead(t, experimenttest.Small)
	folder := t.TempDir()
	// The first attempt is interrupted after one run.
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Play(ctx, []*experiment.Experiment{e}, Options{Folder: folder, Parallel: 1, Report: func(p Progress) {
		if p.Event == Ended {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted experiment ended with %v", err)
	}
	if n := len(contents(t, folder)); n != 1 {
		t.Fatalf("%d documents are there after the interruption, want 1", n)
	}
	var last Progress
	count := func(p Progress) { last = p }
	play(t, e, Options{Folder: folder, Report: count})
	if last.Done != 4 || last.Kept != 1 {
		t.Errorf("the second attempt: %+v, want 4 done, 1 of them kept", last)
	}
	before := contents(t, folder)
	first := play(t, e, Options{Folder: folder, Report: count})
	if last.Done != 4 || last.Kept != 4 {
		t.Errorf("the third attempt: %+v, want all 4 kept", last)
	}
	if got := e.Judge(first)[0]; !got.Holds {
		t.Errorf("the claim over kept results: %+v", got)
	}
	// A broken document is made again; other values keep what is still asked for.
	for name := range before {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		break
	}
	play(t, e, Options{Folder: folder, Report: count})
	if last.Kept != 3 {
		t.Errorf("with a broken document: %+v, want 3 kept", last)
	}
	for name, text := range contents(t, folder) {
		if before[name] != text {
			t.Errorf("%s is not as before", name)
		}
	}
	play(t, experimenttest.MustRead(t, experimenttest.Replaced(t, "values: [2, 4]", "values: [4, 3, 2]")), Options{Folder: folder, Report: count})
	if last.Done != 6 || last.Kept != 4 {
		t.Errorf("with a value more: %+v, want 6 done, 4 of them kept", last)
	}
}

func TestRealTime(t *testing.T) {
	e := experimenttest.MustRead(t, experimenttest.Replaced(t, "values: [2, 4]", "values: [2]", "rtt: 100ms", "rtt: 30ms"))
	r := play(t, e, Options{RealTime: true, Parallel: 8})
	d, err := r.Document(e.Runs()[0])
	if err != nil {
		t.Fatal(err)
	}
	if d.Simulated || r.Simulated {
		t.Error("a run in real time says that it is simulated")
	}
}
