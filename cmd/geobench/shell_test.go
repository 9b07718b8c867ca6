//go:build full

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asProgram is the environment variable that makes the test binary act as geobench, so that shells can call it.
const asProgram = "GEOBENCH_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// installed returns a folder with geobench and the names under which kubectl calls it.
func installed(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"geobench", "kubectl-geobench", "kubectl_complete-geobench"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shell runs a program with geobench in its PATH and returns its output.
func shell(t *testing.T, path, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), asProgram+"=1", "HOME="+t.TempDir(), "KUBECONFIG=/nonexistent", "TERM=xterm")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	return string(out)
}

// TestCompletionInShells completes a command, a flag, a value and a file in each installed shell.
func TestCompletionInShells(t *testing.T) {
	path := installed(t)
	lines := map[string]string{
		"geobench simul":               "simulate",
		"geobench run --metr":          "--metrics-address",
		"geobench verify x --output y": "yaml",
		"geobench run -f /etc/passw":   "", // not a manifest
	}
	t.Run("bash", func(t *testing.T) {
		const library = "/usr/share/bash-completion/bash_completion"
		if _, err := os.Stat(library); err != nil {
			t.Skip("bash-completion is not installed")
		}
		for line, want := range lines {
			words := strings.Fields(line)
			script := `compopt() { :; }; source ` + library + `; source <(geobench completion bash)
COMP_WORDS=(` + line + `); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE="` + line + `"; COMP_POINT=${#COMP_LINE}
__start_geobench geobench ` + words[len(words)-1] + ` ` + words[len(words)-2] + `; echo "${COMPREPLY[*]}"`
			if got := strings.TrimSpace(shell(t, path, "bash", "--norc", "-c", script)); got != want {
				t.Errorf("%s<TAB> offers %q, want %q", line, got, want)
			}
		}
	})
	t.Run("zsh", func(t *testing.T) {
		for line, want := range lines {
			if want == "" {
				continue // the completion would not change the line
			}
			words := strings.Fields(line)
			full := strings.TrimSuffix(line, words[len(words)-1]) + want
			// A terminal for zsh. The completed line is printed instead of executed.
			script := `zmodload zsh/zpty
zpty z 'PS1=; exec zsh -f -i'
zpty -w z 'PS1=; autoload -Uz compinit; compinit -u -D; source <(geobench completion zsh); echo rea""dy'
zpty -r z out $'*ready*'
zpty -w -n z $'` + line + `\t; echo do""ne\C-aprint -r -- \n'
zpty -r z out $'*done*'
print -r -- "$out"`
			if got := shell(t, path, "zsh", "-f", "-c", script); !strings.Contains(got, "\n"+full) {
				t.Errorf("%s<TAB> writes %q, which has no line %q", line, got, full)
			}
		}
	})
	t.Run("fish", func(t *testing.T) {
		for line, want := range lines {
			if want == "" {
				continue // fish offers all files
			}
			got := strings.TrimSpace(shell(t, path, "fish", "--no-config", "-c", "geobench completion fish | source; complete -C '"+line+"'"))
			if got, _, _ = strings.Cut(got, "\t"); got != want && !(strings.HasPrefix(want, "--") && strings.HasPrefix(got, want)) {
				t.Errorf("%s<TAB> offers %q, want %q", line, got, want)
			}
		}
	})
	t.Run("kubectl", func(t *testing.T) {
		// kubectl calls this program with the words after "kubectl geobench".
		got := shell(t, path, "kubectl_complete-geobench", "wat")
		if !strings.HasPrefix(got, "watch\t") || !strings.Contains(got, ":4") {
			t.Errorf("kubectl geobench wat<TAB>: %q", got)
		}
	})
}

// TestManualPages writes the manual pages and renders them with the programs that users read them with.
func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := geobench(t, "", "man", dir); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range newRootCommand().Commands() {
		text, err := os.ReadFile(filepath.Join(dir, "geobench-"+c.Name()+".1"))
		if err != nil || !strings.Contains(string(text), ".SH DESCRIPTION") {
			t.Errorf("no page for %s: %v", c.Name(), err)
		}
	}
	path := installed(t)
	for _, page := range pages {
		if out := shell(t, path, "groff", "-man", "-Tutf8", "-ww", "-z", page); out != "" {
			t.Errorf("groff on %s: %s", filepath.Base(page), out)
		}
	}
	text := strings.Join(strings.Fields(shell(t, path, "groff", "-man", "-Tascii", "-P-cbou", filepath.Join(dir, "geobench-run.1"))), " ")
	for _, want := range []string{"GEOBENCH-RUN(1)", "geobench-run - Run manifests in real time", "--metrics-address", "geobench run -f experiments/quickstart.yaml", "SEE ALSO"} {
		if !strings.Contains(text, want) {
			t.Errorf("man geobench-run does not say %q:\n%s", want, text)
		}
	}
}
