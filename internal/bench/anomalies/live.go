package anomalies

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/script"
)

// LiveConnections is the number of connections per region that the cases need. No case has more clients than this.
const LiveConnections = 4

// Live is a running database that accepts transactions statement by statement. It executes the statements of a case in
// an order that shows the anomaly unless the database prevents it. One execution of a case is called a play, and uses
// separate rows. In every other play, clients wait between certain statements until every region has the committed
// data; in the remaining plays they do not wait.
type Live struct {
	Topology *geo.Topology
	Promises isolation.Level
	// Steps executes statements on the database. Clients returns the target of the clients in a region.
	Steps   script.Database
	Clients func(geo.Region) *target.Statements

	idle [][]target.Connection // by region
	rows uint64                // number of row numbers used so far
	sent uint64
}

// Close closes the idle connections.
func (l *Live) Close() {
	for _, connections := range l.idle {
		for _, c := range connections {
			_ = c.Close()
		}
	}
	l.idle = nil
}

// Play executes a case the given number of times, which must be at least 1.
func (l *Live) Play(ctx context.Context, c *Case, plays int) (*Finding, error) {
	// The order of the statements makes the transactions overlap, and a read follows the answer to a write without delay.
	// Time in a script counts statements, so an hour is longer than any script.
	const lag = time.Hour
	g := &game{c: c, topology: l.Topology, placement: l.Topology.Placement(), lag: lag, rng: rand.New(rand.NewPCG(0, 0)), first: l.rows}
	l.rows += 3 * uint64(plays)
	for n := range plays {
		if err := l.play(ctx, g, g.deal(n)); err != nil {
			return nil, fmt.Errorf("case %s, play %d: %w", c.Name, n+1, err)
		}
	}
	return g.find(l.Promises), nil
}

// PlayAll executes all cases.
func (l *Live) PlayAll(ctx context.Context, plays int) ([]Finding, error) {
	var all []Finding
	for i := range cases {
		f, err := l.Play(ctx, &cases[i], plays)
		if err != nil {
			return nil, err
		}
		all = append(all, *f)
	}
	return all, nil
}

// take returns an idle connection of a region, or a new connection.
func (l *Live) take(ctx context.Context, r geo.Region) (script.Session, error) {
	if l.idle == nil {
		l.idle = make([][]target.Connection, len(l.Topology.Regions))
	}
	s := script.Session{Region: r, Classify: l.Clients(r).Classify}
	if n := len(l.idle[r]); n > 0 {
		s.Connection, l.idle[r] = l.idle[r][n-1], l.idle[r][:n-1]
		return s, nil
	}
	var err error
	if s.Connection, err = l.Clients(r).Connect(ctx); err != nil {
		return s, fmt.Errorf("region %s: %w", l.Topology.Regions[r], err)
	}
	return s, nil
}

// end closes the connections of sessions that cannot be reused.
func (l *Live) end(sessions []script.Session) {
	for _, s := range sessions {
		_ = s.Connection.Close()
	}
}

// give adds the connection of s to the idle connections of its region.
func (l *Live) give(s script.Session) { l.idle[s.Region] = append(l.idle[s.Region], s.Connection) }

