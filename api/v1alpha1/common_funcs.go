package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// DurationOf returns d as a Duration.
func DurationOf(d time.Duration) Duration { return Duration{Duration: d} }

// String returns the canonical form. It is the form of time.Duration, but in ASCII and without trailing zero units
// (15m, not 15m0s).
func (d Duration) String() string {
	s := strings.Replace(d.Duration.String(), "µs", "us", 1)
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON writes the canonical form as a JSON string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON parses a JSON string in the format of time.ParseDuration.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a duration is a string such as 5ms or 1m30s, not %s", b)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is no duration: write for example 400us, 5ms, 30s or 1m30s", s)
	}
	d.Duration = v
	return nil
}

// ToUnstructured returns the canonical form, for conversion to unstructured objects.
func (d Duration) ToUnstructured() any { return d.String() }
