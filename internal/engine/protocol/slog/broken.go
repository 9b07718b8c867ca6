package slog

import (
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Faulty variants of SLOG, each with a single defect. No table of engines lists them; tests use them to verify that the
// checks find such defects (package broken).
var (
	// MergedOnArrival makes each region merge the local logs in arrival order.
	MergedOnArrival = variant("slog-merged-on-arrival", mistakes{mergeOnArrival: true}, "First")
	// TakenOnArrival makes a reader of a home log take every received multi-home transaction, instead of the number that
	// the log records.
	TakenOnArrival = variant("slog-taken-on-arrival", mistakes{takesWhatIsHere: true}, "Local", "Regions")
	// SilentLeader makes a new leader of a home log wait for further multi-home transactions. Only then does its
	// log take the transactions that its predecessor has not taken.
	SilentLeader = variant("slog-silent-leader", mistakes{silentLeader: true}, "Regions")
)

// variant returns SLOG with the defects in wrong. The defects have an effect only with the given values of parameter
// homeLogs; the first of them becomes the default.
func variant(name string, wrong mistakes, homeLogs ...string) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, wrong) }).Reparametrized(func(p *protocol.Parameter) {
		switch {
		case p.Name == locallog.HomeLogsParameter.Name:
			p.Default, p.OneOf = homeLogs[0], homeLogs
		// The other values of homeLogs require full replication.
		case p.Name == "replication" && homeLogs[0] != "First":
			p.OneOf = []string{locallog.Full}
		}
	})
}
