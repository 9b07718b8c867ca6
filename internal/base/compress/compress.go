// Package compress compresses text to fit into a ConfigMap, which holds 1 MiB, and bounds the size of text that is read
// from a ConfigMap.
package compress

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// MaxUnpacked is the maximum size of an unpacked text in bytes. Without a limit, a ConfigMap could expand to a thousand
// times its size.
const MaxUnpacked = 32 << 20

// MaxPacked is the maximum size of a packed text in bytes. It leaves room in a ConfigMap for a few small values: the
// API server limits all values together to 1 MiB.
const MaxPacked = 1_000_000

// Text gzips a text; it fails where Unpack would.
func Text(text []byte) ([]byte, error) {
	if len(text) > MaxUnpacked {
		return nil, fmt.Errorf("%d bytes are more than the %d MiB that are read back", len(text), MaxUnpacked>>20)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Unpack returns what Text was given. It fails, and cuts nothing off, when that is longer than MaxUnpacked.
func Unpack(b []byte) ([]byte, error) {
	n, err := UnpackTo(io.Discard, b)
	if err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(make([]byte, 0, n)) // a buffer that grows would take several times as much
	_, err = UnpackTo(text, b)
	return text.Bytes(), err
}

// UnpackTo writes what Text was given to w, piece by piece, and returns its length in bytes. It fails when that is more
// than MaxUnpacked.
func UnpackTo(w io.Writer, b []byte) (n int64, err error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	if n, err = io.Copy(w, io.LimitReader(z, MaxUnpacked+1)); err == nil && n > MaxUnpacked {
		err = fmt.Errorf("unpacked, it has more than the %d MiB that are read", MaxUnpacked>>20)
	}
	return n, err
}

// JSON is Text of a value's JSON.
func JSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return Text(text)
}

// UnpackJSON reads what JSON was given into v.
func UnpackJSON(b []byte, v any) error {
	text, err := Unpack(b)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
