package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// self returns the process of this test in the form in which up records processes.
func self(t *testing.T) Process {
	t.Helper()
	boot, err := bootID()
	if err != nil {
		t.Skip("needs /proc")
	}
	start, _, err := readStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return Process{PID: os.Getpid(), Start: start, Boot: boot}
}

func TestAliveTellsAReusedID(t *testing.T) {
	same := self(t)
	reused, otherBoot, never := same, same, Process{}
	reused.Start--
	otherBoot.Boot = "another run of the machine"
	for name, tc := range map[string]struct {
		process Process
		want    bool
	}{
		"the same process":               {same, true},
		"the id was given out again":     {reused, false},
		"recorded before a restart":      {otherBoot, false},
		"never started":                  {never, false},
		"an id that no process can have": {Process{PID: 1 << 30, Boot: same.Boot}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.process.Alive(); got != tc.want {
				t.Errorf("Alive() = %v, want %v", got, tc.want)
			}
		})
	}
}

// Without the check of the start time, Stop would kill the process of this test.
func TestStopLeavesALaterOwnerOfTheIDAlone(t *testing.T) {
	reused := self(t)
	reused.Start--
	if err := reused.Stop(0); err != nil {
		t.Fatal(err)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 200 18446744073709551615\n"
	for name, tc := range map[string]struct {
		stat  string
		start uint64
		state byte
		fails bool
	}{
		"ordinary":                  {"42 (etcd) S" + rest, 98765, 'S', false},
		"name with spaces":          {"42 (tmux: server) R" + rest, 98765, 'R', false},
		"name with a parenthesis":   {"42 (a) Z (b)) S" + rest, 98765, 'S', false},
		"a zombie":                  {"42 (etcd) Z" + rest, 98765, 'Z', false},
		"cut short":                 {"42 (etcd) S 1 7", 0, 0, true},
		"without a name":            {"", 0, 0, true},
		"a start that is no number": {"42 (x) S 1 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 soon 1\n", 0, 'S', true},
	} {
		t.Run(name, func(t *testing.T) {
			start, state, err := parseStat([]byte(tc.stat))
			if (err != nil) != tc.fails {
				t.Fatalf("error %v, want one: %v", err, tc.fails)
			}
			if start != tc.start || state != tc.state {
				t.Errorf("start %d state %c, want %d %c", start, state, tc.start, tc.state)
			}
		})
	}
}

func TestParseMounts(t *testing.T) {
	got := parseMounts("22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n" +
		"30 22 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		`31 22 0:27 / /srv/with\040space rw master:1 - tmpfs tmpfs rw` + "\n")
	want := []mount{{"/", "ext4"}, {"/sys/fs/cgroup/memory", "cgroup"}, {"/srv/with space", "tmpfs"}}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("mount %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// A component must not inherit a lock that the caller of `up` holds.
func TestInheritedFilesAreNotPassedOn(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := syscall.Dup(int(w.Fd())); err != nil { // without close-on-exec, like an inherited file
		t.Fatal(err)
	}
	list := func() string {
		out, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	pipe, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(list(), pipe) {
		t.Fatal("the duplicate is not passed on even before")
	}
	keepToOurselves()
	if l := list(); strings.Contains(l, pipe) {
		t.Errorf("%s is passed on:\n%s", pipe, l)
	}
}
