package janus_test

import (
	"fmt"
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/janus"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func BenchmarkCPU(b *testing.B) {
	for _, mh := range []int{0, 50, 100} {
		b.Run(fmt.Sprintf("MH%d", mh), func(b *testing.B) { protocoltest.BenchmarkCPU(b, janus.Engine, nil, mh, 0) })
	}
	b.Run("Hot", func(b *testing.B) { protocoltest.BenchmarkCPU(b, janus.Engine, nil, 50, 1000) })
}
