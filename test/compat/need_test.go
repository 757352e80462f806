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
		return isFile(n.thing)
	}
	_, err := exec.LookPath(n.thing)
	return err == nil
}

func isFile(name string) bool {
	_, err := os.Stat(name)
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

// releases names the line of releases that each kind of Apache's server is of.
var releases = map[kind]string{apache: "3.8", apache39: "3.9"}

// needReference stops the test if there is no server of that kind to compare with, and
// logs its version, which run.sh prints.
func needReference(t testing.TB, k kind) {
	t.Helper()
	needServer(t, k)
	t.Logf("COMPARED with Apache ZooKeeper %s", versionOf(t, k))
}

// versionOf returns the version of a kind of Apache's server, as its jar's name has it.
func versionOf(t testing.TB, k kind) string {
	t.Helper()
	jars := javaDir + "/zookeeper-3.8.*.jar"
	switch {
	case k == apache39:
		jars = filepath.Join(zookeeper39, "lib", "zookeeper-3.9.*.jar")
	case *releaseFlag != "":
		jars = filepath.Join(*releaseFlag, "lib", "zookeeper-3.*.jar")
	}
	files, err := filepath.Glob(jars)
	if err == nil && len(files) == 0 { // 3.4
		files, err = filepath.Glob(filepath.Join(*releaseFlag, "zookeeper-3.*.jar"))
	}
	if err != nil || len(files) != 1 {
		t.Fatalf("%s is %q, want one file; error %v", jars, files, err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(files[0]), "zookeeper-"), ".jar")
}

// zookeeper39 is the directory of an Apache ZooKeeper 3.9: what test/world/fetch.sh prints.
var zookeeper39 = os.Getenv("ZOOKEEPER39")

// classPath is where the classes of Apache's server are.
func classPath(k kind) string {
	switch {
	case k == apache39:
		return filepath.Join(zookeeper39, "lib", "*") + ":" + filepath.Join(zookeeper39, "conf")
	case *releaseFlag != "": // the server of 3.4 is beside lib
		return filepath.Join(*releaseFlag, "*") + ":" + filepath.Join(*releaseFlag, "lib", "*") + ":" + filepath.Join(*releaseFlag, "conf")
	}
	return serverClassPath
}

// needServer stops the test if there is no server of that kind. 3.9 is no package of
// Debian 12, so a test that lacks it is skipped everywhere.
func needServer(t testing.TB, k kind) {
	t.Helper()
	switch {
	case k == apache39 && zookeeper39 == "":
		t.Skip("MISSING Apache ZooKeeper 3.9: set ZOOKEEPER39 to what test/world/fetch.sh zookeeper prints")
	case k == apache39:
		require(t, need{"java", "default-jre-headless"})
	case k == apache:
		needApache(t)
	}
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
