package fourletter

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/*.golden")

// fake is a Source with fixed facts.
type fake struct {
	clients           []ClientUse
	serving, readOnly bool
	version           string
	env               []KV
	settings          Settings
	server            Server
	conns             []Connection
	metrics           []Metric
	digests           []Digest
	data, log         int64
	sessions          Sessions
	deadlines         []ConnectionBucket
	ephemerals        []SessionPaths
	count             WatchCount
	bySession         []SessionPaths
	byPath            []PathSessions
	mask              int64
	resets            string
	calls             int // of all methods except Serving
}

func (f *fake) Serving() bool                           { return f.serving }
func (f *fake) ReadOnly() bool                          { f.calls++; return f.readOnly }
func (f *fake) Version() string                         { f.calls++; return f.version }
func (f *fake) Environment() []KV                       { f.calls++; return f.env }
func (f *fake) Settings() Settings                      { f.calls++; return f.settings }
func (f *fake) Server() Server                          { f.calls++; return f.server }
func (f *fake) Connections() []Connection               { f.calls++; return slices.Clone(f.conns) }
func (f *fake) Metrics() []Metric                       { f.calls++; return slices.Clone(f.metrics) }
func (f *fake) Digests() []Digest                       { f.calls++; return f.digests }
func (f *fake) DirSizes() (data, log int64)             { f.calls++; return f.data, f.log }
func (f *fake) Sessions() Sessions                      { f.calls++; return f.sessions }
func (f *fake) ConnectionDeadlines() []ConnectionBucket { f.calls++; return f.deadlines }
func (f *fake) Ephemerals() []SessionPaths              { f.calls++; return f.ephemerals }
func (f *fake) WatchCount() WatchCount                  { f.calls++; return f.count }
func (f *fake) Clients() []ClientUse                    { f.calls++; return f.clients }
func (f *fake) WatchesBySession() []SessionPaths        { f.calls++; return f.bySession }
func (f *fake) WatchesByPath() []PathSessions           { f.calls++; return f.byPath }
func (f *fake) TraceMask() int64                        { f.calls++; return f.mask }
func (f *fake) SetTraceMask(mask int64)                 { f.calls++; f.mask = mask }
func (f *fake) ResetServerStats()                       { f.calls++; f.resets += "server " }
func (f *fake) ResetConnectionStats()                   { f.calls++; f.resets += "connections " }

// execute returns the answer to a word with all words enabled; stmk sets the
// mask to 306.
func execute(t *testing.T, word string, src Source) string {
	t.Helper()
	c, ok := Lookup([4]byte([]byte(word)))
	if !ok {
		t.Fatalf("no command %q", word)
	}
	all, _ := ParseWhitelist("*")
	var b bytes.Buffer
	arg := []byte{0, 0, 0, 0, 0, 0, 1, 50}
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
	return &fake{
		serving: true,
		version: "3.9.5-1a2b3c4, built on 2026-01-31 12:00 UTC",
		env:     []KV{{"zookeeper.version", "3.9.5-1a2b3c4, built on 2026-01-31 12:00 UTC"}, {"host.name", "node7"}, {"os.name", "linux"}},
		settings: Settings{ClientPort: 2181, SecureClientPort: -1, DataDir: "/d", DataLogDir: "/l",
			DataDirBytes: 5e9, DataLogBytes: 64, TickTimeMs: 2000, MaxClientCnxns: 0, MinSessionTimeoutMs: 4000,
			MaxSessionTimeoutMs: 40000, ListenBacklog: -1, ServerID: 254, Quorum: &Quorum{InitLimit: 20, SyncLimit: 10,
				ElectionAlg: 3, ElectionPort: 3888, QuorumPort: 2888, Observer: true,
				Membership: "server.1=a:2888:3888:participant;0.0.0.0:2181\nversion=100000000"}},
		server: Server{Mode: "leader", PeerState: "leading - broadcast", MinLatencyMs: 0, AvgLatencyMs: 1.26834,
			MaxLatencyMs: 22, Received: 472, Sent: 519, Connections: 3, Outstanding: 7, Zxid: 0x15e00000001,
			Nodes: 1000005, ProposalSizes: &ProposalSizes{-1, -1, -1},
			Joiners: []Joiner{{ID: 4, Snapshot: true, Sent: 1 << 20, Size: 4 << 20}, {ID: 5, LogLeft: 3 << 20}}},
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
		data:    67109337, log: 5e9,
		sessions: Sessions{LocalEnabled: true,
			Local:   []SessionBucket{{Expires: at, Sessions: []int64{7}}},
			Buckets: []SessionBucket{{Expires: at}, {Expires: at.Add(2 * time.Second), Sessions: []int64{session, negative}}}},
		deadlines: []ConnectionBucket{{at, nil},
			{at.Add(10 * time.Second), []ConnectionID{{v4, session}, {mapped, 0}}}},
		ephemerals: []SessionPaths{{session, []string{"/lock/a", "/lock/b"}}, {negative, []string{"/lock/c"}}},
		count:      WatchCount{2, 3, 4},
		bySession:  []SessionPaths{{session, []string{"/a", "/b"}}, {negative, []string{"/c"}}},
		byPath:     []PathSessions{{"/a", []int64{session, negative}}, {"/b", []int64{session}}},
		mask:       306,
	}
}

// TestGolden renders the example as it is, as a learner (dump), as a read-only server
// (stat, mntr) and as an observer (mntr).
func TestGolden(t *testing.T) {
	learner := example()
	learner.sessions.Learner = true
	learner.sessions.Timeouts = []SessionTimeout{{0x100000a323e0013, 10000}, {-0x1fffffffffffffe, 4000}}
	readOnly := example()
	readOnly.readOnly, readOnly.server = true, Server{Mode: "read-only"}
	observer := example()
	observer.server = Server{Mode: "observer", PeerState: "observing - broadcast", ObserverMaster: 3}
	var got strings.Builder
	show := func(title, word string, src Source) {
		got.WriteString("==== " + title + "\n" + execute(t, word, src) + "\n")
	}
	for _, c := range words {
		show(c.String(), c.String(), example())
	}
	show("dump of a learner", "dump", learner)
	show("stat of a read-only server", "stat", readOnly)
	show("mntr of a read-only server", "mntr", readOnly)
	show("mntr of an observer", "mntr", observer)
	show("isro of a read-only server", "isro", readOnly)

	const file = "testdata/example.golden"
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

// TestEffects checks that each command with an effect has only that effect.
func TestEffects(t *testing.T) {
	f := &fake{serving: true}
	execute(t, "crst", f)
	execute(t, "srst", f)
	if f.resets != "connections server " {
		t.Errorf("crst and srst reset %q", f.resets)
	}
	all, _ := ParseWhitelist("*")
	var b bytes.Buffer
	if err := Execute(&b, Stmk, []byte("\xff\xff\xff\xff\xff\xff\xff\xfe"), all, f); err != nil || f.mask != -2 || b.String() != "-2" {
		t.Errorf("stmk -2: mask %d, answer %q, error %v", f.mask, b.String(), err)
	}
	for _, arg := range []string{"", "\x00\x00\x00"} {
		b.Reset()
		if err := Execute(&b, Stmk, []byte(arg), all, f); err != nil || f.mask != -2 || b.String() != "stmk needs 8 bytes after it.\n" {
			t.Errorf("stmk with %d bytes: error %v, mask %d, %q", len(arg), err, f.mask, &b)
		}
	}
	b.Reset()
	if err := Execute(&b, Stmk, nil, nil, f); err != nil || !strings.HasSuffix(b.String(), "not in the whitelist.\n") {
		t.Errorf("stmk that is not allowed: error %v, %q", err, &b)
	}
}

// TestWhitelist checks that disabled words are refused before the Source is called.
func TestWhitelist(t *testing.T) {
	wl, unknown := ParseWhitelist(" ruok, stat ,,kill,mntrx,\u00e9\u00e9")
	if !slices.Equal(unknown, []string{"kill", "mntrx", "éé"}) {
		t.Errorf("unknown words %q", unknown)
	}
	for _, c := range append(words[:], TelnetClose) {
		f := &fake{serving: true}
		var b bytes.Buffer
		if err := Execute(&b, c, make([]byte, c.ArgLen()), wl, f); err != nil {
			t.Fatal(err)
		}
		refusal := c.String() + " is not executed because it is not in the whitelist.\n"
		enabled := c == Ruok || c == Stat || c == Srvr || c == TelnetClose
		if (b.String() != refusal) != enabled || wl.Allows(c) != enabled {
			t.Errorf("%v: answer %q, allowed %v, want %v", c, b.String(), wl.Allows(c), enabled)
		}
		if !enabled && f.calls > 0 {
			t.Errorf("%v: refused, but the source was asked", c)
		}
	}
	if none := Whitelist(nil); none.Allows(Ruok) || !none.Allows(Srvr) {
		t.Error("a nil whitelist must allow srvr alone")
	}
	all, unknown := ParseWhitelist("*, ruok")
	for _, c := range words {
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
	for _, c := range words {
		f := &fake{env: []KV{{"a", "b"}}, mask: 306}
		got := execute(t, c.String(), f)
		refused := strings.HasPrefix(got, "This ZooKeeper instance is not currently serving requests")
		if want := !slices.Contains([]Command{Ruok, Isro, Gtmk, Stmk, Envi, Conf}, c); refused != want {
			t.Errorf("%v answers %q", c, got)
		}
		if refused && f.calls > 0 {
			t.Errorf("%v: not serving, but the source was asked", c)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, c := range words {
		if got, ok := Lookup([4]byte([]byte(c.String()))); got != c || !ok {
			t.Errorf("Lookup(%v) = %v, %v", c, got, ok)
		}
		if c < 0x61000000 {
			t.Errorf("%v could be the length of a frame", c)
		}
	}
	if c, ok := Lookup([4]byte{0xff, 0xf4, 0xff, 0xfd}); c != TelnetClose || !ok || c.String() != "telnet close" {
		t.Errorf("telnet's interrupt is %v, %v", c, ok)
	}
	if got := execute(t, "\xff\xf4\xff\xfd", &fake{}); got != "" {
		t.Errorf("telnet's interrupt is answered with %q", got)
	}
	for _, first := range []string{"kill", "RUOK", "\x00\x00\x00\x2d", "ruo\n", "\xff\xff\xff\xff"} {
		if c, ok := Lookup([4]byte([]byte(first))); ok {
			t.Errorf("Lookup(%q) = %v", first, c)
		}
	}
}

func TestDouble(t *testing.T) {
	for _, c := range []struct {
		in   float64
		want string
	}{
		{0, "0.0"}, {1, "1.0"}, {-1.5, "-1.5"}, {1.26834, "1.2683"}, {1.26835, "1.2684"}, {0.00004, "0.0"},
		{0.0001, "1.0E-4"}, {0.001, "0.001"}, {9999999, "9999999.0"}, {1e7, "1.0E7"}, {12345678.5, "1.23456785E7"},
		{1e300, "1.0E300"},
	} {
		if got := double(c.in); got != c.want {
			t.Errorf("double(%v) = %s, want %s", c.in, got, c.want)
		}
	}
}

// TestWriteError checks that a client that disconnected is reported as an error.
func TestWriteError(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	if err := Execute(w, Srvr, nil, nil, example()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want %v", err, io.ErrClosedPipe)
	}
}
