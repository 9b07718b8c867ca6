package kernel

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The probe must agree with tc, in a network namespace of its own.
func TestProbeAgreesWithTC(t *testing.T) {
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("tc is not installed")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and its namespace with it
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace: %v", err)
	}
	a := Probe()
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	for kind, command := range map[string]string{"netem": "tc qdisc add dev lo root netem delay 1ms", "prio": "tc qdisc add dev lo root prio bands 4"} {
		words := strings.Fields(command)
		out, err := exec.Command(words[0], words[1:]...).CombinedOutput() // in this thread's namespace
		if err == nil {
			_ = exec.Command("tc", "qdisc", "del", "dev", "lo", "root").Run()
		}
		why, missing := a.Missing[kind]
		if missing != (err != nil) {
			t.Errorf("%s: probe says missing %t (%s), tc %s", kind, missing, why, out)
		}
		if missing && !strings.Contains(a.Problem(), "no queueing discipline "+kind) {
			t.Errorf("problem %q", a.Problem())
		}
	}
}

func TestAnswer(t *testing.T) {
	if a := (&Answer{}); !a.Netem() || a.Problem() != "" {
		t.Error("nothing is missing")
	}
	if a := (&Answer{Missing: map[string]string{"netem": "no such file"}}); a.Netem() || a.Problem() != "no queueing discipline netem: no such file" {
		t.Errorf("%q", a.Problem())
	}
	if a := (&Answer{Error: "forbidden"}); a.Netem() || a.Problem() != "forbidden" {
		t.Errorf("%q", a.Problem())
	}
}
