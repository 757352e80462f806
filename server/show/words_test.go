package show

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/zab"
)

// fake is a Source with fixed facts.
type fake struct {
	view     View
	serving  bool
	resets   string
	settings Settings
	env      []KV
	dirs     Dirs
	conns    []Connection
	clients  []ClientUse
	metrics  []Metric // of mntr, in place of those of the view
	digests  []Digest
	sessions Sessions

	deadlines             []ConnectionBucket
	ephemerals, bySession []SessionPaths
	byPath                []PathSessions
	count                 WatchCount
	joiners               []Joiner
	calls                 int // of all methods except Serving
}

func newFake(serving bool) *fake {
	return &fake{serving: serving, view: View{Metrics: monitor.NewMetrics(), Role: &zab.Status{}, TraceMask: 306}}
}

func (f *fake) Serving() bool           { return f.serving }
func (f *fake) ReadOnly() bool          { f.calls++; return f.view.ReadOnly }
func (f *fake) SetTraceMask(mask int64) { f.calls++; f.view.TraceMask = mask }
func (f *fake) ResetServerStats()       { f.calls++; f.resets += "server " }
func (f *fake) ResetConnectionStats()   { f.calls++; f.resets += "connections " }

func (f *fake) View() *View {
	f.calls++
	v := f.view
	v.Lists = Lists{
		Environment:         func() []KV { return f.env },
		Settings:            func() Settings { return f.settings },
		DirSizes:            func() Dirs { return f.dirs },
		Conns:               func() []Connection { return slices.Clone(f.conns) },
		Clients:             func() []ClientUse { return f.clients },
		AllSessions:         func() Sessions { return f.sessions },
		ConnectionDeadlines: func() []ConnectionBucket { return f.deadlines },
		Ephemerals:          func() []SessionPaths { return f.ephemerals },
		WatchCount:          func() WatchCount { return f.count },
		WatchesBySession:    func() []SessionPaths { return f.bySession },
		WatchesByPath:       func() []PathSessions { return f.byPath },
		Digests:             func() []Digest { return f.digests },
		Joiners:             func() []Joiner { return f.joiners },
		Troubles:            func() (t Troubles) { return t },
		Quotas:              func() []NamespaceQuotas { return nil },
	}
	return &v
}

// be makes a view that of a server with a mode.
func (v *View) be(mode string) {
	v.Role = &zab.Status{Role: zab.Following, Leader: 3}
	v.Ensemble, v.ReadOnly = mode != "standalone", mode == "read-only"
	switch mode {
	case "leader":
		v.Role.Role = zab.Leading
	case "observer":
		v.Role.Observer = true
	}
}

