package detock

import (
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// UnfetchedData is a faulty variant of Detock. If a batch is lost with its coordinator, a node without the batch's data
// waits for the data permanently. It does not fetch the data from other nodes. No table of engines lists the variant;
// tests use it to verify that the checks find the defect (package broken).
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
