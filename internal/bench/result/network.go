package result

import (
	"maps"
	"math/big"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/net/rtt"
	"github.com/geobench/geobench/internal/ops/admin"
)

func (d *Document) fillNetwork(in *Inputs, r *Report) {
	d.Uncounted = uncounted(in)
	if in.Target != nil && len(in.Before) == 0 {
		return
	}
	before := make(map[string]*admin.Status, len(in.Before))
	for i := range in.Before {
		before[in.Before[i].Node] = &in.Before[i]
	}
	regions := in.Topology.Regions
	n := len(regions)
	links := make([]Link, n*n)
	for a := range n {
		for b := range n {
			links[a*n+b] = Link{From: regions[a], To: regions[b],
				DeclaredRTTMicroseconds: Microseconds(in.Topology.RTT(geo.Region(a), geo.Region(b)))}
		}
	}
	requests, answers := geo.Traffic{}, make([]geo.Traffic, n) // answers has one entry per region
	quiet, loaded := make([]*hdrhistogram.Histogram, n*n), make([]*hdrhistogram.Histogram, n*n)
	below, through := make([]*hdrhistogram.Histogram, n*n), make([]*hdrhistogram.Histogram, n*n)
	place := func(s *admin.Status, l *admin.LinkStatus) int {
		to := in.Topology.Index(l.To)
		if to < 0 || s.ID < 0 || s.ID >= in.Topology.Nodes() {
			return -1
		}
		return int(in.Topology.RegionOf(geo.NodeID(s.ID)))*n + int(to)
	}
	for i := range in.Before {
		for j := range in.Before[i].Links {
			l := &in.Before[i].Links[j]
			if at := place(&in.Before[i], l); at >= 0 {
				quiet[at] = mergeRTT(quiet[at], l.RTT)
				if l.Mesh != nil {
					below[at], through[at] = mergeRTT(below[at], l.Mesh.Below), mergeRTT(through[at], l.Mesh.Through)
				}
			}
		}
	}
	for i := range in.After {
		if in.Target != nil { // the probes run next to the target's nodes; their own figures do not describe the database
			for j := range in.After[i].Links {
				l := &in.After[i].Links[j]
				if at := place(&in.After[i], l); at >= 0 {
					loaded[at] = mergeRTT(loaded[at], l.RTT)
				}
			}
			continue
		}
		s := &in.After[i]
		// Counters of nodes are totals since their start; only the growth belongs to the run.
		b := countedFrom(before[s.Node], s, slices.Contains(d.Uncounted, s.Node))
		node := Node{
			Name: s.Node, DataBytes: s.DataBytes, Rows: s.Rows,
			Operations: s.Operations - b.Operations, Counters: subtract(s.Counters, b.Counters), Gauges: maps.Clone(s.Gauges),
		}
		switch cpu := s.CPUSeconds - b.CPUSeconds; {
		case in.SharedProcess && s.CPUSeconds == 0: // the node was stopped and reports nothing about the process
		case in.SharedProcess:
			if began := before[s.Node]; began != nil { // the process continues even if the node stops
				cpu = s.CPUSeconds - began.CPUSeconds
			}
			d.Process = &Process{CPUMilliseconds: int64(cpu*1000 + 0.5), PeakMemoryBytes: s.PeakMemoryBytes}
		default:
			node.CPUSeconds, node.CPUMilliseconds, node.PeakMemoryBytes = int64(cpu+0.5), int64(cpu*1000+0.5), s.PeakMemoryBytes
		}
		d.Nodes = append(d.Nodes, node)
		if s.ID >= 0 && s.ID < in.Topology.Nodes() {
			requests.Add(s.Requests)
			requests.Sub(b.Requests)
			answered := &answers[in.Topology.RegionOf(geo.NodeID(s.ID))]
			answered.Add(s.Answers)
			answered.Sub(b.Answers)
		}
		for j := range s.Links {
			l := &s.Links[j]
			at := place(s, l)
			if at < 0 {
				continue
			}
			loaded[at] = mergeRTT(loaded[at], l.RTT)
			links[at].Bytes += l.Bytes
			links[at].Messages += l.Messages
			links[at].Segments += l.Segments
			for _, bl := range b.Links {
				if bl.To == l.To {
					links[at].Bytes -= bl.Bytes
					links[at].Messages -= bl.Messages
					links[at].Segments -= bl.Segments
				}
			}
		}
	}
	for i := range links {
		if h := quiet[i]; h != nil && h.TotalCount() > 0 {
			links[i].MeasuredRTTMicroseconds, links[i].Samples = rttOf(h), h.TotalCount()
		}
		links[i].Mesh = rtt.MeshLink(below[i], through[i])
		if h := loaded[i]; h != nil && h.TotalCount() > 0 {
			busy := rttOf(h)
			links[i].LoadedRTTMicroseconds = &busy
		}
	}
	// RTTs replaces the measurements of the nodes if the nodes do not measure round trips.
	for _, m := range in.RTTs {
		a, b := in.Topology.Index(m.From), in.Topology.Index(m.To)
		if a >= 0 && b >= 0 {
			links[int(a)*n+int(b)].MeasuredRTTMicroseconds, links[int(a)*n+int(b)].Samples = m.RTT, m.Samples
		}
	}
	// The tolerance depends on the number of samples, which is not final before this point.
	for i := range links {
		links[i].ToleranceMicroseconds = Microseconds(in.Topology.RTTTolerance(geo.Region(i/n), geo.Region(i%n), links[i].Samples))
	}
	d.Links = links
	// The bytes cover warm-ups and drains, so the divisor is the number of all commits, not only of the measured commits.
	transferred := r.Total.Committed
	d.fillWitnesses(in, transferred)
	if in.Target != nil {
		return
	}
	var bytes, cross int64
	var traffic []Traffic
	for _, l := range links {
		bytes += l.Bytes
		if l.From != l.To {
			cross += l.Bytes
			traffic = append(traffic, Traffic{l.From, l.To, l.Bytes})
		}
	}
	if transferred > 0 {
		d.Summary.CPUMicrosecondsPerTransaction = d.cpuPerTransaction(r, transferred)
		d.Summary.BytesPerTransaction = ratio(transferred, 1, bytes)
		d.Summary.CrossRegionBytesPerTransaction = ratio(transferred, 1, cross)
	}
	machines, transfer := in.Prices.PerMillion(in.Topology.Nodes(), r.DurationMicroseconds*int64(r.Repetitions),
		d.Summary.Committed+d.Summary.CarriedIn, traffic, transferred)
	d.Summary.Cost = Cost{
		Currency: in.Prices.Currency, PerMillionTransactions: machines + transfer,
		MachinesPerMillionTransactions: machines, TransferPerMillionTransactions: transfer,
		Instance: in.Prices.Instance, PriceSource: in.Prices.Source, PriceDate: in.Prices.Date,
	}
	d.fillWire(in, transferred, requests, answers)
}

