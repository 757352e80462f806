package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/zab"
)

// fake is a Server with a fixed view.
type fake struct {
	serving bool
	view    show.View
	peer    *show.Peer
	quorum  *show.Quorum
	health  []show.Check
}

var at = time.Date(2026, time.November, 2, 3, 4, 5, 6e6, time.UTC)

func (f *fake) Serving() bool         { return f.serving }
func (f *fake) ReadOnly() bool        { return f.view.ReadOnly }
func (f *fake) SetTraceMask(int64)    {}
func (f *fake) ResetServerStats()     {}
func (f *fake) ResetConnectionStats() {}

func (f *fake) View() *show.View {
	v := f.view
	v.Lists = show.Lists{
		Environment: func() []show.KV {
			return []show.KV{{Key: "zookeeper.version", Value: v.Version}, {Key: "os.name", Value: "linux"}}
		},
		Settings: func() show.Settings {
			return show.Settings{ClientPort: 2181, SecureClientPort: -1, DataDir: "/d", DataLogDir: "/l",
				DataDirBytes: 5e9, DataLogBytes: 64, TickTimeMs: 2000, MaxClientCnxns: 60, MinSessionTimeoutMs: 4000,
				MaxSessionTimeoutMs: 40000, ListenBacklog: -1, ServerID: 254, Quorum: f.quorum}
		},
		DirSizes: func() show.Dirs { return show.Dirs{Data: 67109337, Log: 5e9} },
		Conns: func() []show.Connection {
			return []show.Connection{
				{Remote: netip.MustParseAddrPort("10.0.0.7:40000"), Reading: true, Queued: 3, Received: 10, Sent: 7, Session: 7, LastOp: "EXIS",
					Established: at, TimeoutMs: 10000, LastCxid: 5, LastZxid: 0x15d, LastReplyMs: 1095676,
					LastLatencyMs: 1, MinLatencyMs: 0, AvgLatencyMs: 2, MaxLatencyMs: 9},
				{Remote: netip.MustParseAddrPort("[fe80::1:0:2]:40001"), Secure: true, Writing: true},
			}
		},
		Clients: func() []show.ClientUse {
			return []show.ClientUse{
				{Address: "10.0.0.7", Port: 40000, Session: 7, Identity: "digest:ann", Connections: 1, Requests: 10, Replies: 7, BytesIn: 400, BytesOut: 5e9, Watches: 2},
				{Address: "10.0.0.8", Connections: 3, Requests: 1},
			}
		},
		AllSessions: func() show.Sessions {
			return show.Sessions{Buckets: []show.SessionBucket{{Expires: at}, {Expires: at.Add(2 * time.Second), Sessions: []int64{7, -8}}}}
		},
		Ephemerals: func() []show.SessionPaths {
			return []show.SessionPaths{{Session: 7, Paths: []string{"/lock/a", "/lock/b"}}}
		},
		WatchCount: func() show.WatchCount { return show.WatchCount{Connections: 2, Paths: 3, Watches: 4} },
		WatchesBySession: func() []show.SessionPaths {
			return []show.SessionPaths{{Session: 7, Paths: []string{"/a", "/b"}}, {Session: -8, Paths: []string{"/c"}}}
		},
		WatchesByPath: func() []show.PathSessions { return []show.PathSessions{{Path: "/a", Sessions: []int64{7, -8}}} },
		Digests:       func() []show.Digest { return []show.Digest{{Zxid: 0x15e, Value: -7}, {Zxid: 0x15f, Value: 1371985504}} },
		Peer:          func() *show.Peer { return f.peer },
		LastSnapshot:  func() show.Snapshot { return show.Snapshot{Zxid: 0x15e00000001, At: at} },
		Troubles:      func() show.Troubles { return show.Troubles{Clock: at} },
		Quotas:        func() []show.NamespaceQuotas { return nil },
	}
	return &v
}

func (f *fake) Health() []show.Check                             { return f.health }
func (f *fake) TakeSnapshot(context.Context) (Snapshot, error)   { return Snapshot{}, nil }
func (f *fake) FollowLog(int64, string) (LogStream, int, string) { return nil, 503, "no log" }
func (f *fake) LogLeft(int64, string) (copies.Left, int, string) {
	return copies.Left{}, 503, "no log"
}
func (f *fake) Feed(context.Context, FeedRequest) (Feed, int, error) {
	return nil, 501, errors.New("no feed")
}
func (f *fake) ShedConnections(percent int) int { return percent }

// viewOf returns the view of a server of an ensemble that has done nothing.
func viewOf(st *zab.Status) show.View {
	return show.View{Metrics: monitor.NewMetrics(), Version: "3.9.5-1a2b3c4, built on 2026-01-31 12:00 UTC", TraceMask: 306, Ensemble: true, Serving: true, Role: st}
}

