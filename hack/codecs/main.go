// Command codecs generates the encodings of messages. A message declares each of its fields once, in its struct, and this
// command writes the methods Kind, Size and AppendTo, and the decoder. See docs/dev/engine.md, "Messages", for the
// directives and the struct tags.
//
// Usage: codecs DIRECTORY...
//
// In each directory with messages, codecs writes the file zz_generated.codec.go.
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const output = "zz_generated.codec.go"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "codecs:", err)
		os.Exit(1)
	}
}

func run(roots []string) error {
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			return generate(path)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// generate writes the generated file of a directory, unless its content is up to date. A directory without messages
// gets no file.
func generate(dir string) error {
	p, err := parse(dir)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, output)
	code, err := emit(p)
	if err != nil {
		return err
	}
	if code == nil {
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return err
		}
		return nil
	}
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, code) {
		return nil
	}
	return os.WriteFile(file, code, 0o644)
}
