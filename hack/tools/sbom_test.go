package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	intoto "github.com/in-toto/attestation/go/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"
	"google.golang.org/protobuf/encoding/protojson"
)

// built is a program that was built from a repository with one commit. It depends on two modules.
type built struct {
	dir, binary, commit string
}

func buildProgram(t *testing.T) built {
	t.Helper()
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "hack", "tools", "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	b := built{dir: t.TempDir()}
	for name, text := range map[string]string{
		"go.mod":  "module example.com/p\n\ngo 1.26.0\n\nrequire golang.org/x/mod v0.41.0\n",
		"go.sum":  string(sums),
		"main.go": "package main\n\nimport \"golang.org/x/mod/semver\"\n\nfunc main() { println(semver.Major(\"v1.2.3\")) }\n",
	} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.run(t, "git", "init", "-q")
	b.run(t, "git", "add", ".")
	b.run(t, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first")
	b.commit = strings.TrimSpace(b.run(t, "git", "rev-parse", "HEAD"))
	b.build(t)
	return b
}

func (b *built) build(t *testing.T) {
	t.Helper()
	b.binary = filepath.Join(t.TempDir(), "geobench")
	b.run(t, "go", "build", "-trimpath", "-o", b.binary, ".")
}

func (b *built) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// archive writes a docker-archive with the program, in the same form as hack/cluster.
func (b *built) archive(t *testing.T, content []byte) string {
	t.Helper()
	pack := func(w *bytes.Buffer, files map[string][]byte) {
		tw := tar.NewWriter(w)
		for _, name := range sortedKeys(files) {
			if err := tw.WriteHeader(&tar.Header{Name: name, Size: int64(len(files[name])), Mode: 0o755, Typeflag: tar.TypeReg}); err != nil {
				t.Fatal(err)
			}
			if _, err := tw.Write(files[name]); err != nil {
				t.Fatal(err)
			}
		}
		if err := tw.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var layer, zipped, out bytes.Buffer
	pack(&layer, map[string][]byte{"geobench": content, "etc/passwd": []byte("x")})
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(layer.Bytes()); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	pack(&out, map[string][]byte{
		"manifest.json": []byte(`[{"Config":"sha256:c","RepoTags":["localhost:5000/geobench:dev"],"Layers":["l.tar.gz"]}]`), "sha256:c": []byte(`{}`), "l.tar.gz": zipped.Bytes(),
	})
	file := filepath.Join(t.TempDir(), "geobench.tar")
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func digestOf(content []byte) string {
	h := sha256.Sum256(content)
	return hex.EncodeToString(h[:])
}

// TestSBOM describes a program and its image, and parses the output with the libraries of the standards. A second
// description must be identical.
func TestSBOM(t *testing.T) {
	b := buildProgram(t)
	content, err := os.ReadFile(b.binary)
	if err != nil {
		t.Fatal(err)
	}
	archive := b.archive(t, content)
	outs := []string{t.TempDir(), t.TempDir()}
	for _, out := range outs {
		if err := describe("/nowhere", []string{"-binary", b.binary, "-image", archive, "-builder", "https://ci.example/1", "-o", out}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		var same [][]byte
		for _, out := range outs {
			text, err := os.ReadFile(filepath.Join(out, name))
			if err != nil {
				t.Fatal(err)
			}
			same = append(same, text)
		}
		if !bytes.Equal(same[0], same[1]) {
			t.Errorf("%s differs from one time to the next", name)
		}
		return same[0]
	}
	main := "example.com/p v0.0.0-20260102030405-" + b.commit[:12]
	tar, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		packages  []string
		described string
	}{
		"geobench.spdx.json":       {[]string{main, "golang.org/x/mod v0.41.0", "stdlib"}, digestOf(content)},
		"geobench-image.spdx.json": {[]string{main, "golang.org/x/mod v0.41.0", "localhost:5000/geobench dev", "stdlib"}, digestOf(tar)},
	} {
		doc, err := spdxjson.Read(bytes.NewReader(read(name)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := spdxlib.ValidateDocument(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		checkSPDX(t, name, doc)
		var packages []string
		for _, p := range doc.Packages {
			if p.PackageName == "stdlib" {
				p.PackageVersion = ""
			}
			packages = append(packages, strings.TrimSpace(p.PackageName+" "+p.PackageVersion))
		}
		slices.Sort(packages)
		if diff := cmp.Diff(test.packages, packages); diff != "" {
			t.Errorf("packages of %s (-want +got):\n%s", name, diff)
		}
		ids, err := spdxlib.GetDescribedPackageIDs(doc)
		if err != nil || len(ids) != 1 {
			t.Fatalf("%s describes %v: %v", name, ids, err)
		}
		for _, p := range doc.Packages {
			if p.PackageSPDXIdentifier == ids[0] && p.PackageChecksums[0].Value != test.described {
				t.Errorf("%s describes %s, want %s", name, p.PackageChecksums[0].Value, test.described)
			}
		}
		if doc.CreationInfo.Created != "2026-01-02T03:04:05Z" {
			t.Errorf("%s was created at %s, want the time of the commit", name, doc.CreationInfo.Created)
		}
	}

	s := &intoto.Statement{}
	if err := protojson.Unmarshal(read("geobench.intoto.json"), s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	subjects := map[string]string{}
	for _, subject := range s.Subject {
		subjects[subject.Name] = subject.Digest["sha256"]
	}
	want := map[string]string{"geobench": digestOf(content), "geobench.tar": digestOf(tar), "localhost:5000/geobench:dev": digestOf([]byte(`{}`))}
	if diff := cmp.Diff(want, subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	var predicate struct {
		BuildDefinition struct {
			ExternalParameters   map[string]any
			InternalParameters   map[string]any
			ResolvedDependencies []struct {
				URI    string
				Digest map[string]string
			}
		}
		RunDetails struct{ Builder struct{ ID string } }
	}
	text, err := protojson.Marshal(s.Predicate)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &predicate); err != nil {
		t.Fatal(err)
	}
	d := predicate.BuildDefinition
	if d.ExternalParameters["commit"] != b.commit || d.ResolvedDependencies[0].Digest["gitCommit"] != b.commit {
		t.Errorf("the statement speaks of commits %v and %v, want %s", d.ExternalParameters["commit"], d.ResolvedDependencies[0].Digest, b.commit)
	}
	if len(d.ResolvedDependencies) != 2 || d.ResolvedDependencies[1].URI != "pkg:golang/golang.org/x/mod@v0.41.0" {
		t.Errorf("dependencies %v", d.ResolvedDependencies)
	}
	if d.InternalParameters["-trimpath"] != "true" || !strings.HasPrefix(d.InternalParameters["go"].(string), "go1.") {
		t.Errorf("parameters %v", d.InternalParameters)
	}
	if predicate.RunDetails.Builder.ID != "https://ci.example/1" {
		t.Errorf("builder %v", predicate.RunDetails.Builder)
	}
}

// checkSPDX checks requirements of the specification (SPDX 2.3, clauses 6, 7 and 11) that the schema of SPDX does not
// cover.
func checkSPDX(t *testing.T, name string, doc *spdx.Document) {
	t.Helper()
	if doc.SPDXVersion != "SPDX-2.3" || doc.DataLicense != "CC0-1.0" || !strings.HasPrefix(doc.DocumentNamespace, "https://") || strings.Contains(doc.DocumentNamespace, "#") {
		t.Errorf("%s: version %s, licence %s, namespace %s", name, doc.SPDXVersion, doc.DataLicense, doc.DocumentNamespace)
	}
	ids := map[string]bool{"DOCUMENT": true}
	for _, p := range doc.Packages {
		id := string(p.PackageSPDXIdentifier)
		if ids[id] || notInID.MatchString(id) {
			t.Errorf("%s: %q is no identifier, or two packages have it", name, id)
		}
		ids[id] = true
		if p.PackageName == "" || p.PackageDownloadLocation == "" || p.PackageLicenseConcluded == "" || p.PackageCopyrightText == "" {
			t.Errorf("%s: package %s lacks a field: %+v", name, id, p)
		}
	}
	for _, r := range doc.Relationships {
		if !ids[string(r.RefA.ElementRefID)] || !ids[string(r.RefB.ElementRefID)] {
			t.Errorf("%s: %v relates what is not in it", name, r)
		}
	}
}

// TestSBOMIsOfACommit checks that a program is rejected if its build cannot be reproduced, and that an image is
// rejected if it contains another program.
func TestSBOMIsOfACommit(t *testing.T) {
	b := buildProgram(t)
	content, err := os.ReadFile(b.binary)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what, binary, archive, want string) {
		t.Helper()
		err := describe("/nowhere", []string{"-binary", binary, "-image", archive, "-o", t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", what, err, want)
		}
	}
	refused("another program's image", b.binary, b.archive(t, append(content, 0)), "make the image of this program first")
	refused("no image", b.binary, b.binary, "is not a docker-archive")
	if err := os.WriteFile(filepath.Join(b.dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.build(t)
	refused("changes", b.binary, b.archive(t, content), "changes that no commit has")
	b.run(t, "go", "build", "-buildvcs=false", "-o", b.binary, ".")
	refused("no commit", b.binary, b.archive(t, content), "does not say which commit")
}

func TestSourceDate(t *testing.T) {
	p := &program{}
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	if at, err := sourceDate(p); err != nil || at.Format("2006-01-02") != "1970-01-02" {
		t.Error(at, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := sourceDate(p); err == nil {
		t.Error("SOURCE_DATE_EPOCH=yesterday is accepted")
	}
}
