// Package emulation emulates a declared wide-area network between the pods of a database and its load generators. The
// machines of the cluster are in fact close together.
//
// A Network is the desired state. It lists the pods of each region and each directed link between two regions: the
// profile's link, merged with the current faults on it. A Backend establishes and maintains that state:
//
//	Ensure    brings the actual state closer to the Network; the operator calls it until Observe is satisfied, and when
//	          pods or links change
//	Observe   reports whether every pod has its links, and lists the pods without them
//	Release   removes everything that Ensure has created, and reports when nothing is left
//
// A backend reads all of its state from the cluster. Each of the three methods may therefore be interrupted at any
// point and continued by another process. With the backend BuiltIn, the processes of native engines delay the messages
// that they send. With Sidecar, a container in each pod delays packets in user space. With ChaosMesh, the kernel's
// netem delays packets, configured by NetworkChaos objects. The fourth backend, None, emulates nothing.
//
// "Injected" only describes the state of objects. For every backend, package rtt measures from inside the pods whether
// the network is as declared. A run waits for both.
package emulation
