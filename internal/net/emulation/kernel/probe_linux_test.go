package kernel

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestProbeAgreesWithTC checks, in a separate network namespace, that Probe reports a discipline as missing exactly if
// tc cannot add it.
func TestProbeAgreesWithTC(t *testing.T) {
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("tc is not installed")
	}
	runtime.LockOSThread() // never unlocked: the thread and its namespace end with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace: %v", err)
	}
	a := Probe()
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	for kind, command := range map[string]string{"netem": "tc qdisc add dev lo root netem delay 1ms", "prio": "tc qdisc add dev lo root prio bands 4",
		"tbf": "tc qdisc add dev lo root tbf rate 1mbit burst 10k limit 10k"} {
		words := strings.Fields(command)
		out, err := exec.Command(words[0], words[1:]...).CombinedOutput() // in this thread's namespace
		if err == nil {
			_ = exec.Command("tc", "qdisc", "del", "dev", "lo", "root").Run()
		}
		why, missing := a.Missing[kind]
		if missing != (err != nil) {
			t.Errorf("%s: probe says missing %t (%s), tc %s", kind, missing, why, out)
		}
		if lacks := a.Lacks([]string{kind}); missing != strings.Contains(lacks, "no queueing discipline "+kind) {
			t.Errorf("%s: %q", kind, lacks)
		}
	}
}
