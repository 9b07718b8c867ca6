package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// platform is an operating system and an architecture, in Go's notation.
type platform struct{ os, arch string }

// platforms are the platforms for which the command line is released. Images are released for the Linux platforms.
var platforms = []platform{
	{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

func (p platform) String() string { return p.os + "/" + p.arch }

func (p platform) program() string {
	if p.os == "windows" {
		return "geobench.exe"
	}
	return "geobench"
}

// choosePlatforms returns the platforms in a list such as linux/amd64,darwin/arm64, or all platforms for an empty list.
// The list must contain the platform of this machine, because its program writes the manual pages.
func choosePlatforms(list string) (out []platform, err error) {
	if list == "" {
		return platforms, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		system, arch, _ := strings.Cut(text, "/")
		if p := (platform{system, arch}); slices.Contains(platforms, p) {
			out = append(out, p)
			continue
		}
		return nil, usageError(fmt.Sprintf("release: -platforms: %q is not one of %v", text, platforms))
	}
	if host := (platform{runtime.GOOS, runtime.GOARCH}); !slices.Contains(out, host) {
		return nil, usageError(fmt.Sprintf("release: -platforms: %s/%s is missing, whose program writes the manual pages", host.os, host.arch))
	}
	return out, nil
}

// archive returns the file name of the platform's archive.
func (p platform) archive(version string) string {
	extension := "tar.gz"
	if p.os == "windows" {
		extension = "zip"
	}
	return fmt.Sprintf("geobench_%s_%s_%s.%s", version, p.os, p.arch, extension)
}

// releaser writes the files of a version.
type releaser struct {
	root, work, dist string
	// version has the form v0.1.0. repository is the name of the image in its registry.
	version, repository, builder string
	// platforms are the platforms to build for, in the order of the variable platforms.
	platforms []platform
	say       func(format string, args ...any)

	programs []*program // programs in the order of platforms
	made     []artifact // files that were written to dist, except for the checksums
}

// release writes all files of a version into a folder. It requires a clean clone. Two runs with the same commit write
// the same bytes. It does not sign or publish anything; the workflow in .github does both.
func release(ctx context.Context, root string, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	version := flags.String("version", "", "`VERSION` to release, for example v0.1.0")
	out := flags.String("o", filepath.Join(root, "dist"), "folder to write; it must be empty or absent")
	repository := flags.String("repository", "ghcr.io/geobench/geobench", "where the image is published")
	builder := flags.String("builder", repositoryURL+"/blob/main/Makefile", "`URI` of who builds, for the provenance")
	only := flags.String("platforms", "", "build for these alone, for example linux/amd64,darwin/arm64, to try a release (default all)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choosePlatforms(*only)
	if err != nil {
		return err
	}
	if !semver.IsValid(*version) || semver.Canonical(*version) != *version {
		return usageError(fmt.Sprintf("release: -version %q is not a semantic version; write it like v0.1.0 or v0.2.0-rc.1", *version))
	}
	if flags.NArg() > 0 {
		return usageError("release: unexpected argument " + flags.Arg(0))
	}
	dist, err := filepath.Abs(*out)
	if err != nil {
		return err
	}
	if files, err := os.ReadDir(dist); err == nil && len(files) > 0 {
		return fmt.Errorf("release: folder %s is not empty: remove it, or name another one with -o", dist)
	}
	changed, err := run(ctx, "git", "-C", root, "status", "--porcelain")
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return fmt.Errorf("release: commit these changes first, so that others can build the same:\n%s", changed)
	}
	work, err := os.MkdirTemp("", "geobench-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	started := time.Now()
	r := &releaser{root: root, work: work, dist: dist, version: *version, repository: *repository, builder: *builder, platforms: chosen,
		say: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, "[%4.0fs] %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
		}}
	return r.all(ctx)
}

func (r *releaser) all(ctx context.Context) error {
	if err := os.MkdirAll(r.dist, 0o755); err != nil {
		return err
	}
	notes, err := r.notes()
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.build, r.archives, r.deploy} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := r.write("RELEASE_NOTES.md", notes); err != nil {
		return err
	}
	if err := r.describe(); err != nil {
		return err
	}
	return r.checksums()
}

// write writes a file to dist and records it.
func (r *releaser) write(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(r.dist, name), content, 0o644); err != nil {
		return err
	}
	return r.add(name)
}

// add records a file in dist that another program has written.
func (r *releaser) add(name string) error {
	a, err := hashFile(filepath.Join(r.dist, name))
	if err == nil {
		r.made = append(r.made, a)
		r.say("%s", name)
	}
	return err
}

// folder returns the folder in which the program of a platform is built.
func (r *releaser) folder(p platform) string { return filepath.Join(r.work, p.os+"_"+p.arch) }

