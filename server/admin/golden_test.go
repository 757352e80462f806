package admin

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/fourletter"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/*.golden")

// fake is a Server with fixed facts.
type fake struct {
	serving, readOnly bool
	peer              *Peer
	server            fourletter.Server
	quorum            *fourletter.Quorum
	metrics           []fourletter.Metric
	health            []Check
}

var at = time.Date(2026, time.November, 2, 3, 4, 5, 6e6, time.UTC)

func (f *fake) Serving() bool   { return f.serving }
func (f *fake) ReadOnly() bool  { return f.readOnly }
func (f *fake) Version() string { return "3.9.5-1a2b3c4, built on 2026-01-31 12:00 UTC" }
func (f *fake) Environment() []fourletter.KV {
	return []fourletter.KV{{Key: "zookeeper.version", Value: f.Version()}, {Key: "os.name", Value: "linux"}}
}

func (f *fake) Settings() fourletter.Settings {
	return fourletter.Settings{ClientPort: 2181, SecureClientPort: -1, DataDir: "/d", DataLogDir: "/l",
		DataDirBytes: 5e9, DataLogBytes: 64, TickTimeMs: 2000, MaxClientCnxns: 60, MinSessionTimeoutMs: 4000,
		MaxSessionTimeoutMs: 40000, ListenBacklog: -1, ServerID: 254, Quorum: f.quorum}
}

func (f *fake) Server() fourletter.Server { return f.server }

func (f *fake) Connections() []fourletter.Connection {
	return []fourletter.Connection{
		{Remote: netip.MustParseAddrPort("10.0.0.7:40000"), Reading: true, Queued: 3, Received: 10, Sent: 7, Session: 7, LastOp: "EXIS",
			Established: at, TimeoutMs: 10000, LastCxid: 5, LastZxid: 0x15d, LastReplyMs: 1095676,
			LastLatencyMs: 1, MinLatencyMs: 0, AvgLatencyMs: 2, MaxLatencyMs: 9},
		{Remote: netip.MustParseAddrPort("[fe80::1:0:2]:40001"), Secure: true, Writing: true},
	}
}

func (f *fake) Clients() []fourletter.ClientUse {
	return []fourletter.ClientUse{
		{Address: "10.0.0.7", Port: 40000, Session: 7, Identity: "digest:ann", Connections: 1, Requests: 10, Replies: 7, BytesIn: 400, BytesOut: 5e9, Watches: 2},
		{Address: "10.0.0.8", Connections: 3, Requests: 1},
	}
}

func (f *fake) Metrics() []fourletter.Metric { return f.metrics }
func (f *fake) Digests() []fourletter.Digest {
	return []fourletter.Digest{{Zxid: 0x15e, Value: -7}, {Zxid: 0x15f, Value: 1371985504}}
}
func (f *fake) DirSizes() (data, log int64) { return 67109337, 5e9 }
func (f *fake) Sessions() fourletter.Sessions {
	return fourletter.Sessions{Buckets: []fourletter.SessionBucket{{Expires: at}, {Expires: at.Add(2 * time.Second), Sessions: []int64{7, -8}}}}
}
func (f *fake) ConnectionDeadlines() []fourletter.ConnectionBucket { return nil }
func (f *fake) Ephemerals() []fourletter.SessionPaths {
	return []fourletter.SessionPaths{{Session: 7, Paths: []string{"/lock/a", "/lock/b"}}}
}
func (f *fake) WatchCount() fourletter.WatchCount {
	return fourletter.WatchCount{Connections: 2, Paths: 3, Watches: 4}
}
func (f *fake) WatchesBySession() []fourletter.SessionPaths {
	return []fourletter.SessionPaths{{Session: 7, Paths: []string{"/a", "/b"}}, {Session: -8, Paths: []string{"/c"}}}
}
func (f *fake) WatchesByPath() []fourletter.PathSessions {
	return []fourletter.PathSessions{{Path: "/a", Sessions: []int64{7, -8}}}
}
func (f *fake) TraceMask() int64      { return 306 }
func (f *fake) SetTraceMask(int64)    {}
func (f *fake) ResetServerStats()     {}
func (f *fake) ResetConnectionStats() {}

