// Package buildinfo reports the source that a program was built from.
package buildinfo

import (
	"runtime/debug"
	"time"
)

// Revision returns the commit that the program was built from, or the version of the module,
// and the time of the commit. If the build has not recorded them, it returns "devel" and
// 1970.
func Revision() (rev string, at time.Time) {
	rev, at = "devel", time.Unix(0, 0)
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return rev, at
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		rev = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case "vcs.time":
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				at = t
			}
		}
	}
	return rev, at
}
