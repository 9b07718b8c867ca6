package social

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

func topology(regions, partitions int) *geo.Topology {
	return &geo.Topology{Regions: []string{"a", "b", "c"}[:regions], Partitions: partitions, Replicas: 1}
}

// defaults returns the defaults of the API, except for the number of users.
func defaults() v1alpha1.Social {
	return v1alpha1.Social{UsersPerPartition: 200, Mix: v1alpha1.SocialMix{TimelinePermille: 850, PostPermille: 75, FollowPermille: 75},
		GlobalFollowPercent: 50, ProducersPerUser: 10, ListLimit: 1000, PostBytes: 140, PostsPerUser: 10, PostsPerTimeline: 20}
}

func bind(t testing.TB, top *geo.Topology, change func(*v1alpha1.Social)) (*Social, *workloadtest.Case) {
	spec := defaults()
	if change != nil {
		change(&spec)
	}
	w, err := New(spec, 7, top)
	if err != nil {
		t.Fatal(err)
	}
	return w, workloadtest.Bind(t, New, spec, top, Procedures())
}

func TestGenerator(t *testing.T) {
	for name, c := range map[string]struct {
		regions, partitions int
		change              func(*v1alpha1.Social)
	}{
		"the paper's":        {2, 1, nil},
		"several partitions": {3, 2, nil},
		"local":              {2, 1, func(s *v1alpha1.Social) { s.GlobalFollowPercent = 0 }},
		"all are global":     {2, 2, func(s *v1alpha1.Social) { s.GlobalFollowPercent = 100 }},
		"one partition":      {1, 1, func(s *v1alpha1.Social) { s.GlobalFollowPercent = 0 }},
		"posts only":         {2, 1, func(s *v1alpha1.Social) { s.Mix = v1alpha1.SocialMix{PostPermille: 1000} }},
		"few follow many":    {2, 1, func(s *v1alpha1.Social) { s.UsersPerPartition, s.ProducersPerUser = 11, 10 }},
	} {
		t.Run(name, func(t *testing.T) {
			top := topology(c.regions, c.partitions)
			place := top.Placement()
			_, suite := bind(t, top, c.change)
			workloadtest.Shares(t, suite, 6000, func(home geo.Region, tx *txn.Transaction, r workload.Request) {
				own := place.Cell(tx.Accesses[0].Key)
				if own.Home != home {
					t.Fatalf("a client of region %d works on a user of region %d", home, own.Home)
				}
				if follows := r.Type == typeLocalFollow || r.Type == typeGlobalFollow; follows != (tx.Proc == procFollow) ||
					follows && (own != place.Cell(tx.Accesses[1].Key)) != (r.Type == typeGlobalFollow) {
					t.Fatalf("%v is of type %s", tx.Accesses, typeNames[r.Type])
				}
			})
		})
	}
}

func TestSuite(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Social){
		"the paper's": nil,
		// Half of the follows find a full list.
		"full lists": func(s *v1alpha1.Social) {
			s.Mix = v1alpha1.SocialMix{TimelinePermille: 200, PostPermille: 100, FollowPermille: 700}
			s.ProducersPerUser, s.ListLimit = 2, 3
		},
		"one post": func(s *v1alpha1.Social) { s.PostsPerUser, s.PostBytes, s.PostsPerTimeline = 1, 1, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			_, c := bind(t, topology(3, 2), change)
			workloadtest.Rows(t, c)
			workloadtest.Ledger(t, c, 3000)
			workloadtest.Streams(t, c, 300)
			workloadtest.Invariants(t, c, 300)
		})
	}
}

