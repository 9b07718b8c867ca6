package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geobench/geobench/hack/gittest"
)

func TestCheck(t *testing.T) {
	at := func(n int) string { return "spanner: keep " + strings.Repeat("ä", n-len("spanner: keep ")) }
	for subject, want := range map[string]string{
		"spanner: keep locks of the predecessor apart": "",
		"target/mysql: wait until Galera has it":       "",
		"spanner, sdur: test every field":              "",
		".ci: check subjects":                          "",
		"go.mod: seed the cache":                       "",
		"wan: process packets in one pass":             "",
		"wan: bypass, then address":                    "",
		at(72):                                         "",
		at(73):                                         "73 characters, at most 72",
		"":                                             "no package",
		"Keep locks of the predecessor apart":          "no package",
		"Spanner: keep locks":                          "no package",
		"spanner:keep locks":                           "no package",
		"spanner : keep locks":                         "no package",
		"spanner: ":                                    "no package",
		"the locks of spanner: keep them":              "no package",
		`Revert "spanner: keep locks"`:                 "no package",
		"fixup! spanner: keep locks":                   "no package",
		"spanner: Keep locks":                          "upper case",
		"spanner: keeps locks":                         `"keeps" is no imperative`,
		"spanner: kept, fixed":                         "",
		"spanner: fixed locks":                         `"fixed" is no imperative`,
		"spanner: fixing locks":                        `"fixing" is no imperative`,
		"spanner: the locks are kept":                  `"the" is no verb`,
		"spanner: no locks any more":                   `"no" is no verb`,
		"spanner: new, better locks":                   `"new" is no verb`,
		"spanner: keep locks.":                         "punctuation at the end",
		"spanner: keep locks…":                         "punctuation at the end",
		"Fixed locks.":                                 "no package and colon in front; punctuation at the end",
	} {
		t.Run(subject, func(t *testing.T) {
			err := check(subject)
			if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// history creates a repository with an empty commit for each subject. It returns the repository's folder and a function
// that runs git in it.
func history(t *testing.T, subjects ...string) (dir string, git func(args ...string)) {
	t.Helper()
	gittest.Isolate(t)
	dir = t.TempDir()
	git = func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.email=test@example.com", "-c", "user.name=Test"}, args...)
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	for _, s := range subjects {
		git("commit", "-q", "--allow-empty", "-m", s)
	}
	return dir, git
}

// run returns the output of the command, or its error.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := command(t.Context(), dir, args, &out); err != nil {
		return "error: " + err.Error()
	}
	return out.String()
}

func TestNewCommits(t *testing.T) {
	dir, git := history(t, "Old ways", "wan: drop packets")
	if got := run(t, dir); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, `"Old ways": no package`) {
		t.Errorf("without origin/main: got %s, want the error of the first commit", got)
	}
	git("update-ref", "refs/remotes/origin/main", "HEAD~1")
	if got := run(t, dir); !strings.HasPrefix(got, "1 commit subjects after ") {
		t.Errorf("after origin/main: got %s, want one right subject", got)
	}
	git("commit", "-q", "--allow-empty", "-m", "wan: drops packets\n\nThe body. Has full stops.")
	got := run(t, dir)
	if !strings.Contains(got, `"wan: drops packets": "drops" is no imperative`) || strings.Contains(got, "Old ways") {
		t.Errorf("after a wrong commit: got %s, want its error alone", got)
	}
	git("update-ref", "refs/remotes/origin/main", "HEAD")
	if got := run(t, dir); !strings.Contains(got, "drops packets") || !strings.Contains(got, "Old ways") {
		t.Errorf("where origin/main is HEAD: got %s, want the errors of recent commits", got)
	}
}

func TestMergesAreExempt(t *testing.T) {
	dir, git := history(t, "wan: drop packets")
	git("checkout", "-q", "-b", "other")
	git("commit", "-q", "--allow-empty", "-m", "wan: drop more packets")
	git("checkout", "-q", "main")
	git("merge", "-q", "--no-ff", "other", "-m", "Merge branch 'other'")
	if got := run(t, dir); !strings.HasPrefix(got, "2 commit subjects") {
		t.Errorf("got %s, want two right subjects", got)
	}
}

// Commits that are older than the rule are not checked.
func TestCommitsBeforeTheRule(t *testing.T) {
	dir, git := history(t, "Old ways")
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(self)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, self), []byte("package main\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", self)
	git("commit", "-q", "-m", "ci: check subjects")
	git("commit", "-q", "--allow-empty", "-m", "wan: drop packets")
	if got := run(t, dir); !strings.HasPrefix(got, "1 commit subjects") {
		t.Errorf("got %s, want one right subject", got)
	}
}

func TestLastCommitsOnly(t *testing.T) {
	subjects := []string{"Old ways"}
	for i := range recent {
		subjects = append(subjects, fmt.Sprintf("wan: drop %d packets", i))
	}
	dir, _ := history(t, subjects...)
	if got := run(t, dir); !strings.HasPrefix(got, "50 commit subjects") {
		t.Errorf("got %s, want 50 right subjects", got)
	}
}

func TestShallowClone(t *testing.T) {
	dir, git := history(t, "Old ways", "wan: drop packets", "wan: drop more packets")
	clone := filepath.Join(t.TempDir(), "clone")
	git("clone", "-q", "--depth", "2", "file://"+dir, clone)
	if got := run(t, clone); !strings.HasPrefix(got, "2 commit subjects") {
		t.Errorf("got %s, want two right subjects", got)
	}
}

func TestNoHistory(t *testing.T) {
	dir, _ := history(t)
	if got := run(t, dir); !strings.Contains(got, "no commit subjects to check") {
		t.Errorf("without commits: got %s", got)
	}
	if got := run(t, t.TempDir()); !strings.Contains(got, "no commit subjects to check") {
		t.Errorf("without a repository: got %s", got)
	}
	t.Setenv("PATH", "")
	if got := run(t, dir); !strings.Contains(got, "no commit subjects to check") {
		t.Errorf("without git: got %s", got)
	}
}

func TestMessageFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "COMMIT_EDITMSG")
	for message, want := range map[string]string{
		"wan: drop packets\n\nBody.\n":              "",
		"# remark\n\nwan: drop packets\n# remark\n": "",
		"Drop packets\n":                            "error: \"Drop packets\": no package",
		"# remark\n":                                "error: \"\": no package",
	} {
		if err := os.WriteFile(file, []byte(message), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := run(t, ".", file); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: got %q, want %q", message, got, want)
		}
	}
	if got := run(t, ".", file+".none"); !strings.HasPrefix(got, "error: open ") {
		t.Errorf("no file: got %s", got)
	}
}
