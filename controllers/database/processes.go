package database

import (
	"fmt"
	"sync"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/engine/engines"
)

// seenProcesses records the processes of the nodes of one incarnation, by pod name.
type seenProcesses struct {
	mu          sync.Mutex
	incarnation string
	byPod       map[string]seenProcess
}

// seenProcess is the last observed process of a node, with the node's incarnation at the time of the observation.
type seenProcess struct {
	name        string
	incarnation uint32
}

// compare describes a node that has lost its state, or returns "", and records the observed processes.
func (p *seenProcesses) compare(incarnation string, nodes []Node) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.incarnation != incarnation {
		p.incarnation, p.byPod = incarnation, map[string]seenProcess{}
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Lost != "" {
			return fmt.Sprintf("node %s lost its state: %s", n.PodName, n.Lost)
		}
		if n.Status == nil {
			continue
		}
		is := seenProcess{n.Status.Process, n.Status.NodeIncarnation}
		// A higher incarnation of the node has obtained its state from the other replicas, so nothing is lost.
		if was := p.byPod[n.PodName]; was.name != "" && was.name != is.name && was.incarnation >= is.incarnation {
			return fmt.Sprintf("node %s lost its state: its process was replaced (%s by %s)", n.PodName, was.name, is.name)
		}
		p.byPod[n.PodName] = is
	}
	return ""
}

// maxGroups is the maximum number of groups in the status.
const maxGroups = 256

// groups returns the sets of nodes that store the same rows, with their leaders. It returns nil if no node reports
// whether it leads.
func (s *scope) groups() []v1alpha1.GroupStatus {
	d := &s.current.Database
	leaders, led := map[string]string{}, false
	for i := range s.nodes {
		if n := &s.nodes[i]; n.Status != nil {
			led = led || n.Status.Leads != nil
			for _, shard := range n.Status.Leads {
				leaders[shard] = n.Status.Node
			}
		}
	}
	if !led {
		return nil
	}
	layout := engines.Layout(d.Engine, d.Parameters, &d.Topology)
	var groups []v1alpha1.GroupStatus
	for shard := range min(layout.Shards(), maxGroups) {
		name := layout.ShardName(shard)
		groups = append(groups, v1alpha1.GroupStatus{Name: name, Leader: leaders[name], Members: int32(len(layout.Group(shard).Members))})
	}
	return groups
}
