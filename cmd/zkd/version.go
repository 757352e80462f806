package main

import (
	"fmt"
	"runtime"

	"github.com/zkd-project/zkd/internal/buildinfo"
)

// compatVersion is the version of ZooKeeper whose protocol zkd implements. Clients infer
// features from it, so it comes first in the output of srvr and envi.
const compatVersion = "3.9.5"

// zooKeeperVersion returns the version for the four-letter words: "<x.y.z>-<revision>,
// built on <date> UTC". Clients parse it with patterns, so only letters, digits, dots and
// dashes may precede the comma.
func zooKeeperVersion() string {
	b := buildinfo.Read()
	return fmt.Sprintf("%s-zkd.%s, built on %s UTC", compatVersion, b.Revision(), b.Time.Format("2006-01-02 15:04"))
}

// versionLine returns the output of `zkd version` and --version.
func versionLine() string {
	return fmt.Sprintf("zkd %s, speaks ZooKeeper %s, %s\n", buildinfo.Read(), compatVersion, runtime.Version())
}
