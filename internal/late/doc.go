// Package late measures for how long a process does not run although it has something to do: its machine stands still, its
// neighbours or its quota take the CPU away, or it was stopped. A sleeper in the process asks to be woken up every beat and notes
// how late it is (Tene's jHiccup), less the CPU time that the process has used meanwhile: a node that is busy with transactions
// is late, too, and that is the database's own doing.
//
// A Recorder keeps a small histogram for each second, so that the operator can later omit the seconds in which a declared
// fault stopped the process and the seconds outside the measured windows.
package late
