package raftgroup

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	nowLeads     = coverage.New("raftgroup.leads", "A member begins to lead, having applied all that was committed before")
	deposed      = coverage.New("raftgroup.deposed", "A member that has served requests leads no more")
	requestLate  = coverage.New("raftgroup.request-late", "A request for the leader of an earlier term is dropped")
	requestEarly = coverage.New("raftgroup.request-early", "A request for a leader comes before this node knows that it leads, and waits")
	heldAgain    = coverage.New("raftgroup.held-looked-at", "Requests that have waited are looked at again")
	shared       = coverage.New("raftgroup.shared-entry", "Commands wait to share an entry of the log with others")
	tooLate      = coverage.New("raftgroup.too-late", "Commands were to be proposed when the member leads no more")
	nothing      = coverage.New("raftgroup.nothing-to-propose", "The commands that gathered turn out to be none")
)

// Behaviours that the explorer can force at replicas: see package buggify.
var (
	heldBack = buggify.New("raftgroup.entry-held-back", "A leader proposes nothing for a while although nothing is under way")
)
