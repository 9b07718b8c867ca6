package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// foreignFolders are folders outside the state folder to which components write, outermost first. Their paths are
// compiled into the kubelet, containerd, the CNI library, iproute2 and libmount.
var foreignFolders = []string{
	"/var/lib/cni", "/var/lib/cni/results",
	"/var/lib/kubelet", "/var/lib/kubelet/device-plugins",
	"/var/log/containers",
	"/run/containerd", "/run/containerd/s",
	"/run/netns",
	"/run/mount",
}

// down kills all processes of the cluster and removes everything that the cluster created, whatever state the cluster
// is in. Only the cache of programs remains.
func (c *Cluster) down(p *progress) error {
	if err := c.checkOwned(); err != nil {
		return err
	}
	ended, err := c.killAll(10 * time.Second)
	if err != nil {
		return err
	}
	if ended > 0 {
		p.say("%d processes ended", ended)
	}
	// The steps are independent, so carry out all of them even if one fails.
	err = errors.Join(
		removeNetwork(),
		removeMounts(c.State),
		removeCgroups(),
		c.removeForeign(),
		c.restoreSysctls(),
	)
	if err != nil {
		return err // keep the state folder, so that the user can repeat the command
	}
	if left, err := mountsWithin(c.State); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("still mounted, so %s is not deleted: %s", c.State, strings.Join(left, " ")))
	}
	if err := os.RemoveAll(c.State); err != nil {
		return err
	}
	c.Config = Config{}
	p.say("nothing is left of the cluster but the cache %s", c.Cache)
	return nil
}

// stateEntries are the names of all entries that a state folder may have.
var stateEntries = []string{
	"cluster.json", "kubeconfig", "conf", "pki", "run", "logs", "images", "etcd", "containerd", "kubelet", "cni",
	"pod-logs", "volume-plugins", "kubectl-cache",
}

// checkOwned returns an error if the state folder may belong to another program and must therefore not be deleted. This
// program created the folder if the folder contains cluster.json. If a user has deleted this file, the folder must
// contain only names that this program uses.
func (c *Cluster) checkOwned() error {
	entries, err := os.ReadDir(c.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.path("cluster.json")); err == nil {
		return nil
	}
	for _, e := range entries {
		if !slices.Contains(stateEntries, e.Name()) {
			return fmt.Errorf("%s has no cluster.json but %q, so it was not made by this program and is not deleted; check GEOBENCH_STATE",
				c.State, e.Name())
		}
	}
	return nil
}

// killAll kills all processes of the cluster. They need not stop gracefully, because their state is deleted.
func (c *Cluster) killAll(timeout time.Duration) (ended int, err error) {
	killed := map[int]bool{}
	for end := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		pids, err := c.processes()
		if err != nil || len(pids) == 0 {
			return len(killed), err
		}
		if time.Now().After(end) {
			return len(killed), fmt.Errorf("processes %v do not end", pids)
		}
		for _, pid := range pids {
			if killed[pid] {
				continue
			}
			if err := c.kill(pid); err != nil {
				return len(killed), err
			}
			killed[pid] = true
		}
	}
}

// kill kills one process of the cluster. It opens a handle of the process before it checks again that the process
// belongs to the cluster. So the signal cannot reach a later process with the same ID.
func (c *Cluster) kill(pid int) error {
	handle, err := os.FindProcess(pid)
	if err != nil {
		return nil
	}
	defer handle.Release()
	pids, err := c.processes()
	if err != nil || !slices.Contains(pids, pid) {
		return err
	}
	if err := handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	return nil
}

