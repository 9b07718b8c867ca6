package result

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// WriteFile replaces a file atomically: if the writer is interrupted, the file has either its old or its new content.
func WriteFile(path string, content func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := content(f); err != nil {
		return errors.Join(err, f.Close())
	}
	// CreateTemp creates files with mode 0600.
	if err := errors.Join(f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// WriteJSON writes a value as indented JSON with WriteFile.
func WriteJSON(path string, v any) error {
	return WriteFile(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	})
}