// execute returns the answer to a word with all words enabled; stmk sets the
// mask to 306.
func execute(t *testing.T, word string, src Source) string {
	t.Helper()
	c, ok := fourletter.Lookup([4]byte([]byte(word)))
	if !ok {
		t.Fatalf("no command %q", word)
	}
	all, _ := fourletter.ParseWhitelist("*")
	var b bytes.Buffer
	arg := []byte{0, 0, 0, 0, 0, 0, 1, 50}
	if f, ok := src.(*fake); ok && c == fourletter.Mntr && f.serving {
		w := bufio.NewWriter(&b)
		printer{w}.mntr(f.View(), slices.Clone(f.metrics))
		w.Flush()
		return b.String()
	}
	if err := Execute(&b, c, arg[:c.ArgLen()], all, src); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// example has values that the captures lack: IPv6, waiting writes, big and negative
// numbers, local sessions, digests.
func example() *fake {
	at := time.Date(2026, time.November, 2, 3, 4, 5, 6e6, time.UTC)
	v4, v6 := netip.MustParseAddrPort("10.0.0.7:40000"), netip.MustParseAddrPort("[fe80::1:0:2]:40001")
	mapped := netip.MustParseAddrPort("[::ffff:10.0.0.8]:40002")
	const session, negative = 0x100000a323e0013, -0x1fffffffffffffe
	f := newFake(true)
	v := &f.view
	v.Version = "3.9.5-1a2b3c4, built on 2026-01-31 12:00 UTC"
	v.be("leader")
	v.Latency = monitor.Latency{Avg: 1.26834, Max: 22}
	v.PacketsReceived.Store(472)
	v.PacketsSent.Store(519)
	v.Connections, v.WaitingRequests, v.Zxid, v.Tree.Nodes = 3, 7, 0x15e00000001, 1000005
	*f = fake{serving: true, view: f.view,
		env: []KV{{"zookeeper.version", "3.9.5-1a2b3c4, built on 2026-01-31 12:00 UTC"}, {"host.name", "node7"}, {"os.name", "linux"}},
		settings: Settings{ClientPort: 2181, SecureClientPort: -1, DataDir: "/d", DataLogDir: "/l",
			DataDirBytes: 5e9, DataLogBytes: 64, TickTimeMs: 2000, MaxClientCnxns: 0, MinSessionTimeoutMs: 4000,
			MaxSessionTimeoutMs: 40000, ListenBacklog: -1, ServerID: 254, Quorum: &Quorum{InitLimit: 20, SyncLimit: 10,
				ElectionAlg: 3, ElectionPort: 3888, QuorumPort: 2888, Observer: true,
				Membership: "server.1=a:2888:3888:participant;0.0.0.0:2181\nversion=100000000"}},
		joiners: []Joiner{{ID: 4, Snapshot: true, Sent: 1 << 20, Size: 4 << 20}, {ID: 5, LogLeft: 3 << 20}},
		conns: []Connection{
			{Remote: v4, Reading: true, Queued: 3, Received: 10, Sent: 7, Session: session, LastOp: "EXIS",
				Established: at, TimeoutMs: 10000, LastCxid: 5, LastZxid: 0x15d, LastReplyMs: 1095676,
				LastLatencyMs: 1, MinLatencyMs: 0, AvgLatencyMs: 2, MaxLatencyMs: 9},
			{Remote: v6, Reading: true, Writing: true, Session: negative, LastOp: "NA", Established: at,
				TimeoutMs: 4000, LastCxid: -8, LastZxid: -1},
			{Remote: mapped, Writing: true},
			{},
		},
		clients: []ClientUse{
			{Address: "10.0.0.7", Port: 40000, Session: session, Identity: "digest:ann", Connections: 1, Requests: 10, Replies: 7, BytesIn: 400, BytesOut: 5e9, Watches: 2},
			{Address: "10.0.0.8", Identity: "x509:CN=a\tb\n0x1", Connections: 3, Requests: 1},
		},
		metrics: []Metric{Int("op_count_create", 3), Float("avg_fsynctime", 0.5), Int("quorum_size", 3),
			Int("znode_count", 1000005), Int("ephemerals_count", 2)},
		digests: []Digest{{0x15e, -7}, {0x15f, 1371985504}},
		dirs:    Dirs{67109337, 5e9},
		sessions: Sessions{LocalEnabled: true,
			Local:   []SessionBucket{{Expires: at, Sessions: []int64{7}}},
			Buckets: []SessionBucket{{Expires: at}, {Expires: at.Add(2 * time.Second), Sessions: []int64{session, negative}}}},
		deadlines: []ConnectionBucket{{at, nil},
			{at.Add(10 * time.Second), []ConnectionID{{v4, session}, {mapped, 0}}}},
		ephemerals: []SessionPaths{{session, []string{"/lock/a", "/lock/b"}}, {negative, []string{"/lock/c"}}},
		count:      WatchCount{2, 3, 4},
		bySession:  []SessionPaths{{session, []string{"/a", "/b"}}, {negative, []string{"/c"}}},
		byPath:     []PathSessions{{"/a", []int64{session, negative}}, {"/b", []int64{session}}},
	}
	return f
}

// bare makes a server one with a mode that has done nothing.
func bare(f *fake, mode string) {
	f.view = View{Metrics: monitor.NewMetrics(), Version: f.view.Version, TraceMask: 306}
	f.view.be(mode)
	f.joiners = nil
}

// TestGolden renders the example as it is, as a learner (dump), as a read-only server
// (stat, mntr) and as an observer (mntr).
func TestGolden(t *testing.T) {
	learner := example()
	learner.sessions.Learner = true
	learner.sessions.Timeouts = []SessionTimeout{{0x100000a323e0013, 10000}, {-0x1fffffffffffffe, 4000}}
	readOnly := example()
	bare(readOnly, "read-only")
	observer := example()
	bare(observer, "observer")
	var got strings.Builder
	show := func(title, word string, src Source) {
		got.WriteString("==== " + title + "\n" + execute(t, word, src) + "\n")
	}
	for _, c := range allWords() {
		show(c.String(), c.String(), example())
	}
	show("dump of a learner", "dump", learner)
	show("stat of a read-only server", "stat", readOnly)
	show("mntr of a read-only server", "mntr", readOnly)
	show("mntr of an observer", "mntr", observer)
	show("isro of a read-only server", "isro", readOnly)

	scenario.Golden(t, "testdata/example.golden", got.String())
}

// TestEffects checks that each command with an effect has only that effect.
func TestEffects(t *testing.T) {
	f := newFake(true)
	execute(t, "crst", f)
	execute(t, "srst", f)
	if f.resets != "connections server " {
		t.Errorf("crst and srst reset %q", f.resets)
	}
	all, _ := fourletter.ParseWhitelist("*")
	var b bytes.Buffer
	if err := Execute(&b, fourletter.Stmk, []byte("\xff\xff\xff\xff\xff\xff\xff\xfe"), all, f); err != nil || f.view.TraceMask != -2 || b.String() != "-2" {
		t.Errorf("stmk -2: mask %d, answer %q, error %v", f.view.TraceMask, b.String(), err)
	}
	for _, arg := range []string{"", "\x00\x00\x00"} {
		b.Reset()
		if err := Execute(&b, fourletter.Stmk, []byte(arg), all, f); err != nil || f.view.TraceMask != -2 || b.String() != "stmk needs 8 bytes after it.\n" {
			t.Errorf("stmk with %d bytes: error %v, mask %d, %q", len(arg), err, f.view.TraceMask, &b)
		}
	}
	b.Reset()
	if err := Execute(&b, fourletter.Stmk, nil, nil, f); err != nil || !strings.HasSuffix(b.String(), "not in the whitelist.\n") {
		t.Errorf("stmk that is not allowed: error %v, %q", err, &b)
	}
}

// TestWhitelist checks that disabled words are refused before the Source is called.
func TestWhitelist(t *testing.T) {
	wl, unknown := fourletter.ParseWhitelist(" ruok, stat ,,kill,mntrx,\u00e9\u00e9")
	if !slices.Equal(unknown, []string{"kill", "mntrx", "éé"}) {
		t.Errorf("unknown words %q", unknown)
	}
	for _, c := range append(allWords(), fourletter.TelnetClose) {
		f := newFake(true)
		var b bytes.Buffer
		if err := Execute(&b, c, make([]byte, c.ArgLen()), wl, f); err != nil {
			t.Fatal(err)
		}
		refusal := c.String() + " is not executed because it is not in the whitelist.\n"
		enabled := c == fourletter.Ruok || c == fourletter.Stat || c == fourletter.Srvr || c == fourletter.TelnetClose
		if (b.String() != refusal) != enabled || wl.Allows(c) != enabled {
			t.Errorf("%v: answer %q, allowed %v, want %v", c, b.String(), wl.Allows(c), enabled)
		}
		if !enabled && f.calls > 0 {
			t.Errorf("%v: refused, but the source was asked", c)
		}
	}
	if none := fourletter.Whitelist(nil); none.Allows(fourletter.Ruok) || !none.Allows(fourletter.Srvr) {
		t.Error("a nil whitelist must allow srvr alone")
	}
	all, unknown := fourletter.ParseWhitelist("*, ruok")
	for _, c := range allWords() {
		if !all.Allows(c) {
			t.Errorf("* does not allow %v", c)
		}
	}
	if unknown != nil {
		t.Errorf("* has unknown words %q", unknown)
	}
}

// TestNotServing checks that without a quorum only six words call the Source.
func TestNotServing(t *testing.T) {
	for _, c := range allWords() {
		f := newFake(false)
		f.env = []KV{{"a", "b"}}
		got := execute(t, c.String(), f)
		refused := strings.HasPrefix(got, "This ZooKeeper instance is not currently serving requests")
		if want := !slices.Contains([]fourletter.Command{fourletter.Ruok, fourletter.Isro, fourletter.Gtmk, fourletter.Stmk, fourletter.Envi, fourletter.Conf}, c); refused != want {
			t.Errorf("%v answers %q", c, got)
		}
		looks := c == fourletter.Srvr || c == fourletter.Mntr // whether it is a standby
		if refused && f.calls > 0 && !looks {
			t.Errorf("%v: not serving, but the source was asked", c)
		}
		if !looks {
			continue
		}
		f.view.Standby = Standby{Of: "http://zk1:8080", Fetches: true, Fetched: 3, FetchSize: 9, Lag: -1}
		if got := execute(t, c.String(), f); strings.HasPrefix(got, "This") || c == fourletter.Srvr && !strings.Contains(got, "3 of 9 bytes so far") {
			t.Errorf("%v of a standby without a copy: %s", c, got)
		}
	}
}

// allWords are all words that a whitelist may have.
func allWords() (list []fourletter.Command) {
	all, _ := fourletter.ParseWhitelist("*")
	return slices.Sorted(maps.Keys(all))
}

// TestTelnet checks that telnet's interrupt is answered with nothing.
func TestTelnet(t *testing.T) {
	if got := execute(t, "\xff\xf4\xff\xfd", newFake(false)); got != "" {
		t.Errorf("telnet's interrupt is answered with %q", got)
	}
}

// TestWriteError checks that a client that disconnected is reported as an error.
func TestWriteError(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	if err := Execute(w, fourletter.Srvr, nil, nil, example()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want %v", err, io.ErrClosedPipe)
	}
}
