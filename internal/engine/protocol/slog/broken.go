package slog

import (
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Faulty variants of SLOG with a single defect each. They are in no table of engines; they test that the checks find
// such defects (package broken).
var (
	// MergedOnArrival has each region merge the local logs in the order in which they arrive there.
	MergedOnArrival = variant("slog-merged-on-arrival", mistakes{mergeOnArrival: true}, "First")
	// TakenOnArrival makes a reader of a home log take all of the multi-home order that it has received. The log's
	// recorded amount is ignored.
	TakenOnArrival = variant("slog-taken-on-arrival", mistakes{takesWhatIsHere: true}, "Local", "Regions")
	// SilentLeader has a new leader of a home log wait for more of the multi-home order before its log takes what its
	// predecessor left.
	SilentLeader = variant("slog-silent-leader", mistakes{silentLeader: true}, "Regions")
)

// variant is SLOG with a mistake that shows with these home logs.
func variant(name string, wrong mistakes, homeLogs ...string) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, wrong) }).Reparametrized(func(p *protocol.Parameter) {
		switch {
		case p.Name == locallog.HomeLogsParameter.Name:
			p.Default, p.OneOf = homeLogs[0], homeLogs
		case p.Name == "replication" && homeLogs[0] != "First":
			p.OneOf = []string{locallog.Full}
		}
	})
}
