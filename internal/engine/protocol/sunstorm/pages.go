package sunstorm

import (
	"encoding/binary"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
)

// Values of the parameter pageUpdates.
const (
	updatesInserts = "inserts"
	updatesAll     = "all"
)

// page is a page of the index of a table's primary key. It covers keysPerPage consecutive possible keys.
type page struct {
	// prefix is the common prefix of the keys, and number the number of the page among the pages with that prefix.
	prefix txn.Key
	number uint64
}

// pageOf returns the page of a key. Plain keys are numbered within their cell, since each cell has a separate index. In
// other keys, the part after the shard number or the group is interpreted as a number, but at most its last eight
// bytes.
func pageOf(k txn.Key, p geo.Placement, keys uint64) page {
	if _, shard, plain := k.Plain(); plain {
		_, rank := p.Locate(shard)
		return page{k[:1], rank / keys}
	}
	head := 1
	switch {
	case k.Ordered():
		head = len(k.Unit())
	case !k.Marked() && k[0] <= byte(txn.MaxTable):
		head = 9 // the table and the shard number
	}
	var number [8]byte
	// Only the last eight bytes form the number; any columns before them belong to the prefix.
	head = max(head, len(k)-len(number))
	copy(number[len(number)-(len(k)-head):], k[head:])
	return page{k[:head], binary.BigEndian.Uint64(number[:]) / keys}
}

// pages are the changed index pages of the rows that a writer owns (section 4.4.2).
type pages struct {
	r *Replica
	// keys is the parameter keysPerPage; 0 means that pages are not modelled. updates is set if updates and deletions also
	// change a page.
	keys    uint64
	updates bool
	// changed maps each page that was ever changed to the log sequence number of the last entry that has changed it. The
	// map grows with the number of rows, not with time.
	changed map[page]uint64
	// since is the last log entry of this node's predecessor, or 0. A new incarnation does not know which pages the
	// predecessor changed, so it assumes that every page changed at this entry.
	since uint64
}

// write records the pages that writes change. The last entry of the log commits these writes, and they are not
// installed yet.
func (g *pages) write(writes []txn.WriteEntry) {
	if g.keys == 0 {
		return
	}
	for i := range writes {
		w := &writes[i]
		// With pageUpdates: inserts, all updates count as heap-only: they and deletions leave the index page unchanged.
		if !g.updates {
			if _, there := g.r.store.Get(w.Key); there || w.Deleted {
				continue
			}
		}
		g.changed[pageOf(w.Key, g.r.placement, g.keys)] = g.r.wal.last
	}
}

// outdated reports whether a page that was read has changed after log sequence number lsn, the reader's log position.
// The pages of a range are the page where it starts and the pages of its rows. The comparison of rows finds insertions
// into other pages (validate).
func (g *pages) outdated(reads *optimistic.Reads, lsn uint64) bool {
	if g.keys == 0 {
		return false
	}
	newer := func(k txn.Key) bool { return max(g.since, g.changed[pageOf(k, g.r.placement, g.keys)]) > lsn }
	for i := range reads.Points {
		if newer(reads.Points[i].Key) {
			return true
		}
	}
	for i := range reads.Ranges {
		read := &reads.Ranges[i]
		if newer(read.From) {
			return true
		}
		for j := range read.Rows {
			if newer(read.Rows[j].Key) {
				return true
			}
		}
	}
	return false
}

// lsns returns, by home, the last log entry that this node's rows include, or nil if pages are not modelled.
func (r *Replica) lsns() []uint64 {
	if r.writer.pages.keys == 0 {
		return nil
	}
	lsns := make([]uint64, len(r.copies))
	for home := range lsns {
		lsns[home] = r.copies[home].applied
	}
	// A writer installs committed writes in the step that appends their entry, so its rows include its whole log.
	lsns[r.region] = r.wal.last
	return lsns
}
