package results

import (
	"bytes"
	"compress/gzip"
	"errors"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/identity"
)

// bomb returns about 30 kB that unpack to the maximum readable size plus more bytes.
func bomb(t *testing.T, more int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(make([]byte, compress.MaxUnpacked+more)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A result is read if its digest equals the digest in its run's status. Reading any other document uses no memory,
// whatever its content.
func TestRead(t *testing.T) {
	text := []byte(`{"apiVersion":"` + result.APIVersion + `","kind":"` + result.Kind + `","name":"r"}`)
	packed, err := compress.Text(text)
	if err != nil {
		t.Fatal(err)
	}
	run := &v1alpha1.BenchmarkRun{}
	run.Status.ReportDigest = identity.Digest(text)
	for name, c := range map[string]struct {
		cm   corev1.ConfigMap
		want string
	}{
		"plain":            {corev1.ConfigMap{Data: map[string]string{Key: string(text)}}, ""},
		"packed":           {corev1.ConfigMap{BinaryData: map[string][]byte{KeyGzip: packed}}, ""},
		"another":          {corev1.ConfigMap{Data: map[string]string{Key: "{}"}}, "its digest is sha256:44136fa"},
		"a bomb":           {corev1.ConfigMap{BinaryData: map[string][]byte{KeyGzip: bomb(t, 0)}}, "its digest is sha256:"},
		"a larger bomb":    {corev1.ConfigMap{BinaryData: map[string][]byte{KeyGzip: bomb(t, 1)}}, "more than the 32 MiB"},
		"nothing":          {corev1.ConfigMap{}, "its digest is sha256:e3b0c44"},
		"not gzip":         {corev1.ConfigMap{BinaryData: map[string][]byte{KeyGzip: text}}, "gzip: invalid header"},
		"packed beside it": {corev1.ConfigMap{Data: map[string]string{Key: string(text)}, BinaryData: map[string][]byte{KeyGzip: bomb(t, 0)}}, "its digest is sha256:"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := Read(run, &c.cm)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
				t.Errorf("reading it took %d bytes", took)
			}
			if c.want == "" && (err != nil || d.Name != "r") {
				t.Errorf("%v, %v", d, err)
			}
			if c.want != "" && (!errors.Is(err, ErrOther) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want that it is another one: %s", err, c.want)
			}
		})
	}
}
