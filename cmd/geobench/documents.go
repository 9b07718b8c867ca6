package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
)

// documents reads the result documents that args name: files, - for standard input, folders with all their results, and
// run/NAME for runs on a cluster. As a kubectl plugin it also accepts NAME.
func documents(cmd *cobra.Command, args ...string) ([]*result.Document, error) {
	var docs []*result.Document
	for _, arg := range args {
		if isRun(arg) {
			d, err := clusterDocument(cmd, strings.TrimPrefix(arg, "run/"))
			if err != nil {
				return nil, err
			}
			docs = append(docs, d)
			continue
		}
		some, err := readDocuments(arg)
		if err != nil {
			return nil, usageError("%w", err)
		}
		docs = append(docs, some...)
	}
	return docs, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// readDocuments reads a file, or all results of a folder, sorted by file name.
func readDocuments(path string) ([]*result.Document, error) {
	info, err := os.Stat(path)
	if path == "-" || err == nil && !info.IsDir() {
		d, err := result.Read(path)
		return []*result.Document{d}, err
	}
	if err != nil {
		return nil, notThere(path, err)
	}
	files, err := filepath.Glob(filepath.Join(path, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var docs []*result.Document
	for _, f := range files {
		d, err := result.Read(f)
		// The folder may contain other JSON files, such as a report.
		if errors.Is(err, result.ErrNoResult) {
			continue
		} else if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	if len(docs) == 0 {
		return nil, fmt.Errorf("%s: there is no result document (*.json) in this folder; `geobench run --save DIR` writes one", path)
	}
	return docs, nil
}

// notThere adds a suggestion to the error for a missing file.
func notThere(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Suggest a file of the same folder, or state that the folder itself is missing.
	text := path + ": there is no such file"
	entries, _ := os.ReadDir(filepath.Dir(path))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if near, ok := check.Nearest(filepath.Base(path), names); ok {
		text += fmt.Sprintf("; did you mean %s?", filepath.Join(filepath.Dir(path), near))
	} else if entries == nil {
		text += fmt.Sprintf(", nor a folder %s", filepath.Dir(path))
	}
	return errors.New(text)
}
