package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Component is a long-lived process of the cluster.
type Component struct {
	Name    string
	Command []string
	// Healthy returns nil if the component is healthy.
	Healthy func(ctx context.Context) error
}

// componentNames lists the components in the order in which they are started.
var componentNames = []string{
	"etcd", "kube-apiserver", "containerd", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
}

// component returns the command and the health check of a component.
func (c *Cluster) component(name string) (Component, error) {
	node := c.Subnets.Node().String()
	pki := func(file string) string { return c.path("pki", file) }
	kubeconfig := c.path("conf", name+".kubeconfig")
	kubernetes := func(args ...string) []string {
		return append([]string{c.binary("kubernetes", name)}, args...)
	}
	url := func(url string) func(context.Context) error {
		return func(ctx context.Context) error { return c.get(ctx, url, nil) }
	}
	switch name {
	case "etcd":
		// etcd listens only on the loopback interface of the node's network namespace. Its data need not survive a failure of
		// the machine, so it does not sync.
		return Component{Name: name, Healthy: url("http://" + node + ":2381/health"), Command: []string{
			c.binary("etcd", "etcd"),
			"--data-dir=" + c.path("etcd"),
			"--listen-client-urls=http://127.0.0.1:2379",
			"--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380",
			"--initial-advertise-peer-urls=http://127.0.0.1:2380",
			"--initial-cluster=default=http://127.0.0.1:2380",
			"--listen-metrics-urls=http://" + node + ":2381",
			"--unsafe-no-fsync",
		}}, nil
	case "kube-apiserver":
		return Component{Name: name, Healthy: url(c.server() + "/readyz"), Command: kubernetes(
			"--etcd-servers=http://127.0.0.1:2379",
			"--secure-port=6443",
			"--advertise-address="+node,
			"--tls-cert-file="+pki("node.crt"),
			"--tls-private-key-file="+pki("node.key"),
			"--client-ca-file="+pki("ca.crt"),
			"--service-cluster-ip-range="+c.Subnets.Services.String(),
			"--service-account-issuer=https://kubernetes.default.svc."+clusterDomain,
			"--service-account-key-file="+pki("service-accounts.crt"),
			"--service-account-signing-key-file="+pki("service-accounts.key"),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true",
			"--audit-policy-file="+c.path("conf", "audit.yaml"),
			"--audit-log-path="+c.path("logs", "audit.log"),
			"--audit-log-mode=batch",
			"--audit-log-maxsize=200",
			"--audit-log-maxbackup=1",
			"--shutdown-watch-termination-grace-period=1s",
			"--kubelet-preferred-address-types=InternalIP",
			"--kubelet-certificate-authority="+pki("ca.crt"),
			"--kubelet-client-certificate="+pki("kubelet-client.crt"),
			"--kubelet-client-key="+pki("kubelet-client.key"),
		)}, nil
	case "kube-controller-manager":
		return Component{Name: name, Healthy: url("https://" + node + ":10257/healthz"), Command: kubernetes(
			"--kubeconfig="+kubeconfig,
			"--bind-address="+node,
			"--tls-cert-file="+pki("node.crt"),
			"--tls-private-key-file="+pki("node.key"),
			"--leader-elect=false",
			"--use-service-account-credentials=true",
			"--service-account-private-key-file="+pki("service-accounts.key"),
			"--root-ca-file="+pki("ca.crt"),
			"--cluster-signing-cert-file="+pki("ca.crt"),
			"--cluster-signing-key-file="+pki("ca.key"),
		)}, nil
	case "kube-scheduler":
		return Component{Name: name, Healthy: url("https://" + node + ":10259/healthz"), Command: kubernetes(
			"--kubeconfig="+kubeconfig,
			"--bind-address="+node,
			"--tls-cert-file="+pki("node.crt"),
			"--tls-private-key-file="+pki("node.key"),
			"--leader-elect=false",
		)}, nil
	case "containerd":
		dial := func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", c.containerdSocket())
			if err != nil {
				return err
			}
			return conn.Close()
		}
		return Component{Name: name, Healthy: dial, Command: []string{
			c.binary("containerd", "containerd"), "--config=" + c.path("conf", "containerd.toml"),
		}}, nil
	case "kubelet":
		return Component{Name: name, Healthy: url("https://" + node + ":10250/healthz"), Command: kubernetes(
			"--kubeconfig="+kubeconfig,
			"--config="+c.path("conf", "kubelet.yaml"),
			"--root-dir="+c.path("kubelet"),
			"--hostname-override="+nodeName,
			"--node-ip="+node,
		)}, nil
	case "kube-proxy":
		return Component{Name: name, Healthy: url("http://" + node + ":10256/livez"), Command: kubernetes(
			"--config=" + c.path("conf", "kube-proxy.yaml"),
		)}, nil
	}
	return Component{}, fmt.Errorf("unknown component %q: known are %s", name, strings.Join(componentNames, ", "))
}

