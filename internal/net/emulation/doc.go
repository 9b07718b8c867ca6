// Package emulation puts a declared wide-area network between the pods of a database and its load generators, on a
// cluster where they are in fact close together.
//
// A Network says what should be: which pods play in which region, and what each directed link between two regions is
// now: the profile's delay, with the faults on that link merged in. A Backend brings it about and keeps it so:
//
//	Ensure    brings what is there closer to the Network; it is repeated until Observe is content, and whenever pods or
//	          links change
//	Observe   says whether every pod has its links now, and for which pods not
//	Release   takes everything away again, and says when nothing is left
//
// All three may be interrupted at any point and by another process continued: what a backend knows, it reads from the
// cluster. The backends are BuiltIn (the connections of native engines delay what they send), Sidecar (a container in
// each pod does, in user space), ChaosMesh (the kernel's netem does, through NetworkChaos objects) and None.
//
// "Injected" is what objects say. Whether the network is the declared one is measured by package rtt, from inside the
// pods, whatever the backend; a run waits for both.
package emulation
