//go:build compat

package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	javaDir = "/usr/share/java"
	// zookeeper.jar names the jars that it needs in its manifest; slf4j-simple
	// makes the server's log go to stderr; netty-codec.jar is missing in the
	// manifest, and TLS needs it.
	serverClassPath = javaDir + "/zookeeper.jar:" + javaDir + "/slf4j-simple.jar:" + javaDir + "/netty-codec.jar"
	zkCli           = "/usr/share/zookeeper/bin/zkCli.sh"
	kazooTests      = "/usr/lib/python3/dist-packages/kazoo/tests"
	python          = "/usr/bin/python3"
)

// need is one thing that a suite cannot do without, and the Debian package
// that brings it. A thing with a slash is a file, else a program.
type need struct{ thing, pkg string }

func (n need) there() bool {
	if strings.Contains(n.thing, "/") {
		_, err := os.Stat(n.thing)
		return err == nil
	}
	_, err := exec.LookPath(n.thing)
	return err == nil
}

// require stops the test when something is missing: it fails where CI=true, and
// is skipped elsewhere, with what to install.
func require(t testing.TB, needs ...need) {
	t.Helper()
	var things, pkgs []string
	for _, n := range needs {
		if !n.there() {
			things, pkgs = append(things, n.thing), append(pkgs, n.pkg)
		}
	}
	if len(things) == 0 {
		return
	}
	const form = "MISSING %s: run test/compat/install.sh, or: apt-get install -y %s"
	if os.Getenv("CI") == "true" {
		t.Fatalf(form, strings.Join(things, ", "), strings.Join(pkgs, " "))
	}
	t.Skipf(form, strings.Join(things, ", "), strings.Join(pkgs, " "))
}

func needApache(t testing.TB) {
	t.Helper()
	require(t,
		need{"java", "default-jre-headless"},
		need{filepath.Join(javaDir, "zookeeper.jar"), "libzookeeper-java"},
		need{filepath.Join(javaDir, "slf4j-simple.jar"), "libslf4j-java"})
}

func needJavac(t testing.TB) {
	t.Helper()
	needApache(t)
	require(t, need{"javac", "default-jdk-headless"})
}

// summary logs a suite's result in the form that run.sh makes its table of.
func summary(t testing.TB, suite string, passed, failed int) {
	t.Helper()
	t.Logf("SUITE %s passed=%d failed=%d", suite, passed, failed)
}