// build builds the program for all platforms.
func (r *releaser) build(ctx context.Context) error {
	for i, p := range r.platforms {
		r.say("building for %s/%s (%d of %d)", p.os, p.arch, i+1, len(r.platforms))
		file := filepath.Join(r.folder(p), p.program())
		cmd := exec.CommandContext(ctx, "go", "build", "-tags", "full", "-trimpath", "-buildvcs=true",
			"-ldflags", "-s -w -X github.com/geobench/geobench/internal/base/version.Version="+r.version, "-o", file, "./cmd/geobench")
		cmd.Dir = r.root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=", "GOWORK=off")
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s/%s: %w\n%s", p.os, p.arch, err, said)
		}
		built, err := readProgram(file)
		if err != nil {
			return err
		}
		r.programs = append(r.programs, built)
	}
	return nil
}

// file is an entry of an archive. If target is set, it is a symbolic link.
type file struct {
	name, target string
	mode         fs.FileMode
	content      []byte
}

// archives writes the archive of each platform, which contains the program, the kubectl plugin, manual pages, shell
// completion and the license.
func (r *releaser) archives(ctx context.Context) error {
	common, err := r.documents(ctx)
	if err != nil {
		return err
	}
	for _, p := range r.platforms {
		binary, err := os.ReadFile(filepath.Join(r.folder(p), p.program()))
		if err != nil {
			return err
		}
		files := append(slices.Clone(common), file{name: p.program(), mode: 0o755, content: binary})
		pack := tarball
		if p.os == "windows" {
			// On Windows, kubectl finds plugins by the extensions in PATHEXT, and archives contain no links.
			files = append(files, file{name: "kubectl-geobench.cmd", mode: 0o755, content: []byte("@\"%~dp0geobench.exe\" %*\r\n")})
			pack = zipFile
		} else {
			files = append(files, file{name: "kubectl-geobench", target: "geobench"}, file{name: "kubectl_complete-geobench", target: "geobench"})
		}
		content, err := pack(files)
		if err != nil {
			return err
		}
		if err := r.write(p.archive(r.version), content); err != nil {
			return err
		}
	}
	return nil
}

// documents returns the files that are in all archives.
func (r *releaser) documents(ctx context.Context) (files []file, err error) {
	host := filepath.Join(r.folder(platform{runtime.GOOS, runtime.GOARCH}), "geobench")
	if _, err := os.Stat(host); err != nil {
		return nil, fmt.Errorf("manual pages and completion come from the program for this machine: %w", err)
	}
	man := filepath.Join(r.work, "man1")
	if _, err := run(ctx, host, "man", man); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(man)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		content, err := os.ReadFile(filepath.Join(man, page.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "share/man/man1/" + page.Name(), mode: 0o644, content: content})
	}
	for shell, name := range map[string]string{"bash": "bash-completion/completions/geobench", "zsh": "zsh/site-functions/_geobench",
		"fish": "fish/vendor_completions.d/geobench.fish", "powershell": "powershell/geobench.ps1"} {
		content, err := run(ctx, host, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "share/" + name, mode: 0o644, content: content})
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	return append(files, file{name: "LICENSE", mode: 0o644, content: license}), nil
}

// epoch is the time of every file in an archive. It is the earliest time that a zip file can contain.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// tarball returns a compressed tar file with the files in sorted order. All files have the time epoch.
func tarball(files []file) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, f := range sorted(files) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: epoch, Format: tar.FormatPAX}
		if f.target != "" {
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.target, 0o777
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), z.Close())
	return b.Bytes(), err
}

// zipFile returns a zip file with the files in sorted order. All files have the time epoch.
func zipFile(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range sorted(files) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: epoch}
		h.SetMode(f.mode)
		entry, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// deploy writes the files for clusters: the image for two architectures, the chart, and the manifests of the chart with
// default values. The chart and the manifests refer to the image by its digest.
func (r *releaser) deploy(ctx context.Context) error {
	layout := fmt.Sprintf("geobench-image_%s.oci.tar", r.version)
	args := []string{"run", "-C", filepath.Join(r.root, "hack", "cluster"), ".", "oci", "-name", r.repository + ":" + r.version, "-o", filepath.Join(r.dist, layout)}
	for _, p := range r.platforms {
		if p.os == "linux" {
			args = append(args, filepath.Join(r.folder(p), "geobench"))
		}
	}
	digest, err := run(ctx, "go", args...)
	if err != nil {
		return err
	}
	if err := r.add(layout); err != nil {
		return err
	}
	packed, err := r.chart(strings.TrimSpace(string(digest)))
	if err != nil {
		return err
	}
	name := fmt.Sprintf("geobench-%s.tgz", strings.TrimPrefix(r.version, "v"))
	if err := r.write(name, packed); err != nil {
		return err
	}
	helm, err := build(ctx, r.root, mustTool("helm"))
	if err != nil {
		return err
	}
	const namespace = "geobench-system"
	objects, err := run(ctx, helm, "template", "geobench", filepath.Join(r.dist, name), "--namespace", namespace)
	if err != nil {
		return err
	}
	head := fmt.Sprintf("# Geobench %s: kubectl apply --server-side -f install.yaml\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", r.version, namespace)
	if err := r.write("install.yaml", append([]byte(head), objects...)); err != nil {
		return err
	}
	return r.write("geobench.krew.yaml", r.krew())
}

