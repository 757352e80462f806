package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
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

// The usage of a quota becomes that of its subtree again, at once when the quota gets limits or its usage is written,
// else soon, on all servers.
func TestQuotasAreCountedAgain(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.follower()].connectFor(t, 20_000)
		const limits, stats = "/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats"
		usage := func(when, want string) {
			t.Helper()
			if got, _ := c.get(stats); got != want {
				t.Errorf("%s: the usage is %q, want %q", when, got, want)
			}
		}
		c.create("/q", "12345")
		c.create("/zookeeper/quota/q", "")
		c.create(limits, "count=9")
		c.create(stats, "")
		usage("at first", "count=1,bytes=5")
		c.ok(jute.OpDelete, &jute.DeleteRequest{Path: limits, Version: -1})
		c.create("/q/a", "678")
		usage("without limits", "count=1,bytes=5")
		c.create(limits, "count=9")
		usage("with limits again", "count=2,bytes=8")
		c.set(stats, "count=-7,bytes=1")
		usage("after a client has written it", "count=2,bytes=8")

		c.create("/zookeeper/quota/q/a", "")
		c.create("/zookeeper/quota/q/a/zookeeper_limits", "count=9")
		c.create("/zookeeper/quota/q/a/zookeeper_stats", "")
		c.create("/q/a/b", "9")
		usage("with another quota below", "count=2,bytes=8")
		c.create("/zookeeper/quota/zookeeper", "")
		c.create("/zookeeper/quota/zookeeper/zookeeper_limits", "count=9")
		c.create("/zookeeper/quota/zookeeper/zookeeper_stats", "")
		c.stay(2 * time.Minute)
		usage("after a while", "count=3,bytes=9")
		e.settled()
		zxid := e.servers[1].state.Applied()
		c.stay(2 * time.Minute)
		if now := e.servers[1].state.Applied(); now != zxid {
			t.Errorf("usages that are right, or can't be, are counted again: %v, then %v", zxid, now)
		}
		e.idle()
	})
}

// TestFewQuotasAreCountedAtATime has more usages that drift than are counted again at a time: the
// others come next.
func TestFewQuotasAreCountedAtATime(t *testing.T) {
	const more = 20
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader := e.servers[e.leader()]
		c := leader.connect(t)
		quota := func(path string) {
			c.create(path, "")
			c.create("/zookeeper/quota"+path, "")
			c.create("/zookeeper/quota"+path+"/zookeeper_limits", "count=9")
			c.create("/zookeeper/quota"+path+"/zookeeper_stats", "")
		}
		for i := range maxRecounts + more {
			path := fmt.Sprintf("/q%03d", i)
			quota(path)
			quota(path + "/below")
			c.create(path+"/below/a", "") // counts for the lower quota alone
		}
		for _, want := range []jute.Zxid{maxRecounts, more, 0} {
			e.settled()
			before := leader.state.Applied()
			newCleaner(leader.Server).recountQuotas()
			time.Sleep(100 * time.Millisecond)
			e.settled()
			if got := leader.state.Applied() - before; got != want {
				t.Errorf("%d quotas are counted again, want %d", got, want)
			}
		}
	})
}

// TestQuotasInMetrics checks that the quotas of a namespace are added up, a hard limit counts
// before a soft one, and a limit that is not set is -1.
func TestQuotasInMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		for _, q := range [][2]string{{"a", "count=5,bytes=-1;countHardLimit=7"}, {"b", "count=-1,bytes=9"}, {"b/c", "count=-1,bytes=1"}, {"none", "count=-1,bytes=-1"}} {
			c.create("/"+q[0], "xy")
			c.create("/zookeeper/quota/"+q[0], "")
			c.create("/zookeeper/quota/"+q[0]+"/zookeeper_limits", q[1])
			c.create("/zookeeper/quota/"+q[0]+"/zookeeper_stats", "count=0,bytes=0")
			c.set("/"+q[0], "xyz")
		}
		c.create("/a/more", "")
		got := make(map[string]string)
		for name, value := range s.mntr(t) {
			if strings.Contains(name, "quota_") {
				got[name] = value
			}
		}
		want := map[string]string{
			"a_quota_count_limit_per_namespace": "7", "a_quota_bytes_limit_per_namespace": "-1",
			"b_quota_count_limit_per_namespace": "-1", "b_quota_bytes_limit_per_namespace": "10",
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s is %s, want %s", name, got[name], value)
			}
		}
		if len(got) != 8 || got["a_quota_count_usage_per_namespace"] == "" {
			t.Errorf("got %v", got)
		}
		families, err := s.registry.Gather()
		check(t, err)
		found := 0
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "quota_") {
				found += len(f.GetMetric())
			}
		}
		if found != 8 {
			t.Errorf("Prometheus gets %d values, want 8", found)
		}
	})
}

// TestQuotaErrorsAreCounted checks that each write that a hard quota rejects counts for its namespace.
func TestQuotaErrorsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "enforceQuota=true")
		c := s.connect(t)
		for _, name := range []string{"a", "b"} {
			c.create("/"+name, "")
			c.create("/zookeeper/quota/"+name, "")
			c.create("/zookeeper/quota/"+name+"/zookeeper_limits", "count=-1,bytes=-1;byteHardLimit=3;countHardLimit=2")
			c.create("/zookeeper/quota/"+name+"/zookeeper_stats", "")
		}
		c.create("/a/1", "x")
		rejected := func(op jute.OpCode, body record) {
			t.Helper()
			if got := c.call(op, body).Err; got != jute.ErrQuotaExceeded {
				t.Errorf("%v: %v, want %v", op, got, jute.ErrQuotaExceeded)
			}
		}
		rejected(jute.OpCreate, create("/a/2", "", 0))
		rejected(jute.OpSetData, set("/a/1", "xxxx"))
		rejected(jute.OpSetData, set("/b", "xxxx"))
		c.set("/a/1", "xxx")
		s.ask(t, "srst", false)
		got := s.mntr(t)
		for name, want := range map[string]string{"a": "2", "b": "1"} {
			if got := got[name+"_quota_exceeded_error_per_namespace"]; got != want {
				t.Errorf("mntr has %q for /%s, want %s", got, name, want)
			}
		}
		families, err := s.registry.Gather()
		check(t, err)
		values := make(map[string]float64)
		for _, f := range families {
			if f.GetName() == "quota_exceeded_error_per_namespace" {
				for _, m := range f.GetMetric() {
					values[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
		if len(values) != 2 || values["a"] != 2 || values["b"] != 1 {
			t.Errorf("Prometheus gets %v", values)
		}
	})
}
