package result

import (
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestMedianAmongBounds checks that a lower bound below the median makes the median a lower bound, because its true
// value may be above the median.
func TestMedianAmongBounds(t *testing.T) {
	at, over := v1alpha1.Observed, v1alpha1.MoreThan
	for name, c := range map[string]struct {
		all  []v1alpha1.Quantile
		want v1alpha1.Quantile
	}{
		"values":               {[]v1alpha1.Quantile{at(3), at(1), at(2)}, at(2)},
		"an even number":       {[]v1alpha1.Quantile{at(3), at(1), at(2), at(4)}, at(2)},
		"bounds below":         {[]v1alpha1.Quantile{at(100), over(50), at(110), over(50), at(120)}, over(100)},
		"bounds above":         {[]v1alpha1.Quantile{at(100), over(500), at(90), over(500), at(80)}, at(100)},
		"a bound between":      {[]v1alpha1.Quantile{at(100), over(105), at(110)}, over(105)},
		"equal values":         {[]v1alpha1.Quantile{at(100), over(50), at(100), at(120)}, at(100)},
		"bounds":               {[]v1alpha1.Quantile{over(70), over(50), over(60)}, over(60)},
		"bounds above a value": {[]v1alpha1.Quantile{over(70), at(50), over(60)}, over(60)},
	} {
		if got := medianQuantile(c.all); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
