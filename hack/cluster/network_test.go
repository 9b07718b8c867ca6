package main

import (
	"net/netip"
	"slices"
	"testing"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestChooseSubnets(t *testing.T) {
	for name, tc := range map[string]struct {
		used []netip.Prefix
		want string // empty if an error is expected
	}{
		"nothing in use":          {nil, "10.231.0.0/16"},
		"other networks":          {prefixes("192.0.2.0/24", "127.0.0.0/8", "172.17.0.0/16"), "10.231.0.0/16"},
		"a host in the first one": {prefixes("10.231.4.9/32"), "10.232.0.0/16"},
		"the first two":           {prefixes("10.231.0.0/16", "10.232.128.0/17"), "10.233.0.0/16"},
		"a whole /8":              {prefixes("10.0.0.0/8"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chooseSubnets(tc.used)
			if (err != nil) != (tc.want == "") {
				t.Fatalf("error %v, want a subnet %q", err, tc.want)
			}
			if tc.want != "" && got.Base.String() != tc.want {
				t.Errorf("chose %s, want %s", got.Base, tc.want)
			}
		})
	}
}

func TestSubnetsLieInTheBaseAndApart(t *testing.T) {
	s := subnetsIn(netip.MustParsePrefix("10.231.0.0/16"))
	parts := []netip.Prefix{s.Link, s.Services, s.Pods}
	for i, p := range parts {
		if p != p.Masked() {
			t.Errorf("%s has host bits", p)
		}
		if !s.Base.Contains(p.Addr()) || p.Bits() <= s.Base.Bits() {
			t.Errorf("%s is not inside %s", p, s.Base)
		}
		for _, q := range parts[:i] {
			if p.Overlaps(q) {
				t.Errorf("%s overlaps %s", p, q)
			}
		}
	}
	for name, tc := range map[string]struct {
		addr netip.Addr
		in   netip.Prefix
	}{
		"host": {s.Host(), s.Link}, "node": {s.Node(), s.Link},
		"api": {s.APIService(), s.Services}, "dns": {s.DNSService(), s.Services},
	} {
		if !tc.in.Contains(tc.addr) {
			t.Errorf("%s address %s is not in %s", name, tc.addr, tc.in)
		}
	}
}

func TestRoutePrefixes(t *testing.T) {
	got, err := routePrefixes([]byte(`[
		{"dst": "default", "gateway": "192.0.2.1"},
		{"dst": "192.0.2.0/24", "dev": "eth0"},
		{"type": "local", "dst": "192.0.2.2", "dev": "eth0"}]`))
	if err != nil {
		t.Fatal(err)
	}
	if want := prefixes("192.0.2.0/24", "192.0.2.2/32"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNameServers(t *testing.T) {
	got := nameServers([]byte("# nameserver 10.1.1.1\nsearch example.org\nnameserver 10.2.2.2\nnameserver fd00::1\n"))
	if want := prefixes("10.2.2.2/32"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