// record returns the path of the file with the process of a component.
func (c *Cluster) record(name string) string { return c.path("run", name+".json") }

// logPath returns the path of a component's log.
func (c *Cluster) logPath(name string) string { return c.path("logs", name+".log") }

// process returns the recorded process of a component. If the component was never started, it returns the zero Process,
// which is not alive.
func (c *Cluster) process(name string) (Process, error) {
	var p Process
	err := readJSON(c.record(name), &p)
	if errors.Is(err, fs.ErrNotExist) {
		return Process{}, nil
	}
	return p, err
}

// start starts a component unless it is already running.
func (c *Cluster) start(comp Component) error {
	p, err := c.process(comp.Name)
	if err != nil {
		return err
	}
	if p.Alive() {
		return nil
	}
	// Use nsenter instead of `ip netns exec`. The latter remounts /sys, which hides the control groups from the kubelet.
	command := append([]string{"nsenter", "--net=" + netnsPath, "--"}, comp.Command...)
	env := []string{
		"HOME=" + c.State,
		"PATH=" + filepath.Dir(c.binary("containerd", "containerd")) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	p, err = startProcess(command, env, c.logPath(comp.Name))
	if err != nil {
		return &componentError{comp.Name, err}
	}
	return writeJSON(c.record(comp.Name), p)
}

// await waits until a component is healthy. It returns an error as soon as the component's process exits.
func (c *Cluster) await(ctx context.Context, name string, timeout time.Duration, healthy func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := healthy(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if p, readErr := c.process(name); readErr != nil {
			return readErr
		} else if !p.Alive() {
			return &componentError{name, fmt.Errorf("its process %d has ended", p.PID)}
		}
		select {
		case <-ctx.Done():
			return &componentError{name, fmt.Errorf("not well after %s: %w", timeout, err)}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// componentError is an error of a component.
type componentError struct {
	component string
	err       error
}

func (e *componentError) Error() string { return e.component + ": " + e.err.Error() }
func (e *componentError) Unwrap() error { return e.err }

// writeConfigs writes the configuration files and the kubeconfigs of the components.
func (c *Cluster) writeConfigs() error {
	files, err := renderConfigs(c)
	if err != nil {
		return err
	}
	for _, name := range []string{"kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"} {
		content, err := renderKubeconfig(c.path("pki"), name, c.server())
		if err != nil {
			return err
		}
		files = append(files, configFile{name + ".kubeconfig", content})
	}
	for _, f := range files {
		if err := writeFile(c.path("conf", f.name), f.content, 0o600); err != nil {
			return err
		}
	}
	admin, err := renderKubeconfig(c.path("pki"), "admin", c.server())
	if err != nil {
		return err
	}
	return writeFile(c.kubeconfig(), admin, 0o600)
}

// logTail returns the last lines of a component's log.
func (c *Cluster) logTail(name string, lines int) (string, error) {
	b, err := os.ReadFile(c.logPath(name))
	if err != nil {
		return "", err
	}
	return lastLines(string(b), lines), nil
}
