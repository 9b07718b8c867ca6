package worldtest

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

// FakeNode is the simulated process of a node. The process ends with its pod.
type FakeNode struct {
	pod      string
	Process  string
	Database deploy.Database
	ID       geo.NodeID
	Dataset  string
	Run      string
	Traced   bool
	workload []byte
	Broken   bool
	// waiting is set until the node is notified of its incarnation. A replacement process then obtains its data from its
	// peers. mending is the number of further status requests in which it reports that it is recovering.
	waiting     bool
	incarnation uint32
	mending     int
	// steward is set for the data agent of a database that is not Geobench's own. It is not a node, but has all rows.
	steward bool
	// program is set for the probe in the pod of a program. The probe cannot inject faults into the program.
	program bool
	// Periods is the number of periods of the process's CPU quota. Throttled is the number of periods in which the quota
	// was exhausted.
	Periods, Throttled int64
	// Ahead is the time by which the node's clock is ahead of the operator's clock.
	Ahead time.Duration
	// Zero is the time at which the node's monotonic clock was 0. The field agenda is the last received agenda, and taken
	// is the number of its executed steps.
	Zero   time.Time
	agenda admin.Agenda
	taken  int
	told   time.Duration // the node's clock when the agenda was received
	// Late is the delay of each step. If Idle is set, the node executes no steps.
	Late time.Duration
	Idle bool
	now  admin.Disturbance
	Log  admin.Log
	// Complete is the time from which the emulation of all the node's links is complete.
	Complete time.Time
}

func isSteward(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Name == "steward" }

// startSteward starts the process of a steward like geobench steward. Its database has no pending transactions.
func (w *World) startSteward(ip string, pod *corev1.Pod) {
	w.T.Helper()
	cm := w.Get(pod.Spec.Volumes[0].ConfigMap.Name, &corev1.ConfigMap{}).(*corev1.ConfigMap)
	var dw deploy.Worker
	w.Must(json.Unmarshal([]byte(cm.Data[run.WorkerKey]), &dw))
	w.Must(dw.Database.Validate())
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.PlayedNodes[ip] = &FakeNode{pod: pod.Name, Process: string(pod.UID), Zero: w.FakeClock.Now().Add(-time.Hour), Database: dw.Database, steward: true}
}