func (f *fake) Peer() (Peer, bool) {
	if f.peer == nil {
		return Peer{}, false
	}
	return *f.peer, true
}

func (f *fake) LastSnapshot() (zxid int64, taken time.Time)           { return 0x15e00000001, at }
func (f *fake) Health() []Check                                       { return f.health }
func (f *fake) TakeSnapshot(context.Context) (Snapshot, error)        { return Snapshot{}, nil }
func (f *fake) FollowLog(int64, string) (LogStream, int, string)      { return nil, 503, "no log" }
func (f *fake) Feed(context.Context, FeedRequest) (Feed, int, string) { return nil, 501, "no feed" }
func (f *fake) ShedConnections(percent int) int                       { return percent }

func leader() *fake {
	return &fake{serving: true,
		peer: &Peer{ID: 1, Leads: true, Leader: 1, Voter: true, Activity: "broadcast",
			Members:   []Member{{1, []string{"a:2888", "b:2888"}, []string{"a:3888", "b:3888"}, "0.0.0.0:2181", false}, {2, []string{"c:2888"}, []string{"c:3888"}, "", true}},
			Observers: []Observer{{2, "10.0.0.2:2888", at, 10, 11, 12, 13, 0x15e}}},
		server: fourletter.Server{Mode: "leader", PeerState: "leading - broadcast", AvgLatencyMs: 1.26834, MaxLatencyMs: 22, Received: 472, Sent: 519, Connections: 3,
			Outstanding: 7, Zxid: 0x15e00000001, Nodes: 1000005, ProposalSizes: &fourletter.ProposalSizes{Last: 36, Min: 20, Max: 1000}},
		quorum: &fourletter.Quorum{InitLimit: 20, SyncLimit: 10, ElectionAlg: 3, ElectionPort: 3888, QuorumPort: 2888, Observer: true,
			Membership: "server.1=a:2888:3888:participant;0.0.0.0:2181\nversion=100000000"},
		metrics: []fourletter.Metric{fourletter.Float("avg_latency", 1.26834), fourletter.Int("uptime", 12345), fourletter.Int("last_client_response_size", 16),
			fourletter.Int("min_client_response_size", 8), fourletter.Int("max_client_response_size", 5000), fourletter.Int("auth_failed_count", 2), {Name: "members", Value: "1, 2"}},
		health: []Check{{Name: "loop", Concern: Live, Problem: "stuck"}, {Name: "disk", Concern: Live}, {Name: "clients", Concern: Ready, Note: "the disk is full"}},
	}
}

// TestPages compares all pages with testdata/pages.golden.
func TestPages(t *testing.T) {
	alone := &fake{serving: true, server: fourletter.Server{Mode: "standalone", Nodes: 5}}
	observer := leader()
	observer.peer = &Peer{ID: 2, Leader: 1, Activity: "broadcast", Members: observer.peer.Members}
	observer.server = fourletter.Server{Mode: "observer", PeerState: "observing - broadcast", ObserverMaster: 1}
	readOnly := leader()
	readOnly.readOnly, readOnly.server = true, fourletter.Server{Mode: "read-only"}
	looking := leader()
	looking.serving, looking.peer = false, &Peer{ID: 1, Leader: -1, Voter: true, Activity: "election"}
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
			case c.serve != nil && c.posted:
				get(http.MethodPost, "/commands/"+c.name+"?percentage=30")
			default:
				get(http.MethodGet, "/commands/"+c.name+"?traceMask=5")
			}
		}
		get(http.MethodGet, "/commands/top?by=session&order=bytes&n=1")
	}
	const file = "testdata/pages.golden"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d differs; got all:\n%s", file, i+1, got.String())
		}
	}
}
