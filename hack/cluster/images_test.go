package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// buildProgram compiles a small program for linux/amd64 and returns its path.
func buildProgram(t *testing.T, flags ...string) string {
	t.Helper()
	return buildProgramFor(t, "amd64", flags...)
}

func buildProgramFor(t *testing.T, arch string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "hello")
	cmd := exec.Command("go", slices.Concat([]string{"build"}, flags, []string{"-o", program, source})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func TestImageIsReproducible(t *testing.T) {
	program := buildProgram(t)
	spec := imageSpec{name: "localhost/hello:dev", binary: program, user: nonroot, workdir: "/"}
	var archives [2][]byte
	for i := range archives {
		out := filepath.Join(t.TempDir(), "image.tar")
		if err := writeImage(spec, out); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = b
		later := time.Now().Add(time.Hour)
		if err := os.Chtimes(program, later, later); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of one program differ")
	}
}

func TestImageContent(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image.tar")
	spec := imageSpec{
		name: "localhost/hello:dev", binary: buildProgram(t), user: "65532:65532", workdir: "/tmp",
		entrypoint: []string{"/hello", "serve"},
	}
	if err := writeImage(spec, out); err != nil {
		t.Fatal(err)
	}
	tags, err := archiveTags(out)
	if err != nil || !slices.Equal(tags, []string{"localhost/hello:dev"}) {
		t.Fatalf("tags %v (%v)", tags, err)
	}
	img, err := tarball.ImageFromPath(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; config.OS != "linux" || config.Architecture != "amd64" || c.User != spec.user ||
		c.WorkingDir != "/tmp" || !slices.Equal(c.Entrypoint, spec.entrypoint) {
		t.Errorf("config %+v", config)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v), want 1", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var names []string
	modes := map[string]int64{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		modes[h.Name] = h.Mode
		if !h.ModTime.Equal(time.Unix(0, 0)) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s carries a time or an owner: %+v", h.Name, h)
		}
		if h.Name == "etc/passwd" {
			b, _ := io.ReadAll(r)
			if !strings.Contains(string(b), "nonroot:x:65532:65532:") {
				t.Errorf("passwd:\n%s", b)
			}
		}
	}
	if want := []string{"etc/", "etc/group", "etc/passwd", "hello", "tmp/"}; !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	if modes["hello"] != 0o755 || modes["tmp/"] != 0o1777 {
		t.Errorf("modes %v", modes)
	}
}

func TestImageOfFolder(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr/bin/sh"), []byte("shell"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("usr/bin", filepath.Join(root, "bin")); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "image.tar")
	spec := imageSpec{name: "localhost/hello:dev", root: root, entrypoint: []string{"/bin/sh"}, env: []string{"PATH=/bin", "A=b"}}
	if err := writeImage(spec, out); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Config.Env, spec.env) || !slices.Equal(config.Config.Entrypoint, spec.entrypoint) {
		t.Errorf("config %+v", config.Config)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v), want 1", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var got []string
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(time.Unix(0, 0)) || h.Uid != 0 {
			t.Errorf("%s carries a time or an owner: %+v", h.Name, h)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join([]string{h.Name, h.Linkname, string(b)}, "|"))
	}
	if want := []string{"bin|usr/bin|", "usr/||", "usr/bin/||", "usr/bin/sh||shell"}; !slices.Equal(got, want) {
		t.Errorf("layer %q, want %q", got, want)
	}
}

func TestImageRefusals(t *testing.T) {
	program := buildProgram(t)
	dynamic := buildProgram(t, "-buildmode=pie") // requires a dynamic linker even without cgo
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ image, binary, want string }{
		"a script":           {"localhost/x:dev", script, "is not a Linux program"},
		"a dynamic program":  {"localhost/x:dev", dynamic, "linked dynamically"},
		"a name without tag": {"localhost/x", program, "write it like"},
	} {
		t.Run(name, func(t *testing.T) {
			err := writeImage(imageSpec{name: tc.image, binary: tc.binary}, filepath.Join(t.TempDir(), "out.tar"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
