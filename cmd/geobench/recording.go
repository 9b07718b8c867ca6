//go:build full

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// recording is a worker's history: a file that grows up to a limit while clients run, and that is served once it is
// closed.
type recording struct {
	path  string
	limit int64

	mu     sync.Mutex
	file   *os.File
	writer *history.Writer
	stats  deploy.History
	closed bool
}

// newRecording starts the history of a worker. It returns nil if the worker records no history.
func newRecording(w *deploy.Worker, folder string) (*recording, error) {
	if w.HistoryLimit == 0 {
		return nil, nil
	}
	path := filepath.Join(folder, "history")
	// O_EXCL: a restarted worker must not overwrite the history of its predecessor.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the history: %w", err)
	}
	r := &recording{path: path, limit: w.HistoryLimit, file: f}
	r.writer = history.NewWriter((*countingFile)(r), history.Header{Region: w.Region})
	return r, nil
}

// countingFile writes to a recording's file and counts the bytes.
type countingFile recording

func (f *countingFile) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	f.stats.Bytes += int64(n)
	return n, err
}

// trace returns the recorder for the worker's clients, or nil.
func (r *recording) trace() *load.Trace {
	if r == nil {
		return nil
	}
	return &load.Trace{Procedures: catalog.Procedures(), Record: r.add}
}

// add writes a transaction, unless the file has reached its limit.
func (r *recording) add(t *history.Txn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stats.Full {
		return
	}
	if r.stats.Bytes >= r.limit {
		r.stats.Full = true
		return
	}
	r.writer.Add(t)
	r.stats.Transactions++
	r.stats.Operations += int64(len(t.Ops))
}

// close closes the file and returns the history's statistics.
func (r *recording) close() (deploy.History, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	// The writer still has buffered data, so close it before the file.
	err := errors.Join(r.writer.Close(), r.file.Close())
	return r.stats, err
}

// ServeHTTP serves the file once it is closed.
func (r *recording) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	// Do not hold the lock while the file is sent.
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if !closed {
		http.Error(w, "the history is still being written", http.StatusConflict)
		return
	}
	f, err := os.Open(r.path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer f.Close() //nolint:errcheck // only read
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = io.Copy(w, f) // a reader detects a truncated file by its missing end
}
