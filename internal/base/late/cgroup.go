package late

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Cgroups is the directory where the kernel mounts cgroups.
const Cgroups = "/sys/fs/cgroup"

// Throttled returns the number of CPU quota periods of this process's cgroup, and the number of these periods in which
// the kernel throttled the cgroup. Both are 0 if there is no quota. root is the mount point of cgroups, version 2 or 1.
func Throttled(root string) (periods, throttled int64) {
	// In version 2, the file is in the root directory. In version 1, it is in the directory of the cpu controller, which
	// is often shared with cpuacct.
	for _, dir := range []string{".", "cpu", "cpu,cpuacct"} {
		b, err := os.ReadFile(filepath.Join(root, dir, "cpu.stat"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.ParseInt(value, 10, 64)
			switch {
			case err != nil || n < 0:
			case name == "nr_periods":
				periods = n
			case name == "nr_throttled":
				throttled = n
			}
		}
		return periods, throttled
	}
	return 0, 0
}
