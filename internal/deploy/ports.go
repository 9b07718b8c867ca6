package deploy

// The TCP ports of nodes and workers. Those of probes beside programs are in package ping, those of sidecars in package wan.
const (
	// PeerPort is where nodes of native engines listen for the other nodes and for workers.
	PeerPort = 7000
	// MetricsPort is for everybody: the kubelet's probes and Prometheus.
	MetricsPort = 7001
	// AdminPort is for the operator.
	AdminPort = 7004
)
