package admin

import (
	"encoding/json"
	"net/http"
	"time"
)

// PathClock is the path at which a process reports its clocks.
const PathClock = "/clock"

// Reading contains the values of a process's clocks at the same instant.
type Reading struct {
	// Wall is in nanoseconds since 1970.
	Wall int64 `json:"wallNanoseconds"`
	// Monotonic is the time on the clock that agendas and logs use: see the function Monotonic.
	Monotonic time.Duration `json:"monotonicNanoseconds"`
}

// ServeClock answers GET PathClock with a Reading.
func ServeClock(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(Reading{time.Now().UnixNano(), Monotonic()})
}
