package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// The layout has an index with one image for each architecture. It has the same bytes each time.
func TestImageLayout(t *testing.T) {
	programs := []string{buildProgramFor(t, "amd64"), buildProgramFor(t, "arm64")}
	var archives [2][]byte
	var digest string
	for i := range archives {
		out := filepath.Join(t.TempDir(), "layout.tar")
		d, err := writeLayout("registry.example.com/hello:v1", programs, out)
		if err != nil {
			t.Fatal(err)
		}
		digest = d
		if archives[i], err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two layouts of the same programs differ")
	}
	dir := t.TempDir()
	untar := exec.Command("tar", "-x", "-C", dir)
	untar.Stdin = bytes.NewReader(archives[0])
	if said, err := untar.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	root, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%+v (%v), want one index", manifest, err)
	}
	if m := manifest.Manifests[0]; m.Digest.String() != digest || m.Annotations[refName] != "registry.example.com/hello:v1" {
		t.Errorf("%+v, want digest %s and the name", m, digest)
	}
	index, err := root.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := index.IndexManifest()
	if err != nil || len(images.Manifests) != 2 {
		t.Fatalf("%+v (%v), want two images", images, err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		if p := images.Manifests[i].Platform; p.OS != "linux" || p.Architecture != arch {
			t.Errorf("image %d is for %v, want linux/%s", i, p, arch)
		}
		image, err := index.Image(images.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		if config, err := image.ConfigFile(); err != nil || config.Architecture != arch || config.Config.User != nonroot || config.Config.Entrypoint[0] != "/hello" {
			t.Errorf("%s: %+v (%v)", arch, config, err)
		}
	}
}

func TestImageLayoutRefusals(t *testing.T) {
	program := buildProgram(t)
	out := filepath.Join(t.TempDir(), "layout.tar")
	for name, c := range map[string]struct {
		tag      string
		programs []string
		want     string
	}{
		"one architecture twice": {"localhost/hello:v1", []string{program, buildProgram(t)}, "one program per architecture"},
		"no tag":                 {"localhost/hello", []string{program}, "write it like"},
		"no program":             {"localhost/hello:v1", []string{"oci_test.go"}, "is not a Linux program"},
	} {
		if _, err := writeLayout(c.tag, c.programs, out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: a layout was written", name)
		}
	}
}
