package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/modfile"
)

// tool is a program that is built from a module. The module pins the program with a tool directive.
type tool struct {
	name string
	// module is the name of the module's folder in pins/, if it differs from the name of the tool.
	module string
	// program is the last element of the package path, if it differs from the name of the tool.
	program string
	// tags are build tags, separated by commas.
	tags string
	// versionVar is the linker symbol of the variable that contains the program's version, if there is one.
	versionVar string
	// readsGo is set if the program parses Go sources. Such a program must be built with the Go release of these sources.
	readsGo bool
}

var tools = []tool{
	{name: "controller-gen", readsGo: true},
	{name: "go-tpc"},
	{name: "gotestsum", versionVar: "gotest.tools/gotestsum/cmd.version"},
	{name: "helm", versionVar: "helm.sh/helm/v4/internal/version.version"},
	{name: "kustomize-controller"},
	// As in Istio's own image, the agent is built without the packages of the control plane.
	{name: "pilot-agent", module: "istio", tags: istioTags + ",agent", versionVar: istioVersion},
	{name: "pilot-discovery", module: "istio", tags: istioTags, versionVar: istioVersion},
	// Build Prometheus only with the service discovery for Kubernetes and files, because the libraries for clouds take
	// minutes to build.
	{name: "prometheus", tags: prometheusTags, versionVar: prometheusVersion},
	{name: "prometheus-config-reloader", module: "prometheus-operator", versionVar: prometheusVersion},
	{name: "prometheus-operator", program: "operator", versionVar: prometheusVersion},
	{name: "promtool", module: "prometheus", tags: prometheusTags, versionVar: prometheusVersion},
	{name: "staticcheck", readsGo: true},
	{name: "vale", versionVar: "main.version"},
}

const (
	istioTags         = "disable_pgv" // omits the validation of messages, like Istio's own builds
	istioVersion      = "istio.io/istio/pkg/version.buildVersion"
	prometheusTags    = "remove_all_sd,enable_kubernetes_sd"
	prometheusVersion = "github.com/prometheus/common/version.Version"
)

// folder returns the folder of the module that pins the tool, relative to the repository.
func (t tool) folder() string {
	if t.module != "" {
		return path.Join("hack/tools/pins", t.module)
	}
	return path.Join("hack/tools/pins", t.name)
}

func toolNames() string {
	var names []string
	for _, t := range tools {
		names = append(names, t.name)
	}
	return strings.Join(names, ", ")
}

func toolNamed(name string) (tool, error) {
	i := slices.IndexFunc(tools, func(t tool) bool { return t.name == name })
	if i < 0 {
		return tool{}, usageError(fmt.Sprintf("unknown tool %q: there are %s", name, toolNames()))
	}
	return tools[i], nil
}

// cacheDir returns the folder with built programs, which all checkouts share.
func cacheDir() (string, error) {
	if dir := os.Getenv("GEOBENCH_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no folder for built tools: set GEOBENCH_CACHE: %w", err)
	}
	return filepath.Join(home, ".cache", "geobench"), nil
}

// pin is the pinned version of a tool, with its paths.
type pin struct {
	dir      string // folder of the pinning module
	pkg      string // path of the main package
	version  string // version of the module that contains the main package
	programs string // folder in which the built program is stored
}

func (t tool) pin(root string) (pin, error) {
	p := pin{dir: filepath.Join(root, filepath.FromSlash(t.folder()))}
	file := filepath.Join(p.dir, "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	mod, err := modfile.Parse(file, text, nil)
	if err != nil {
		return p, err
	}
	program := cmp.Or(t.program, t.name)
	i := slices.IndexFunc(mod.Tool, func(m *modfile.Tool) bool { return path.Base(m.Path) == program })
	if i < 0 {
		return p, fmt.Errorf("%s: no tool directive for a package called %s", file, program)
	}
	p.pkg = mod.Tool[i].Path
	longest := ""
	for _, r := range mod.Require {
		if in := r.Mod.Path; (p.pkg == in || strings.HasPrefix(p.pkg, in+"/")) && len(in) > len(longest) {
			longest, p.version = in, r.Mod.Version
		}
	}
	if p.version == "" {
		return p, fmt.Errorf("%s: tool %s belongs to none of the required modules: go get -tool %[2]s", file, p.pkg)
	}
	cache, err := cacheDir()
	if err != nil {
		return p, err
	}
	key := t.name + "-" + p.version
	if t.readsGo {
		key += "-" + runtime.Version()
	}
	p.programs = filepath.Join(cache, "bin", key)
	return p, nil
}

func (t tool) path(p pin) string { return filepath.Join(p.programs, t.name) }

// install builds the named tools, or all tools if none is named, and prints the paths of the programs in this order.
func install(ctx context.Context, root string, names []string) error {
	wanted := tools
	if len(names) > 0 {
		wanted = nil
		for _, name := range names {
			t, err := toolNamed(name)
			if err != nil {
				return err
			}
			wanted = append(wanted, t)
		}
	}
	for _, t := range wanted {
		target, err := build(ctx, root, t)
		if err != nil {
			return fmt.Errorf("install %s: %w", t.name, err)
		}
		fmt.Println(target)
	}
	return nil
}

func printPath(root, name string) error {
	t, err := toolNamed(name)
	if err != nil {
		return err
	}
	p, err := t.pin(root)
	if err != nil {
		return err
	}
	if _, err := os.Stat(t.path(p)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s %s is not installed: go run -C hack/tools . install %[1]s", t.name, p.version)
	} else if err != nil {
		return err
	}
	fmt.Println(t.path(p))
	return nil
}

// build returns the path of a tool, and builds the tool if it is not in the cache. It builds under a temporary name, so
// that an interrupted build leaves no incomplete program. A lock prevents concurrent builds of the same tool.
func build(ctx context.Context, root string, t tool) (string, error) {
	p, err := t.pin(root)
	if err != nil {
		return "", err
	}
	target := t.path(p)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.MkdirAll(p.programs, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(target + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}

	fmt.Fprintf(os.Stderr, "building %s %s from %s (minutes the first time)\n", t.name, p.version, t.folder())
	start := time.Now()
	tmp := fmt.Sprintf("%s.%d.tmp", target, os.Getpid())
	defer os.Remove(tmp)
	ldflags := "-s -w"
	if t.versionVar != "" {
		ldflags += " -X " + t.versionVar + "=" + p.version
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-tags", t.tags, "-ldflags", ldflags, "-o", tmp, p.pkg)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w in %s:\n%s", err, p.dir, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(tmp, target); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "built %s %s in %s\n", t.name, p.version, time.Since(start).Round(100*time.Millisecond))
	return target, nil
}

// lock waits until it has an exclusive lock on a file. The kernel releases the lock when the process exits for any
// reason.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file, err), f.Close())
	}
	return func() { f.Close() }, nil
}
