package wan

import (
	"net/netip"
	"slices"
)

// span is a range of addresses with a common link.
type span struct {
	first, last netip.Addr
	link        string
}

// match assigns a link to a prefix; an empty name means no link.
type match struct {
	prefix netip.Prefix
	link   string
}

// spansOf converts prefixes to disjoint ranges of an address family in ascending order. For each address, the most
// specific prefix applies or, among equal prefixes, the first one. Addresses without a link are in no range.
func spansOf(matches []match, is4 bool) []span {
	var sorted []match
	for _, m := range matches {
		if m.prefix.Addr().Is4() == is4 {
			sorted = append(sorted, m)
		}
	}
	slices.SortStableFunc(sorted, func(a, b match) int {
		if c := a.prefix.Addr().Compare(b.prefix.Addr()); c != 0 {
			return c
		}
		return a.prefix.Bits() - b.prefix.Bits()
	})
	sorted = slices.CompactFunc(sorted, func(a, b match) bool { return a.prefix == b.prefix })

	var out []span
	emit := func(first, last netip.Addr, link string) {
		if link == "" || !first.IsValid() || last.Less(first) {
			return
		}
		if n := len(out); n > 0 && out[n-1].link == link && out[n-1].last.Next() == first {
			out[n-1].last = last
			return
		}
		out = append(out, span{first, last, link})
	}
	// Prefixes are nested: open holds the prefixes that contain the current position, the innermost last. next is the
	// first address that is not assigned yet; it is invalid after the highest possible address.
	var open []span
	var next netip.Addr
	closeTo := func(before netip.Addr) {
		for len(open) > 0 && (!before.IsValid() || open[len(open)-1].last.Less(before)) {
			inner := open[len(open)-1]
			open = open[:len(open)-1]
			emit(next, inner.last, inner.link)
			if next.IsValid() && !inner.last.Less(next) {
				next = inner.last.Next()
			}
		}
	}
	for _, m := range sorted {
		first := m.prefix.Addr()
		closeTo(first)
		if n := len(open); n > 0 && next.Less(first) {
			emit(next, first.Prev(), open[n-1].link)
		}
		next = first
		open = append(open, span{first, lastOf(m.prefix), m.link})
	}
	closeTo(netip.Addr{})
	return out
}

// lastOf returns the highest address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// linkAt returns the link of an address, or "" if there is none.
func linkAt(spans []span, a netip.Addr) string {
	i, found := slices.BinarySearchFunc(spans, a, func(s span, a netip.Addr) int { return s.first.Compare(a) })
	if !found {
		i--
	}
	if i < 0 || spans[i].last.Less(a) {
		return ""
	}
	return spans[i].link
}
