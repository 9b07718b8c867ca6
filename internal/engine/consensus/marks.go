package consensus

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks of this package: see package coverage.
var (
	campaign        = coverage.New("consensus.campaign", "A member has heard of no leader for so long that it wants to lead")
	timeoutDoubled  = coverage.New("consensus.timeout-doubled", "A member campaigns again without having heard of a leader, and waits twice as long for the next")
	timeoutHalved   = coverage.New("consensus.timeout-halved", "A leader gives its signs of life in time, and a member expects them sooner again")
	preVoteIgnored  = coverage.New("consensus.pre-vote-ignored", "A member that hears its leader ignores one that wants to be elected")
	voteWithheld    = coverage.New("consensus.vote-withheld", "A member grants no vote since it has acknowledged a lease")
	oldTermAnswered = coverage.New("consensus.old-term-answered", "A leader gets an answer to a leader of an earlier term")
	oldLeader       = coverage.New("consensus.old-leader", "A member hears a leader that has been replaced")
	newLeader       = coverage.New("consensus.new-leader", "A member learns that another one leads than before")
	leaderless      = coverage.New("consensus.leaderless", "A member that had a leader has none")
	takenOut        = coverage.NewReplaced("consensus.taken-out", "A member whose node has lost its memory is taken out of the group")
	takenIn         = coverage.NewReplaced("consensus.taken-in", "A new incarnation is taken into the group, and does not vote yet")
	promoted        = coverage.NewReplaced("consensus.promoted", "A new incarnation has caught up, and votes from now on")
	ackRepeated     = coverage.New("consensus.ack-late", "The acknowledgement of a heartbeat comes after that of a later one, or twice")
)

// Buggify points of this package: see package buggify.
var (
	cutShort         = buggify.New("consensus.log-cut", "A member forgets all entries that it has applied, so that who lacks one needs a snapshot")
	smallPieces      = buggify.New("consensus.small-pieces", "A snapshot is sent in pieces of 16 bytes")
	heartbeatLeftOut = buggify.New("consensus.heartbeat-left-out", "A leader gives no sign of life although it is time")
)
