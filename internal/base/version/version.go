// Package version identifies the build. Results include it, because a result without its version cannot be reproduced.
package version

import "runtime/debug"

// Version is the release, set by the linker; empty in other builds. See String.
var Version string

// String returns the release or, if there is none, the commit from which the binary was built, with the suffix "-dirty"
// for uncommitted changes. If neither is known, it returns "devel".
func String() string {
	if Version != "" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if revision == "" {
		return "devel"
	}
	return revision + dirty
}
