package compress

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

// TestUnpackingIsBounded checks that a crafted ConfigMap cannot make a reader read without limit, and that text is
// never truncated.
func TestUnpackingIsBounded(t *testing.T) {
	zeros := func(n int) []byte { // about 1,000 times smaller when packed
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if text, err := Unpack(zeros(MaxUnpacked)); err != nil || len(text) != MaxUnpacked {
		t.Errorf("%d bytes, %v; want all %d", len(text), err, MaxUnpacked)
	}
	if _, err := Unpack(zeros(MaxUnpacked + 1)); err == nil || !strings.Contains(err.Error(), "more than the 32 MiB") {
		t.Errorf("%v, want that it has more than the 32 MiB", err)
	}
	if _, err := Text(make([]byte, MaxUnpacked+1)); err == nil || !strings.Contains(err.Error(), "33554433 bytes are more than the 32 MiB") {
		t.Errorf("%v, want that it has more than the 32 MiB", err)
	}
	packed, err := Text(make([]byte, MaxUnpacked))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := Unpack(packed); err != nil || len(text) != MaxUnpacked {
		t.Errorf("%d bytes, %v; want what was packed", len(text), err)
	}
}
