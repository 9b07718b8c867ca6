package recon

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	stale           = probe.New("recon.stale", "A footprint is found stale when its transaction executes")
	givenUp         = probe.New("recon.given-up", "A footprint is stale once too often, and the transaction is aborted")
	lookedElsewhere = probe.New("recon.looked-elsewhere", "A reconnaissance needs rows of another node")
	lookedAgain     = probe.NewReplaced("recon.looked-again", "A reconnaissance begins anew since a node that it may have asked has lost what it knew")
	moved           = probe.New("recon.moved", "Rows have moved since they were looked at")
)

// What replicas may be told to do: see package buggify.
var (
	looksTwice = buggify.New("recon.looks-twice", "A footprint that was found is looked for once more")
)
