// Package social is the social network of SDUR (Sciascia and Pedone, "Geo-Replicated Storage with Scalable Deferred
// Update Replication", section VI.A). Users post messages, follow each other, and read their timelines: the newest
// posts of the users that they follow. Each user has three rows: its consumers (the users that follow it), its
// producers (the users that it follows), and its posts. A follow updates one list of each of two users. The lists may
// be in different partitions (global) or in the same partition (local).
//
// A partition in the paper is a group of servers that store the same rows. It corresponds to a cell here: a partition
// number of a home region. docs/workloads.md explains why lists are rows, and why they are bounded.
package social

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// The transaction types, in the order of Types.
const (
	typeTimeline = iota
	typePost
	typeLocalFollow
	typeGlobalFollow
)

var typeNames = []string{"timeline", "post", "localFollow", "globalFollow"}

// Names in ledgers and audits. ledgerWrongTimelines is the number of timelines with posts that no user sent.
const (
	ledgerPosts          = "social-posts"
	ledgerFollows        = "social-follows"
	ledgerWrongTimelines = "social-wrong-timelines"
	auditPosts           = "posts"
	auditProducers       = "producers"
	auditConsumers       = "consumers"
	auditRows            = "rows"
	// ruleEdges is the rule of findings about follows that only one of the two users' lists contains.
	ruleEdges = "edges"
)

// rowsPerUser counts the rows of a user: consumers, producers and posts.
const rowsPerUser = 3

// Social is the workload bound to a topology. It implements workload.Workload.
type Social struct {
	spec     v1alpha1.Social
	seed     uint64
	topology *geo.Topology
	graph    graph
}

// New binds the workload to a topology. Errors name the manifest's field and its valid values.
func New(spec v1alpha1.Social, seed uint64, t *geo.Topology) (*Social, error) {
	const field = "spec.workload.social."
	if err := workload.CheckMixOf(1000, field+"mix", spec.Mix.TimelinePermille, spec.Mix.PostPermille, spec.Mix.FollowPermille); err != nil {
		return nil, err
	}
	if err := workload.CheckGlobal(field+"globalFollowPercent", spec.GlobalFollowPercent, t); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name               string
		value, least, most int64
	}{
		{"usersPerPartition", spec.UsersPerPartition, 2, 100_000_000},
		{"listLimit", int64(spec.ListLimit), 1, maxList},
		{"producersPerUser", int64(spec.ProducersPerUser), 1, min(int64(spec.ListLimit), spec.UsersPerPartition-1)},
		{"postBytes", int64(spec.PostBytes), 1, maxPostBytes},
		{"postsPerUser", int64(spec.PostsPerUser), 1, maxPosts},
		{"postsPerTimeline", int64(spec.PostsPerTimeline), 1, maxPosts},
	} {
		if f.value < f.least || f.value > f.most {
			return nil, fmt.Errorf("%s%s: %d is not between %d and %d", field, f.name, f.value, f.least, f.most)
		}
	}
	return &Social{spec, seed, t, newGraph(&spec, seed, t)}, nil
}

// Name implements workload.Workload.
func (w *Social) Name() string { return "social" }

// Types implements workload.Workload.
func (w *Social) Types() []string { return typeNames }

// TypesOf returns the names of the transaction types.
func TypesOf(*v1alpha1.Social) []string { return typeNames }

// Never returns the reason why no transaction of a type runs, or "" if some transactions of the type run.
func Never(spec *v1alpha1.Social, transaction string) string {
	kind := slices.Index(typeNames, transaction)
	follows := kind == typeLocalFollow || kind == typeGlobalFollow
	switch {
	case kind == typeTimeline && spec.Mix.TimelinePermille == 0, kind == typePost && spec.Mix.PostPermille == 0, follows && spec.Mix.FollowPermille == 0:
		return "its share in spec.workload.social.mix is 0"
	case kind == typeLocalFollow && spec.GlobalFollowPercent == 100, kind == typeGlobalFollow && spec.GlobalFollowPercent == 0:
		return fmt.Sprintf("spec.workload.social.globalFollowPercent is %d", spec.GlobalFollowPercent)
	}
	return ""
}

// Shares returns the shares of the mix, and the share of global follows.
func (w *Social) Shares() []workload.Share {
	permille := func(name string, share int32) workload.Share {
		return workload.Share{Name: name, Of: "transactions", ConfiguredPPM: int64(share) * 1000}
	}
	return []workload.Share{permille("timeline", w.spec.Mix.TimelinePermille), permille("post", w.spec.Mix.PostPermille),
		permille("follow", w.spec.Mix.FollowPermille), workload.Percent("global", "follows", w.spec.GlobalFollowPercent)}
}

