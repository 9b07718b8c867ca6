//go:build full

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/ops/deploy"
)

func TestRecording(t *testing.T) {
	if r, err := newRecording(&deploy.Worker{Region: "us"}, t.TempDir()); r != nil || err != nil || r.trace() != nil {
		t.Errorf("a worker that is told of no history records one: %v, %v", r, err)
	}
	r, err := newRecording(&deploy.Worker{Region: "us", HistoryLimit: 1 << 20}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	get := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, deploy.PathHistory, nil))
		return w
	}
	for i := range 100 {
		r.trace().Record(&history.Txn{ID: txn.ID(i + 1), Invoked: time.Duration(i), Answered: time.Duration(i + 1), Status: txn.Committed,
			Ops: []history.Op{{Kind: history.Write, Key: txn.IntKey(1, 7), Version: txn.ID(i), Known: true}}})
	}
	if w := get(); w.Code != http.StatusConflict {
		t.Errorf("while it is written, the answer is %d", w.Code)
	}
	stats, err := r.close()
	if err != nil || stats.Transactions != 100 || stats.Operations != 100 || stats.Full {
		t.Errorf("recorded %+v, %v", stats, err)
	}
	w := get()
	var h history.History
	if err := h.ReadFile(bytes.NewReader(w.Body.Bytes()), history.Size{Transactions: 100, Operations: 100}); err != nil || h.Len() != 100 || h.Ops() != 100 || int64(w.Body.Len()) != stats.Bytes {
		t.Errorf("%d bytes with %d transactions, %v; recorded %+v", w.Body.Len(), h.Len(), err, stats)
	}
	if v := history.Check(&h, isolation.StrictSerializable); !v.Passed {
		t.Error(v.Explanation)
	}
}

// TestRecordingIsBounded: a file that reached its limit is marked as full, and ends properly.
func TestRecordingIsBounded(t *testing.T) {
	r, err := newRecording(&deploy.Worker{Region: "us", HistoryLimit: 10_000}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	x := &history.Txn{Status: txn.Committed}
	for i := range 1_000_000 {
		x.ID = txn.ID(i+1) * 0x9e3779b97f4a7c15 // IDs that do not compress
		r.add(x)
		if r.stats.Full {
			break
		}
	}
	stats, err := r.close()
	if err != nil || !stats.Full || stats.Bytes < 10_000 || stats.Bytes > 1<<20 {
		t.Errorf("recorded %+v, %v", stats, err)
	}
}
