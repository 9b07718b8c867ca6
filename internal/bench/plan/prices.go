package plan

import (
	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// Prices turns a profile's price table into the one of the cost model; nil, which stands for the default table, when the
// profile has none.
func Prices(in *v1alpha1.Prices) *result.Prices {
	if in == nil {
		return nil
	}
	const instance = "node"
	out := &result.Prices{
		Source: "network profile", Currency: in.Currency, Instance: instance,
		InstanceMicrosPerHour: map[string]int64{instance: in.NodePerHourMicros},
	}
	// The first entry that matches counts: those for one destination come before those for all.
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
