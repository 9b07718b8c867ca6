package controllers

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// maxUnpacked bounds what a ConfigMap may hold unpacked, in bytes: it holds 1 MiB packed, of which a thousand can be made.
const maxUnpacked = 32 << 20

// gzipBytes packs a text; it fails where gunzipBytes would.
func gzipBytes(text []byte) ([]byte, error) {
	if len(text) > maxUnpacked {
		return nil, fmt.Errorf("%d bytes are more than the %d MiB that are read back from a ConfigMap", len(text), maxUnpacked>>20)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func gunzipBytes(b []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(z, maxUnpacked+1))
	if err == nil && len(text) > maxUnpacked {
		err = fmt.Errorf("unpacked, it has more than the %d MiB that the operator reads from a ConfigMap", maxUnpacked>>20)
	}
	return text, err
}

func gzipJSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return gzipBytes(text)
}

func gunzipJSON(b []byte, v any) error {
	text, err := gunzipBytes(b)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
