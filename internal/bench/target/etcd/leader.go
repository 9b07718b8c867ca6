package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// led is a database that reports its leader and the number of elections.
type led struct {
	sqltarget.Database
	endpoints []sqltarget.Endpoint
	tls       map[sqltarget.Endpoint]*tls.Config
	// clients are the clients that query the members, by endpoint. They are separate from the measured clients. They stay
	// open, because a new client would back off before it reconnects to a recovered member.
	clients []*clientv3.Client
	regions map[uint64]string // regions of the members' endpoints, by member ID
	// region is the region of the initial leader, or "" if no endpoint leads to the leader. term is the initial Raft
	// term.
	region string
	term   uint64
}

// Describe implements target.Described.
func (l *led) Describe() result.Target {
	out := l.Database.Describe()
	out.Leader = l.region
	return out
}

// Activity implements target.Database. It takes the leader from the member with the highest term, because other members
// may not know of the latest election yet.
func (l *led) Activity(ctx context.Context) (target.Activity, error) {
	a, err := l.Database.Activity(ctx)
	if err != nil {
		return a, err
	}
	newest := l.term
	for i, e := range l.endpoints {
		asking, cancel := context.WithTimeout(ctx, sqltarget.ConnectWithin)
		st, err := l.clients[i].Status(asking, e.Address)
		cancel()
		// Skip members that do not answer, because the run may have injected this fault. Leader is 0 during an election.
		if err == nil && st.Leader != 0 && st.RaftTerm >= newest {
			newest, a.Leader = st.RaftTerm, l.regions[st.Leader]
		}
	}
	// Raft increments the term at each election, including failed elections.
	a.Elections = int64(newest - l.term)
	return a, nil
}

// Close implements sqltarget.Database.
func (l *led) Close() error { return errors.Join(l.closeClients(), l.Database.Close()) }

func (l *led) closeClients() (err error) {
	for _, c := range l.clients {
		err = errors.Join(err, c.Close())
	}
	return err
}

// lead makes the member of an endpoint the leader. A negative endpoint keeps the elected leader.
func (d *dialect) lead(ctx context.Context, endpoint int) (_ *led, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(d.server.Endpoints))*(sqltarget.ConnectWithin+sqltarget.Silence))
	defer cancel()
	l := &led{endpoints: d.server.Endpoints, tls: d.tls, regions: map[uint64]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.closeClients())
		}
	}()
	for _, e := range l.endpoints {
		c, err := d.client(e)
		if err != nil {
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	for moved := false; ; moved = true {
		leader, own, at := uint64(0), uint64(0), -1 // at is the index of the leader's endpoint, or -1
		for i, e := range l.endpoints {
			st, err := l.clients[i].Status(ctx, e.Address)
			if err != nil {
				return nil, d.refused(e, err)
			}
			// Several endpoints may lead to the same member. If the requested endpoint is one of them, its region counts as the
			// member's region.
			if l.regions[st.Header.MemberId] == "" || i == endpoint {
				l.regions[st.Header.MemberId] = e.Region
			}
			if st.Leader == st.Header.MemberId && (at < 0 || i == endpoint) {
				at = i
			}
			if i == endpoint {
				leader, own = st.Leader, st.Header.MemberId
			}
			l.term = max(l.term, st.RaftTerm)
		}
		if at >= 0 {
			l.region = l.endpoints[at].Region
		}
		switch {
		// Either no particular leader is required, or the required member leads.
		case endpoint < 0, at == endpoint:
			return l, nil
		case at < 0:
			return nil, sqltarget.Wrong(sqltarget.ParameterField(leaderParameter), strconv.Itoa(endpoint), "the leader is a member that no endpoint leads to (%x), and it alone can give its place away: etcdctl move-leader %x, or leave this out", leader, own)
		// A second transfer is not attempted: a leader that does not stay would distort the whole run.
		case moved:
			return nil, sqltarget.Wrong(sqltarget.ParameterField(leaderParameter), strconv.Itoa(endpoint), "the member of %s was made the leader, and no longer is: %x leads", l.endpoints[endpoint].Region, leader)
		}
		// Only the leader itself accepts MoveLeader, so the request goes to its endpoint.
		if _, err := l.clients[at].MoveLeader(ctx, own); err != nil {
			return nil, d.refused(l.endpoints[at], err)
		}
	}
}
