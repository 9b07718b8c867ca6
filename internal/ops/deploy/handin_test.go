package deploy

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/ops/identity"
)

func TestHandIn(t *testing.T) {
	key := []byte("the key of this worker")
	made := HandIn{Run: "uid", Region: "eu", Index: 1, Config: identity.Digest([]byte("{}")), StartAt: "2026-01-01T00:00:00Z", History: `{"bytes":7}`, Report: []byte("report")}
	seal, err := made.Seal(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(h *HandIn)
		key    string
		seal   string
		says   string
	}{
		"as it was made":        {},
		"another report":        {change: func(h *HandIn) { h.Report = []byte("better") }, says: "its seal is not that of this worker"},
		"another history":       {change: func(h *HandIn) { h.History = "" }, says: "its seal is not that of this worker"},
		"another worker's":      {change: func(h *HandIn) { h.Index = 2 }, says: "its seal is not that of this worker"},
		"another region's":      {change: func(h *HandIn) { h.Region = "us" }, says: "its seal is not that of this worker"},
		"another run's":         {change: func(h *HandIn) { h.Run = "x" }, says: "its seal is not that of this worker"},
		"another key":           {key: "of nobody", says: "its seal is not that of this worker"},
		"another configuration": {change: func(h *HandIn) { h.Config = identity.Digest(nil) }, says: "another configuration than the operator's"},
		"another start":         {change: func(h *HandIn) { h.StartAt = "2026-01-01T00:00:01Z" }, says: "told to start at 2026-01-01T00:00:00Z, not at 2026-01-01T00:00:01Z"},
		"no seal":               {seal: "-", says: "it has no seal"},
		"garbage":               {seal: "x", says: "seal: invalid character"},
	} {
		h, with, use := made, string(key), seal
		if tc.change != nil {
			tc.change(&h)
		}
		if tc.key != "" {
			with = tc.key
		}
		if tc.seal != "" {
			use = strings.Trim(tc.seal, "-")
		}
		if err := h.Verify(use, []byte(with)); (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
