package ping

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/metrics"
)

// patience is the timeout for the answer to a packet. The prober then closes the connection, because after a partition,
// a connection may never receive an answer again.
const patience = 5 * time.Second

// connect measures round trips to a peer until ctx ends; it opens a new connection whenever the previous connection
// fails.
func (p *Prober) connect(ctx context.Context, to *peer) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// Read the address under the lock for each attempt, because resolve changes it when the pod is replaced.
		to.mu.Lock()
		addr := to.addr
		to.mu.Unlock()
		if addr == nil {
			continue
		}
		if err := p.exchange(ctx, to, addr.String(), tick.C); err != nil && ctx.Err() == nil {
			p.log.Debug("connection to a peer's probe", "host", to.host, "error", err)
		}
	}
}

// exchange sends a packet at each tick over a new connection and records the round-trip times. It returns when a packet
// fails or when the peer's address changes. It does not count the first answer: proxies connect to each other and agree
// on keys only when they first have data to send.
func (p *Prober) exchange(ctx context.Context, to *peer, addr string, tick <-chan time.Time) error {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Closing the connection unblocks a pending read or write when ctx ends.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	region := p.db.Topology.RegionOf(to.id)
	b := make([]byte, 0, packetSize)
	for seq := uint64(0); ; seq++ {
		sent := time.Since(p.start)
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		b = packet{request, p.token, seq, uint64(sent)}.append(b[:0])
		if _, err := conn.Write(b); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, b); err != nil {
			return err
		}
		// Take the time before parsing and locking, so that only the network and the proxies are measured.
		at := time.Since(p.start)
		// Only one packet is outstanding at a time, so any other sequence number means that the stream is corrupt.
		if m, ok := parse(b); !ok || m.kind != reply || m.token != p.token || m.seq != seq {
			return errors.New("what came back is not the answer to what was sent")
		}
		if seq > 0 {
			p.mu.Lock()
			p.through[region].record(int64(at/time.Second), at-sent)
			p.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		// TCP does not notice if the name now resolves to another pod, so compare the addresses.
		to.mu.Lock()
		moved := to.addr == nil || to.addr.String() != addr
		to.mu.Unlock()
		if moved {
			return nil
		}
	}
}

// sendBack answers the packet in b and all later packets until the connection ends. It reuses b for the later packets.
func sendBack(conn net.Conn, b []byte) {
	for {
		m, ok := parse(b)
		if !ok || m.kind != request {
			return
		}
		m.kind = reply
		if _, err := conn.Write(m.append(b[:0])); err != nil {
			return
		}
		if _, err := io.ReadFull(conn, b); err != nil {
			return
		}
	}
}

// ThroughMesh returns the maximum number of bytes that two probers exchange over TCP within d, counting packets and
// answers.
func ThroughMesh(d time.Duration) int64 { return int64(2*packetSize) * (int64(d/interval) + 1) }

// MeshRTT returns the round trips to a region, measured below the mesh (UDP) and through it (TCP). It returns nil if
// there is no mesh or if neither has been measured.
func (p *Prober) MeshRTT(to geo.Region) (*admin.MeshRTT, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.meshRTT(to, int64(time.Since(p.start)/time.Second))
}

func (p *Prober) meshRTT(to geo.Region, second int64) (*admin.MeshRTT, error) {
	if !p.db.Meshed {
		return nil, nil
	}
	below, through := p.links[to].merged(second), p.through[to].merged(second)
	// Both are nil for a region without another pod.
	if below == nil && through == nil {
		return nil, nil
	}
	m := &admin.MeshRTT{}
	var err error
	if m.Below, err = admin.EncodeRTT(below); err != nil {
		return nil, err
	}
	m.Through, err = admin.EncodeRTT(through)
	return m, err
}

// PutMesh exports the round trips measured below the mesh and through it.
func (p *Prober) PutMesh(put metrics.Put) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.putMesh(put, int64(time.Since(p.start)/time.Second))
}

func (p *Prober) putMesh(put metrics.Put, second int64) {
	for r := range p.through {
		metrics.PutMeshRTT(put, p.db.Topology.Regions[r], p.links[r].merged(second), p.through[r].merged(second))
	}
}