// Rows implements workload.Workload. Each user of the cell has consumers, producers and one post.
func (w *Social) Rows(c geo.Cell, put func(txn.Key, []byte)) {
	p := w.topology.Placement()
	for n := range uint64(w.spec.UsersPerPartition) {
		user := p.ShardNumber(c, n)
		put(txn.IntKey(tableConsumers, user), w.graph.list(user, w.graph.consumer))
		put(txn.IntKey(tableProducers, user), w.graph.list(user, w.graph.producer))
		post := appendMessage(nil, user, loadedAt, int(w.spec.PostBytes))
		put(txn.IntKey(tablePosts, user), posts(nil).with(loadedAt, post, 1))
	}
}

// Size implements workload.Sized. A user has three rows: its consumers, its producers and its posts, with one post.
func (w *Social) Size() workload.Size {
	users := int64(w.graph.users)
	return workload.Size{Field: "usersPerPartition", Value: w.spec.UsersPerPartition, Rows: 3 * users, Bytes: users * (3*9 + 12*int64(w.spec.ProducersPerUser) + int64(w.spec.PostBytes))}
}

// Everywhere implements workload.Workload. It loads nothing: each row belongs to a cell.
func (w *Social) Everywhere(func(txn.Key, []byte)) {}

// KeyName names a row by its table and user, such as producers(17).
func (w *Social) KeyName(k txn.Key) string {
	if _, _, plain := k.Plain(); !plain || int(k.Table()) >= len(tableNames) {
		return k.String()
	}
	return fmt.Sprintf("%s(%d)", tableNames[k.Table()], k.Shard())
}

// Audit counts the rows of users, except for rows of unknown users and rows whose counts do not match their contents.
// It sums the posts and, for each table of lists, the follows that the lists have counted. It also sums the differences
// between consumers and producers.
func (w *Social) Audit(rows workload.Rows) map[string]int64 {
	var n, posted int64
	var follows [2]int64 // by table: consumers and producers
	var edges workload.Imbalance
	rows.Each(func(k txn.Key, value []byte) {
		user, table := k.Shard(), k.Table()
		l, p := list(value), posts(value)
		switch {
		case user >= w.graph.users, table == tablePosts && !p.whole(user, int(w.spec.PostBytes), int(w.spec.PostsPerUser)),
			table != tablePosts && !l.whole(int(w.spec.ProducersPerUser)):
			n--
			return
		case table == tablePosts:
			posted += int64(p.count())
		default:
			follows[table] += int64(l.follows())
			for i := range l.users() {
				if table == tableProducers {
					edges.Add(w.graph.edge(user, l.user(i)), 1)
				} else {
					edges.Add(w.graph.edge(l.user(i), user), -1)
				}
			}
		}
		n++
	})
	sums := map[string]int64{auditRows: n, auditPosts: posted, auditConsumers: follows[tableConsumers], auditProducers: follows[tableProducers]}
	edges.Each(func(what string, value int64) {
		if value != 0 {
			sums[workload.FindingName(ruleEdges, what)] = value
		}
	})
	return sums
}

// Verify checks, in every copy, that the counts of posts and of both kinds of lists match the transactions that clients
// know to be committed. No transaction was lost, half applied, repeated or invented. It also checks that both kinds of
// lists contain the same follow relation.
func (w *Social) Verify(copies []workload.Copy, ledger workload.Ledger) []workload.Check {
	says := func(f workload.Finding) (where, what string) {
		off := f.Values[""]
		if edge, alone := f.OffAlone(); alone && (off == 1 || off == -1) {
			follower, followed := edge/w.graph.users, edge%w.graph.users
			where = fmt.Sprintf("user %d follows %d", follower, followed)
			if off == 1 {
				return where, fmt.Sprintf("producers(%d) says so, consumers(%d) does not", follower, followed)
			}
			return where, fmt.Sprintf("consumers(%d) says so, producers(%d) does not", followed, follower)
		}
		return "who follows whom", fmt.Sprintf("lists of producers and of consumers differ, by %+d in number", off)
	}
	checks := []workload.Check{
		workload.WithinLedger("social-posts", auditPosts, int64(w.graph.users), copies, ledger[ledgerPosts]),
		workload.WithinLedger("social-producers", auditProducers, 0, copies, ledger[ledgerFollows]),
		workload.WithinLedger("social-consumers", auditConsumers, 0, copies, ledger[ledgerFollows]),
		workload.NoFindings("social-edges", ruleEdges, copies, says, "each user is among the consumers of its producers and the producers of its consumers"),
		workload.CopiesAgree(copies),
	}
	if rows := workload.WithinLedger("social-rows", auditRows, rowsPerUser*int64(w.graph.users), copies, workload.Interval{}); !rows.Passed {
		checks = append(checks, rows)
	}
	if wrong := ledger[ledgerWrongTimelines].High; wrong > 0 {
		checks = append(checks, workload.Check{Name: "social-timelines",
			Message: fmt.Sprintf("%d timelines lacked posts, had them in another order than the newest first, or showed what nobody has posted", wrong)})
	}
	return checks
}
