package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// source is a component of the cluster, which is built from the Go module that pins its version.
type source struct {
	name    string
	version string
	module  string   // folder of the module that pins the component, relative to hack/cluster
	tags    string   // build tags
	ldflags string   // linker flags that set the version in the program, if the component reports one
	builds  []string // main packages; names maps a package to the name of its program, if they differ
	names   map[string]string
}

const (
	kubernetesVersion = "v1.36.3"
	etcdVersion       = "v3.7.3"
	containerdVersion = "v2.4.2"
	corednsVersion    = "v1.15.0"
	pauseVersion      = "v1"
)

// sources lists all components. Each version must equal the version in the go.mod of the pinning module.
var sources = []source{
	{
		name: "etcd", version: etcdVersion, module: "binaries/etcd",
		builds: []string{"go.etcd.io/etcd/server/v3"},
		names:  map[string]string{"go.etcd.io/etcd/server/v3": "etcd"},
	},
	{
		name: "kubernetes", version: kubernetesVersion, module: "binaries/kubernetes",
		ldflags: "-X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
			" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36",
		builds: []string{
			"k8s.io/kubernetes/cmd/kube-apiserver",
			"k8s.io/kubernetes/cmd/kubectl",
			"k8s.io/kubernetes/cmd/kube-controller-manager",
			"k8s.io/kubernetes/cmd/kube-scheduler",
			"k8s.io/kubernetes/cmd/kubelet",
			"k8s.io/kubernetes/cmd/kube-proxy",
		},
	},
	{
		name: "containerd", version: containerdVersion, module: "binaries/containerd",
		tags:    "no_btrfs no_zfs no_devmapper",
		ldflags: "-X github.com/containerd/containerd/v2/version.Version=" + containerdVersion,
		builds: []string{
			"github.com/containerd/containerd/v2/cmd/containerd",
			"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
			"github.com/containerd/containerd/v2/cmd/ctr",
		},
	},
	{
		name: "coredns", version: corednsVersion, module: "binaries/coredns",
		builds: []string{"."}, names: map[string]string{".": "coredns"},
	},
	{
		name: "pause", version: pauseVersion, module: "../../images/pause",
		builds: []string{"."},
		names:  map[string]string{".": "pause"},
	},
}

// envtestPrograms are the programs that controller-runtime's envtest expects in one folder.
var envtestPrograms = []struct{ source, program string }{
	{"etcd", "etcd"}, {"kubernetes", "kube-apiserver"}, {"kubernetes", "kubectl"},
}

// sourceNamed returns the component with the given name.
func sourceNamed(name string) (source, error) {
	var known []string
	for _, s := range sources {
		if s.name == name {
			return s, nil
		}
		known = append(known, s.name)
	}
	return source{}, fmt.Errorf("unknown component %q: known are %s, envtest", name, strings.Join(known, ", "))
}

// program returns the file name of the program built from package pkg.
func (s source) program(pkg string) string {
	if name, ok := s.names[pkg]; ok {
		return name
	}
	return path.Base(pkg)
}

// binDir returns the folder in the cache for the programs of a component.
func (c *Cluster) binDir(s source) string {
	return filepath.Join(c.Cache, "bin", s.name+"-"+s.version)
}

// binary returns the path of a program, which may not have been built yet.
func (c *Cluster) binary(component, program string) string {
	s, err := sourceNamed(component)
	if err != nil {
		panic(err) // unreachable, because callers use names from the table
	}
	return filepath.Join(c.binDir(s), program)
}

// build builds the programs named in only, or all programs of a component if only is empty. It skips programs that are
// in the cache.
func (c *Cluster) build(ctx context.Context, p *progress, s source, only ...string) error {
	for _, pkg := range s.builds {
		if len(only) > 0 && !slices.Contains(only, s.program(pkg)) {
			continue
		}
		if err := c.buildProgram(ctx, p, s, pkg); err != nil {
			return fmt.Errorf("build %s %s: %w", s.program(pkg), s.version, err)
		}
	}
	return nil
}

// buildProgram builds a program under a temporary name and renames it afterwards, so that an interrupted build leaves
// no incomplete program.
func (c *Cluster) buildProgram(ctx context.Context, p *progress, s source, pkg string) error {
	target := filepath.Join(c.binDir(s), s.program(pkg))
	if _, err := os.Stat(target); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	// Hold a lock, because a concurrent invocation would build the same program.
	release, err := lock(filepath.Join(c.Cache, "build.lock"))
	if err != nil {
		return err
	}
	defer release()
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("it is not in the cache, and there is no go command to build it with: %w", err)
	}
	dir, err := sourceDir()
	if err != nil {
		return err
	}
	p.say("building %s %s (minutes the first time)", s.program(pkg), s.version)
	start := time.Now()
	tmp := target + ".tmp"
	defer os.Remove(tmp)
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false",
		"-tags", s.tags, "-ldflags", strings.TrimSpace("-s -w "+s.ldflags), "-o", tmp, pkg)
	cmd.Dir = filepath.Join(dir, s.module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // a signal that lets go remove its temporary files
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w in %s:\n%s", err, cmd.Dir, lastLines(string(out), 20))
	}
	if err := os.Rename(tmp, target); err != nil {
		return err
	}
	p.say("built %s in %s", s.program(pkg), time.Since(start).Round(100*time.Millisecond))
	return nil
}

// buildEnvtest builds the programs for controller-runtime's envtest, links them into one folder, and returns the
// folder.
func (c *Cluster) buildEnvtest(ctx context.Context, p *progress) (string, error) {
	dir := filepath.Join(c.Cache, "envtest")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, want := range envtestPrograms {
		s, err := sourceNamed(want.source)
		if err != nil {
			return "", err
		}
		if err := c.build(ctx, p, s, want.program); err != nil {
			return "", err
		}
		target := filepath.Join("..", "bin", filepath.Base(c.binDir(s)), want.program)
		link := filepath.Join(dir, want.program)
		if current, err := os.Readlink(link); err == nil && current == target {
			continue
		}
		tmp := link + ".tmp"
		_ = os.Remove(tmp)
		if err := os.Symlink(target, tmp); err != nil {
			return "", err
		}
		if err := os.Rename(tmp, link); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// lastLines returns the last n lines of a text, or the whole text if it has fewer.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
