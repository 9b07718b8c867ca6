package result

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ofOneSide describes the regions that only some results have; empty if all results have the same regions. Documents
// without a list of regions are ignored.
func ofOneSide(a, b []*Document) string {
	has := func(docs []*Document) (counts map[string]int, all int) {
		counts = map[string]int{}
		for _, d := range docs {
			if len(d.Regions) > 0 {
				all++
			}
			for i := range d.Regions {
				counts[d.Regions[i].Name]++
			}
		}
		return counts, all
	}
	inA, allA := has(a)
	inB, allB := has(b)
	// If no document of a side lists regions, nothing is known about the regions of this side.
	if allA == 0 || allB == 0 {
		return ""
	}
	names := maps.Clone(inA)
	maps.Copy(names, inB)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch n, m := inA[name], inB[name]; {
		case n == allA && m == allB:
		case m == 0:
			parts = append(parts, fmt.Sprintf("only A has region %s", name))
		case n == 0:
			parts = append(parts, fmt.Sprintf("only B has region %s", name))
		default:
			parts = append(parts, fmt.Sprintf("not every result has region %s", name))
		}
	}
	return strings.Join(parts, ", ")
}

// doubtWhole makes the comparison and its figures over all regions Undecided. differ describes the regions that only
// some results have. Figures of regions that both sides have are still compared.
func (c *Comparison) doubtWhole(differ string, samples []sample) {
	for i := range samples {
		if s := &samples[i]; s.Region == "" && s.Judged {
			s.Change = Undecided
		}
	}
	c.Verdict, c.Message = Undecided, differ+": figures over all regions cannot be compared; compare results of the "+
		"same regions"
}
