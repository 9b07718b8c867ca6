// Cluster runs a real one-node Kubernetes cluster on a Linux machine with Go, root and distribution packages. The
// machine needs no container engine and no image registry. Every Kubernetes component is built from the Go module that
// pins it, and runs as an ordinary process in a separate network namespace. Nothing remains after the cluster is taken
// down.
//
// The kernel, not names, decides which processes and mounts belong to the cluster. A process belongs to it if it runs
// in the node's network namespace or in the cluster's control group, or if its process id and start time are recorded.
// A mount belongs to it if it is below the state folder. Therefore down works even after a start that failed halfway
// and after a restart of the machine.
//
// Each file has one topic:
//
//	cluster.go     the folders and the choices that describe a cluster, kept in its state folder
//	packages.go    distribution packages
//	binaries.go    building the pinned components into the cache
//	network.go     the node's network namespace, its subnets and its link to the host
//	pki.go         certificates and kubeconfigs
//	config.go      configuration files of the components
//	components.go  how each component is started and how it says that it is well
//	process.go     starting, recognising and ending long-lived processes
//	cgroups.go     the control groups that hold all pods
//	api.go         asking the API server and health endpoints
//	images.go      images without a container engine
//	dns.go         CoreDNS
//	up.go, down.go the life of the cluster
//	status.go      what a person asks about it
//	main.go        the commands
package main
