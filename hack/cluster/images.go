package main

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// pauseImage and corednsImage are the images that the cluster itself needs.
const (
	pauseImage   = "localhost/geobench-pause:" + pauseVersion
	corednsImage = "localhost/geobench-coredns:" + corednsVersion
)

// nonroot is the user and group of images. /etc/passwd in the images names the user nonroot.
const nonroot = "65532:65532"

// imageSpec describes an image with one layer. The layer contains a static program or the contents of a folder.
type imageSpec struct {
	name       string   // repository and tag
	binary     string   // path of the program, which becomes /BASENAME in the image
	root       string   // folder whose contents become the layer, in place of a program
	entrypoint []string // command of the image; the program if empty
	env        []string // NAME=VALUE; PATH=/ if empty
	user       string   // UID or UID:GID
	workdir    string
}

// writeImage writes an image as a docker-archive. The same spec and program always yield the same bytes, independent of
// the time, the user and the machine.
func writeImage(spec imageSpec, out string) error {
	tag, err := name.NewTag(spec.name, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("-name %q: %w; write it like localhost/geobench:dev", spec.name, err)
	}
	img, err := newImage(spec)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	tmp := out + ".tmp"
	defer os.Remove(tmp)
	if err := tarball.WriteToFile(tmp, tag, img); err != nil {
		return err
	}
	return os.Rename(tmp, out)
}

func newImage(spec imageSpec) (v1.Image, error) {
	arch, content := runtime.GOARCH, []byte(nil)
	var err error
	if spec.root != "" {
		content, err = folderFilesystem(spec.root)
	} else if arch, err = staticArchitecture(spec.binary); err == nil {
		content, err = rootFilesystem(spec.binary)
	}
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	config.Config = v1.Config{
		User:       spec.user,
		WorkingDir: spec.workdir,
		Entrypoint: spec.entrypoint,
		Env:        spec.env,
	}
	if len(spec.env) == 0 {
		config.Config.Env = []string{"PATH=/"}
	}
	if len(spec.entrypoint) == 0 {
		config.Config.Entrypoint = []string{"/" + filepath.Base(spec.binary)}
	}
	return mutate.ConfigFile(img, config)
}

// rootFilesystem returns the layer of an image with a program. It contains the program, /etc/passwd, /etc/group and
// /tmp, in sorted order and without times.
func rootFilesystem(binary string) ([]byte, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	id, _, _ := strings.Cut(nonroot, ":")
	type entry struct {
		name    string
		mode    int64
		content []byte
	}
	entries := []entry{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:" + id + ":\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:" + nonroot + ":nonroot:/:/sbin/nologin\n")},
		{filepath.Base(binary), 0o755, program},
		{"tmp/", 0o1777, nil},
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, e := range entries {
		header := &tar.Header{
			Name: e.name, Mode: e.mode, Size: int64(len(e.content)),
			Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return layer.Bytes(), err
}

// folderFilesystem returns the layer of an image with the contents of a folder: its files, subfolders and symbolic
// links. They are in sorted order, without times, and owned by root.
func folderFilesystem(root string) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		target := ""
		switch info.Mode().Type() {
		case 0, fs.ModeDir:
		case fs.ModeSymlink:
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is neither a file, a folder nor a symbolic link", path)
		}
		header, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		*header = tar.Header{
			Typeflag: header.Typeflag, Name: name, Linkname: target, Size: header.Size, Mode: header.Mode,
			ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
		}
		if d.IsDir() {
			header.Name += "/"
		}
		if err := w.WriteHeader(header); err != nil || header.Typeflag != tar.TypeReg {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}

// staticArchitecture returns the architecture of a program in Go's notation. It returns an error if the program is not
// statically linked for Linux. An image without libraries cannot run such a program: its pod would fail with the
// misleading error "not found".
func staticArchitecture(binary string) (string, error) {
	f, err := elf.Open(binary)
	if err != nil {
		return "", fmt.Errorf("%s is not a Linux program: %w; build it with GOOS=linux CGO_ENABLED=0", binary, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s is linked dynamically, and the image has no libraries: build it with CGO_ENABLED=0", binary)
		}
	}
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("%s is for %s, want amd64 or arm64", binary, f.Machine)
}

// archiveTags returns the image names in a docker-archive.
func archiveTags(archive string) ([]string, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(archive) })
	if err != nil {
		return nil, fmt.Errorf("%s is not a docker-archive: %w", archive, err)
	}
	var tags []string
	for _, image := range manifest {
		tags = append(tags, image.RepoTags...)
	}
	if len(tags) == 0 {
		return nil, fmt.Errorf("%s names no image: save it with a tag", archive)
	}
	return tags, nil
}

// load imports the images of a docker-archive. It returns their names once the kubelet can use them.
func (c *Cluster) load(ctx context.Context, archive string) ([]string, error) {
	tags, err := archiveTags(archive)
	if err != nil {
		return nil, err
	}
	if _, err := c.ctr(ctx, "images", "import", archive); err != nil {
		return nil, err
	}
	for {
		known, err := c.imagesKnown(ctx, tags)
		if err != nil || known {
			return tags, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: imported, but kubelet's side of containerd does not see it: %w", archive, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// imagesKnown reports whether the container runtime interface (CRI) knows all the images. The CRI learns of an import
// through an event, and then labels the image. A pod that is created earlier would try to pull the image.
func (c *Cluster) imagesKnown(ctx context.Context, tags []string) (bool, error) {
	out, err := c.ctr(ctx, "images", "list", "-q", `labels."io.cri-containerd.image"==managed`)
	if err != nil {
		return false, err
	}
	known := strings.Fields(out)
	for _, tag := range tags {
		if !slices.Contains(known, tag) {
			return false, nil
		}
	}
	return true, nil
}

// ensureImage builds and loads the image of a component, unless it is already loaded.
func (c *Cluster) ensureImage(ctx context.Context, tag, component string) error {
	if known, err := c.imagesKnown(ctx, []string{tag}); err != nil || known {
		return err
	}
	archive := c.path("images", component+".tar")
	spec := imageSpec{name: tag, binary: c.binary(component, component), user: nonroot, workdir: "/"}
	if err := writeImage(spec, archive); err != nil {
		return err
	}
	defer os.Remove(archive)
	_, err := c.load(ctx, archive)
	return err
}

// ctr runs ctr in the containerd namespace of the kubelet.
func (c *Cluster) ctr(ctx context.Context, args ...string) (string, error) {
	if _, err := os.Stat(c.containerdSocket()); errors.Is(err, os.ErrNotExist) {
		return "", errors.New("containerd does not run: start the cluster with `up`")
	}
	return run(ctx, c.binary("containerd", "ctr"), append([]string{
		"--address=" + c.containerdSocket(), "--namespace=" + containerdNamespace,
	}, args...)...)
}
