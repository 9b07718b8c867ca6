package detock_test

import (
	"fmt"
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/detock"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func BenchmarkCPU(b *testing.B) {
	for _, mh := range []int{0, 50, 100} {
		b.Run(fmt.Sprintf("MH%d", mh), func(b *testing.B) { protocoltest.BenchmarkCPU(b, detock.Engine, nil, mh, 0) })
	}
	for _, opportunistic := range []string{"true", "false"} {
		b.Run("MH50Hot100/opportunistic="+opportunistic, func(b *testing.B) {
			protocoltest.BenchmarkCPU(b, detock.Engine, map[string]string{"opportunistic": opportunistic}, 50, 100)
		})
	}
}
