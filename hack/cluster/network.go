package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// hostLink and nodeLink are the names of the two ends of the link between the host and the node's network namespace.
const (
	hostLink = "geobench0"
	nodeLink = "node0"
)

// netnsPath is the path at which iproute2 mounts the node's network namespace.
const netnsPath = "/run/netns/" + netnsName

// Subnets are the address ranges of the cluster. They are parts of one private /16 that the host does not use.
type Subnets struct {
	Base     netip.Prefix `json:"base"`     // the whole /16, which the host routes to the node
	Link     netip.Prefix `json:"link"`     // addresses of the host and the node on the link
	Services netip.Prefix `json:"services"` // cluster IPs
	Pods     netip.Prefix `json:"pods"`
}

// subnetsIn divides a /16 into the subnets of a cluster.
func subnetsIn(base netip.Prefix) Subnets {
	a := base.Addr().As4()
	at := func(third byte, bits int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{a[0], a[1], third, 0}), bits)
	}
	return Subnets{Base: base, Link: at(0, 24), Services: at(16, 20), Pods: at(128, 17)}
}

// Host returns the host's address on the link to the node.
func (s Subnets) Host() netip.Addr { return nth(s.Link, 1) }

// Node returns the node's address, on which the API server listens.
func (s Subnets) Node() netip.Addr { return nth(s.Link, 2) }

// APIService returns the cluster IP of the service `kubernetes`. By a convention of the API server, it is the first
// address of the range.
func (s Subnets) APIService() netip.Addr { return nth(s.Services, 1) }

// DNSService returns the cluster IP of the service `kube-dns`.
func (s Subnets) DNSService() netip.Addr { return nth(s.Services, 10) }

// nth returns the address at offset n of a range that starts at a multiple of 256.
func nth(p netip.Prefix, n byte) netip.Addr {
	a := p.Addr().As4()
	a[3] += n
	return netip.AddrFrom4(a)
}

// chooseSubnets returns subnets in the first private /16 that does not overlap a used range.
func chooseSubnets(used []netip.Prefix) (Subnets, error) {
	for second := byte(231); second < 250; second++ {
		base := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, second, 0, 0}), 16)
		free := true
		for _, u := range used {
			if u.Overlaps(base) {
				free = false
				break
			}
		}
		if free {
			return subnetsIn(base), nil
		}
	}
	return Subnets{}, errors.New("10.231.0.0/16 to 10.249.0.0/16 all overlap a route or a name server of the host: one must be free")
}

// usedPrefixes returns the networks to which the host has routes, apart from the default route, and the addresses of
// its DNS servers.
func usedPrefixes(ctx context.Context) ([]netip.Prefix, error) {
	out, err := run(ctx, "ip", "-json", "-4", "route", "show", "table", "all")
	if err != nil {
		return nil, err
	}
	used, err := routePrefixes([]byte(out))
	if err != nil {
		return nil, err
	}
	resolv, _ := os.ReadFile("/etc/resolv.conf") // without this file there is no DNS server whose address could conflict
	return append(used, nameServers(resolv)...), nil
}

// routePrefixes returns the destinations in the output of `ip -json route`, apart from the default route.
func routePrefixes(routes []byte) ([]netip.Prefix, error) {
	var list []struct {
		Dst string `json:"dst"`
	}
	if err := json.Unmarshal(routes, &list); err != nil {
		return nil, fmt.Errorf("ip -json route: %w", err)
	}
	var prefixes []netip.Prefix
	for _, r := range list {
		if r.Dst == "default" {
			continue
		}
		if p, err := netip.ParsePrefix(r.Dst); err == nil {
			prefixes = append(prefixes, p)
		} else if a, err := netip.ParseAddr(r.Dst); err == nil {
			prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return prefixes, nil
}

// nameServers returns the IPv4 DNS servers in a resolv.conf.
func nameServers(resolv []byte) []netip.Prefix {
	var prefixes []netip.Prefix
	lines := bufio.NewScanner(bytes.NewReader(resolv))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(fields[1]); err == nil && a.Is4() {
			prefixes = append(prefixes, netip.PrefixFrom(a, 32))
		}
	}
	return prefixes
}

// ensureNetwork creates those parts of the network namespace, the link and the routes that do not exist yet.
//
// The host can reach the node, pods and services. In the other direction, pods can reach only the host. Connections to
// all other destinations fail immediately instead of after a timeout, so that no packet of the cluster leaves the
// machine.
func (c *Cluster) ensureNetwork(ctx context.Context) error {
	ip := func(args ...string) error {
		_, err := run(ctx, "ip", args...)
		return err
	}
	inNode := func(args ...string) error {
		_, err := run(ctx, "nsenter", append([]string{"--net=" + netnsPath}, args...)...)
		return err
	}
	if _, err := os.Stat(netnsPath); err != nil {
		if err := ip("netns", "add", netnsName); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join("/sys/class/net", hostLink)); err != nil {
		if err := ip("link", "add", hostLink, "type", "veth", "peer", "name", nodeLink, "netns", netnsName); err != nil {
			return err
		}
	}
	s := c.Subnets
	bits := s.Link.Bits()
	for _, args := range [][]string{
		{"address", "replace", fmt.Sprintf("%s/%d", s.Host(), bits), "dev", hostLink},
		{"link", "set", hostLink, "up"},
	} {
		if err := ip(args...); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "replace", fmt.Sprintf("%s/%d", s.Node(), bits), "dev", nodeLink},
		{"ip", "link", "set", nodeLink, "up"},
		// Addresses of services are translated after routing, so the processes of the node need a route to them.
		{"ip", "route", "replace", s.Services.String(), "dev", nodeLink},
		{"ip", "route", "replace", "unreachable", "default"},
		{"sysctl", "-qw", "net.ipv4.ip_forward=1"},
	} {
		if err := inNode(args...); err != nil {
			return err
		}
	}
	return ip("route", "replace", s.Base.String(), "via", s.Node().String(), "dev", hostLink)
}
