// Cluster runs a real Kubernetes cluster with one node on a Linux machine. It needs Go, root and distribution packages.
// It needs no container engine and no image registry. Every Kubernetes component is built from the Go module that pins
// it, and runs as an ordinary process in a separate network namespace. Nothing of it remains after the command down,
// except for the cache of built programs.
//
// The cluster identifies its processes and mounts by kernel state, and not by names. A process belongs to the cluster
// if it runs in the node's network namespace or in the cluster's control group. It also belongs to the cluster if its
// process ID and start time are recorded. A mount belongs to the cluster if it is below the state folder. Therefore
// down works even after a start that failed halfway and after a restart of the machine.
//
// Each file has one topic:
//
//	cluster.go     the folders and the configuration of a cluster
//	packages.go    distribution packages
//	binaries.go    building the pinned components into the cache
//	network.go     the node's network namespace, its subnets and its link to the host
//	pki.go         certificates and kubeconfigs
//	config.go      configuration files of the components
//	components.go  the command and the health check of each component
//	process.go     starting, identifying and stopping long-lived processes
//	cgroups.go     the control groups that contain all pods
//	api.go         requests to the API server and to health endpoints
//	images.go      building and loading images without a container engine
//	dns.go         CoreDNS
//	up.go, down.go starting and removing the cluster
//	status.go      the output of the command status
//	main.go        the commands
package main
