package etcd

import (
	"context"
	"errors"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/geobench/geobench/internal/result"
	"github.com/geobench/geobench/internal/target"
	"github.com/geobench/geobench/internal/target/sqltarget"
)

// led is a database that tells who leads it.
type led struct {
	sqltarget.Database
	d       *dialect
	clients []*clientv3.Client // by endpoint, of which the first give are to be given back
	give    int
	regions map[uint64]string // by member: the region whose endpoint leads to it
	// region is the leader's at the beginning, empty where no endpoint leads to it, and term the term of its election.
	region string
	term   uint64
}

// Describe implements target.Described.
func (l *led) Describe() result.Target {
	out := l.Database.Describe()
	out.Leader = l.region
	return out
}

// Activity implements target.Database. The first member to answer says who leads; who none of them tells of leads nobody.
func (l *led) Activity(ctx context.Context) (target.Activity, error) {
	a, err := l.Database.Activity(ctx)
	if err != nil {
		return a, err
	}
	for i, e := range l.d.server.Endpoints {
		asking, cancel := context.WithTimeout(ctx, sqltarget.ConnectWithin)
		st, err := l.clients[i].Status(asking, e.Address)
		cancel()
		if err == nil && st.Leader != 0 {
			a.Leader, a.Elections = l.regions[st.Leader], int64(st.RaftTerm-l.term)
			break
		}
	}
	return a, nil
}

// Close implements sqltarget.Database.
func (l *led) Close() error {
	err := l.giveBack()
	return errors.Join(l.Database.Close(), err)
}

func (l *led) giveBack() (err error) {
	for ; l.give > 0; l.give-- {
		err = errors.Join(err, l.d.shared.give(l.d.server.Endpoints[l.give-1]))
	}
	return err
}

// lead makes the member of an endpoint the leader; of a negative one it leaves who was elected.
func (d *dialect) lead(ctx context.Context, endpoint int) (_ *led, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(d.server.Endpoints))*(sqltarget.ConnectWithin+sqltarget.Silence))
	defer cancel()
	l := &led{d: d, clients: make([]*clientv3.Client, len(d.server.Endpoints)), regions: map[uint64]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.giveBack())
		}
	}()
	for i, e := range d.server.Endpoints {
		if l.clients[i], err = d.shared.take(e, func() (*clientv3.Client, error) { return d.client(e) }); err != nil {
			return nil, err
		}
		l.give++
	}
	for moved := false; ; moved = true {
		leader, own, at := uint64(0), uint64(0), -1 // the leader's endpoint
		for i, e := range d.server.Endpoints {
			st, err := l.clients[i].Status(ctx, e.Address)
			if err != nil {
				return nil, d.refused(e, err)
			}
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
			l.region = d.server.Endpoints[at].Region
		}
		switch {
		case endpoint < 0, at == endpoint:
			return l, nil
		case at < 0:
			return nil, sqltarget.Wrong(sqltarget.ParameterField(leaderParameter), strconv.Itoa(endpoint), "the leader is a member that no endpoint leads to (%x), and it alone can give its place away: etcdctl move-leader %x, or leave this out", leader, own)
		case moved:
			return nil, sqltarget.Wrong(sqltarget.ParameterField(leaderParameter), strconv.Itoa(endpoint), "the member of %s was made the leader, and no longer is: %x leads", d.server.Endpoints[endpoint].Region, leader)
		}
		if _, err := l.clients[at].MoveLeader(ctx, own); err != nil {
			return nil, d.refused(d.server.Endpoints[at], err)
		}
	}
}
