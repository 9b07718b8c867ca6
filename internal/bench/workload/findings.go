package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Finding is a violation of a rule about the rows at one place, such as a district. Audit detects a violation in a
// shard and returns it as sums under the names of FindingName. Audit omits the sums of a place without violations. The
// findings of a copy's shards can therefore be added.
type Finding struct {
	// Place identifies the place by numbers, from the largest part to the smallest, such as a warehouse and a district.
	// All rows of the place should lie in one shard.
	Place []uint64
	// Values maps the name of each sum to its value, which is not 0. The name is "" if the finding has only one sum.
	Values map[string]int64
}

// FindingName returns the name of a sum that describes a violation of a rule at a place. The name has the form
// rule/place/what, such as 9/1/4/ for rule 9 at district 4 of warehouse 1. A slash is allowed neither in rule nor in
// what.
func FindingName(rule, what string, place ...uint64) string {
	b := []byte(rule)
	for _, n := range place {
		b = strconv.AppendUint(append(b, '/'), n, 10)
	}
	return string(append(append(b, '/'), what...))
}

// findings returns the violations of a rule in a copy's sums, sorted by place.
func findings(sums map[string]int64, rule string) (all []Finding) {
	at := map[string]map[string]int64{} // values by place
	for name, v := range sums {
		rest, ours := strings.CutPrefix(name, rule+"/")
		if !ours || v == 0 {
			continue
		}
		last := strings.LastIndexByte(rest, '/')
		place := rest[:max(last, 0)]
		if at[place] == nil {
			at[place] = map[string]int64{}
		}
		at[place][rest[last+1:]] = v
	}
	for place, values := range at {
		f := Finding{Values: values}
		for _, part := range strings.Split(place, "/") {
			if n, err := strconv.ParseUint(part, 10, 64); err == nil {
				f.Place = append(f.Place, n)
			}
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Finding) int { return slices.Compare(a.Place, b.Place) })
	return all
}

// NoFindings returns a check that passes if no copy has a finding about rule. says returns descriptions of the place of
// a finding and of the violation there. holds is the message of a passed check; NoFindings appends the number of copies
// to it.
func NoFindings(check, rule string, copies []Copy, says func(Finding) (where, what string), holds string) Check {
	var wrong []string
	for i := range copies {
		for _, f := range findings(copies[i].Sums, rule) {
			where, what := says(f)
			wrong = append(wrong, fmt.Sprintf("%s in %s: %s", where, copies[i].Name, what))
		}
	}
	return Judge(check, copies, FirstOf(wrong), fmt.Sprintf("%s in %d of %d copies", holds, len(copies), len(copies)))
}

// FirstOf joins the first three entries of wrong with "; " and appends the number of further entries.
func FirstOf(wrong []string) string { return firstOf(wrong, "; ") }

func firstOf(wrong []string, separator string) string {
	const most = 3
	switch more := len(wrong) - most; {
	case more <= 0:
		return strings.Join(wrong, separator)
	case more == 1:
		return strings.Join(wrong[:most], separator) + "; and at 1 more place"
	default:
		return fmt.Sprintf("%s; and at %d more places", strings.Join(wrong[:most], separator), more)
	}
}

// Imbalance sums the differences between the actual and the expected values of numbered rows, such as the balances of a
// district's customers. The transactions that determine the expected value of a row may be stored in several shards, so
// only sums over all shards can be compared. A separate sum for each row would be too many sums.
//
// If all rows are correct, all sums are 0. Otherwise some sum is nonzero, except with a probability of about 2^-63. If
// exactly one row is wrong, the sums identify it. The zero value is ready for use.
type Imbalance struct {
	sum, byNumber int64 // sums of the differences: plain, and weighted by the row's number
	hash          int64 // sum of the differences, weighted by the hash of the row's number, modulo 2^64
}

// Names of an imbalance's sums, other than the sum of the differences.
const (
	imbalanceByNumber = "by-number"
	imbalanceHash     = "hash"
)

// Add adds the difference of the row with this number.
func (b *Imbalance) Add(number uint64, difference int64) {
	b.sum += difference
	b.byNumber += int64(number) * difference
	b.hash += oddHash(number) * difference
}

// Each calls f for each sum, with the sum's name for FindingName.
func (b *Imbalance) Each(f func(what string, value int64)) {
	f("", b.sum)
	f(imbalanceByNumber, b.byNumber)
	f(imbalanceHash, b.hash)
}

// OffAlone returns the number of the only wrong row, for a finding of an Imbalance. alone is false if several rows are
// wrong. Values[""] is the sum of the differences of all rows.
func (f *Finding) OffAlone() (number uint64, alone bool) {
	sum := f.Values[""]
	// If a single row is wrong, by-number is the row's number times sum. A remainder or a negative quotient means several
	// rows.
	if sum == 0 || f.Values[imbalanceByNumber]%sum != 0 || f.Values[imbalanceByNumber]/sum < 0 {
		return 0, false
	}
	number = uint64(f.Values[imbalanceByNumber] / sum)
	// The sums of several rows may have an integral quotient by accident. The hash rules that out.
	return number, f.Values[imbalanceHash] == oddHash(number)*sum
}

// oddHash returns the SplitMix64 hash of number with the lowest bit set. An odd factor is invertible modulo 2^64, so a
// nonzero difference of a single row never vanishes.
func oddHash(number uint64) int64 {
	x := (number + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int64((x ^ x>>31) | 1)
}
