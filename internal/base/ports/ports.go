// Package ports lists the TCP and UDP ports on which Geobench's own programs listen. One table, since network policies,
// service meshes and sidecars must each know which port belongs to whom.
package ports

const (
	// Peer is where nodes of native engines listen for other nodes and for load generators.
	Peer = 7000
	// Metrics is open to everybody: the kubelet's probes and Prometheus.
	Metrics = 7001
	// Probe is where probers answer, UDP and TCP.
	Probe = 7002
	// WANStatus is where a WAN sidecar serves its health and metrics.
	WANStatus = 7003
	// Admin is where the operator asks a node or a load generator.
	Admin = 7004
	// WANAdmin is where the operator asks a WAN sidecar.
	WANAdmin = 7005
)
