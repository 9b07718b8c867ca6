// Cluster runs a real one-node Kubernetes cluster on a Linux machine that has Go, root and distribution packages, but no
// container engine and no image registry. Every Kubernetes component is built from the Go module that pins it, runs as
// an ordinary process inside a network namespace of its own, and leaves nothing behind when it is taken down.
//
// What belongs to the cluster is decided by the kernel rather than by names: a process is the cluster's if it lives in
// the node's network namespace or in the cluster's control group, or if its recorded process id still has its recorded
// start time; a mount is the cluster's if it lies under the state folder. Taking the cluster down therefore works after
// a start that failed half-way and after a restart of the machine.
//
// One file holds one idea:
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