// fillWire computes the bytes sent per transaction: between nodes, in requests, and in answers. transferred is the
// number of transactions; answers has one entry per region. fillWire does nothing if no requests were counted.
func (d *Document) fillWire(in *Inputs, transferred int64, requests geo.Traffic, answers []geo.Traffic) {
	if transferred == 0 || requests.Messages == 0 {
		return
	}
	regions := in.Topology.Regions
	sent := slices.Clone(answers) // by region
	var between, answered geo.Traffic
	for i, l := range d.Links {
		t := geo.Traffic{Bytes: l.Bytes, Messages: l.Messages, Segments: l.Segments}
		between.Add(t)
		sent[i/len(regions)].Add(t)
	}
	for _, t := range answers {
		answered.Add(t)
	}
	each := func(bytes int64) int64 { return ratio(transferred, 1, bytes) }
	sentBytes := between.WireBytes() + answered.WireBytes()
	d.Summary.Wire = &Wire{
		BytesPerTransaction: each(sentBytes + requests.WireBytes()), SentBytesPerTransaction: each(sentBytes),
		MessageBytesPerTransaction: each(between.Bytes), RequestBytesPerTransaction: each(requests.Bytes), AnswerBytesPerTransaction: each(answered.Bytes),
		HeaderBytesPerTransaction: each(geo.HeaderBytes * (between.Segments + requests.Segments + answered.Segments)),
	}
	// The cost per hour is the hourly price of all nodes plus the price of each region's outgoing messages for the
	// transactions of an hour.
	cost := new(big.Rat).SetInt64(int64(in.Topology.Nodes()) * in.Prices.InstanceMicrosPerHour[in.Prices.Instance])
	for r, t := range sent {
		price := new(big.Rat)
		for o := range regions {
			price.Add(price, new(big.Rat).SetInt64(in.Prices.Transfer(regions[r], regions[o])))
		}
		// Use the average price to the other regions; the price within the region is 0.
		if others := int64(len(regions) - 1); others > 0 {
			price.Quo(price, new(big.Rat).SetInt64(others))
		}
		// bytes / transferred x throughput x 3600 s x price / 10^9
		perHour := new(big.Rat).SetFrac64(t.WireBytes(), transferred)
		perHour.Mul(perHour, new(big.Rat).SetFrac64(d.Summary.ThroughputPerSecond*3600, 1e9))
		cost.Add(cost, perHour.Mul(perHour, price))
	}
	d.Summary.Wire.CostPerHour = Micros(new(big.Int).Quo(cost.Num(), cost.Denom()).Int64())
}

// mergeRTT adds an encoded histogram of round trips to h and returns the sum. The result has the shape of the first
// histogram. An unreadable histogram counts as not measured.
func mergeRTT(h *hdrhistogram.Histogram, encoded string) *hdrhistogram.Histogram {
	if encoded == "" {
		return h
	}
	o, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return h
	}
	if h == nil {
		return o
	}
	h.Merge(o)
	return h
}

func rttOf(h *hdrhistogram.Histogram) RTT {
	return RTT{P50: h.ValueAtPercentile(50), P99: h.ValueAtPercentile(99)}
}
