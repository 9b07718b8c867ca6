package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// artifact is a published file.
type artifact struct {
	name   string
	sha256 string
}

func hashFile(file string) (artifact, error) {
	f, err := os.Open(file)
	if err != nil {
		return artifact{}, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return artifact{}, err
	}
	return artifact{filepath.Base(file), hex.EncodeToString(h.Sum(nil))}, nil
}

// program is a Go program with its build information.
type program struct {
	artifact
	info *debug.BuildInfo
	// commit is the commit from which the program was built, and committed is the time of this commit.
	commit    string
	committed time.Time
}

// setting returns the value of a build setting, for example -tags, or "" if it is not set.
func (p *program) setting(key string) string {
	i := slices.IndexFunc(p.info.Settings, func(s debug.BuildSetting) bool { return s.Key == key })
	if i < 0 {
		return ""
	}
	return p.info.Settings[i].Value
}

// readProgram reads the build information of a program. It returns an error if the program was not built from a commit,
// because others could not reproduce the build.
func readProgram(file string) (*program, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	a, err := hashFile(file)
	if err != nil {
		return nil, err
	}
	p := &program{artifact: a, info: info}
	if p.commit = p.setting("vcs.revision"); p.commit == "" {
		return nil, fmt.Errorf("%s does not say which commit it was built from: build it in a clone of the repository, which a git worktree is not to Go, with git installed and without -buildvcs=false", file)
	}
	if p.setting("vcs.modified") != "false" {
		return nil, fmt.Errorf("%s was built from commit %s and changes that no commit has: commit them, and build it again", file, p.commit)
	}
	if p.committed, err = time.Parse(time.RFC3339, p.setting("vcs.time")); err != nil {
		return nil, fmt.Errorf("%s: the time of commit %s: %w", file, p.commit, err)
	}
	return p, nil
}

// image is a docker-archive with one image, which has one layer.
type image struct {
	artifact
	tag string
	// id is the digest of the image's configuration, which identifies the image in every registry and container engine.
	id string
	// files maps the path of each file in the layer to its SHA-256 digest.
	files map[string]string
}

func readImage(file string) (*image, error) {
	a, err := hashFile(file)
	if err != nil {
		return nil, err
	}
	parts := map[string][]byte{}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := eachFile(f, func(name string, content io.Reader) (err error) {
		parts[name], err = io.ReadAll(content)
		return err
	}); err != nil {
		return nil, fmt.Errorf("%s is not a docker-archive: %w", file, err)
	}
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(parts["manifest.json"], &manifest); err != nil {
		return nil, fmt.Errorf("%s: manifest.json: %w", file, err)
	}
	if len(manifest) != 1 || len(manifest[0].RepoTags) != 1 || !strings.Contains(manifest[0].RepoTags[0], ":") || len(manifest[0].Layers) != 1 {
		return nil, fmt.Errorf("%s: want one image with one name and tag and one layer, as make image writes it", file)
	}
	m := manifest[0]
	out := &image{artifact: a, tag: m.RepoTags[0], files: map[string]string{}}
	id := sha256.Sum256(parts[m.Config])
	out.id = hex.EncodeToString(id[:])
	layer, err := gzip.NewReader(bytes.NewReader(parts[m.Layers[0]]))
	if err != nil {
		return nil, fmt.Errorf("%s: layer %s: %w", file, m.Layers[0], err)
	}
	if err := eachFile(layer, func(name string, content io.Reader) error {
		h := sha256.New()
		_, err := io.Copy(h, content)
		out.files[path.Join("/", name)] = hex.EncodeToString(h.Sum(nil))
		return err
	}); err != nil {
		return nil, fmt.Errorf("%s: layer %s: %w", file, m.Layers[0], err)
	}
	return out, nil
}

// eachFile calls do for each regular file in a tar archive.
func eachFile(r io.Reader, do func(name string, content io.Reader) error) error {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := do(h.Name, t); err != nil {
			return err
		}
	}
}

// holds returns an error if the image does not contain the program.
func (i *image) holds(p *program) error {
	if got := i.files["/"+p.name]; got != p.sha256 {
		return fmt.Errorf("%s has a /%s with the digest %q, and the program's is %q: make the image of this program first", i.name, p.name, got, p.sha256)
	}
	return nil
}
