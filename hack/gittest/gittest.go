// Package gittest prepares tests that run git in a repository of their own.
package gittest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Isolate makes git ignore the user's configuration. If a git hook runs the tests, it also makes git ignore the hook's
// repository. It skips the test if git is not installed.
func Isolate(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "GIT_") {
			t.Setenv(name, "") // so that the variable is restored at the end of the test
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
}
