package main

import (
	"fmt"
	"runtime/debug"
	"time"
)

// compatVersion is the version of ZooKeeper whose protocol zkd speaks. Clients
// guess features from it, so it comes first in what srvr and envi report.
const compatVersion = "3.9.5"

// zooKeeperVersion is the version as the four-letter words show it:
// "<x.y.z>-<revision>, built on <date> UTC". Clients parse it with patterns, so
// only letters, digits, dots and dashes may stand before the comma.
func zooKeeperVersion() string {
	rev, built := revision()
	return fmt.Sprintf("%s-zkd.%s, built on %s UTC", compatVersion, rev, built.UTC().Format("2006-01-02 15:04"))
}

// revision returns the commit that the binary was built from and its time, as
// far as the build recorded them.
func revision() (rev string, at time.Time) {
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
