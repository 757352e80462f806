package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/zkd-project/zkd/internal/buildinfo"
)

// compatVersion is the version of ZooKeeper whose protocol zkd speaks. Clients
// guess features from it, so it comes first in what srvr and envi report.
const compatVersion = "3.9.5"

// zooKeeperVersion is the version as the four-letter words show it:
// "<x.y.z>-<revision>, built on <date> UTC". Clients parse it with patterns, so
// only letters, digits, dots and dashes may stand before the comma.
func zooKeeperVersion() string {
	rev, built := buildinfo.Revision()
	return fmt.Sprintf("%s-zkd.%s, built on %s UTC", compatVersion, rev, built.UTC().Format("2006-01-02 15:04"))
}

// versionLine is what `zkd version` and --version print.
func versionLine() string {
	rev, at := buildinfo.Revision()
	return fmt.Sprintf("zkd %s (%s), speaks ZooKeeper %s, %s\n", rev, at.UTC().Format(time.DateOnly), compatVersion, runtime.Version())
}
