package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"text/template"
	"time"
)

//go:embed manifests/coredns.yaml
var corednsManifest string

var corednsTemplate = template.Must(template.New("coredns.yaml").Parse(corednsManifest))

// renderDNS returns the manifest of the cluster's DNS server.
func renderDNS(s Subnets) ([]byte, error) {
	var out bytes.Buffer
	err := corednsTemplate.Execute(&out, map[string]any{
		"Domain": clusterDomain, "Image": corednsImage, "ClusterIP": s.DNSService(),
	})
	return out.Bytes(), err
}

// installDNS installs CoreDNS. Pods of StatefulSets need it to find each other by name.
func (c *Cluster) installDNS(ctx context.Context) error {
	manifest, err := renderDNS(c.Subnets)
	if err != nil {
		return err
	}
	file := c.path("conf", "coredns.yaml")
	if err := writeFile(file, manifest, 0o644); err != nil {
		return err
	}
	_, err = c.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file)
	return err
}

// awaitDNS waits until names resolve. If they do not, it stores the state and the output of CoreDNS, which is a pod, as
// the log of a component.
func (c *Cluster) awaitDNS(ctx context.Context) error {
	err := c.await(ctx, "kubelet", startTimeout, c.resolves)
	var late *componentError
	if !errors.As(err, &late) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	events, _ := c.kubectl(ctx, "--namespace=kube-system", "events", "--for=deployment/coredns")
	pods, _ := c.kubectl(ctx, "--namespace=kube-system", "describe", "pods", "--selector=k8s-app=kube-dns")
	said, _ := c.kubectl(ctx, "--namespace=kube-system", "logs", "deployment/coredns", "--tail=20")
	if writeErr := writeFile(c.logPath("coredns"), []byte(events+pods+said), 0o640); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	return &componentError{"coredns", fmt.Errorf("names do not resolve: %w", late.err)}
}

// resolves looks up the name of a service at the cluster's DNS server. It reaches the server through its cluster IP.
func (c *Cluster) resolves(ctx context.Context) error {
	server := net.JoinHostPort(c.Subnets.DNSService().String(), "53")
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	}}
	name := "kubernetes.default.svc." + clusterDomain
	got, err := resolver.LookupHost(ctx, name+".")
	var failed *net.DNSError
	if errors.As(err, &failed) { // omit the server in the error, which is the host's DNS server and was not queried
		return fmt.Errorf("look up %s at %s: %s", name, server, failed.Err)
	} else if err != nil {
		return err
	}
	if want := c.Subnets.APIService().String(); len(got) != 1 || got[0] != want {
		return fmt.Errorf("%s resolves to %v, want %s", name, got, want)
	}
	return nil
}
