// Package gittest prepares tests that run git in a separate repository.
package gittest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Isolate hides the user's git configuration, and the repository of a hook that runs the tests, from git. It skips the
// test if git is not installed.
func Isolate(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "GIT_") {
			t.Setenv(name, "") // restores the variable at the end of the test
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
}
