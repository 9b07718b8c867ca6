package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

const (
	// nodeName is the name of the cluster's only node.
	nodeName = "geobench-local"
	// netnsName is the name of the network namespace in which all components run.
	netnsName = "geobench"
	// cgroupName is the name of the control group that contains all pods, in every hierarchy.
	cgroupName = "geobench"
	// containerdNamespace is the containerd namespace in which the kubelet's images and containers are.
	containerdNamespace = "k8s.io"
)

// Cluster is the local cluster: its folders, and the choices that were made when it was started.
type Cluster struct {
	State string // folder of all files that the cluster writes; the command down deletes it
	Cache string // folder of built programs; the command down keeps it
	Config
}

// Config contains the choices that must not change while the cluster exists.
type Config struct {
	// Boot identifies the boot of the machine after which the cluster was started.
	Boot string `json:"boot"`
	// Subnets are the cluster's address ranges.
	Subnets Subnets `json:"subnets"`
	// Sysctls contains the original values of the host's kernel settings that the kubelet changes.
	Sysctls map[string]string `json:"sysctls"`
	// Made lists the folders outside State that did not exist before the cluster was started, outermost first.
	Made []string `json:"made"`
}

// openCluster determines the folders of the cluster from the environment, and reads the state of an existing cluster.
func openCluster() (*Cluster, error) {
	cache := os.Getenv("GEOBENCH_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("no folder to cache binaries in: %w; set GEOBENCH_CACHE", err)
		}
		cache = filepath.Join(home, ".cache", "geobench")
	}
	state := os.Getenv("GEOBENCH_STATE")
	if state == "" {
		state = "/var/lib/geobench-cluster"
	}
	c := &Cluster{State: realPath(state), Cache: realPath(cache)}
	if c.State == "/" {
		return nil, errors.New("GEOBENCH_STATE is /, which down would delete: name a folder of its own")
	}
	err := readJSON(c.path("cluster.json"), &c.Config)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; `down` clears the state away", err)
	}
	return c, nil
}

// exists reports whether the state folder describes a cluster, which may be running or not.
func (c *Cluster) exists() bool { return c.Boot != "" }

// path returns a path in the state folder.
func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.State}, parts...)...)
}

// kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) kubeconfig() string { return c.path("kubeconfig") }

// containerdSocket returns the path of the socket on which containerd and the container runtime interface listen.
func (c *Cluster) containerdSocket() string { return c.path("run", "containerd.sock") }

// save writes the configuration to the state folder.
func (c *Cluster) save() error { return writeJSON(c.path("cluster.json"), c.Config) }

// lock blocks until no other process holds the lock on the file, and returns a function that releases it. The kernel
// also releases the lock when the process exits.
func lock(path string) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			fmt.Fprintf(os.Stderr, "waiting for another invocation that holds %s\n", path)
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
				_ = f.Close()
				return nil, fmt.Errorf("lock %s: %w", path, err)
			}
		}
		// The previous holder of the lock may have deleted the file. Another process would then lock a new file with the same
		// name, so check that the names still refer to the same file.
		held, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if named, err := os.Stat(path); err == nil && os.SameFile(held, named) {
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close()
	}
}

// requireRoot returns an error if a node cannot run on this system or with the rights of this user.
func requireRoot() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a node runs on linux only, and this is %s: use a cluster made by another tool", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("a node needs root for namespaces and mounts: run it as root (sudo -E keeps GEOBENCH_CACHE and GEOBENCH_STATE)")
	}
	return nil
}

// bootID returns an identifier of the current boot of the machine.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// sourceDir returns the folder with the source of this program and the modules that pin the components. It is the
// folder from which the program was built, or a folder above the working folder.
func sourceDir() (string, error) {
	isSource := func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "binaries", "kubernetes", "go.mod"))
		return err == nil
	}
	if _, file, _, ok := runtime.Caller(0); ok && isSource(filepath.Dir(file)) {
		return filepath.Dir(file), nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if candidate := filepath.Join(dir, "hack", "cluster"); isSource(candidate) {
			return candidate, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("hack/cluster/binaries is not above %s: run inside a checkout of geobench", wd)
		}
	}
}

// realPath returns an absolute path. It resolves symbolic links in the part that exists, because the kernel reports the
// real paths of mounts.
func realPath(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(realPath(parent), filepath.Base(path))
	}
	return path
}

// within reports whether path is dir or is below dir. Both must be clean absolute paths.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(b, '\n'), 0o600)
}

// writeFile writes a file atomically. It creates the folders above the file if they do not exist.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, content, mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