// TestGraph checks that every user initially has the configured numbers of distinct producers and consumers. The number
// in other partitions follows the share of global follows.
func TestGraph(t *testing.T) {
	for name, c := range map[string]struct {
		regions, partitions int
		users               int64
		producers, percent  int32
		global              int
	}{
		"half":             {2, 2, 200, 10, 50, 5},
		"none":             {3, 1, 50, 7, 0, 0},
		"all":              {3, 2, 50, 7, 100, 7},
		"a third of three": {2, 1, 50, 3, 33, 1},
		"everybody else":   {1, 1, 8, 7, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			top := topology(c.regions, c.partitions)
			place := top.Placement()
			w, _ := bind(t, top, func(s *v1alpha1.Social) {
				s.UsersPerPartition, s.ProducersPerUser, s.GlobalFollowPercent = c.users, c.producers, c.percent
			})
			consumers := map[uint64][]uint64{}
			for user := range w.graph.users {
				own, _ := place.Locate(user)
				l := w.graph.list(user, w.graph.producer)
				seen, global := map[uint64]bool{user: true}, 0
				for i := range l.users() {
					producer := l.user(i)
					if seen[producer] {
						t.Fatalf("user %d follows %d twice, or itself", user, producer)
					}
					seen[producer] = true
					if other, _ := place.Locate(producer); other != own {
						global++
					}
					consumers[producer] = append(consumers[producer], user)
				}
				if l.users() != int(c.producers) || global != c.global {
					t.Fatalf("user %d follows %d, of which %d are in other partitions; want %d and %d", user, l.users(), global, c.producers, c.global)
				}
			}
			for user := range w.graph.users {
				l := w.graph.list(user, w.graph.consumer)
				var got []uint64
				for i := range l.users() {
					got = append(got, l.user(i))
				}
				slices.Sort(got)
				if !slices.Equal(got, consumers[user]) {
					t.Fatalf("user %d is followed by %v, its list says %v", user, consumers[user], got)
				}
			}
		})
	}
}

// call runs a procedure, which must commit, and returns its result.
func call(t *testing.T, d *workloadtest.Database, p *txn.Procedure, args []byte) []byte {
	t.Helper()
	tx := &txn.Transaction{ID: txn.MakeID(1, 1)}
	p.Call(tx, args)
	o := d.Run(tx)
	if o.Status != txn.Committed {
		t.Fatalf("%s: %v, %s", p.Name, o.Status, o.Reason)
	}
	return o.Result
}

func numbers(n ...uint64) (b []byte) {
	for _, x := range n {
		b = binary.BigEndian.AppendUint64(b, x)
	}
	return b
}

// TestTimeline checks that a timeline lists the newest posts of all producers, newest first, and that each user keeps
// only the newest posts.
func TestTimeline(t *testing.T) {
	top := topology(2, 1)
	w, _ := bind(t, top, func(s *v1alpha1.Social) { s.ProducersPerUser, s.PostBytes, s.PostsPerUser = 2, 8, 2 })
	d := workloadtest.New(t, Procedures()...).Load(w, top)
	const user = 3
	a, b := w.graph.producer(user, 0), w.graph.producer(user, 1)
	send := func(user uint64, at int64) {
		args := binary.BigEndian.AppendUint16(numbers(user, uint64(at)), 2)
		call(t, d, post, appendMessage(args, user, at, 8))
	}
	send(a, 10)
	send(b, 5)
	send(a, 30)
	send(a, 20) // has an earlier time than the post at 30 but commits after it
	send(user, 40)
	for _, shown := range []uint16{1, 3, 20} {
		args := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(numbers(user), shown), 8)
		result := call(t, d, timeline, args)
		var got []string
		for ; len(result) > 0; result = result[authorSize+postHead+8:] {
			name := "a"
			if binary.BigEndian.Uint64(result) == b {
				name = "b"
			}
			got = append(got, fmt.Sprintf("%s@%d", name, timeOf(result[authorSize:])))
		}
		all := []string{"a@30", "a@20", "b@5", fmt.Sprintf("b@%d", loadedAt)}
		if !slices.Equal(got, all[:min(int(shown), len(all))]) {
			t.Errorf("a timeline of at most %d posts shows %v", shown, got)
		}
	}
}

