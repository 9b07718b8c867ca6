package v1alpha1

import "slices"

// AnyRegion is the receiver of a transfer price that matches every region without a separate entry.
const AnyRegion = "*"

// Regions returns the names of the regions in the profile's links, sorted and without duplicates.
func (s *NetworkProfileSpec) Regions() []string {
	var names []string
	for _, l := range s.Links {
		names = append(names, l.From, l.To)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Link returns the link from one region to another. It returns the listed link, else the reversed link of the opposite
// direction, else, inside a region, the profile's intra-region link. It returns false if there is none.
func (s *NetworkProfileSpec) Link(from, to string) (Link, bool) {
	var reverse *Link
	for i := range s.Links {
		l := &s.Links[i]
		switch {
		case l.From == from && l.To == to:
			return *l, true
		case l.From == to && l.To == from:
			reverse = l
		}
	}
	if reverse != nil {
		l := *reverse
		l.From, l.To = from, to
		return l, true
	}
	if from == to {
		return Link{From: from, To: to, RTT: s.IntraRegion.RTT, Jitter: s.IntraRegion.Jitter}, true
	}
	return Link{}, false
}

// TransferPerGBMicros returns the price of sending 10^9 bytes from one region to another, in millionths of the currency
// unit. It returns 0 if the profile has no price for this pair or if the regions are equal.
func (p *Prices) TransferPerGBMicros(from, to string) int64 {
	if p == nil || from == to {
		return 0
	}
	var price int64
	for _, t := range p.Transfer {
		if t.From != from {
			continue
		}
		if t.To == to {
			return t.PerGBMicros
		}
		if t.To == AnyRegion || t.To == "" {
			price = t.PerGBMicros
		}
	}
	return price
}
