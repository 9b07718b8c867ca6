package database

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/net/rtt"
	"github.com/geobench/geobench/internal/ops/deploy"
)

func TestNothingInjectedIsExplained(t *testing.T) {
	v := VerifyNetwork(&deploy.Database{}, []rtt.Link{{Declared: 100 * time.Millisecond, P50: time.Millisecond, Samples: rtt.MinSamples}}, v1alpha1.EmulationNone)
	if v.Verified || !strings.Contains(v.Message, "must declare") {
		t.Errorf("%+v", v)
	}
}

func TestShownLinksStayWhileTheyAreSimilar(t *testing.T) {
	shown := linkStatuses([]rtt.Link{{From: "a", To: "b", Declared: 100 * time.Millisecond, P50: 100 * time.Millisecond, P99: 101 * time.Millisecond, Samples: 40}}, nil)
	same := linkStatuses([]rtt.Link{{From: "a", To: "b", Declared: 100 * time.Millisecond, P50: 101 * time.Millisecond, P99: 104 * time.Millisecond, Samples: 50}}, shown)
	if !cmp.Equal(shown, same) {
		t.Errorf("a small move shows: %s", cmp.Diff(shown, same))
	}
	moved := linkStatuses([]rtt.Link{{From: "a", To: "b", Declared: 100 * time.Millisecond, P50: 110 * time.Millisecond, P99: 111 * time.Millisecond, Samples: 50}}, shown)
	if moved[0].MeasuredRTTMicroseconds.P50 != 110_000 {
		t.Errorf("a big move does not show: %+v", moved)
	}
}
