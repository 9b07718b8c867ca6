package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/wire"
)

// Disturb implements admin.Node.
func (n *Node) Disturb(ctx context.Context, d *admin.Disturbance) error {
	if err := n.checkDisturbance(d); err != nil {
		return &admin.BadRequest{Err: err}
	}
	n.disturbing.Lock()
	defer n.disturbing.Unlock()
	if err := n.disturb(ctx, d); err != nil {
		return err
	}
	if n.lease != nil {
		n.lease.Stop()
		n.lease = nil
	}
	if d.Lease > 0 {
		n.lease = time.AfterFunc(d.Lease, n.undisturb)
	}
	return nil
}

func (n *Node) checkDisturbance(d *admin.Disturbance) error {
	t := n.topology
	for i, l := range d.Links {
		if t.Index(l.To) < 0 {
			return fmt.Errorf("links[%d].to: %q is not one of %v", i, l.To, t.Regions)
		}
	}
	for field, nodes := range map[string][]int{"cut": d.Cut, "lost": d.Lost} {
		for i, id := range nodes {
			if id < 0 || id >= t.Nodes() {
				return fmt.Errorf("%s[%d]: node %d is not one of 0 to %d", field, i, id, t.Nodes()-1)
			}
		}
	}
	if d.SlowPercent < 0 || d.Lease < 0 {
		return fmt.Errorf("slowPercent %d and leaseNanoseconds %d must not be negative", d.SlowPercent, d.Lease)
	}
	return nil
}

// undisturb is what a lease's end does.
func (n *Node) undisturb() {
	n.disturbing.Lock()
	defer n.disturbing.Unlock()
	if n.lease == nil {
		return // renewed at the last moment, or the node ends
	}
	n.lease = nil
	n.cfg.Log.Warn("nobody has renewed the disturbance: it is over")
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	defer cancel()
	if err := n.disturb(ctx, &admin.Disturbance{}); err != nil {
		n.cfg.Log.Error("undoing the disturbance", "error", err)
	}
}

func (n *Node) endLease() {
	n.disturbing.Lock()
	defer n.disturbing.Unlock()
	if n.lease != nil {
		n.lease.Stop()
		n.lease = nil
	}
}

// disturb brings the node to d. Nodes that were lost stay so.
func (n *Node) disturb(ctx context.Context, d *admin.Disturbance) error {
	t := n.topology
	links := make([]*admin.DisturbedLink, len(t.Regions))
	for i := range d.Links {
		links[t.Index(d.Links[i].To)] = &d.Links[i]
	}
	for i := range t.Nodes() {
		id := geo.NodeID(i)
		if id == n.cfg.ID {
			continue
		}
		if slices.Contains(d.Lost, i) {
			n.endpoint.Link(id).GiveUp()
		}
		link, back := *t.Link(n.cfg.ID, id), *t.Link(id, n.cfg.ID)
		if l := links[t.RegionOf(id)]; l != nil {
			link, back = l.Link, l.Back
		}
		n.endpoint.Link(id).Disturb(link, back, slices.Contains(d.Cut, i))
	}
	err := n.call(ctx, func() {
		l := &n.loop
		if d.ClockOffset != l.offset {
			l.least = l.shown(l.elapsedNow()) // a clock never goes back: it stands still
			l.offset = d.ClockOffset
		}
		l.slow, l.debt = d.SlowPercent, 0
	})
	if err != nil {
		return err
	}
	if d.Same(nil) {
		n.disturbed.Store(nil)
	} else {
		n.disturbed.Store(d)
	}
	return nil
}

// slowest is the least that a node which is slowed down pauses at once: shorter pauses would be longer than asked for.
const slowest = 2 * time.Millisecond

// beginSlowly and endSlowly enclose the work of a node that is slowed down: it pauses for as long as it would have waited
// for the CPU.
func (l *loop) beginSlowly() time.Duration {
	if l.slow == 0 {
		return 0
	}
	return wire.Now()
}

func (l *loop) endSlowly(began time.Duration) {
	if l.slow == 0 || began == 0 {
		return
	}
	l.debt += (wire.Now() - began) * time.Duration(l.slow) / 100
	if l.debt < slowest {
		return
	}
	from := wire.Now()
	time.Sleep(l.debt)
	l.debt -= wire.Now() - from
}
