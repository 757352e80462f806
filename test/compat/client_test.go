//go:build compat

package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
)

// ourClient is the configuration that the suite of our client wants of servers:
// see client/suite_test.go. Java takes the interval in ms of its own clock.
var ourClient = config{
	lines: []string{"minSessionTimeout=200", "maxSessionTimeout=60000"},
	props: map[string]string{checkInterval: "100", "zookeeper.extendedTypesEnabled": "true"},
}

// TestClient runs all tests of our own client, its examples and its cache with a
// server of its own; those that are not about servers are run along.
func TestClient(t *testing.T) {
	t.Parallel()
	for _, k := range kinds(t) {
		t.Run(string(k), func(t *testing.T) {
			testOurClient(t, start(t, k, ourClient).addr, ".")
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

// TestClientReconfig changes the members of an ensemble of Apache's.
func TestClientReconfig(t *testing.T) {
	cfg := ourClient
	cfg.lines = append([]string{"reconfigEnabled=true"}, cfg.lines...)
	e := startEnsemble(t, apache, cfg)
	roles, ok := e.roles()
	if !ok {
		t.Fatal("the ensemble is not healthy")
	}
	leaves := 1
	for e.servers[leaves-1] != roles[follower] {
		leaves++
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := func(o client.Options) *client.Client {
		o.Logger = client.NoLog
		c, err := client.Connect(ctx, roles[leader].addr, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) }) //nolint:errcheck // it tried
		return c
	}
	if _, err := connect(client.Options{}).Reconfig(ctx, client.Members{Leaving: fmt.Sprint(leaves)}, -1); !errors.Is(err, client.ErrNoAuth) {
		t.Errorf("reconfig by anybody: %v", err)
	}
	c := connect(client.Options{Auth: []client.Auth{{Scheme: "digest", Data: []byte("super:secret")}}})
	if _, err := c.Reconfig(ctx, client.Members{Leaving: fmt.Sprint(leaves)}, 0x77777777); !errors.Is(err, client.ErrBadVersion) {
		t.Errorf("reconfig of another version: %v", err)
	}
	node, err := c.Unrooted().GetW(ctx, client.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	after, err := c.Reconfig(ctx, client.Members{Leaving: fmt.Sprint(leaves)}, -1)
	gone := fmt.Sprintf("server.%d=", leaves)
	if err != nil || !strings.Contains(string(node.Data), gone) || strings.Contains(string(after.Data), gone) {
		t.Errorf("reconfig: %q, before %q, %v", after.Data, node.Data, err)
	}
	if ev, err := node.Watch.Next(ctx); err != nil || ev.Type != client.EventDataChanged || ev.Path != "/zookeeper/config" {
		t.Errorf("event %v, %v", ev, err)
	}
	for line := range strings.Lines(string(node.Data)) {
		if strings.HasPrefix(line, gone) {
			after, err = c.Reconfig(ctx, client.Members{Joining: strings.TrimSpace(line) + ";" + roles[follower].addr}, -1)
		}
	}
	if err != nil || !strings.Contains(string(after.Data), gone) {
		t.Errorf("reconfig back: %q, %v", after.Data, err)
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
