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

// page is a page of the index of a table's primary key: keysPerPage possible keys that follow each other.
type page struct {
	// prefix is the common prefix of the keys, and number the number of the page among the pages with that prefix.
	prefix txn.Key
	number uint64
}

// pageOf returns the page of a key. A plain key is followed by the next key of its cell, since each cell has a separate
// index. In other keys the last eight bytes distinguish the columns after the shard number, or after the group; they
// are interpreted as a number.
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
	// keys is the parameter keysPerPage; 0 for no pages. updates says that updates and deletions change a page, too.
	keys    uint64
	updates bool
	// changed is the log sequence number of the last entry that has changed a page. It has an entry for each page that was
	// ever changed, so it grows with the rows and not with time.
	changed map[page]uint64
	// since is the entry up to which a new incarnation does not know the changed pages: each page may have changed at that
	// entry.
	since uint64
}

// write notes the pages that writes change, which the last entry of the log commits. They are not installed yet.
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

// outdated reports whether a page that was read has been changed after log sequence number lsn, up to which the reader
// had the log. The pages of a range are the page where it starts and the pages of its rows: a row that is inserted in
// between changes one of them.
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

// lsns returns up to where the node's rows have the log of each region's writer of its partition, and nothing where
// pages are not modelled.
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
