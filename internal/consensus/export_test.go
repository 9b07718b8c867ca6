package consensus

// Stored returns the number of entries that the member keeps.
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
