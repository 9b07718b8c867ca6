package main

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// refName is the annotation with the name of an image in a layout (OCI image specification, annotations).
const refName = "org.opencontainers.image.ref.name"

func cmdOCI(_ context.Context, _ *Cluster, args []string) error {
	flags := flag.NewFlagSet("oci", flag.ContinueOnError)
	tag := flags.String("name", "", "repository and `tag`, for example registry.example.com/geobench:v0.1.0")
	out := flags.String("o", "", "archive of the image layout to write")
	if err := parse(flags, args, 1, 8); err != nil {
		return err
	}
	if *out == "" {
		return errors.New("oci: -o is missing")
	}
	digest, err := writeLayout(*tag, flags.Args(), *out)
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

// writeLayout writes an OCI image layout as a tar file. It has one image for each static program, and an index that
// selects an image by architecture. It returns the digest of the index. The same programs always yield the same bytes.
func writeLayout(tag string, binaries []string, out string) (digest string, err error) {
	ref, err := name.NewTag(tag, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("-name %q: %w; write it like registry.example.com/geobench:v0.1.0", tag, err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	seen := map[string]string{}
	for _, binary := range binaries {
		img, err := newImage(imageSpec{name: tag, binary: binary, user: nonroot, workdir: "/"})
		if err != nil {
			return "", err
		}
		img = mutate.ConfigMediaType(mutate.MediaType(img, types.OCIManifestSchema1), types.OCIConfigJSON)
		config, err := img.ConfigFile()
		if err != nil {
			return "", err
		}
		if other, twice := seen[config.Architecture]; twice {
			return "", fmt.Errorf("%s and %s are both for %s: give one program per architecture", other, binary, config.Architecture)
		}
		seen[config.Architecture] = binary
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture},
		}})
	}
	hash, err := index.Digest()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "geobench-oci-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: ref.String()})); err != nil {
		return "", err
	}
	return hash.String(), tarFolder(dir, out)
}

// tarFolder writes the files of a folder to a tar file, in sorted order and without times. The file out is replaced
// only when the archive is complete.
func tarFolder(dir, out string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	f, err := os.Create(out + ".tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: rel, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if d.IsDir() {
			header.Typeflag, header.Name, header.Mode = tar.TypeDir, rel+"/", 0o755
			return w.WriteHeader(header)
		}
		content, err := os.Open(path)
		if err != nil {
			return err
		}
		defer content.Close()
		info, err := content.Stat()
		if err != nil {
			return err
		}
		header.Size = info.Size()
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = io.Copy(w, content)
		return err
	})
	if err := errors.Join(err, w.Close(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), out)
}