// StartNode starts a node's process like geobench node: from the pod's ConfigMap, arguments and name.
func (w *World) StartNode(ip, process string, pod *corev1.Pod) {
	w.T.Helper()
	cm := w.Get(pod.Spec.Volumes[0].ConfigMap.Name, &corev1.ConfigMap{}).(*corev1.ConfigMap)
	n := &FakeNode{pod: pod.Name, Process: process, Zero: w.FakeClock.Now().Add(-time.Hour), program: pod.Spec.Containers[0].Name != database.NodeContainer}
	n.Log = admin.Log{Process: process, Since: w.FakeClock.Since(n.Zero)}
	if !w.LinksShort[pod.Name] {
		n.Complete = w.FakeClock.Now().Add(-time.Hour)
	}
	w.Must(json.Unmarshal([]byte(cm.Data[database.TopologyKey]), &n.Database))
	w.Must(n.Database.Validate())
	region := n.Database.Topology.Index(pod.Labels[kube.LabelRegion])
	ordinal, err := strconv.Atoi(pod.Name[strings.LastIndexByte(pod.Name, '-')+1:])
	w.Must(err)
	t := &n.Database.Topology
	n.ID = t.Node(region, ordinal/t.Replicas, ordinal%t.Replicas)
	if pod.Labels[kube.LabelServer] != "" { // pods of several roles are not numbered consecutively
		n.ID = geo.NodeID(slices.IndexFunc([]deploy.Node(n.Database.Nodes), func(d deploy.Node) bool { return strings.HasPrefix(d.Admin, pod.Name+".") }))
	}
	if host, _, _ := strings.Cut(n.Database.Nodes[n.ID].Address, "."); host != pod.Name {
		w.T.Fatalf("node %s is at %s, but its pod is %s", t.NodeName(n.ID), n.Database.Nodes[n.ID].Address, pod.Name)
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	d := &n.Database
	journal := slices.Contains(pod.Spec.Containers[0].Args, "--journal")
	// A replaceable node waits to be notified of its incarnation. Its peers notice it only afterwards.
	if n.waiting = !journal && slices.Contains(engines.Replaceable(d.Engine, d.Parameters, t), n.ID); !n.waiting && !n.program {
		w.appear(n)
	}
	w.PlayedNodes[ip] = n
}

// appear simulates that the peers of a node notice its process: they report a process that has lost its state.
func (w *World) appear(n *FakeNode) {
	for _, other := range append(slices.Collect(maps.Values(w.PlayedNodes)), w.Ended...) {
		// A process with a higher incarnation has rejoined as planned. The same or a lower incarnation means that the state
		// was lost unnoticed.
		if other != n && !other.waiting && !other.program && other.Database.Incarnation == n.Database.Incarnation && other.ID == n.ID && other.incarnation >= n.incarnation {
			n.Broken = true
		}
	}
}

// Join implements podclient.Nodes.
func (w *World) Join(_ context.Context, addr string, j *admin.Join) error {
	n, err := w.node(addr)
	if err != nil {
		return err
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	switch {
	case j.Process != n.Process:
		return fmt.Errorf("this is process %s, not %s", n.Process, j.Process)
	case !n.waiting && n.incarnation != j.NodeIncarnation:
		return fmt.Errorf("this process is incarnation %d already, not %d", n.incarnation, j.NodeIncarnation)
	case n.waiting:
		n.waiting, n.incarnation = false, j.NodeIncarnation
		// Only the replacement of an earlier process obtains data from its peers.
		if n.incarnation > 0 {
			n.mending = 3
			n.Dataset, n.Run, n.workload, n.Traced = j.Loaded.Dataset, j.Loaded.Run, j.Loaded.Workload, j.Loaded.Traced
		}
		w.Joins = append(w.Joins, fmt.Sprintf("%s %d", n.Database.Topology.NodeName(n.ID), n.incarnation))
		w.appear(n)
	}
	return nil
}

// Nodes implements podclient.Clients.
func (w *World) Nodes(types.UID) podclient.Nodes { return w }

// node returns the node that listens at addr.
func (w *World) node(addr string) (*FakeNode, error) {
	ip, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if n := w.PlayedNodes[ip]; n != nil && !w.ShutDown[n.pod] {
		return n, nil
	}
	return nil, fmt.Errorf("dial tcp %s: connection refused", addr)
}

// Status implements podclient.Nodes.
func (w *World) Status(_ context.Context, addr string) (*admin.Status, error) {
	n, err := w.node(addr)
	if err != nil {
		return nil, err
	}
	t := &n.Database.Topology
	s := &admin.Status{
		QuotaPeriods: n.Periods, ThrottledPeriods: n.Throttled,
		Node: t.NodeName(n.ID), ID: int(n.ID), Incarnation: n.Database.Incarnation, Process: n.Process,
		Ready: !n.Broken, Broken: n.Broken, Dataset: n.Dataset, Pending: w.Pending,
	}
	if n.waiting {
		return &admin.Status{Node: s.Node, ID: s.ID, Incarnation: s.Incarnation, Process: s.Process, Waiting: true, Reason: "it waits"}, nil
	}
	w.Mu.Lock()
	if s.NodeIncarnation, s.Recovering = n.incarnation, n.mending > 0; s.Recovering {
		n.mending--
	}
	w.Mu.Unlock()
	n.follow(w.FakeClock.Since(n.Zero))
	if s.Ahead = len(n.agenda.Steps) - n.taken; !n.now.Same(nil) {
		now := n.now
		s.Disturbance = &now
	}
	if n.ID == 0 || w.EverybodyLeads {
		s.Roles = []string{"leader"}
	}
	if at := n.Complete; !at.IsZero() {
		s.LinksComplete = &at
	}
	if n.Broken {
		s.Reason = "a peer started again without its log"
	}
	if n.steward { // the leader of the database's etcd has changed in the meantime
		s.Leader, s.Elections = t.Regions[1], 1
	}
	for r, region := range t.Regions {
		l := admin.LinkStatus{To: region, Traffic: geo.Traffic{Bytes: 1000 + w.Bytes, Messages: 10}}
		self := t.RegionOf(n.ID) == geo.Region(r)
		if !self || t.Partitions*t.Replicas > 1 {
			rtt := t.RTT(t.RegionOf(n.ID), geo.Region(r)) + w.RTTOff
			l.RTT = encodedRTT(max(1, rtt.Microseconds()))
			if w.Mesh != "" {
				l.Mesh = &admin.MeshRTT{Below: encodedRTT(200), Through: encodedRTT(1100)}
			}
		}
		s.Links = append(s.Links, l)
	}
	return s, nil
}

// encodedRTTs caches the results of encodedRTT, which are expensive to compute: each compression allocates its own
// tables.
var encodedRTTs sync.Map

// encodedRTT returns 50 round trips in the encoding of nodes.
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
func (w *World) Load(ctx context.Context, addr string, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	n, err := w.node(addr)
	if err != nil {
		return nil, err
	}
	w.Mu.Lock()
	hangs := w.Hangs
	w.Mu.Unlock()
	for name := range hangs {
		if strings.HasPrefix(n.pod, name+"-") {
			<-ctx.Done()
		}
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if ctx.Err() != nil {
		w.GivenUp++
		return nil, ctx.Err()
	}
	if w.TooMuch != "" {
		return nil, &admin.BadRequest{Err: errors.New(w.TooMuch)}
	}
	// A node that already has the data set answers without loading it again.
	if n.Dataset != req.Dataset {
		n.Dataset, n.Run, n.workload, n.Traced = req.Dataset, req.Run, req.Workload, req.Traced
		w.Loads++
	}
	resp := &admin.LoadResponse{Rows: 100, Bytes: 10_000}
	if n.steward {
		about := result.Target{Server: "PostgreSQL 15.0", Isolation: "serializable", Servers: w.Servers}
		text, err := json.Marshal(about)
		w.Must(err)
		resp.Target = text
	} else if n.Database.Client != nil {
		w.T.Errorf("%s is asked to load, and is a probe", n.pod)
	}
	return resp, nil
}

// follow takes the steps of the node's agenda that are due at now.
func (n *FakeNode) follow(now time.Duration) {
	for !n.Idle && n.taken < len(n.agenda.Steps) {
		// A step that was due before the agenda arrived takes effect on its arrival.
		at := max(n.agenda.Steps[n.taken].At+n.Late, n.told)
		if at > now {
			return
		}
		n.Do(at, &n.agenda.Steps[n.taken].Disturbance)
		n.taken++
	}
}

// Do changes the disturbance of the node at the given time.
func (n *FakeNode) Do(at time.Duration, d *admin.Disturbance) {
	if !d.Same(&n.now) {
		n.now = *d
		n.Log.Change(at, d)
	}
}

// Disturb implements podclient.Nodes.
func (w *World) Disturb(_ context.Context, addr string, a *admin.Agenda) error {
	n, err := w.node(addr)
	if err != nil {
		return err
	}
	if n.program {
		return errors.New("404 page not found")
	}
	// The times of an agenda refer to the clock of the process for which it was made.
	if a.Process != "" && a.Process != n.Process {
		return fmt.Errorf("this is process %s, not %s", n.Process, a.Process)
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	now := w.FakeClock.Since(n.Zero)
	n.follow(now)
	n.agenda, n.taken, n.told = *a, 0, now
	d, _, _ := a.At(now) // earlier disturbances are replaced
	for n.taken < len(a.Steps) && a.Steps[n.taken].At <= now {
		n.taken++
	}
	n.Do(now, d)
	return nil
}

// punctual returns the lateness record of a process that was never late between since and until, which are times on the
// process's clock.
func punctual(since, until time.Duration) *late.Record {
	r := late.NewRecorder(func() time.Duration { return since }, func() time.Duration { return 0 })
	r.Woke(until, until, 0)
	return r.Record()
}

// Log implements podclient.Nodes.
func (w *World) Log(_ context.Context, addr string) (*admin.Log, error) {
	n, err := w.node(addr)
	if err != nil {
		return nil, err
	}
	if n.Database.Client != nil {
		return nil, fmt.Errorf("GET %s/log: 404 Not Found", addr) // a probe keeps no log, because it injects no faults
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	n.follow(w.FakeClock.Since(n.Zero))
	log := n.Log
	log.Entries = slices.Clone(log.Entries)
	if log.Late == nil {
		log.Late = punctual(log.Since, w.FakeClock.Since(n.Zero))
	}
	return &log, nil
}

// Audit implements podclient.Nodes.
func (w *World) Audit(_ context.Context, addr string) (*admin.Audit, error) {
	n, err := w.node(addr)
	if err = cmp.Or(err, w.NoAudit); err != nil {
		return nil, err
	}
	wl, err := catalog.Parse(n.workload, 1, &n.Database.Topology)
	if err != nil {
		return nil, err
	}
	d := &n.Database
	rows, layout := store.NewHash(), engines.Layout(d.Engine, d.Parameters, &d.Topology)
	if n.steward {
		layout = n.Database.Topology.Whole(0)
	}
	if err := workload.Fill(wl, &layout, n.ID, rows.Load); err != nil {
		return nil, err
	}
	a := &admin.Audit{Shards: audit.Of(n.ID, &layout, rows, wl, false)}
	if n.steward && w.Servers != nil {
		a.Servers, err = json.Marshal(w.Servers)
	}
	return a, err
}

// NodePod returns the pod with the given ordinal in a region of a database.
func (w *World) NodePod(database, region string, ordinal int) *corev1.Pod {
	w.T.Helper()
	return w.Get(kube.PodName(w.GetDatabase(database), region, ordinal), &corev1.Pod{}).(*corev1.Pod)
}
