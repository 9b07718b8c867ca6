// Package late measures how long a runnable process does not run. Possible causes are that its machine stalls, that
// other processes or its quota take the CPU, or that it is suspended. A sleeper in the process wakes up at every beat
// and records its delay (Tene's jHiccup). The recorder subtracts the process's own CPU time, because a node that is
// busy with transactions also wakes up late.
//
// A Recorder keeps a small histogram for each second. The operator can then exclude the seconds of a declared fault and
// the seconds outside the measured windows.
package late
