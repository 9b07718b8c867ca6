package janus_test

import (
	"testing"

	"github.com/geobench/geobench/internal/protocol/janus"
	"github.com/geobench/geobench/internal/protocol/protocoltest"
)

func BenchmarkUncontended(b *testing.B) { protocoltest.BenchmarkCPU(b, janus.Engine, nil, 0, 0) }
func BenchmarkMultiHome(b *testing.B)   { protocoltest.BenchmarkCPU(b, janus.Engine, nil, 50, 0) }
func BenchmarkHot(b *testing.B)         { protocoltest.BenchmarkCPU(b, janus.Engine, nil, 50, 1000) }
