package consensus

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks of this package: see package coverage.
var (
	campaign = coverage.New("consensus.campaign",
		"A member receives no message from a leader within the election timeout and starts a campaign")
	timeoutDoubled = coverage.New("consensus.timeout-doubled",
		"A second campaign in a row without a message from a leader doubles the election timeout")
	timeoutHalved = coverage.New("consensus.timeout-halved",
		"Heartbeats arrive early enough for a member to halve its election timeout")
	preVoteIgnored = coverage.New("consensus.pre-vote-ignored", "A member with a live leader ignores a pre-vote request")
	voteWithheld   = coverage.New("consensus.vote-withheld",
		"A member withholds its vote because it has acknowledged a leader lease")
	oldTermAnswered = coverage.New("consensus.old-term-answered",
		"A leader ignores a reply that was meant for a leader of an earlier term")
	oldLeader  = coverage.New("consensus.old-leader", "A member receives a message from a deposed leader")
	newLeader  = coverage.New("consensus.new-leader", "A member learns of a different leader")
	leaderless = coverage.New("consensus.leaderless", "A member that had a leader no longer knows one")
	takenOut   = coverage.NewReplaced("consensus.taken-out",
		"A member whose node lost its state is removed from the group")
	takenIn = coverage.NewReplaced("consensus.taken-in",
		"A new incarnation joins the group as a learner without a vote")
	promoted = coverage.NewReplaced("consensus.promoted",
		"A new incarnation has caught up and becomes a voting member")
	ackRepeated = coverage.New("consensus.ack-late", "A heartbeat acknowledgement arrives twice or out of order")
)

// Buggify points of this package: see package buggify.
var (
	cutShort = buggify.New("consensus.log-cut",
		"A member compacts its log up to the last applied entry, so members that are behind need a snapshot")
	smallPieces      = buggify.New("consensus.small-pieces", "A snapshot is sent in chunks of 16 bytes")
	heartbeatLeftOut = buggify.New("consensus.heartbeat-left-out", "A leader skips a heartbeat that is due")
)
