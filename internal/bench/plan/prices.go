package plan

import (
	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// Prices converts the price table of a profile to the form of the cost model. It returns nil, which means the default
// table, if the profile has no prices.
func Prices(in *v1alpha1.Prices) *result.Prices {
	if in == nil {
		return nil
	}
	const instance = "node"
	out := &result.Prices{
		Source: "network profile", Currency: in.Currency, Instance: instance,
		InstanceMicrosPerHour: map[string]int64{instance: in.NodePerHourMicros},
	}
	// The first matching entry applies. Entries for a single destination therefore precede entries for all destinations.
	for _, wildcard := range []bool{false, true} {
		for _, t := range in.Transfer {
			if (t.To == "*") != wildcard {
				continue
			}
			price := result.TransferPrice{From: t.From, To: t.To, Price: t.PerGBMicros}
			if wildcard {
				price.To = ""
			}
			out.TransferMicrosPerGB = append(out.TransferMicrosPerGB, price)
		}
	}
	return out
}
