package results

import (
	"cmp"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/identity"
)

// The keys of a result ConfigMap: the document as JSON, or gzipped if it would not fit.
const (
	Key     = "result.json"
	KeyGzip = "result.json.gz"
)

// PlainLimit is the maximum size in bytes of a document that is stored as readable text. A ConfigMap can hold 1 MiB.
const PlainLimit = 900_000

// Text returns the text of the document in a result ConfigMap.
func Text(cm *corev1.ConfigMap) ([]byte, error) {
	text := []byte(cm.Data[Key])
	if packed := cm.BinaryData[KeyGzip]; packed != nil {
		var err error
		if text, err = compress.Unpack(packed); err != nil {
			return nil, fmt.Errorf("config map %s: %s: %w", cm.Name, KeyGzip, err)
		}
	}
	if len(text) == 0 {
		return nil, fmt.Errorf("config map %s has neither %s nor %s", cm.Name, Key, KeyGzip)
	}
	return text, nil
}

// ErrOther means that a result ConfigMap does not contain the document that the run has stored in it.
var ErrOther = errors.New("it is not the one that its BenchmarkRun has left")

// digest returns the digest of a result's text without holding the text in memory, because it may be forged and large.
func digest(cm *corev1.ConfigMap) (string, error) {
	packed := cm.BinaryData[KeyGzip]
	if packed == nil {
		return identity.Digest([]byte(cm.Data[Key])), nil
	}
	d := identity.NewDigester()
	if _, err := compress.UnpackTo(d, packed); err != nil {
		return "", fmt.Errorf("none: %s: %w", KeyGzip, err)
	}
	return d.Digest(), nil
}

// Read returns the document in a run's result ConfigMap. It fails with ErrOther if the digest in the run's status is
// different.
func Read(run *v1alpha1.BenchmarkRun, cm *corev1.ConfigMap) (*result.Document, error) {
	if want := run.Status.ReportDigest; want != "" { // runs of earlier versions have no digest
		// The digest is checked before the text is unpacked and parsed, so a forged document costs no memory.
		if got, err := digest(cm); err != nil || got != want {
			return nil, fmt.Errorf("config map %s: %w: its digest is %s, not %s as status.reportDigest of %s says", cm.Name, ErrOther, cmp.Or(got, fmt.Sprint(err)), want, run.Name)
		}
	}
	text, err := Text(cm)
	if err != nil {
		return nil, err
	}
	doc, err := result.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("config map %s: %w", cm.Name, err)
	}
	return doc, nil
}

// The keys of a report ConfigMap. It contains the claims and figures as JSON, which is gzipped if it would not fit. If
// there is room, it also contains them as tables in plain text.
const (
	ReportKey     = "report.json"
	ReportKeyGzip = "report.json.gz"
	ReportText    = "report.txt"
)