func TestFollow(t *testing.T) {
	top := topology(1, 1)
	w, _ := bind(t, top, func(s *v1alpha1.Social) { s.UsersPerPartition, s.ProducersPerUser, s.GlobalFollowPercent = 10, 2, 0 })
	for name, c := range map[string]struct {
		limit uint32
		times int
		added int
	}{
		"once":             {3, 1, 1},
		"twice":            {4, 2, 1},
		"a list is full":   {2, 1, 0},
		"the list is full": {1, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := workloadtest.New(t, Procedures()...).Load(w, top)
			follower := uint64(0)
			followed := uint64(1)
			for slices.Contains(w.graph.offsets, followed) {
				followed++
			}
			for range c.times {
				call(t, d, follow, binary.BigEndian.AppendUint32(numbers(follower, followed), c.limit))
			}
			for k, other := range map[txn.Key]uint64{txn.IntKey(tableProducers, follower): followed, txn.IntKey(tableConsumers, followed): follower} {
				r, _ := d.Get(k)
				l := list(r.Value)
				if l.users() != 2+c.added || l.has(other) != (c.added > 0) || int(l.follows()) != c.times || int(l.ignored()) != c.times-c.added {
					t.Errorf("%s has %d users after %d follows of which %d were ignored, want %d more than 2", w.KeyName(k), l.users(), l.follows(), l.ignored(), c.added)
				}
			}
		})
	}
}

// TestOneSidedFollow checks that the audit names a user who is in only one of the two lists.
func TestOneSidedFollow(t *testing.T) {
	top := topology(2, 1)
	w, _ := bind(t, top, nil)
	for name, c := range map[string]struct {
		key  txn.Key
		user uint64
		want string
	}{
		"producers alone": {txn.IntKey(tableProducers, 3), 5, "user 3 follows 5 in a: producers(3) says so, consumers(5) does not"},
		"consumers alone": {txn.IntKey(tableConsumers, 3), 5, "user 5 follows 3 in a: consumers(3) says so, producers(5) does not"},
	} {
		t.Run(name, func(t *testing.T) {
			d := workloadtest.New(t, Procedures()...).Load(w, top)
			r, _ := d.Get(c.key)
			d.Apply(1, []txn.WriteEntry{{Key: c.key, Value: list(r.Value).followed(c.user, false)}})
			if failed := d.Verify(w, nil); !slices.Contains(failed, "social-edges: "+c.want) {
				t.Errorf("%v; want one that says %q", failed, c.want)
			}
		})
	}
}

// TestWrongTimelines checks that a client notices a timeline with a post that no user sent.
func TestWrongTimelines(t *testing.T) {
	right := append(numbers(4, 9), appendMessage(nil, 4, 9, 140)...)
	older := append(numbers(6, 2), appendMessage(nil, 6, 2, 140)...)
	invented := append(numbers(4, 9), appendMessage(nil, 4, 8, 140)...)
	for name, c := range map[string]struct {
		result []byte
		wrong  int64
	}{
		"right":           {slices.Concat(right, older), 0},
		"too few":         {right, 1},
		"wrong order":     {slices.Concat(older, right), 1},
		"wrong message":   {slices.Concat(invented, older), 1},
		"part of a post":  {slices.Concat(right, older[:20]), 1},
		"nothing":         {nil, 1},
		"another's words": {slices.Concat(right, append(numbers(7, 2), older[16:]...)), 1},
	} {
		w, _ := bind(t, topology(1, 1), func(s *v1alpha1.Social) {
			s.GlobalFollowPercent, s.ProducersPerUser, s.Mix = 0, 2, v1alpha1.SocialMix{TimelinePermille: 1000}
		})
		g := w.NewGenerator(workload.GeneratorConfig{Clients: 1})
		tx := &txn.Transaction{ID: txn.MakeID(1, 1)}
		g.Next(0, 0, tx)
		g.Done(0, txn.Outcome{ID: tx.ID, Status: txn.Committed, Result: c.result})
		if got := g.Ledger()[ledgerWrongTimelines].High; got != c.wrong {
			t.Errorf("%s: %d wrong timelines, want %d", name, got, c.wrong)
		}
		failed := slices.ContainsFunc(w.Verify(nil, g.Ledger()), func(c workload.Check) bool { return c.Name == "social-timelines" })
		if failed != (c.wrong > 0) {
			t.Errorf("%s: the check of timelines fails: %v", name, failed)
		}
	}
}

