package node

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/txn"
)

// Handler serves the node's administration protocol and metrics.
func (n *Node) Handler() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newCollector(n))
	return admin.NewHandler(n, promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
}

// collector takes the figures of a node when Prometheus asks for them. All carry the node's region and name.
type collector struct {
	n *Node

	ready, broken, connected, stalls, turns, queue, pending *prometheus.Desc
	rows, bytes, operations, counter, transactions          *prometheus.Desc
	sentBytes, sentMessages, clientBytes, clientOutcomes    *prometheus.Desc
	declared, measured                                      *prometheus.Desc
}

func newCollector(n *Node) *collector {
	labels := prometheus.Labels{
		"database": n.cfg.Database.Name,
		"region":   n.topology.Regions[n.topology.RegionOf(n.cfg.ID)],
		"node":     n.topology.NodeName(n.cfg.ID),
	}
	d := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc("geobench_node_"+name, help, variable, labels)
	}
	return &collector{
		n:              n,
		ready:          d("ready", "1 when every peer was reached and none has lost its state."),
		broken:         d("broken", "1 when the database has lost state."),
		connected:      d("connected_peers", "Peers that are connected now."),
		stalls:         d("link_stalls_total", "Times that a link began to hold more than its limit for a peer."),
		turns:          d("loop_turns_total", "Turns of the event loop."),
		queue:          d("queue_items", "Events that wait for the event loop."),
		pending:        d("pending_transactions", "Unfinished transactions."),
		rows:           d("store_rows", "Rows in the store."),
		bytes:          d("store_bytes", "Bytes of keys and values in the store."),
		operations:     d("store_operations_total", "Reads and writes of rows."),
		counter:        d("protocol_events", "The protocol's own counters.", "counter"),
		transactions:   d("outcomes_total", "Transactions answered, by status.", "status"),
		sentBytes:      d("sent_bytes_total", "Bytes sent to the nodes of a region, headers and probes included.", "to"),
		sentMessages:   d("sent_messages_total", "Messages sent to the nodes of a region, probes included.", "to"),
		clientBytes:    d("client_sent_bytes_total", "Bytes sent to clients, headers included."),
		clientOutcomes: d("client_sent_outcomes_total", "Outcomes sent to clients."),
		declared:       d("declared_rtt_seconds", "Round trip to a region as its network profile declares it.", "to"),
		measured:       d("measured_rtt_seconds", "Round trips to a region during the last 10 s, as probes measured them.", "to"),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.ready, c.broken, c.connected, c.stalls, c.turns, c.queue, c.pending,
		c.rows, c.bytes, c.operations, c.counter, c.transactions,
		c.sentBytes, c.sentMessages, c.clientBytes, c.clientOutcomes,
		c.declared, c.measured,
	} {
		ch <- d
	}
}

// collectTimeout is how long a busy event loop may keep Prometheus waiting; then its figures are left out.
const collectTimeout = 2 * time.Second

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	n, e := c.n, c.n.endpoint
	put := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	flag := func(on bool) float64 {
		if on {
			return 1
		}
		return 0
	}
	const gauge, count = prometheus.GaugeValue, prometheus.CounterValue
	ready, _ := e.Ready()
	put(c.ready, gauge, flag(ready))
	put(c.broken, gauge, flag(n.broken.Load() != nil))
	put(c.connected, gauge, float64(e.Connected()))
	put(c.stalls, count, float64(e.Stalls()))
	put(c.turns, count, float64(n.turns.Load()))
	put(c.queue, gauge, float64(n.box.len()))
	for s := txn.Committed; s <= txn.Unknown; s++ {
		put(c.transactions, count, float64(n.statuses[s].Load()), s.String())
	}
	bytes, messages := e.SentToClients()
	put(c.clientBytes, count, float64(bytes))
	put(c.clientOutcomes, count, float64(messages))
	self := n.topology.RegionOf(n.cfg.ID)
	for i, name := range n.topology.Regions {
		r := geo.Region(i)
		bytes, messages := e.Sent(r)
		put(c.sentBytes, count, float64(bytes), name)
		put(c.sentMessages, count, float64(messages), name)
		h := e.RoundTrips(r)
		if h == nil {
			continue
		}
		put(c.declared, gauge, n.topology.RTT(self, r).Seconds(), name)
		if h.TotalCount() > 0 {
			q := map[float64]float64{}
			for _, p := range []float64{50, 90, 99} {
				q[p/100] = float64(h.ValueAtQuantile(p)) / 1e6
			}
			ch <- prometheus.MustNewConstSummary(c.measured, uint64(h.TotalCount()), h.Mean()*float64(h.TotalCount())/1e6, q, name)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	type figures struct {
		pending, rows int
		bytes         int64
		ops           uint64
		counters      map[string]int64
	}
	got := make(chan figures, 1) // a late answer must not meet a collection that has ended
	err := n.call(ctx, func() {
		l := &n.loop
		f := figures{l.unfinished(), l.store.Len(), l.store.Bytes(), l.store.Ops(), map[string]int64{}}
		for _, p := range l.replica.Counters(nil) {
			f.counters[p.Name] = p.Value
		}
		got <- f
	})
	if err != nil {
		return
	}
	f := <-got
	put(c.pending, gauge, float64(f.pending))
	put(c.rows, gauge, float64(f.rows))
	put(c.bytes, gauge, float64(f.bytes))
	put(c.operations, count, float64(f.ops))
	for name, v := range f.counters {
		put(c.counter, prometheus.UntypedValue, float64(v), name)
	}
}