// play executes a case once, on rows that it creates.
func (l *Live) play(ctx context.Context, g *game, p *play) (err error) {
	regions := len(l.Topology.Regions)
	keys := []txn.Key{simload.Key(p.x), simload.Key(p.y), simload.GroupKey(p.g, 1), simload.GroupKey(p.g, 2)}
	made := func(s target.Statement) error {
		for _, k := range keys {
			if k.Ordered() {
				err = s.Delete(k)
			} else {
				err = s.Put(k, script.Stamp(make([]byte, 8), history.Initial, 0))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := l.alone(ctx, made); err != nil {
		return fmt.Errorf("making its rows: %w", err)
	}
	if err := l.Steps.CatchUp(ctx); err != nil {
		return err
	}
	steps, err := script.Steps(g.c.steps)
	if err != nil {
		return err
	}
	// Half of the plays do not wait for the copies, so that anomalies of lagging copies can occur.
	if p.n%2 == 1 {
		steps = slices.DeleteFunc(steps, func(s script.Step) bool { return s == script.CatchUp })
	}
	var sessions []script.Session
	txns := make([]script.Transaction, len(g.c.txns))
	for i, t := range g.c.txns {
		for len(sessions) <= t.client {
			// The regions of clients change from play to play, as in the simulator.
			s, err := l.take(ctx, geo.Region((len(sessions)+p.n)%regions))
			if err != nil {
				l.end(sessions)
				return err
			}
			sessions = append(sessions, s)
		}
		l.sent++
		p.ids[i] = txn.MakeID(uint32(t.client)+1, l.sent)
		procedure := simload.Txn(p.ids[i], p.ops(t.ops))
		run := simload.Procedures.Lookup(procedure.Proc).Run
		txns[i] = script.Transaction{ID: p.ids[i], Session: t.client, After: t.after, Run: func(c txn.Ctx) error {
			_, err := run(c, procedure.Args)
			return err
		}}
	}
	played, err := script.Play(ctx, l.Steps, sessions, txns, steps)
	if err != nil {
		// After an error, the connections may have open transactions.
		l.end(sessions)
		return err
	}
	for _, s := range sessions {
		l.give(s)
	}
	// A write without a preceding read does not report the version that it overwrote; the final rows reveal it.
	if err := l.order(ctx, p, played, keys); err != nil {
		return fmt.Errorf("reading what is left of it: %w", err)
	}
	for i, x := range played {
		p.conflict[i] = x.Cause == txn.CauseConflict && x.Status == txn.Aborted
		g.add(p, i, int(sessions[g.c.txns[i].client].Region), &history.Txn{
			ID: p.ids[i], Client: uint32(call{p, i, g}.client()), Invoked: x.Invoked, Answered: x.Answered, Status: x.Status, Ops: x.Ops,
		})
	}
	return nil
}

// mostTries is the maximum number of attempts for a transaction that no other transaction should block.
const mostTries = 20

// alone runs a transaction in the first region while no other client is active. It retries conflicts: a server that is
// still applying another server's commits, as in Galera after the answer, may report a conflict with these commits.
func (l *Live) alone(ctx context.Context, do func(target.Statement) error) (err error) {
	for range mostTries {
		var conflict bool
		if conflict, err = l.once(ctx, do); !conflict {
			return err
		}
	}
	return fmt.Errorf("%d tries while no other client did anything: %w", mostTries, err)
}

// once runs a transaction in the first region. conflict reports whether it failed because of a conflict.
func (l *Live) once(ctx context.Context, do func(target.Statement) error) (conflict bool, err error) {
	s, err := l.take(ctx, 0)
	if err != nil {
		return false, err
	}
	statement, err := s.Connection.Begin(ctx, &txn.Transaction{})
	if err == nil {
		err = do(statement)
	}
	if err == nil {
		err = statement.Commit(ctx)
	}
	if err != nil {
		// The connection may have an open transaction, so it cannot be reused.
		_ = s.Connection.Close()
		return s.Classify(err).Cause == txn.CauseConflict, err
	}
	l.give(s)
	return false, nil
}

// order determines the versions that were replaced by writes without a preceding read of the row. At most two
// transactions committed a write of each row, so the version that remains is the version of the second commit.
func (l *Live) order(ctx context.Context, p *play, played []script.Played, keys []txn.Key) error {
	writes := map[txn.Key][]int{} // the committed transactions that wrote each row
	for i, x := range played {
		for _, o := range x.Ops {
			if o.Kind == history.Write {
				writes[o.Key] = append(writes[o.Key], i)
			}
		}
	}
	last := map[txn.Key]txn.ID{}
	keys = slices.DeleteFunc(slices.Clone(keys), func(k txn.Key) bool { return len(writes[k]) < 2 })
	if len(keys) > 0 {
		if err := l.Steps.CatchUp(ctx); err != nil {
			return err
		}
		err := l.alone(ctx, func(s target.Statement) error {
			for _, k := range keys {
				stored, err := s.Get(k)
				if err != nil && err != txn.ErrNotFound {
					return err
				}
				_, last[k], _ = script.Stamped(stored)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i, x := range played {
		for n := range x.Ops {
			o := &x.Ops[n]
			if o.Kind != history.Write || o.Known {
				continue
			}
			others := slices.DeleteFunc(slices.Clone(writes[o.Key]), func(j int) bool { return j == i })
			switch {
			// The only write of a row, and the write before the last, replaced the initial version.
			case len(others) == 0, len(others) == 1 && last[o.Key] == p.ids[others[0]]:
				o.Version, o.Known = history.Initial, true
			case len(others) == 1 && last[o.Key] == p.ids[i]:
				o.Version, o.Known = p.ids[others[0]], true
			}
		}
	}
	return nil
}

// ops returns the operations of a transaction with the rows of the play.
func (p *play) ops(ops string) string {
	return strings.NewReplacer("X", strconv.FormatUint(p.x, 10), "Y", strconv.FormatUint(p.y, 10), "G", strconv.FormatUint(p.g, 10)).Replace(ops)
}
