package result

import "slices"

// Quartiles returns the five numbers of a box plot: the minimum, the 25th, 50th and 75th percentiles (linearly
// interpolated between neighbours), and the maximum. It returns nil if there are no values.
func Quartiles(values []float64) []float64 {
	if len(values) == 0 {
		return nil
	}
	v := slices.Sorted(slices.Values(values))
	quantile := func(q float64) float64 {
		at := q * float64(len(v)-1)
		i := int(at)
		if i+1 >= len(v) {
			return v[len(v)-1]
		}
		return v[i] + (at-float64(i))*(v[i+1]-v[i])
	}
	return []float64{v[0], quantile(0.25), quantile(0.5), quantile(0.75), v[len(v)-1]}
}
