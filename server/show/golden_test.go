package show

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/zab"
)

// numberOf returns a number that belongs to a name, so that each field has another one and keeps
// it when others come or go.
func numberOf(name string) int64 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int64(h.Sum32() % 100_000)
}

// fill sets the numbers of a struct, and what its histograms have observed.
func fill(v reflect.Value, prefix string) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if !v.Type().Field(i).IsExported() {
			continue
		}
		n := numberOf(prefix + name)
		switch x := f.Addr().Interface().(type) {
		case *atomic.Int64:
			x.Store(n)
		case *monitor.Durations:
			x.Observe(time.Duration(n)*time.Microsecond, 3)
			x.Observe(time.Duration(n), 2)
		case *monitor.Counts:
			for _, v := range []int64{1000 * n, 1000 * n, 1000 * n, n, n} {
				x.Observe(int(v))
			}
		case *time.Duration:
			*x = time.Duration(n) * time.Millisecond
		case *int:
			*x = int(n)
		case *int64:
			*x = n
		case *uint64:
			*x = uint64(n)
		case *monitor.Sizes:
			x.ObserveAll(n, n/2, 2*n)
		}
	}
}

// exampleMetrics returns counters that are all different.
func exampleMetrics() *monitor.Metrics {
	m := monitor.NewMetrics()
	fill(reflect.ValueOf(m).Elem(), "")
	i := time.Duration(0)
	m.Requests.Each(func(op jute.OpCode, ok, failed *monitor.Durations) {
		i++
		m.Requests.Observe(op, 0, i*time.Millisecond, int64(i))
		m.Requests.Observe(op, jute.ErrNoNode, i*time.Microsecond, 1)
	})
	for i := range m.Fired {
		m.Fired[i].Observe(i)
		m.Fired[i].Observe(i)
	}
	for _, n := range []*monitor.Namespaces{&m.ReadPerNamespace, &m.WritePerNamespace} {
		var c monitor.NamespaceCount
		c.Add(n, "/app/config", 100)
		c.Add(n, "/app/config", 50)
		c.Add(n, "/other", 7)
		c.Flush()
	}
	m.QuotaErrors.CountOne("/app/config")
	return m
}

// viewOf returns a view of a server with a role.
func viewOf(st *zab.Status) *View {
	r := &View{Metrics: exampleMetrics(), Role: st, Serving: true}
	fill(reflect.ValueOf(r).Elem(), "")
	fill(reflect.ValueOf(&r.Tree).Elem(), "Tree.")
	r.Latency = r.Requests.Latency()
	r.Troubles = func() Troubles { return Troubles{Clock: time.UnixMilli(1_700_000_000_123)} }
	r.Quotas = func() []NamespaceQuotas {
		return ByNamespace([]datatree.Quota{{Path: "/app", Limits: datatree.Limits{Count: 5, Bytes: -1, CountHard: -1, BytesHard: 700}}})
	}
	r.Held = func() []Holding { return []Holding{{"requests", 3, 400, 0}, {"log", 2, 300, 4000}} }
	r.Limits = []limits.Figure{{Rule: "all", Resource: 0, Over: 1, Slowed: 2, Refused: 3, Subjects: 4}}
	r.Ensemble = true
	r.Members, r.FileMembers = "1, 2, 3", "1, 2"
	return r
}

// examples are views of servers in different states.
func examples() []struct {
	name string
	v    *View
} {
	leader := viewOf(&zab.Status{Role: zab.Leading, FileDiffers: true, OtherFiles: 2})
	leader.DiskFull, leader.LogWaits, leader.RefusesWrites, leader.KeepsAway = true, true, true, true
	leader.Memory, leader.MemoryShort, leader.TreeFull = "short: so it is", true, true
	leader.Peers = []zab.PeerStatus{{ID: 2, Synced: true, Counted: true}, {ID: 3, Synced: true}, {ID: 4, Synced: true, Observer: true}, {ID: 5}}
	leader.Sending, leader.Unfollowed = []Transfer{{5, 10, 100}}, "open zoo.cfg:\n\tno permission"
	leader.Troubles = func() Troubles {
		return Troubles{
			Clock: time.UnixMilli(1_700_000_000_456), ClockJump: -time.Hour, ClockJumpAgo: time.Minute, FsyncPending: time.Second, LogLacks: errors.New("no inodes"), DiskFull: 2 * time.Second, DiskLacks: "inodes", MemoryShort: 3500 * time.Millisecond, SnapshotsFail: 3 * time.Second,
			SnapshotError: "no\nroom", OpenRoot: true, LongReply: 4 * time.Second, ExpiringSessions: 5, MissingVoters: []zab.SID{2, 3}, VotersMissing: 6 * time.Second,
			PeerListen: "in use", Accept: errors.New("no descriptors"), BrokenRequest: "create /a", AuditLacks: errors.New("no space"), ClientRevocations: time.UnixMilli(3e12), QuorumRevocations: time.UnixMilli(4e12), ClientCertificate: time.UnixMilli(1e12), QuorumCertificate: time.UnixMilli(2e12),
			PeerCertificates: []PeerCertificate{{2, time.UnixMilli(5e12), ""}, {3, time.Time{}, "expired; since\nyesterday"}, {4, time.UnixMilli(6e12), "of another authority"}},
			ClientReload:     errors.New("a"), QuorumReload: errors.New("b"), UnlistedSecurePort: 2281,
		}
	}
	looking := viewOf(&zab.Status{Role: zab.Looking})
	looking.Serving, looking.Arriving = false, []Transfer{{1, 5, 50}}
	alone := viewOf(&zab.Status{})
	alone.Ensemble = false
	return []struct {
		name string
		v    *View
	}{{"leader", leader}, {"looking", looking}, {"alone", alone},
		{"observer", viewOf(&zab.Status{Role: zab.Following, Observer: true})}}
}

var build = regexp.MustCompile(`(?m)^zkd_build_info\{.*`)

// TestOutput compares all of mntr and of Prometheus's text with testdata.
func TestOutput(t *testing.T) {
	for _, x := range examples() {
		t.Run(x.name, func(t *testing.T) {
			var got strings.Builder
			for _, m := range x.v.Words() {
				fmt.Fprintf(&got, "zk_%s\t%s\n", m.Name, m.Value)
			}
			registry := prometheus.NewRegistry()
			registry.MustRegister(NewCollector("3.9.5-x, built on 2026-01-31 12:00 UTC", func() *View { return x.v }))
			answer := httptest.NewRecorder()
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
			for line := range strings.Lines(build.ReplaceAllString(answer.Body.String(), "zkd_build_info")) {
				if x.name == "leader" || !strings.Contains(line, "_bucket{") { // all have the same buckets
					got.WriteString(line)
				}
			}
			scenario.Golden(t, "testdata/"+x.name+".golden", got.String())
		})
	}
}
