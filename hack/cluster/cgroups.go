package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// mount is one line of /proc/self/mountinfo.
type mount struct {
	point  string
	fstype string
}

func readMounts() ([]mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMounts(string(b)), nil
}

// parseMounts returns the mount points and file system types in /proc/self/mountinfo, in the order of mounting.
func parseMounts(mountinfo string) []mount {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var mounts []mount
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, types := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(types) == 0 {
			continue
		}
		mounts = append(mounts, mount{point: unescape.Replace(fields[4]), fstype: types[0]})
	}
	return mounts
}

// cgroups returns the paths of the cluster's control group in all hierarchies of version 1 or 2. The folders may not
// exist yet.
func cgroups() ([]string, error) {
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, m := range mounts {
		if m.fstype == "cgroup" || m.fstype == "cgroup2" {
			dirs = append(dirs, filepath.Join(m.point, cgroupName))
		}
	}
	if len(dirs) == 0 {
		return nil, errors.New("no control groups are mounted: kubelet needs /sys/fs/cgroup")
	}
	return dirs, nil
}

// ensureCgroups creates the control group of the cluster. The kubelet creates the groups of its pods in it.
func ensureCgroups() error {
	dirs, err := cgroups()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// In version 1, the cpuset of a new group is empty, so that no process can join the group. Copy the values of the
		// parent.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			own, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil || strings.TrimSpace(string(own)) != "" {
				continue
			}
			parent, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
			if err != nil {
				continue // in version 2, the root has no such file, and the group inherits the values
			}
			if err := os.WriteFile(filepath.Join(dir, file), parent, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// processesInCgroups returns the process IDs of all processes in pods.
func processesInCgroups() ([]int, error) {
	var pids []int
	err := walkCgroups(func(dir string) error {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return nil // the group was removed in the meantime, or it is threaded and the root of its domain lists the processes
		}
		for _, field := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	slices.Sort(pids)
	return slices.Compact(pids), err
}

// removeCgroups deletes the cluster's control groups, innermost first. The groups must not contain processes.
func removeCgroups() error {
	var dirs []string
	if err := walkCgroups(func(dir string) error {
		dirs = append(dirs, dir)
		return nil
	}); err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("remove control group %s: %w", dir, err)
		}
	}
	return nil
}

// walkCgroups calls visit with each control group of the cluster, parents before children.
func walkCgroups(visit func(dir string) error) error {
	roots, err := cgroups()
	if err != nil {
		return err
	}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !entry.IsDir() {
				return err
			}
			return visit(path)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
