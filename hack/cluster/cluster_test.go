package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestWithin(t *testing.T) {
	for name, tc := range map[string]struct {
		path, dir string
		want      bool
	}{
		"itself":        {"/a/b", "/a/b", true},
		"below":         {"/a/b/c", "/a/b", true},
		"sibling":       {"/a/bc", "/a/b", false},
		"above":         {"/a", "/a/b", false},
		"below the top": {"/a", "/", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := within(tc.path, tc.dir); got != tc.want {
				t.Errorf("within(%q, %q) = %v, want %v", tc.path, tc.dir, got, tc.want)
			}
		})
	}
}

func TestRealPathResolvesLinksOfThePartThatExists(t *testing.T) {
	dir := realPath(t.TempDir())
	if err := os.Mkdir(filepath.Join(dir, "target"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	got, want := realPath(filepath.Join(dir, "link", "not", "there")), filepath.Join(dir, "target", "not", "there")
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The version in the table and the version in go.mod must be equal. The table's version is the name of the cache
// folder, and the version in go.mod is built.
func TestVersionsMatchThePinningModules(t *testing.T) {
	required := map[string]string{
		"etcd": "go.etcd.io/etcd/server/v3", "kubernetes": "k8s.io/kubernetes",
		"containerd": "github.com/containerd/containerd/v2", "coredns": "github.com/coredns/coredns",
	}
	for _, s := range sources {
		module, pinned := required[s.name]
		if !pinned {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(s.module, "go.mod"))
			if err != nil {
				t.Fatal(err)
			}
			want := regexp.MustCompile(`(?m)^(require)?\s*` + regexp.QuoteMeta(module+" "+s.version) + `$`)
			if !want.Match(b) {
				t.Errorf("%s/go.mod does not require %s %s", s.module, module, s.version)
			}
		})
	}
}

func TestProgramsAreNamed(t *testing.T) {
	got := map[string]bool{}
	for _, s := range sources {
		for _, pkg := range s.builds {
			got[s.name+"/"+s.program(pkg)] = true
		}
	}
	for _, want := range []string{
		"etcd/etcd", "kubernetes/kube-apiserver", "kubernetes/kubectl", "containerd/ctr", "coredns/coredns", "pause/pause",
	} {
		if !got[want] {
			t.Errorf("no source builds %s; there are %v", want, got)
		}
	}
}