// processes returns the running processes of the cluster. These are the recorded processes, all processes in the node's
// network namespace (components and shims), and all processes in the cluster's control groups (containers).
func (c *Cluster) processes() ([]int, error) {
	found := map[int]bool{}
	for _, name := range componentNames {
		p, err := c.process(name)
		if err == nil && p.Alive() { // ignore a record that was not written completely
			found[p.PID] = true
		}
	}
	inNamespace, err := processesInNetns(netnsPath)
	if err != nil {
		return nil, err
	}
	inCgroups, err := processesInCgroups()
	if err != nil {
		return nil, err
	}
	for _, pid := range append(inNamespace, inCgroups...) {
		if _, state, err := readStat(pid); err == nil && state != 'Z' && state != 'X' {
			found[pid] = true
		}
	}
	delete(found, os.Getpid())
	delete(found, os.Getppid()) // the command may have been started from a shell in the namespace
	pids := make([]int, 0, len(found))
	for pid := range found {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids, nil
}

// processesInNetns returns the processes in the network namespace at a path.
func processesInNetns(path string) ([]int, error) {
	var want syscall.Stat_t
	if err := syscall.Stat(path, &want); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		var got syscall.Stat_t
		if syscall.Stat(filepath.Join("/proc", e.Name(), "ns", "net"), &got) != nil {
			continue // the process has exited or is a kernel thread
		}
		if got.Dev == want.Dev && got.Ino == want.Ino {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// removeNetwork deletes the network namespace and the host's end of the link. This also deletes their addresses, routes
// and rules.
func removeNetwork() error {
	var errs []error
	if _, err := os.Stat(filepath.Join("/sys/class/net", hostLink)); err == nil {
		errs = append(errs, quiet("ip", "link", "delete", hostLink))
	}
	if _, err := os.Stat(netnsPath); err == nil {
		errs = append(errs, quiet("ip", "netns", "delete", netnsName))
	}
	return errors.Join(errs...)
}

func quiet(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// removeMounts unmounts everything below dir, innermost first.
func removeMounts(dir string) error {
	for {
		mounts, err := mountsWithin(dir)
		if err != nil || len(mounts) == 0 {
			return err
		}
		for _, m := range slices.Backward(mounts) {
			if err := syscall.Unmount(m, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
				return fmt.Errorf("unmount %s: %w", m, err)
			}
		}
	}
}

// mountsWithin returns the mount points at and below dir, in the order of mounting.
func mountsWithin(dir string) ([]string, error) {
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	var inside []string
	for _, m := range mounts {
		if within(m.point, dir) {
			inside = append(inside, m.point)
		}
	}
	return inside, nil
}

// removeForeign removes the files that components wrote outside the state folder, and folders that did not exist before
// the cluster.
func (c *Cluster) removeForeign() error {
	var errs []error
	remove := func(pattern string, ours func(path string) bool) {
		paths, err := filepath.Glob(pattern)
		errs = append(errs, err)
		for _, path := range paths {
			if ours(path) {
				errs = append(errs, os.Remove(path))
			}
		}
	}
	always := func(string) bool { return true }
	remove("/var/lib/cni/results/"+netnsName+"-*", always)
	remove("/run/containerd/s/*", deadSocket)
	remove("/var/log/containers/*.log", func(path string) bool {
		target, err := os.Readlink(path)
		return err == nil && within(target, c.State)
	})
	remove("/var/lib/kubelet/device-plugins/kubelet.sock", deadSocket)
	if slices.Contains(c.Made, "/var/lib/kubelet/device-plugins") {
		remove("/var/lib/kubelet/device-plugins/*", always)
	}
	for _, dir := range slices.Backward(c.Made) {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 0 {
			continue // another program uses the folder now
		}
		for syscall.Unmount(dir, syscall.MNT_DETACH) == nil { // iproute2 mounts /run/netns over itself
		}
		errs = append(errs, os.Remove(dir))
	}
	return errors.Join(errs...)
}

// deadSocket reports whether path is a socket on which no process listens any more.
func deadSocket(path string) bool {
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// missingFolders returns the elements of folders that do not exist.
func missingFolders(folders []string) []string {
	var missing []string
	for _, dir := range folders {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, dir)
		}
	}
	return missing
}

// restoreSysctls restores the host's kernel settings. If the machine was rebooted, the settings were reset already.
func (c *Cluster) restoreSysctls() error {
	if boot, err := bootID(); err != nil || boot != c.Boot {
		return err
	}
	var errs []error
	for key, before := range c.Sysctls {
		path := filepath.Join("/proc/sys", key)
		if now, err := os.ReadFile(path); err != nil || string(now) == before {
			continue
		}
		errs = append(errs, os.WriteFile(path, []byte(before), 0o644))
	}
	return errors.Join(errs...)
}
