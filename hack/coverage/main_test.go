package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A block that is in a profile several times counts once, as executed if any entry is. Blocks that were not executed
// are listed by function.
func TestTable(t *testing.T) {
	t.Chdir("../..")
	profile := filepath.Join(t.TempDir(), "profile")
	line := func(file, rest string) string { return module + "internal/base/queue/" + file + ":" + rest + "\n" }
	text := "mode: set\n" + line("fifo.go", "13.30,13.60 1 1") + line("fifo.go", "16.30,16.60 3 0") + line("fifo.go", "16.30,16.60 3 0") + line("fifo.go", "13.30,13.60 1 0") +
		module + "internal/engine/protocol/coco/broken.go:1.1,2.2 5 0\n"
	if err := os.WriteFile(profile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := command(profile, &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "| `base/fifo` | 4 | 25.0% |\n") || !strings.Contains(got, "internal/base/queue/fifo.go Push [16]\n") || strings.Contains(got, "coco") {
		t.Error(got)
	}
	for _, wrong := range []string{"", "mode: set\n", "mode: set\nnonsense\n", "mode: set\nfile:1.2,3.4 x y\n"} {
		if err := os.WriteFile(profile, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := command(profile, &out); err == nil {
			t.Errorf("%q is taken for a profile", wrong)
		}
	}
}
