package controllers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/controllers/run"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// fakeNode is a node's process. It dies with its pod.
type fakeNode struct {
	pod      string
	process  string
	database deploy.Database
	id       geo.NodeID
	dataset  string
	run      string
	traced   bool
	workload []byte
	broken   bool
	// waiting: it has not been told which incarnation of its node it is. Told, it gets its data from its peers and is
	// mending until Status was asked as often.
	waiting     bool
	incarnation uint32
	mending     int
	// steward: it is no node, but has the rows of a database that is not Geobench's own.
	steward bool
	// program: it is the probe beside a program, which nobody can inject faults into.
	program bool
	// periods of its CPU quota, and those in which it had used it up.
	periods, throttled int64
	// ahead is by how much its clock is ahead of the operator's.
	ahead time.Duration
	// zero is when its monotonic clock showed 0. agenda is what it was told, taken how many of the steps it has taken,
	// told when.
	zero   time.Time
	agenda admin.Agenda
	taken  int
	told   time.Duration
	// late is how late it takes each step, idle that it takes none.
	late time.Duration
	idle bool
	now  admin.Disturbance
	log  admin.Log
	// complete is since when all of its links are emulated.
	complete time.Time
}

func isSteward(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Name == "steward" }

// startSteward starts a steward's process as geobench steward does, whose database has no pending transactions.
func (w *world) startSteward(ip string, pod *corev1.Pod) {
	w.t.Helper()
	cm := w.get(pod.Spec.Volumes[0].ConfigMap.Name, &corev1.ConfigMap{}).(*corev1.ConfigMap)
	var dw deploy.Worker
	w.must(json.Unmarshal([]byte(cm.Data[run.WorkerKey]), &dw))
	w.must(dw.Database.Validate())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[ip] = &fakeNode{pod: pod.Name, process: string(pod.UID), zero: w.clock.Now().Add(-time.Hour), database: dw.Database, steward: true}
}