func TestNever(t *testing.T) {
	for name, c := range map[string]struct {
		mix     v1alpha1.SocialMix
		percent int32
		never   string
	}{
		"all run":       {v1alpha1.SocialMix{TimelinePermille: 1, PostPermille: 1, FollowPermille: 998}, 50, ""},
		"local alone":   {v1alpha1.SocialMix{TimelinePermille: 1, PostPermille: 1, FollowPermille: 998}, 0, "globalFollow"},
		"global alone":  {v1alpha1.SocialMix{TimelinePermille: 1, PostPermille: 1, FollowPermille: 998}, 100, "localFollow"},
		"no follows":    {v1alpha1.SocialMix{TimelinePermille: 500, PostPermille: 500}, 50, "localFollow globalFollow"},
		"timeline only": {v1alpha1.SocialMix{TimelinePermille: 1000}, 50, "post localFollow globalFollow"},
	} {
		var never []string
		for _, transaction := range typeNames {
			if Never(&v1alpha1.Social{Mix: c.mix, GlobalFollowPercent: c.percent}, transaction) != "" {
				never = append(never, transaction)
			}
		}
		if got := strings.Join(never, " "); got != c.never {
			t.Errorf("%s: %q never run, want %q", name, got, c.never)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.Social){
		"mix: the shares sum to 999; they must be 0 or more and sum to 1000": func(s *v1alpha1.Social) { s.Mix.PostPermille-- },
		"globalFollowPercent: 50 needs two partitions":                       func(*v1alpha1.Social) {},
		"usersPerPartition: 1 is not between 2 and 100000000":                func(s *v1alpha1.Social) { s.UsersPerPartition = 1 },
		"producersPerUser: 10 is not between 1 and 9":                        func(s *v1alpha1.Social) { s.UsersPerPartition = 10 },
		"producersPerUser: 10 is not between 1 and 5":                        func(s *v1alpha1.Social) { s.ListLimit = 5 },
		"listLimit: 1001 is not between 1 and 1000":                          func(s *v1alpha1.Social) { s.ListLimit = 1001 },
		"postBytes: 0 is not between 1 and 4096":                             func(s *v1alpha1.Social) { s.PostBytes = 0 },
		"postsPerUser: 101 is not between 1 and 100":                         func(s *v1alpha1.Social) { s.PostsPerUser = 101 },
		"postsPerTimeline: 0 is not between 1 and 100":                       func(s *v1alpha1.Social) { s.PostsPerTimeline = 0 },
	} {
		spec, top := defaults(), topology(2, 1)
		if strings.Contains(want, "two partitions") {
			top = topology(1, 1)
		}
		change(&spec)
		if _, err := New(spec, 1, top); err == nil || !strings.Contains(err.Error(), "spec.workload.social."+want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// FuzzProcedures checks that every procedure terminates, whatever its arguments and the rows it reads.
func FuzzProcedures(f *testing.F) {
	row := list(numbers(0)).append(5)
	f.Add(uint8(0), binary.BigEndian.AppendUint32(numbers(1), 20<<16|8), []byte(row))
	f.Add(uint8(1), append(binary.BigEndian.AppendUint16(numbers(1, 2), 10), "a message"...), []byte(nil))
	f.Add(uint8(2), binary.BigEndian.AppendUint32(numbers(1, 2), 100), []byte(row))
	f.Fuzz(func(t *testing.T, which uint8, args, value []byte) {
		p := Procedures()[int(which)%3]
		var footprint txn.Footprint
		if p.Declare(args, &footprint) != nil {
			return
		}
		st := store.NewHash()
		for _, a := range footprint.Accesses {
			st.Load(a.Key, value)
		}
		st.Load(txn.IntKey(tablePosts, 5), value)
		_, _ = p.Run(&store.View{Rows: st}, args)
	})
}

func BenchmarkTransactions(b *testing.B) {
	top := topology(2, 1)
	w, _ := bind(b, top, func(s *v1alpha1.Social) { s.UsersPerPartition = 10_000 })
	d := workloadtest.New(b, Procedures()...).Load(w, top)
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 1})
	b.ReportAllocs()
	for b.Loop() {
		tx := &txn.Transaction{ID: txn.MakeID(1, 1)}
		g.Next(0, 0, tx)
		view := &store.View{Rows: d.Hash}
		result, err := Procedures()[tx.Proc-procTimeline].Run(view, tx.Args)
		if err != nil {
			b.Fatal(err)
		}
		g.Done(0, txn.Outcome{Status: txn.Committed, Result: result})
	}
}
