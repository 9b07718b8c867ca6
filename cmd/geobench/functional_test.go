package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// The results of functional tests are printed and saved whatever the outcome of the run that follows. Messages about
// the run do not refer to its tests.
func TestFunctionalTestsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../experiments/quickstart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifests := filepath.Join(t.TempDir(), "run.yaml")
	withTests := strings.Replace(string(text), "  verify:", "  functionalTests: [GlobalDeadlock, GlobalSnapshot]\n  verify:", 1)
	if err := os.WriteFile(manifests, []byte(withTests), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		// ends maps the runs that do not pass to their outcomes.
		ends      map[string]string
		kept      []string
		code      int
		says, not string
	}{
		"all pass":           {nil, []string{"quickstart-deadlock", "quickstart-snapshot", "quickstart"}, 0, "", ""},
		"one test fails":     {map[string]string{"quickstart-snapshot": "fails"}, []string{"quickstart-deadlock", "quickstart-snapshot"}, exit.Failed, "BenchmarkRun quickstart was not begun", ""},
		"the run breaks":     {map[string]string{"quickstart": "breaks"}, []string{"quickstart-deadlock", "quickstart-snapshot"}, exit.Broken, "BenchmarkRun quickstart: it broke", ""},
		"it is interrupted":  {map[string]string{"quickstart": "interrupted"}, []string{"quickstart-deadlock", "quickstart-snapshot"}, exit.Interrupted, "BenchmarkRun quickstart had measured nothing yet", "partial result"},
		"a test is stopped":  {map[string]string{"quickstart-snapshot": "interrupted"}, []string{"quickstart-deadlock"}, exit.Interrupted, "BenchmarkRun quickstart had measured nothing yet", "partial result"},
		"the first one is":   {map[string]string{"quickstart-deadlock": "interrupted"}, nil, exit.Interrupted, "BenchmarkRun quickstart had measured nothing yet", "partial result"},
		"a test cannot play": {map[string]string{"quickstart-deadlock": "breaks"}, nil, exit.Broken, "functional test quickstart-deadlock: it broke", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			cmd := newPlanCommand(&cobra.Command{Use: "play", SilenceErrors: true, SilenceUsage: true}, check.Simulator(nil),
				func(_ context.Context, p *plan.Plan, _ inprocess.Report) (*result.Document, error) {
					d := &result.Document{Name: p.Run.Name, Verdict: v1alpha1.VerdictPassed}
					switch tc.ends[p.Run.Name] {
					case "fails":
						d.Verdict, d.Reasons = v1alpha1.VerdictFailed, []result.Reason{{Reason: result.ReasonCheckFailed, Message: "balances differ"}}
					case "breaks":
						return nil, errors.New("it broke")
					case "interrupted":
						stop()
						return nil, context.Canceled
					}
					return d, nil
				})
			save := t.TempDir()
			cmd.SetArgs([]string{"-q", "-o", "json", "--save", save, "-f", manifests})
			cmd.SetOut(&bytes.Buffer{})
			cmd.SetErr(&bytes.Buffer{})
			err := cmd.ExecuteContext(ctx)
			code, said := 0, ""
			if err != nil {
				code, said = exit.Broken, err.Error()
				if coded := (*codedError)(nil); errors.As(err, &coded) {
					code = coded.code
				}
			}
			if code != tc.code || !strings.Contains(said, tc.says) || tc.not != "" && strings.Contains(said, tc.not) {
				t.Errorf("exit code %d, %q; want %d, %q", code, said, tc.code, tc.says)
			}
			files, err := os.ReadDir(save)
			if err != nil || len(files) != len(tc.kept) {
				t.Errorf("%v are kept (%v), want %v", files, err, tc.kept)
			}
			for _, name := range tc.kept {
				if _, err := os.Stat(filepath.Join(save, name+".json")); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
