package coco_test

import (
	"fmt"
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/coco"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func BenchmarkCPU(b *testing.B) {
	for _, mh := range []int{0, 50, 100} {
		b.Run(fmt.Sprintf("MH%d", mh), func(b *testing.B) { protocoltest.BenchmarkCPU(b, coco.Engine, nil, mh, 0) })
	}
	// The benchmark's clients retry without a pause. A database that aborts instead of waiting for locks would abort these
	// retries again and again, so here the node retries with a backoff.
	b.Run("MH50Hot100", func(b *testing.B) { protocoltest.BenchmarkCPU(b, coco.Engine, measured, 50, 100) })
}
