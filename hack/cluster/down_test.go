package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDownDeletesOnlyItsOwnFolder(t *testing.T) {
	for name, tc := range map[string]struct {
		entries []string
		owned   bool
	}{
		"empty":                            {nil, true},
		"made by up":                       {[]string{"cluster.json", "run", "something"}, true},
		"partly deleted by hand":           {[]string{"kubelet", "run"}, true},
		"somebody's home":                  {[]string{"run", "thesis.tex"}, false},
		"a folder that only looks like it": {[]string{"etcd", "kubernetes"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Cluster{State: t.TempDir()}
			for _, e := range tc.entries {
				if err := os.WriteFile(filepath.Join(c.State, e), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.checkOwned(); (err == nil) != tc.owned {
				t.Errorf("error %v, want the folder to be ours: %v", err, tc.owned)
			}
		})
	}
	if err := (&Cluster{State: filepath.Join(t.TempDir(), "none")}).checkOwned(); err != nil {
		t.Errorf("no folder at all: %v", err)
	}
}