func leader() *fake {
	f := &fake{serving: true, view: viewOf(&zab.Status{Role: zab.Leading, Leader: 1}),
		peer: &show.Peer{ID: 1, Leads: true, Leader: 1, Voter: true, Activity: "broadcast",
			Members: []show.Member{{ID: 1, Quorum: []string{"a:2888", "b:2888"}, Election: []string{"a:3888", "b:3888"}, Client: "0.0.0.0:2181"},
				{ID: 2, Quorum: []string{"c:2888"}, Election: []string{"c:3888"}, Observer: true}},
			Observers: []show.Observer{{ID: 2, Remote: "10.0.0.2:2888", Since: at, Received: 10, Sent: 11, Queued: 12, Requests: 13, Zxid: 0x15e}}},
		quorum: &show.Quorum{InitLimit: 20, SyncLimit: 10, ElectionAlg: 3, ElectionPort: 3888, QuorumPort: 2888, Observer: true,
			Membership: "server.1=a:2888:3888:participant;0.0.0.0:2181\nversion=100000000"},
		health: []show.Check{{Name: "loop", Concern: show.Live, Problem: "stuck"}, {Name: "disk", Concern: show.Live}, {Name: "clients", Concern: show.Ready, Note: "the disk is full"}},
	}
	v := &f.view
	v.Latency = monitor.Latency{Avg: 1.26834, Max: 22}
	v.PacketsReceived.Store(472)
	v.PacketsSent.Store(519)
	v.AuthFailed.Store(2)
	v.ProposalSizes.ObserveAll(36, 20, 1000)
	v.ResponseSizes.ObserveAll(16, 8, 5000)
	v.Connections, v.WaitingRequests, v.Zxid, v.Tree.Nodes, v.Uptime, v.Members, v.FileMembers = 3, 7, 0x15e00000001, 1000005, 12345*time.Millisecond, "1, 2", "1, 2"
	return f
}

// TestPages compares all pages with testdata/pages.golden.
func TestPages(t *testing.T) {
	alone := &fake{serving: true, view: viewOf(&zab.Status{})}
	alone.view.Ensemble, alone.view.Tree.Nodes = false, 5
	observer := leader()
	observer.peer = &show.Peer{ID: 2, Leader: 1, Activity: "broadcast", Members: observer.peer.Members}
	observer.view = viewOf(&zab.Status{Role: zab.Following, Observer: true, Leader: 1})
	readOnly := leader()
	readOnly.view = viewOf(&zab.Status{})
	readOnly.view.ReadOnly, readOnly.view.Serving = true, false
	looking := leader()
	looking.serving, looking.view.Serving, looking.peer = false, false, &show.Peer{ID: 1, Leader: -1, Voter: true, Activity: "election"}
	var got strings.Builder
	for _, x := range []struct {
		name string
		f    *fake
	}{{"leader", leader()}, {"alone", alone}, {"observer", observer}, {"read-only", readOnly}, {"not serving", looking}} {
		h := Handler(Options{Server: func() Server { return x.f }, Configuration: "tickTime=2000\n",
			Authorize: func(context.Context, Claim) (func() bool, int, string) {
				return func() bool { return true }, http.StatusOK, ""
			},
			Snapshots: func() (bool, time.Duration) { return false, 0 }})
		get := func(method, path string) {
			r := httptest.NewRequest(method, path, nil)
			r.Header.Set("Authorization", "digest a:b")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			fmt.Fprintf(&got, "==== %s: %s %s: %d %s\n%s\n", x.name, method, path, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		for _, path := range []string{"/", "/commands", "/livez", "/readyz", "/healthz?verbose", "/commands/unknown"} {
			get(http.MethodGet, path)
		}
		for _, c := range commands() {
			switch {
			case c.name == "monitor": // it shows every figure there is: see TestMonitor
			case c.serve != nil && c.posted:
				get(http.MethodPost, "/commands/"+c.name+"?percentage=30")
			default:
				get(http.MethodGet, "/commands/"+c.name+"?traceMask=5")
			}
		}
		get(http.MethodGet, "/commands/top?by=session&order=bytes&n=1")
	}
	scenario.Golden(t, "testdata/pages.golden", got.String())
}

// TestMonitor checks that the page monitor has all of mntr, in its order.
func TestMonitor(t *testing.T) {
	f := leader()
	w := httptest.NewRecorder()
	Handler(Options{Server: func() Server { return f }}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/commands/monitor", nil))
	want := fmt.Sprintf("{\n  \"version\" : %q,\n  \"server_state\" : \"leader\",\n  \"peer_state\" : \"leading - broadcast\",\n", f.view.Version)
	for _, m := range f.View().Words() {
		value := m.Value
		if number(value) == value {
			value = fmt.Sprintf("%q", value)
		}
		want += fmt.Sprintf("  %q : %s,\n", m.Name, value)
	}
	want += "  \"command\" : \"monitor\",\n  \"error\" : null\n}\n"
	if w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("%d, got\n%s\nwant\n%s", w.Code, w.Body, want)
	}
}
