package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/net/wire"
	"github.com/geobench/geobench/internal/ops/admin"
)

// disturbances holds the current and past effects of faults on a node. The node carries out its agenda on its own,
// because the sender of the agenda may become unavailable.
type disturbances struct {
	mu     sync.Mutex
	agenda admin.Agenda
	now    admin.Disturbance
	log    admin.Log
	alarm  *time.Timer // fires at the next step of the agenda; nil if no step is left
	ended  bool
	// file is the path of the file that stores the agenda and the log for a restarted process; empty if the node has no
	// journal.
	file string
}

// keptDisturbances is the content of disturbances.file.
type keptDisturbances struct {
	Incarnation string       `json:"incarnation"`
	Agenda      admin.Agenda `json:"agenda"`
	Log         admin.Log    `json:"log"`
}

// beginDisturbances creates the log of disturbances, or continues the log and the agenda of the previous process.
func (n *Node) beginDisturbances(folder string) error {
	d := &n.disturbing
	d.log = admin.Log{Process: n.process, Since: admin.Monotonic()}
	if folder == "" {
		return nil
	}
	d.file = filepath.Join(folder, "disturbances.json")
	b, err := os.ReadFile(d.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var kept keptDisturbances
	if err := json.Unmarshal(b, &kept); err != nil {
		return fmt.Errorf("%s: %w", d.file, err)
	}
	// Ignore the file of an earlier deployment of the database.
	if kept.Incarnation != n.cfg.Database.Incarnation {
		return nil
	}
	// The effects of a disturbance end with the process. The time at which the previous process stopped is unknown, so
	// close the last entry of the log now.
	d.agenda, d.log = kept.Agenda, kept.Log
	d.log.Change(admin.Monotonic(), nil)
	return nil
}

// keep stores the agenda and the log for a restarted process. It does not sync the file: written data survives the
// death of the process, and is lost only if the machine fails.
func (n *Node) keep() {
	d := &n.disturbing
	if d.file == "" {
		return
	}
	b, err := json.Marshal(keptDisturbances{n.cfg.Database.Incarnation, d.agenda, d.log})
	if err == nil {
		err = os.WriteFile(d.file+".new", b, 0o600)
	}
	if err == nil {
		// The rename replaces the file atomically, so that a reader never sees a partly written file.
		err = os.Rename(d.file+".new", d.file)
	}
	if err != nil {
		n.cfg.Log.Error("the disturbances are not kept", "error", err)
	}
}

// Disturb implements admin.Disturbable. It returns once all due steps are carried out.
func (n *Node) Disturb(_ context.Context, a *admin.Agenda) error {
	if err := n.checkAgenda(a); err != nil {
		return &admin.BadRequest{Err: err}
	}
	d := &n.disturbing
	d.mu.Lock()
	defer d.mu.Unlock()
	d.agenda = *a
	n.follow()
	n.keep()
	return nil
}

func (n *Node) checkAgenda(a *admin.Agenda) error {
	if a.Process != "" && a.Process != n.process {
		return fmt.Errorf("process: this is process %s, not %s", n.process, a.Process)
	}
	for i := range a.Steps {
		if i > 0 && a.Steps[i].At <= a.Steps[i-1].At {
			return fmt.Errorf("steps[%d].atNanoseconds: %d is not after the step before", i, a.Steps[i].At)
		}
		if err := n.checkDisturbance(&a.Steps[i].Disturbance); err != nil {
			return fmt.Errorf("steps[%d].%w", i, err)
		}
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
	if d.SlowPercent < 0 {
		return fmt.Errorf("slowPercent: %d is negative", d.SlowPercent)
	}
	return nil
}

// Log implements admin.Disturbable.
func (n *Node) Log() *admin.Log {
	d := &n.disturbing
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.log
	out.Entries = slices.Clone(out.Entries)
	if n.late != nil {
		out.Late = n.late.Record()
	}
	// wire.Now and admin.Monotonic have different zero points, so convert the times of the endpoint.
	shift := admin.Monotonic() - wire.Now()
	for _, f := range n.endpoint.Fast() {
		link := admin.FastLink{To: n.topology.Regions[f.Region], From: f.From + shift, Until: f.To + shift, Median: f.Median}
		if f.Single {
			link.Node = n.topology.NodeName(f.Peer)
		}
		out.Fast = append(out.Fast, link)
	}
	return &out
}

// disturbed returns the current disturbance of the node, or nil for none, and the number of remaining steps in its
// agenda.
func (n *Node) disturbed() (*admin.Disturbance, int) {
	d := &n.disturbing
	d.mu.Lock()
	defer d.mu.Unlock()
	ahead := d.agenda.Ahead(admin.Monotonic())
	if d.now.Same(nil) {
		return nil, ahead
	}
	now := d.now
	return &now, ahead
}

// resumeDisturbances continues the agenda of the previous process.
func (n *Node) resumeDisturbances() {
	d := &n.disturbing
	d.mu.Lock()
	defer d.mu.Unlock()
	n.follow()
}

// endDisturbances stops the agenda.
func (n *Node) endDisturbances() {
	d := &n.disturbing
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.alarm != nil {
		d.alarm.Stop()
	}
}

// follow carries out the current step of the agenda and schedules the next step. The caller must hold d.mu.
func (n *Node) follow() {
	d := &n.disturbing
	if d.alarm != nil {
		d.alarm.Stop()
		d.alarm = nil
	}
	// The alarm may fire while the node stops.
	if d.ended {
		return
	}
	want, next, ok := d.agenda.At(admin.Monotonic())
	// Apply only changes: applying the same disturbance again would split its log entry in two.
	if !want.Same(&d.now) {
		n.disturb(want)
		d.now = *want
		d.log.Change(admin.Monotonic(), want)
	}
	if ok {
		d.alarm = time.AfterFunc(next-admin.Monotonic(), func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			n.follow()
			n.keep()
		})
	}
}

// disturb applies d to the node. Links that were given up (Lost) stay given up.
func (n *Node) disturb(d *admin.Disturbance) {
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
	n.loop.offset.Store(int64(d.ClockOffset))
	n.loop.slow.Store(d.SlowPercent)
	// The channel holds a single token. That is enough, because endSlowly reads the latest value after it receives the
	// token.
	select {
	case n.loop.pace <- struct{}{}:
	default:
	}
}

// slowest is the minimum pause of a slowed node. Timers are too inaccurate for shorter pauses, so endSlowly accumulates
// these first.
const slowest = 2 * time.Millisecond

// beginSlowly and endSlowly enclose the work of a slowed node. endSlowly pauses for the extra time that the work would
// have taken on a slower CPU.
func (l *loop) beginSlowly() (began time.Duration, percent int64) {
	if percent = l.slow.Load(); percent == 0 {
		l.debt = 0
		return 0, 0
	}
	return wire.Now(), percent
}

func (l *loop) endSlowly(began time.Duration, percent int64) {
	if percent == 0 {
		return
	}
	l.debt += (wire.Now() - began) * time.Duration(percent) / 100
	if l.debt < slowest {
		return
	}
	from := wire.Now()
	rest := time.NewTimer(l.debt)
	defer rest.Stop()
	for {
		select {
		case <-rest.C:
			// A timer fires late, so subtract the actual length of the pause. The next pause is then shorter by the excess.
			l.debt -= wire.Now() - from
			return
		case <-l.pace: // the end of the slowdown also ends the pause
			if l.slow.Load() != percent {
				l.debt = 0
				return
			}
		}
	}
}
