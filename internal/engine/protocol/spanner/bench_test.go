package spanner_test

import (
	"fmt"
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/spanner"
)

func BenchmarkCPU(b *testing.B) {
	for _, mh := range []int{0, 50, 100} {
		b.Run(fmt.Sprintf("MH%d", mh), func(b *testing.B) { protocoltest.BenchmarkCPU(b, spanner.Engine, nil, mh, 0) })
	}
	b.Run("MH50Hot100", func(b *testing.B) { protocoltest.BenchmarkCPU(b, spanner.Engine, nil, 50, 100) })
}
