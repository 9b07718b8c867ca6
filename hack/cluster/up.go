package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// startTimeout is the maximum time for the start of a component. A start usually takes five seconds, and longer on a
// busy machine.
const startTimeout = 2 * time.Minute

// stopGrace is the time that a component has to exit before a restart kills it.
const stopGrace = 10 * time.Second

// hostSysctls are the kernel settings of the host that the kubelet changes.
var hostSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// up takes the cluster from any state to a state in which pods run and names resolve.
func (c *Cluster) up(ctx context.Context, p *progress, labels map[string]string) error {
	if c.exists() {
		boot, err := bootID()
		if err != nil {
			return err
		}
		if c.Boot != boot {
			p.say("the machine was restarted since: clearing away what was left")
			if err := c.down(p); err != nil {
				return err
			}
		}
	}
	if err := ensurePackages(ctx, p); err != nil {
		return err
	}
	for _, s := range sources {
		if err := c.build(ctx, p, s); err != nil {
			return err
		}
	}
	if !c.exists() {
		if err := c.choose(ctx, p); err != nil {
			return err
		}
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx, p); err != nil {
		return err
	}
	if err := c.startNode(ctx, p); err != nil {
		return err
	}
	return c.label(ctx, labels)
}

// choose makes the choices in Config and stores them, before anything else is created.
func (c *Cluster) choose(ctx context.Context, p *progress) error {
	if entries, err := os.ReadDir(c.State); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty and was not made by this program: point GEOBENCH_STATE at a folder that does not exist", c.State)
	}
	if _, err := os.Stat(netnsPath); err == nil {
		return fmt.Errorf("%s exists already: another cluster, with another GEOBENCH_STATE, or its remains; `down` clears it away", netnsPath)
	}
	used, err := usedPrefixes(ctx)
	if err != nil {
		return err
	}
	if c.Subnets, err = chooseSubnets(used); err != nil {
		return err
	}
	if c.Boot, err = bootID(); err != nil {
		return err
	}
	c.Sysctls = map[string]string{}
	for _, key := range hostSysctls {
		if value, err := os.ReadFile(filepath.Join("/proc/sys", key)); err == nil {
			c.Sysctls[key] = string(value)
		}
	}
	c.Made = missingFolders(foreignFolders)
	p.say("using %s", c.Subnets.Base)
	return c.save()
}

// prepare creates everything that must exist before components start.
func (c *Cluster) prepare(ctx context.Context) error {
	for _, dir := range []string{"run", "logs", "conf", "images"} {
		if err := os.MkdirAll(c.path(dir), 0o755); err != nil {
			return err
		}
	}
	if err := c.ensureNetwork(ctx); err != nil {
		return err
	}
	if err := ensureCgroups(); err != nil {
		return err
	}
	if err := writePKI(c.path("pki"), c.Subnets, time.Now()); err != nil {
		return err
	}
	return c.writeConfigs()
}

// startControlPlane starts the API server and etcd. It also starts containerd and imports images into it while the API
// server starts.
func (c *Cluster) startControlPlane(ctx context.Context, p *progress) error {
	for _, name := range []string{"etcd", "kube-apiserver", "containerd"} {
		if err := c.startNamed(name); err != nil {
			return err
		}
	}
	if err := c.awaitNamed(ctx, p, "containerd"); err != nil {
		return err
	}
	for tag, component := range map[string]string{pauseImage: "pause", corednsImage: "coredns"} {
		if err := c.ensureImage(ctx, tag, component); err != nil {
			return &componentError{"containerd", err}
		}
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := c.awaitNamed(ctx, p, name); err != nil {
			return err
		}
	}
	return nil
}

// startNode starts the components that run pods. It waits until pods can run and resolve names.
func (c *Cluster) startNode(ctx context.Context, p *progress) error {
	rest := []string{"kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"}
	for _, name := range rest {
		if err := c.startNamed(name); err != nil {
			return err
		}
	}
	if c.resolvesSoon(ctx) != nil {
		if err := c.installDNS(ctx); err != nil {
			return &componentError{"kube-apiserver", err}
		}
	}
	for _, name := range rest {
		if err := c.awaitNamed(ctx, p, name); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		component, what string
		done            func(context.Context) error
	}{
		{"kubelet", "node " + nodeName + " ready", c.nodeReady},
		{"kube-controller-manager", "default service account there", c.serviceAccountExists},
	} {
		if err := c.await(ctx, step.component, startTimeout, step.done); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		p.say("%s", step.what)
	}
	if err := c.awaitDNS(ctx); err != nil {
		return err
	}
	p.say("names resolve")
	return nil
}

// resolvesSoon checks whether names resolve within a fraction of a second. If they do, the DNS server need not be
// installed.
func (c *Cluster) resolvesSoon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	return c.resolves(ctx)
}

func (c *Cluster) startNamed(name string) error {
	comp, err := c.component(name)
	if err != nil {
		return err
	}
	return c.start(comp)
}

func (c *Cluster) awaitNamed(ctx context.Context, p *progress, name string) error {
	comp, err := c.component(name)
	if err != nil {
		return err
	}
	if err := c.await(ctx, name, startTimeout, comp.Healthy); err != nil {
		return err
	}
	p.say("%s is well", name)
	return nil
}

// restart stops a component, starts it again, and waits until it is healthy.
func (c *Cluster) restart(ctx context.Context, p *progress, name string) error {
	comp, err := c.component(name)
	if err != nil {
		return err
	}
	if !c.exists() {
		return errNotUp
	}
	process, err := c.process(name)
	if err != nil {
		return err
	}
	if err := process.Stop(stopGrace); err != nil {
		return &componentError{name, err}
	}
	p.say("%s stopped", name)
	if err := c.start(comp); err != nil {
		return err
	}
	return c.awaitNamed(ctx, p, name)
}

var errNotUp = errors.New("there is no cluster: start it with `up`")

// nodeReady returns nil if the node accepts pods.
func (c *Cluster) nodeReady(ctx context.Context) error {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := c.get(ctx, c.server()+"/api/v1/nodes/"+nodeName, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" {
			if condition.Status == "True" {
				return nil
			}
			return errors.New(condition.Message)
		}
	}
	return errors.New("kubelet has not reported yet")
}

// serviceAccountExists returns nil if the default namespace has its service account, which is necessary for creating
// pods.
func (c *Cluster) serviceAccountExists(ctx context.Context) error {
	return c.get(ctx, c.server()+"/api/v1/namespaces/default/serviceaccounts/default", nil)
}

// label adds labels to the node.
func (c *Cluster) label(ctx context.Context, labels map[string]string) error {
	if len(labels) == 0 {
		return nil
	}
	args := []string{"label", "--overwrite", "node", nodeName}
	for key, value := range labels {
		args = append(args, key+"="+value)
	}
	_, err := c.kubectl(ctx, args...)
	return err
}
