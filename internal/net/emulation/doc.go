// Package emulation emulates a declared wide-area network between the pods of a database and its load generators, on a
// cluster whose machines are in fact close together.
//
// A Network is the desired state. It lists the pods of each region and each directed link between two regions: the
// profile's link, merged with the current faults on it. A Backend establishes and maintains that state:
//
//	Ensure    brings what is there closer to the Network; it is repeated until Observe is content, and whenever pods or
//	          links change
//	Observe   says whether every pod has its links now, and for which pods not
//	Release   takes everything away again, and says when nothing is left
//
// Each of the three may be interrupted at any point and continued by another process, because a backend reads all of
// its state from the cluster. The backends are: BuiltIn (the processes of native engines delay what they send), Sidecar
// (a container in each pod delays packets in user space), ChaosMesh (the kernel's netem delays packets, configured by
// NetworkChaos objects) and None.
//
// "Injected" only describes the state of objects. For every backend, package rtt measures from inside the pods whether
// the network is as declared. A run waits for both.
package emulation
