// Package compress compresses text so that it fits into a ConfigMap, which is limited to 1 MiB. It also limits the size
// of text that is read from a ConfigMap.
package compress

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// MaxUnpacked is the maximum size of an unpacked text in bytes. Without a limit, the content of a ConfigMap could
// expand to a thousand times its size.
const MaxUnpacked = 32 << 20

// MaxPacked is the maximum size of a packed text in bytes. The API server limits all values of a ConfigMap together to
// 1 MiB, so this leaves room for a few small values.
const MaxPacked = 1_000_000

// Text compresses a text with gzip. It returns an error if the text is too long for Unpack.
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

// Unpack returns the text that was passed to Text. If the text is longer than MaxUnpacked, it returns an error rather
// than a part of the text.
func Unpack(b []byte) ([]byte, error) {
	n, err := UnpackTo(io.Discard, b)
	if err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(make([]byte, 0, n)) // a growing buffer would take several times as much memory
	_, err = UnpackTo(text, b)
	return text.Bytes(), err
}

// UnpackTo writes the text that was passed to Text to w, in pieces, and returns its length in bytes. It returns an
// error if the text is longer than MaxUnpacked.
func UnpackTo(w io.Writer, b []byte) (n int64, err error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	// Read one byte more than allowed, to detect a text that is too long.
	if n, err = io.Copy(w, io.LimitReader(z, MaxUnpacked+1)); err == nil && n > MaxUnpacked {
		err = fmt.Errorf("unpacked, it has more than the %d MiB that are read", MaxUnpacked>>20)
	}
	return n, err
}

// JSON encodes a value as JSON and compresses it with Text.
func JSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return Text(text)
}

// UnpackJSON decodes the output of JSON into v.
func UnpackJSON(b []byte, v any) error {
	text, err := Unpack(b)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
