package detock

import (
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// UnfetchedData is a faulty variant of Detock: a node without the data of a batch that was lost with its coordinator
// waits for it, although other nodes have it. It is in no table of engines; it tests that the checks find the defect
// (package broken).
var UnfetchedData = unfetchedData()

func unfetchedData() *protocol.Engine {
	return Engine.Variant("detock-unfetched-data", func(c protocol.Config) protocol.Replica { return newReplica(c, true) }).Reparametrized(func(p *protocol.Parameter) {
		switch p.Name {
		case locallog.HomeLogsParameter.Name:
			p.Default, p.OneOf = "Regions", []string{"Regions"}
		case batchlog.CopiesParameter.Name:
			p.Default, p.MinInt = "2", 2
		case "replication":
			p.OneOf = []string{locallog.Full}
		}
	})
}