func mustTool(name string) tool {
	t, err := toolNamed(name)
	if err != nil {
		panic(err)
	}
	return t
}

// replacements returns the texts in the chart's files that a release replaces, with their replacements.
func (r *releaser) replacements(digest string) map[string]map[string]string {
	plain := strings.TrimPrefix(r.version, "v")
	return map[string]map[string]string{
		"Chart.yaml": {
			"version: 0.1.0\n":  "version: " + plain + "\n",
			"appVersion: dev\n": "appVersion: " + r.version + "\n",
			"annotations:\n": "annotations:\n  artifacthub.io/images: |\n    - name: geobench\n      image: " + r.repository + "@" + digest + "\n" +
				fmt.Sprintf("  artifacthub.io/prerelease: %q\n", fmt.Sprint(semver.Prerelease(r.version) != "")),
		},
		"values.yaml": {
			"  repository: localhost/geobench\n": "  repository: " + r.repository + "\n",
			"  digest: \"\"\n":                   "  digest: " + digest + "\n",
		},
	}
}

// chart returns the packed chart. It has the version of the release, and the digest of the image as a default value.
func (r *releaser) chart(digest string) ([]byte, error) {
	root := filepath.Join(r.root, "charts", "geobench")
	replacements := r.replacements(digest)
	var files []file
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		for old, now := range replacements[rel] {
			if n := bytes.Count(content, []byte(old)); n != 1 {
				return fmt.Errorf("charts/geobench/%s has %q %d times, want once", rel, strings.TrimSpace(old), n)
			}
			content = bytes.Replace(content, []byte(old), []byte(now), 1)
		}
		files = append(files, file{name: path.Join("geobench", filepath.ToSlash(rel)), mode: 0o644, content: content})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return tarball(files)
}

// krew returns the manifest of the kubectl plugin (krew.sigs.k8s.io).
func (r *releaser) krew() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: geobench
spec:
  version: %s
  homepage: %s
  shortDescription: Benchmark geo-distributed transactional databases
  description: |
    Shows, follows, cancels, compares and reports the runs and experiments of the Geobench operator.
  platforms:
`, r.version, repositoryURL)
	for _, p := range r.platforms {
		name := p.archive(r.version)
		fmt.Fprintf(&b, "  - selector: {matchLabels: {os: %s, arch: %s}}\n    uri: %s/releases/download/%s/%s\n    sha256: %s\n    bin: %s\n",
			p.os, p.arch, repositoryURL, r.version, name, r.sum(name), p.program())
	}
	return []byte(b.String())
}

// sum returns the SHA-256 digest of a file in dist, or "" if the file was not recorded.
func (r *releaser) sum(name string) string {
	for _, a := range r.made {
		if a.name == name {
			return a.sha256
		}
	}
	return ""
}

// heading matches the heading of a version in CHANGELOG.md.
var heading = regexp.MustCompile(`(?m)^## (v\S+)( .*)?$`)

// notes returns the release notes: the changelog's section of the version.
func (r *releaser) notes() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	return section(text, r.version)
}

// section returns the section of a version in a changelog.
func section(text []byte, version string) ([]byte, error) {
	all := heading.FindAllSubmatchIndex(text, -1)
	for i, at := range all {
		if string(text[at[2]:at[3]]) != version {
			continue
		}
		end := len(text)
		if i+1 < len(all) {
			end = all[i+1][0]
		}
		return append(bytes.TrimSpace(text[at[0]:end]), '\n'), nil
	}
	return nil, fmt.Errorf("CHANGELOG.md has no section %s: make changelog VERSION=%[1]s, and commit it", version)
}

// describe writes an SBOM for each archive, and one provenance statement for all files.
func (r *releaser) describe() error {
	at, err := sourceDate(r.programs[0])
	if err != nil {
		return err
	}
	for i, p := range r.platforms {
		archive := p.archive(r.version)
		doc, err := writeSPDX(archiveSBOM(r.programs[i], artifact{archive, r.sum(archive)}, at))
		if err != nil {
			return err
		}
		if err := r.write(archive+".spdx.json", doc); err != nil {
			return err
		}
	}
	statement, err := provenanceOf(r.programs[0], r.made, map[string]any{"version": r.version, "targets": []any{"release"}, "image": r.repository + ":" + r.version}, r.builder)
	if err != nil {
		return err
	}
	return r.write("geobench.intoto.json", statement)
}

// checksums writes the digests of all files in the format of sha256sum.
func (r *releaser) checksums() error {
	var b strings.Builder
	for _, a := range slices.SortedFunc(slices.Values(r.made), func(a, b artifact) int { return cmp.Compare(a.name, b.name) }) {
		fmt.Fprintf(&b, "%s  %s\n", a.sha256, a.name)
	}
	return os.WriteFile(filepath.Join(r.dist, "SHA256SUMS"), []byte(b.String()), 0o644)
}
