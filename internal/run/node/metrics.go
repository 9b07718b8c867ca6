package node

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/metrics"
)

// public serves metrics and health, which need no credentials.
func (n *Node) public() http.Handler {
	reg := metrics.NewRegistry()
	reg.MustRegister(n.Metrics())
	return admin.NewPublicHandler(n, metrics.Handler(reg))
}

// Metrics returns a collector that reads the node's figures on each scrape. All figures have the node's region and name
// as labels.
func (n *Node) Metrics() prometheus.Collector { return n.metrics(n.collect) }

func (n *Node) metrics(collect func(metrics.Put)) prometheus.Collector {
	return metrics.NewCollector(metrics.NodeMetrics(), collect,
		n.cfg.Database.Name, n.cfg.Engine.Name, n.topology.Regions[n.topology.RegionOf(n.cfg.ID)], n.topology.NodeName(n.cfg.ID))
}

// collectTimeout is how long a scrape waits for a busy event loop. After the timeout the scrape omits the loop's
// figures.
const collectTimeout = 2 * time.Second

func (n *Node) collect(put metrics.Put) {
	e := n.endpoint
	flag := func(on bool) float64 {
		if on {
			return 1
		}
		return 0
	}
	ready, _ := e.Ready()
	put(metrics.NodeReady, flag(ready))
	put(metrics.NodeBroken, flag(n.broken.Load() != nil))
	put(metrics.Unauthenticated, float64(n.strangers.Count()))
	disturbance, _ := n.disturbed()
	put(metrics.NodeDisturbed, flag(disturbance != nil))
	put(metrics.NodePeers, float64(e.Connected()))
	put(metrics.Stalls, float64(e.Stalls()))
	put(metrics.NodeTurns, float64(n.turns.Load()))
	put(metrics.NodeQueue, float64(n.box.len()))
	for s := txn.Committed; s <= txn.Unknown; s++ {
		put(metrics.NodeOutcomes, float64(n.statuses[s].Load()), s.String())
	}
	put(metrics.NodeCPU, late.CPUTime().Seconds())
	resident, _ := memory()
	put(metrics.NodeMemory, float64(resident))
	requests, answers := e.ClientTraffic()
	put(metrics.NodeClientBytes, float64(answers.Bytes))
	put(metrics.NodeClientOutcomes, float64(answers.Messages))
	put(metrics.NodeClientReceivedBytes, float64(requests.Bytes))
	n.collectLinks(put)

	type figures struct {
		pending, rows int
		bytes         int64
		ops           uint64
		readings      []protocol.Reading
		leads         []string
		journal, cuts int64
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	got := make(chan figures, 1) // buffered, because after a timeout no goroutine receives the late answer
	err := n.call(ctx, func() {
		l := &n.loop
		f := figures{
			pending: l.unfinished(), rows: l.store.Len(), bytes: l.store.Bytes(), ops: l.store.Ops(), readings: l.replica.Readings(nil),
			leads: protocol.LeadsOf(l.replica, &n.layout),
		}
		if l.log != nil {
			f.journal, f.cuts = l.log.journal.Bytes(), int64(l.log.journal.Generation())
		}
		got <- f
	})
	// The loop is busy, so return only the figures above.
	if err != nil {
		return
	}
	f := <-got
	put(metrics.NodePending, float64(f.pending))
	put(metrics.NodeRows, float64(f.rows))
	put(metrics.NodeBytes, float64(f.bytes))
	put(metrics.NodeOperations, float64(f.ops))
	if f.journal > 0 {
		put(metrics.NodeJournalBytes, float64(f.journal))
		put(metrics.NodeJournalCuts, float64(f.cuts))
	}
	metrics.PutEngine(put, n.cfg.Engine, f.readings)
	for _, shard := range f.leads {
		put(metrics.NodeLeads, 1, shard)
	}
}

func (n *Node) collectLinks(put metrics.Put) {
	e := n.endpoint
	self := n.topology.RegionOf(n.cfg.ID)
	for i, name := range n.topology.Regions {
		r := geo.Region(i)
		sent := e.Sent(r)
		put(metrics.SentBytes, float64(sent.Bytes), name)
		put(metrics.SentMessages, float64(sent.Messages), name)
		metrics.PutRTT(put, n.topology, self, r, e.RoundTrips(r))
	}
	if n.cfg.Prober != nil {
		n.cfg.Prober.PutMesh(put)
	}
}
