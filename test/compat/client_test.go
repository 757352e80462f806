//go:build compat

package compat

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// ourClient is the configuration that the suite of our client wants of servers:
// see client/suite_test.go. Java takes the interval in ms of its own clock.
var ourClient = config{
	lines: []string{"minSessionTimeout=200", "maxSessionTimeout=60000"},
	props: map[string]string{checkInterval: "100", "zookeeper.extendedTypesEnabled": "true"},
}

// TestClient runs the tests of our own client's promises, its examples and its cache with a
// server of its own. With -full the tests of the client that bring their own servers, or need
// none, are run along.
func TestClient(t *testing.T) {
	t.Parallel()
	for _, k := range kinds(t) {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel() // most of it is waiting for sessions to expire
			addr := start(t, k, ourClient).addr
			if *fullFlag {
				testOurClient(t, addr, ".")
				return
			}
			testPackages(t, addr, "Suite|Example", "client")
			testPackages(t, addr, ".", "client/cache")
		})
	}
}

// TestEnsembleClient runs those with an ensemble that are about one.
func TestEnsembleClient(t *testing.T) {
	t.Parallel()
	for _, k := range kinds(t) {
		t.Run(string(k), func(t *testing.T) {
			testOurClient(t, startEnsemble(t, k, ourClient).hosts(), "Suite|AcrossServers")
		})
	}
}

// kinds are Apache, where it is the reference, and the target.
func kinds(t *testing.T) []kind {
	if target(t) == apache {
		return []kind{apache}
	}
	return []kind{apache, target(t)}
}

// testOurClient runs the tests of the client and what stands on it, those with the
// pattern in their names, on servers that are there.
func testOurClient(t *testing.T, servers, pattern string) {
	t.Helper()
	testPackages(t, servers, pattern, "client", "client/cache")
}

// testPackages runs the tests of packages of ours.
func testPackages(t *testing.T, servers, pattern string, packages ...string) {
	t.Helper()
	args := []string{"test", "-count=1", "-json", "-timeout=10m", "-run=" + pattern}
	for _, p := range packages {
		args = append(args, "github.com/zkd-project/zkd/"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "ZKD_TEST_SERVERS="+servers)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	passed, failed := 0, 0
	text := map[string][]string{} // by test
	for line := range bytes.Lines(out) {
		var e struct{ Action, Package, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		name := e.Package[strings.LastIndex(e.Package, "/")+1:] + "." + e.Test
		switch e.Action {
		case "output":
			text[name] = append(text[name], e.Output)
		case "pass":
			if e.Test != "" {
				passed++
			}
		case "skip":
			t.Logf("skipped: %s: %s", name, strings.Join(text[name], ""))
		case "fail", "build-fail":
			if e.Test != "" {
				failed++
			}
			t.Errorf("%s failed:\n%s", name, strings.Join(text[name], ""))
		}
	}
	t.Logf("SUITE %s passed=%d failed=%d", t.Name(), passed, failed)
	if err != nil || passed == 0 {
		t.Errorf("go test: %v, %d tests passed\n%s", err, passed, &stderr)
	}
}
