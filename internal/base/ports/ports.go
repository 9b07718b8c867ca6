// Package ports lists the TCP and UDP ports on which Geobench's programs listen. They are in one place because network
// policies, service meshes and sidecars must know all of them.
package ports

const (
	// Peer is the port on which nodes of native engines listen for other nodes and for load generators.
	Peer = 7000
	// Metrics is the port for the kubelet's probes and Prometheus, open to all clients.
	Metrics = 7001
	// Probe is the UDP and TCP port on which probers answer.
	Probe = 7002
	// WANStatus is the port on which a WAN sidecar serves its health and metrics.
	WANStatus = 7003
	// Admin is the port for the operator's requests to a node or a load generator.
	Admin = 7004
	// WANAdmin is the port for the operator's requests to a WAN sidecar.
	WANAdmin = 7005
)
