package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// An archive depends only on the contents of its files, and not on their order or on the time.
func TestArchivesAreReproducible(t *testing.T) {
	a := file{name: "geobench", mode: 0o755, content: []byte("program")}
	b := file{name: "share/man/man1/geobench.1", mode: 0o644, content: []byte("page")}
	link := file{name: "kubectl-geobench", target: "geobench"}
	for name, pack := range map[string]func([]file) ([]byte, error){"tar": tarball, "zip": zipFile} {
		files, turned := []file{a, b, link}, []file{link, b, a}
		if name == "zip" {
			files, turned = files[:2], turned[1:]
		}
		one, err := pack(files)
		if err != nil {
			t.Fatal(err)
		}
		if two, err := pack(turned); err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s: two orders of files give different archives (%v)", name, err)
		}
	}
	one, err := tarball([]file{link, a})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	eachHeader(t, one, func(h *tar.Header, content []byte) {
		got[h.Name] = h.Linkname + string(content)
		if !h.ModTime.Equal(epoch) || h.Name == "geobench" && h.Mode != 0o755 {
			t.Errorf("%s: time %v, mode %o", h.Name, h.ModTime, h.Mode)
		}
	})
	if got["geobench"] != "program" || got["kubectl-geobench"] != "geobench" {
		t.Errorf("the archive holds %q", got)
	}
	two, err := zipFile([]file{a})
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(two), int64(len(two)))
	if err != nil || len(z.File) != 1 || z.File[0].Mode() != 0o755 {
		t.Errorf("the zip file holds %+v (%v)", z, err)
	}
}

func eachHeader(t *testing.T, archive []byte, do func(*tar.Header, []byte)) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		do(h, content)
	}
}

// The packed chart has the version of the release and the digest of the image, and can be rendered.
func TestReleasedChart(t *testing.T) {
	digest := "sha256:" + strings.Repeat("1a", 32)
	r := &releaser{root: "../..", version: "v0.2.0-rc.1", repository: "registry.example.com/geobench"}
	packed, err := r.chart(digest)
	if err != nil {
		t.Fatal(err)
	}
	var chart struct {
		Version, AppVersion string
		Annotations         map[string]string
	}
	eachHeader(t, packed, func(h *tar.Header, content []byte) {
		if h.Name == "geobench/Chart.yaml" {
			if err := yaml.Unmarshal(content, &chart); err != nil {
				t.Error(err)
			}
		}
	})
	if chart.Version != "0.2.0-rc.1" || chart.AppVersion != "v0.2.0-rc.1" || chart.Annotations["artifacthub.io/prerelease"] != "true" ||
		!strings.Contains(chart.Annotations["artifacthub.io/images"], r.repository+"@"+digest) {
		t.Errorf("Chart.yaml: %+v", chart)
	}
	archive := filepath.Join(t.TempDir(), "geobench.tgz")
	if err := os.WriteFile(archive, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	helm, err := build(context.Background(), r.root, mustTool("helm"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := run(t.Context(), helm, "template", "geobench", archive)
	if err != nil {
		t.Fatal(err)
	}
	if image := "image: " + r.repository + "@" + digest; !strings.Contains(strings.ReplaceAll(string(objects), `"`, ""), image) {
		t.Errorf("no object has %q", image)
	}
}

// The manifest of the kubectl plugin lists each archive with its digest.
func TestKrewManifest(t *testing.T) {
	r := &releaser{version: "v0.1.0", platforms: platforms}
	for _, p := range platforms {
		r.made = append(r.made, artifact{p.archive(r.version), "digest-of-" + p.os + "-" + p.arch})
	}
	var plugin struct {
		Spec struct {
			Version   string
			Platforms []struct {
				Selector struct{ MatchLabels map[string]string }
				URI, Bin string
				SHA256   string `json:"sha256"`
			}
		}
	}
	if err := yaml.UnmarshalStrict(r.krew(), &struct {
		APIVersion, Kind string
		Metadata, Spec   any
	}{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(r.krew(), &plugin); err != nil {
		t.Fatal(err)
	}
	if len(plugin.Spec.Platforms) != len(platforms) || plugin.Spec.Version != "v0.1.0" {
		t.Fatalf("%+v", plugin)
	}
	for i, p := range platforms {
		got := plugin.Spec.Platforms[i]
		if got.Selector.MatchLabels["os"] != p.os || got.SHA256 != "digest-of-"+p.os+"-"+p.arch || !strings.HasSuffix(got.URI, "/v0.1.0/"+p.archive("v0.1.0")) || got.Bin != p.program() {
			t.Errorf("%v: %+v", p, got)
		}
	}
}

// The release notes are the changelog's section of the version.
func TestReleaseNotes(t *testing.T) {
	const text = "# Changelog\n\nIntro.\n\n## v0.2.0 (1 May 2027)\n\n### Added\n\n- Two.\n\n## v0.1.0 (28 November 2026)\n\n- One.\n"
	for version, want := range map[string]string{
		"v0.2.0": "## v0.2.0 (1 May 2027)\n\n### Added\n\n- Two.\n",
		"v0.1.0": "## v0.1.0 (28 November 2026)\n\n- One.\n",
	} {
		if got, err := section([]byte(text), version); err != nil || string(got) != want {
			t.Errorf("%s: %q (%v), want %q", version, got, err, want)
		}
	}
	if _, err := section([]byte(text), "v0.3.0"); err == nil || !strings.Contains(err.Error(), "make changelog VERSION=v0.3.0") {
		t.Errorf("a version without a section: %v", err)
	}
}

// Invalid arguments are reported before anything is built.
func TestReleaseRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no version":       {nil, `-version "" is not a semantic version`},
		"no v":             {[]string{"-version", "0.1.0"}, "write it like v0.1.0"},
		"short":            {[]string{"-version", "v1"}, "write it like v0.1.0"},
		"left arguments":   {[]string{"-version", "v0.1.0", "more"}, "unexpected argument more"},
		"unknown platform": {[]string{"-version", "v0.1.0", "-platforms", "linux/amd64,plan9/386"}, `"plan9/386" is not one of`},
		"full folder":      {[]string{"-version", "v0.1.0", "-o", full}, "is not empty"},
	} {
		if err := release(t.Context(), "../..", c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
