package result

import "slices"

// Quartiles are the five numbers of a box plot: the least of some values, their 25th, 50th and 75th percentiles,
// interpolated on straight lines between neighbours, and the most. nil where there are no values.
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