// startNode starts a node's process as geobench node does: from the pod's ConfigMap, arguments and name.
func (w *world) startNode(ip, process string, pod *corev1.Pod) {
	w.t.Helper()
	cm := w.get(pod.Spec.Volumes[0].ConfigMap.Name, &corev1.ConfigMap{}).(*corev1.ConfigMap)
	n := &fakeNode{pod: pod.Name, process: process, zero: w.clock.Now().Add(-time.Hour), program: pod.Spec.Containers[0].Name != database.NodeContainer}
	n.log = admin.Log{Process: process, Since: w.clock.Since(n.zero)}
	if !w.linksShort[pod.Name] {
		n.complete = w.clock.Now().Add(-time.Hour)
	}
	w.must(json.Unmarshal([]byte(cm.Data[database.TopologyKey]), &n.database))
	w.must(n.database.Validate())
	region := n.database.Topology.Index(pod.Labels[kube.LabelRegion])
	ordinal, err := strconv.Atoi(pod.Name[strings.LastIndexByte(pod.Name, '-')+1:])
	w.must(err)
	t := &n.database.Topology
	n.id = t.Node(region, ordinal/t.Replicas, ordinal%t.Replicas)
	if pod.Labels[kube.LabelServer] != "" { // the pods of several roles are not numbered through
		n.id = geo.NodeID(slices.IndexFunc([]deploy.Node(n.database.Nodes), func(d deploy.Node) bool { return strings.HasPrefix(d.Admin, pod.Name+".") }))
	}
	if host, _, _ := strings.Cut(n.database.Nodes[n.id].Address, "."); host != pod.Name {
		w.t.Fatalf("node %s is at %s, but its pod is %s", t.NodeName(n.id), n.database.Nodes[n.id].Address, pod.Name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := &n.database
	journal := slices.Contains(pod.Spec.Containers[0].Args, "--journal")
	if n.waiting = !journal && slices.Contains(engines.Replaceable(d.Engine, d.Parameters, t), n.id); !n.waiting && !n.program {
		w.appear(n)
	}
	w.nodes[ip] = n
}

// appear lets the peers of a node hear of it: they refuse a process that has lost its state.
func (w *world) appear(n *fakeNode) {
	for _, other := range append(slices.Collect(maps.Values(w.nodes)), w.ended...) {
		if other != n && !other.waiting && !other.program && other.database.Incarnation == n.database.Incarnation && other.id == n.id && other.incarnation >= n.incarnation {
			n.broken = true
		}
	}
}

// Join implements podclient.Nodes.
func (w *world) Join(_ context.Context, addr string, j *admin.Join) error {
	n, err := w.node(addr)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case j.Process != n.process:
		return fmt.Errorf("this is process %s, not %s", n.process, j.Process)
	case !n.waiting && n.incarnation != j.NodeIncarnation:
		return fmt.Errorf("this process is incarnation %d already, not %d", n.incarnation, j.NodeIncarnation)
	case n.waiting:
		n.waiting, n.incarnation = false, j.NodeIncarnation
		if n.incarnation > 0 {
			n.mending = 3
			n.dataset, n.run, n.workload, n.traced = j.Loaded.Dataset, j.Loaded.Run, j.Loaded.Workload, j.Loaded.Traced
		}
		w.joins = append(w.joins, fmt.Sprintf("%s %d", n.database.Topology.NodeName(n.id), n.incarnation))
		w.appear(n)
	}
	return nil
}

// Nodes implements podclient.Clients.
func (w *world) Nodes(types.UID) podclient.Nodes { return w }

// node returns the node that listens at addr.
func (w *world) node(addr string) (*fakeNode, error) {
	ip, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.nodes[ip]; n != nil && !w.shutDown[n.pod] {
		return n, nil
	}
	return nil, fmt.Errorf("dial tcp %s: connection refused", addr)
}

// Status implements podclient.Nodes.
func (w *world) Status(_ context.Context, addr string) (*admin.Status, error) {
	n, err := w.node(addr)
	if err != nil {
		return nil, err
	}
	t := &n.database.Topology
	s := &admin.Status{
		QuotaPeriods: n.periods, ThrottledPeriods: n.throttled,
		Node: t.NodeName(n.id), ID: int(n.id), Incarnation: n.database.Incarnation, Process: n.process,
		Ready: !n.broken, Broken: n.broken, Dataset: n.dataset, Pending: w.pending,
	}
	if n.waiting {
		return &admin.Status{Node: s.Node, ID: s.ID, Incarnation: s.Incarnation, Process: s.Process, Waiting: true, Reason: "it waits"}, nil
	}
	w.mu.Lock()
	if s.NodeIncarnation, s.Recovering = n.incarnation, n.mending > 0; s.Recovering {
		n.mending--
	}
	w.mu.Unlock()
	n.follow(w.clock.Since(n.zero))
	if s.Ahead = len(n.agenda.Steps) - n.taken; !n.now.Same(nil) {
		now := n.now
		s.Disturbance = &now
	}
	if n.id == 0 || w.everybodyLeads {
		s.Roles = []string{"leader"}
	}
	if at := n.complete; !at.IsZero() {
		s.LinksComplete = &at
	}
	if n.broken {
		s.Reason = "a peer started again without its log"
	}
	if n.steward { // its etcd has elected another leader since
		s.Leader, s.Elections = t.Regions[1], 1
	}
	for r, region := range t.Regions {
		l := admin.LinkStatus{To: region, Traffic: geo.Traffic{Bytes: 1000 + w.bytes, Messages: 10}}
		self := t.RegionOf(n.id) == geo.Region(r)
		if !self || t.Partitions*t.Replicas > 1 {
			rtt := t.RTT(t.RegionOf(n.id), geo.Region(r)) + w.rttOff
			l.RTT = encodedRTT(max(1, rtt.Microseconds()))
			if w.mesh != "" {
				l.Mesh = &admin.MeshRTT{Below: encodedRTT(200), Through: encodedRTT(1100)}
			}
		}
		s.Links = append(s.Links, l)
	}
	return s, nil
}

// encodedRTTs are what encodedRTT has returned: each compression begins with tables of its own.
var encodedRTTs sync.Map

// encodedRTT are 50 round trips as nodes tell them.
func encodedRTT(us int64) string {
	if s, known := encodedRTTs.Load(us); known {
		return s.(string)
	}
	h := hdrhistogram.New(1, 60_000_000, 3)
	if err := h.RecordValues(us, 50); err != nil {
		panic(err)
	}
	s, err := admin.EncodeRTT(h)
	if err != nil {
		panic(err)
	}
	encodedRTTs.Store(us, s)
	return s
}

// Load implements podclient.Nodes.
func (w *world) Load(ctx context.Context, addr string, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	n, err := w.node(addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	hangs := w.hangs
	w.mu.Unlock()
	for name := range hangs {
		if strings.HasPrefix(n.pod, name+"-") {
			<-ctx.Done()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		w.givenUp++
		return nil, ctx.Err()
	}
	if w.tooMuch != "" {
		return nil, &admin.BadRequest{Err: errors.New(w.tooMuch)}
	}
	if n.dataset != req.Dataset {
		n.dataset, n.run, n.workload, n.traced = req.Dataset, req.Run, req.Workload, req.Traced
		w.loads++
	}
	resp := &admin.LoadResponse{Rows: 100, Bytes: 10_000}
	if n.steward {
		about := result.Target{Server: "PostgreSQL 15.0", Isolation: "serializable", Servers: w.servers}
		text, err := json.Marshal(about)
		w.must(err)
		resp.Target = text
	} else if n.database.Client != nil {
		w.t.Errorf("%s is asked to load, and is a probe", n.pod)
	}
	return resp, nil
}

// follow takes the steps of the node's agenda that are due.
func (n *fakeNode) follow(now time.Duration) {
	for !n.idle && n.taken < len(n.agenda.Steps) {
		at := max(n.agenda.Steps[n.taken].At+n.late, n.told)
		if at > now {
			return
		}
		n.do(at, &n.agenda.Steps[n.taken].Disturbance)
		n.taken++
	}
}

// do does something else to the node from a time on.
func (n *fakeNode) do(at time.Duration, d *admin.Disturbance) {
	if !d.Same(&n.now) {
		n.now = *d
		n.log.Change(at, d)
	}
}

// Disturb implements podclient.Nodes.
func (w *world) Disturb(_ context.Context, addr string, a *admin.Agenda) error {
	n, err := w.node(addr)
	if err != nil {
		return err
	}
	if n.program {
		return errors.New("404 page not found")
	}
	if a.Process != "" && a.Process != n.process {
		return fmt.Errorf("this is process %s, not %s", n.process, a.Process)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Since(n.zero)
	n.follow(now)
	n.agenda, n.taken, n.told = *a, 0, now
	d, _, _ := a.At(now) // what went before is over
	for n.taken < len(a.Steps) && a.Steps[n.taken].At <= now {
		n.taken++
	}
	n.do(now, d)
	return nil
}

// punctual returns the record of a process that is never late, by its own clock.
func punctual(since, until time.Duration) *late.Record {
	r := late.NewRecorder(func() time.Duration { return since }, func() time.Duration { return 0 })
	r.Woke(until, until, 0)
	return r.Record()
}

// Log implements podclient.Nodes.
func (w *world) Log(_ context.Context, addr string) (*admin.Log, error) {
	n, err := w.node(addr)
	if err != nil {
		return nil, err
	}
	if n.database.Client != nil {
		return nil, fmt.Errorf("GET %s/log: 404 Not Found", addr) // a probe keeps none, as it disturbs nothing
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n.follow(w.clock.Since(n.zero))
	log := n.log
	log.Entries = slices.Clone(log.Entries)
	if log.Late == nil {
		log.Late = punctual(log.Since, w.clock.Since(n.zero))
	}
	return &log, nil
}

// Audit implements podclient.Nodes.
func (w *world) Audit(_ context.Context, addr string) (*admin.Audit, error) {
	n, err := w.node(addr)
	if err = cmp.Or(err, w.noAudit); err != nil {
		return nil, err
	}
	wl, err := catalog.Parse(n.workload, 1, &n.database.Topology)
	if err != nil {
		return nil, err
	}
	d := &n.database
	rows, layout := store.NewHash(), engines.Layout(d.Engine, d.Parameters, &d.Topology)
	if n.steward {
		layout = n.database.Topology.Whole(0)
	}
	if err := workload.Fill(wl, &layout, n.id, rows.Load); err != nil {
		return nil, err
	}
	a := &admin.Audit{Shards: audit.Of(n.id, &layout, rows, wl, false)}
	if n.steward && w.servers != nil {
		a.Servers, err = json.Marshal(w.servers)
	}
	return a, err
}

// nodePod returns the pod of a database's first node.
func (w *world) nodePod(database, region string, ordinal int) *corev1.Pod {
	w.t.Helper()
	return w.get(kube.PodName(w.getDatabase(database), region, ordinal), &corev1.Pod{}).(*corev1.Pod)
}
