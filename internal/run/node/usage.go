package node

import (
	"bufio"
	"bytes"
	"os"
	"strconv"

	"github.com/geobench/geobench/internal/base/late"
)

// memory returns the current resident memory of this process and its peak, in bytes. On systems without /proc, now is
// 0.
func memory() (now, peak int64) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, late.PeakMemory()
	}
	return parseMemory(b)
}

// parseMemory reads VmRSS and VmHWM of /proc/PID/status.
func parseMemory(status []byte) (now, peak int64) {
	for s := bufio.NewScanner(bytes.NewReader(status)); s.Scan(); {
		f := bytes.Fields(s.Bytes())
		if len(f) != 3 || string(f[2]) != "kB" {
			continue
		}
		kb, _ := strconv.ParseInt(string(f[1]), 10, 64)
		switch string(f[0]) {
		case "VmRSS:":
			now = kb << 10
		case "VmHWM:":
			peak = kb << 10
		}
	}
	return now, peak
}
