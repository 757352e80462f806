package apps

import (
	"strings"
	"testing"
	"time"

	"github.com/kvtools/valkeyrie/store"
	"github.com/kvtools/valkeyrie/testsuite"
	"github.com/kvtools/zookeeper"
)

// TestValkeyrie runs the suite that Valkeyrie, which Traefik keeps its configuration with,
// has for stores.
func TestValkeyrie(t *testing.T) {
	one, other := valkeyrieStore(t), valkeyrieStore(t)
	for _, suite := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"common", func(t *testing.T) { testsuite.RunTestCommon(t, one) }},
		{"atomic", func(t *testing.T) { testsuite.RunTestAtomic(t, one) }},
		{"watch", func(t *testing.T) { testsuite.RunTestWatch(t, one) }},
		{"lock", func(t *testing.T) { testsuite.RunTestLock(t, one) }},
		{"ttl", func(t *testing.T) { testsuite.RunTestTTL(t, one, other) }},
		{"cleanup", func(t *testing.T) { testsuite.RunCleanup(t, one) }},
	} {
		t.Run(suite.name, suite.run)
	}
}

func valkeyrieStore(t *testing.T) store.Store {
	t.Helper()
	options := &zookeeper.Config{ConnectionTimeout: 10 * time.Second}
	kv, err := zookeeper.New(t.Context(), strings.Split(servers(t), ","), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() }) // the test is over
	return kv
}
