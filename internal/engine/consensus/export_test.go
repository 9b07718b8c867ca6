package consensus

// Stored returns the number of entries in the member's log.
func (g *Group) Stored() int {
	first, err := g.storage.FirstIndex()
	if err != nil {
		panic(err)
	}
	last, err := g.storage.LastIndex()
	if err != nil {
		panic(err)
	}
	return int(last - first + 1)
}

// ReuseIDs makes new incarnations use the Raft IDs of the old ones.
func (c *Config) ReuseIDs() { c.reused = true }

// Spoil changes a byte of the snapshots that this leader is sending, so that they no longer match their digests.
func (g *Group) Spoil() {
	for _, t := range g.transfers {
		data := t.m.GetSnapshot().GetData()
		data[len(data)-1]++
	}
}

// Voters returns the number of voters, as far as this member knows.
func (g *Group) Voters() int { return len(g.conf.GetVoters()) }

// Votes reports whether the member votes.
func (g *Group) Votes() bool { return g.votes() }
