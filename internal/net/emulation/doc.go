// Package emulation puts a declared wide-area network between the pods of a database and its load generators. The pods
// run on a cluster where they are in fact close together.
//
// A Network says what should be: which pods play in which region, and what each directed link between two regions is
// now: the profile's delay, with the faults on that link merged in. A Backend brings it about and keeps it so:
//
//	Ensure    brings what is there closer to the Network; it is repeated until Observe is content, and whenever pods or
//	          links change
//	Observe   says whether every pod has its links now, and for which pods not
//	Release   takes everything away again, and says when nothing is left
//
// Each of the three may be interrupted at any point and continued by another process, because a backend reads all of
// its state from the cluster. The backends are: BuiltIn (the connections of native engines delay what they send),
// Sidecar (a container in each pod delays packets in user space), ChaosMesh (the kernel's netem delays them, through
// NetworkChaos objects) and None.
//
// "Injected" is only the status of objects. For every backend, package rtt measures from inside the pods whether the
// network is the declared one. A run waits for both.
package emulation
