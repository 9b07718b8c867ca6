package wan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func parseMatches(t *testing.T, text string) []match {
	t.Helper()
	var out []match
	for field := range strings.FieldsSeq(text) {
		prefix, link, _ := strings.Cut(field, "=")
		out = append(out, match{netip.MustParsePrefix(prefix), link})
	}
	return out
}

func TestSpans(t *testing.T) {
	for name, tc := range map[string]struct{ matches, want4, want6 string }{
		"nothing":              {"", "", ""},
		"addresses":            {"10.0.0.2/32=a 10.0.0.1/32=b", "10.0.0.1-10.0.0.1=b 10.0.0.2-10.0.0.2=a", ""},
		"neighbours join":      {"10.0.0.2/32=a 10.0.0.3/32=a", "10.0.0.2-10.0.0.3=a", ""},
		"the specific counts":  {"10.0.0.0/8=a 10.1.0.0/16=b", "10.0.0.0-10.0.255.255=a 10.1.0.0-10.1.255.255=b 10.2.0.0-10.255.255.255=a", ""},
		"a hole":               {"10.0.0.0/30=a 10.0.0.1/32=", "10.0.0.0-10.0.0.0=a 10.0.0.2-10.0.0.3=a", ""},
		"at both ends":         {"10.0.0.0/30=a 10.0.0.0/32=b 10.0.0.3/32=c", "10.0.0.0-10.0.0.0=b 10.0.0.1-10.0.0.2=a 10.0.0.3-10.0.0.3=c", ""},
		"three deep":           {"10.0.0.0/24=a 10.0.0.0/25=b 10.0.0.127/32=c", "10.0.0.0-10.0.0.126=b 10.0.0.127-10.0.0.127=c 10.0.0.128-10.0.0.255=a", ""},
		"the first of equals":  {"10.0.0.1/32=a 10.0.0.1/32=b", "10.0.0.1-10.0.0.1=a", ""},
		"everything":           {"0.0.0.0/0=a 255.255.255.255/32=b", "0.0.0.0-255.255.255.254=a 255.255.255.255-255.255.255.255=b", ""},
		"the end of all":       {"255.255.255.254/31=a", "255.255.255.254-255.255.255.255=a", ""},
		"two families":         {"::/0=a 10.0.0.1/32=b fd00::1/128=c", "10.0.0.1-10.0.0.1=b", "::-fd00::=a fd00::1-fd00::1=c fd00::2-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff=a"},
		"apart, one in a hole": {"10.0.0.0/30=a 10.0.0.2/31= 10.0.0.3/32=b 11.0.0.0/32=a", "10.0.0.0-10.0.0.1=a 10.0.0.3-10.0.0.3=b 11.0.0.0-11.0.0.0=a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, is4 := range []bool{true, false} {
				var got []string
				for _, s := range spansOf(parseMatches(t, tc.matches), is4) {
					got = append(got, fmt.Sprintf("%s-%s=%s", s.first, s.last, s.link))
				}
				want := tc.want6
				if is4 {
					want = tc.want4
				}
				if strings.Join(got, " ") != want {
					t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
				}
			}
		})
	}
}

// For random nested prefixes, the result agrees with a longest-match lookup.
func TestSpansAreTheLongestMatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var matches []match
		for range rng.IntN(12) {
			prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, byte(rng.IntN(256))}), 24+rng.IntN(9)).Masked()
			matches = append(matches, match{prefix, []string{"", "a", "b", "c"}[rng.IntN(4)]})
		}
		spans := spansOf(matches, true)
		for i := range 256 {
			a := netip.AddrFrom4([4]byte{255, 255, 255, byte(i)})
			want, longest := "", -1
			for _, m := range matches {
				if m.prefix.Contains(a) && m.prefix.Bits() > longest {
					want, longest = m.link, m.prefix.Bits()
				}
			}
			if got := linkAt(spans, a); got != want {
				t.Fatalf("%v: %s goes over %q, want %q (%v)", matches, a, got, want, spans)
			}
		}
	}
}
