package server

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
)

// TestExceededQuotasAreLogged checks that one line is logged when a quota becomes
// exceeded, one when it no longer is, and none in between.
func TestExceededQuotasAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, Options{FS: crashfs.New(1), Config: parseConfig(t, "/data")})
		core, logged := observer.New(zap.InfoLevel)
		s.log = zap.New(core)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c := s.connect(t)
		c.create("/q", "ab")
		c.create("/zookeeper/quota/q", "")
		c.create("/zookeeper/quota/q/zookeeper_limits", "count=1,bytes=3=;countHardLimit=7")
		c.create("/zookeeper/quota/q/zookeeper_stats", "")
		time.Sleep(5 * time.Second) // the remarks of the start have been made
		logged.TakeAll()
		for _, step := range []struct{ data, want string }{
			{"abc", ""},
			{"abcd", "warn: a quota is exceeded"},
			{"abcdefgh", ""},
			{"", "info: a quota is not exceeded any more"},
			{"a", ""},
			{"abcde", "warn: a quota is exceeded"},
		} {
			c.set("/q", step.data)
			time.Sleep(5 * time.Second)
			c.ping()
			got := ""
			for _, e := range logged.TakeAll() {
				got += e.Level.String() + ": " + e.Message
				m := e.ContextMap()
				if m["path"] != "/q" || e.Level == zap.WarnLevel &&
					(m["nodes"] != int64(1) || m["bytes"] != int64(len(step.data)) || m["soft_bytes"] != int64(3) || m["hard_nodes"] != int64(7) || m["hard_bytes"] != nil) {
					t.Errorf("%q is logged with %v", step.data, m)
				}
			}
			if got != step.want {
				t.Errorf("with %q: logged %q, want %q", step.data, got, step.want)
			}
		}
	})
}
