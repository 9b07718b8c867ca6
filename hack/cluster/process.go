package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Process identifies a long-lived process. The process ID alone does not suffice, because the kernel reuses IDs.
// Together with the start time and the boot of the machine, it is unique.
type Process struct {
	PID     int      `json:"pid"`
	Start   uint64   `json:"start"` // clock ticks since the machine started
	Boot    string   `json:"boot"`
	Command []string `json:"command"`
}

// startProcess starts a command in its own session, so that the command outlives this program and its terminal. The
// output of the command is appended to a log.
func startProcess(command, env []string, logPath string) (Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return Process{}, err
	}
	defer log.Close()
	keepToOurselves()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = env
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Process{}, err
	}
	p := Process{PID: cmd.Process.Pid, Command: command}
	if p.Boot, err = bootID(); err == nil {
		p.Start, _, err = readStat(p.PID)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return Process{}, err
	}
	// Reap the process if it exits while this program runs. Otherwise, init reaps it.
	go func() { _ = cmd.Wait() }()
	return p, nil
}

// Alive reports whether the recorded process is still running. It returns false for a later process with the same ID.
func (p Process) Alive() bool {
	if p.PID <= 0 {
		return false
	}
	boot, err := bootID()
	if err != nil || boot != p.Boot {
		return false
	}
	start, state, err := readStat(p.PID)
	return err == nil && start == p.Start && state != 'Z' && state != 'X'
}

// Stop asks the process to exit, and kills it if it is still running after the grace period.
func (p Process) Stop(grace time.Duration) error {
	// Open a handle of the process before the check, so that the signal cannot reach a later process with the same ID.
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return nil
	}
	defer handle.Release()
	if !p.Alive() {
		return nil
	}
	for _, step := range []struct {
		signal os.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, 10 * time.Second}} {
		if err := handle.Signal(step.signal); errors.Is(err, os.ErrProcessDone) {
			return nil
		} else if err != nil {
			return err
		}
		for end := time.Now().Add(step.wait); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if !p.Alive() {
				return nil
			}
		}
	}
	return fmt.Errorf("process %d does not end", p.PID)
}

// readStat returns the start time and the state of a process.
func readStat(pid int) (start uint64, state byte, err error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	return parseStat(b)
}

// parseStat returns the fields `state` and `starttime` of /proc/PID/stat. The name of the program, which precedes these
// fields in parentheses, may itself contain spaces and parentheses.
func parseStat(stat []byte) (start uint64, state byte, err error) {
	after := bytes.LastIndexByte(stat, ')')
	if after < 0 {
		return 0, 0, fmt.Errorf("not a /proc/PID/stat line: %q", stat)
	}
	fields := bytes.Fields(stat[after+1:])
	const stateField, startField = 3, 22 // numbered from 1 as in proc(5), so that the first field after the name is field 3
	if len(fields) <= startField-stateField {
		return 0, 0, fmt.Errorf("/proc/PID/stat has %d fields after the name, needs %d", len(fields), startField-stateField+1)
	}
	start, err = strconv.ParseUint(string(fields[startField-stateField]), 10, 64)
	return start, fields[0][0], err
}

// keepToOurselves marks the files that this process inherited as close-on-exec. Otherwise a component would inherit
// them in turn, and keep them open after this process has exited. Examples are the lock of `flock FILE cluster.sh up`,
// and a pipe to a process that reads our output.
func keepToOurselves() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
