package command

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
)

func TestDrawing(t *testing.T) {
	now := time.UnixMilli(1e12)
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMilli() }
	d := drawing{root: "/app", now: now, data: true}
	var got []string
	for _, n := range []subtree.Node{
		{Path: "/", Stat: client.Stat{NumChildren: 4}},
		{Path: "/a", Data: []byte("hi\n"), Stat: client.Stat{Ctime: ago(3 * time.Hour), Mtime: ago(90 * time.Second), Version: 2, DataLength: 3, NumChildren: 1}},
		{Path: "/a/b", Data: []byte{}, Stat: client.Stat{Ctime: ago(72 * time.Hour)}},
		{Path: "/lock-0000000007", Data: []byte{0xff, 1}, Stat: client.Stat{Ctime: ago(0), DataLength: 2, EphemeralOwner: 0x1a}},
		{Path: "/z", Data: []byte(strings.Repeat("x", 2000)), Stat: client.Stat{Ctime: ago(time.Minute), DataLength: 2000, NumChildren: 1}},
		{Path: "/z/y", Stat: client.Stat{Ctime: ago(time.Minute)}},
	} {
		got = append(got, d.line(n))
	}
	got = append(got, d.unreadable("/zz"), d.summary())
	want := []string{
		`/app  [0 B, 4 children] null`,
		`├── a  [3 B, 1 child, 3h old, set 1m ago] "hi\n"`,
		`│   └── b  [0 B, 3d old] ""`,
		`├── lock-0000000007  [2 B, 0s old, ephemeral 0x1a sequential] 0xff01`,
		`├── z  [2.0 KiB, 1 child, 1m old] "` + strings.Repeat("x", 60) + `"…`,
		`│   └── y  [0 B, 1m old] null`,
		`└── zz  [can't be read]`,
		`6 nodes, 1 of them ephemeral, 2.0 KiB of data`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// server answers four-letter words, as answers has them.
func server(t *testing.T, answers map[string]string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			word := make([]byte, 4)
			io.ReadFull(conn, word)
			io.WriteString(conn, answers[string(word)])
			conn.Close()
		}
	}()
	return l.Addr().String()
}

func srvr(mode string, zxid uint64) string {
	return fmt.Sprintf("Zookeeper version: 3.9.5-abc, built on 2026-01-01 00:00 UTC\nLatency min/avg/max: 0/1.25/22\nReceived: 472\nSent: 519\n"+
		"Connections: 3\nOutstanding: 1\nZxid: %#x\nMode: %s\nNode count: 68\n", zxid, mode)
}

func TestEnsembleTable(t *testing.T) {
	const refused = "mntr is not executed because it is not in the whitelist.\n"
	servers := []string{
		server(t, map[string]string{"srvr": srvr("follower", 0x100000005), "mntr": "zk_version\t3.9.5\nzk_watch_count\t7\nzk_global_sessions\t2\n"}),
		server(t, map[string]string{"srvr": srvr("leader", 0x100000009), "mntr": refused}),
		server(t, map[string]string{"srvr": "This ZooKeeper instance is not currently serving requests\n"}),
		server(t, nil),
	}
	var out, errs strings.Builder
	a := New(Streams{Out: &out, Err: &errs, Getenv: func(string) string { return "" }})
	code := a.Run(t.Context(), []string{"-server", strings.Join(servers, ","), "ensemble"})
	rename := func(s string) string {
		for i, addr := range servers {
			s = strings.ReplaceAll(s, addr, fmt.Sprintf("server%d", i))
		}
		var lines []string
		for line := range strings.Lines(s) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return strings.Join(lines, "\n")
	}
	const want = `SERVER MODE VERSION ZXID LAG LATENCY CONNS SESSIONS WATCHES NODES OUTSTANDING
server0 follower 3.9.5 0x100000005 4 0/1.25/22 3 2 7 68 1
server1 leader 3.9.5 0x100000009 0 0/1.25/22 3 ? ? 68 1
server2 no quorum - - - - - - - - -
server3 unreachable - - - - - - - - -`
	if got := rename(out.String()); got != want || code != exitConnection {
		t.Errorf("exit %d, got\n%s\nwant\n%s", code, got, want)
	}
	const notes = `server1: mntr is not in the server's 4lw.commands.whitelist
server2: not serving: no quorum
server3: srvr: no answer (is this a port with TLS? then use --tls-ca)`
	if got := rename(errs.String()); got != notes {
		t.Errorf("got\n%s\nwant\n%s", got, notes)
	}
}

func TestBusyConnections(t *testing.T) {
	before := []servers.Conn{
		{Client: "127.0.0.1:42318", Session: "0x1", Received: 6, Sent: 6, LastOp: "EXIS"},
		{Client: "127.0.0.1:4", Received: 1},
	}
	after := []servers.Conn{
		{Client: "127.0.0.1:42318", Session: "0x1", Queued: 2, Received: 26, Sent: 16, LastOp: "SETD"},
		{Client: "[::1]:5", Session: "0x2", Received: 4, Sent: 4, LastOp: "PING"},
		{Client: "[::1]:6", Received: 1},
	}
	got := busy(servers.View{Server: "s", Conns: after}, servers.View{Conns: before}, 2)
	want := []topConn{
		{Server: "s", Client: "127.0.0.1:42318", Session: "0x1", Requests: 10, Replies: 5, Queued: 2, LastOp: "SETD"},
		{Server: "s", Client: "[::1]:5", Session: "0x2", Requests: 2, Replies: 2, LastOp: "PING"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestTopClients sums up clients, also one whose connection ended between two frames: then
// the server counts it for its address.
func TestTopClients(t *testing.T) {
	before := []servers.Use{
		{Address: "10.0.0.1", Port: 1, Session: "0x1", Identity: "digest:ann", Requests: 100, Bytes: 1000, Watches: 1},
		{Address: "10.0.0.1", Port: 2, Session: "0x2", Requests: 500, Bytes: 5000},
		{Address: "10.0.0.1", Session: "0x0", Requests: 40, Bytes: 400},
	}
	after := []servers.Use{
		{Address: "10.0.0.1", Port: 1, Session: "0x1", Identity: "digest:ann", Requests: 120, Bytes: 1200, Watches: 7},
		{Address: "10.0.0.1", Session: "0x0", Requests: 544, Bytes: 5440}, // with 0x2, which did 4 more
		{Address: "10.0.0.9", Port: 3, Session: "0x3", Identity: "digest:bob", Requests: 10, Bytes: 9000},
	}
	for _, x := range []struct {
		by, order string
		want      []topClient
	}{
		{"address", "requests", []topClient{{"10.0.0.1", 12, 120, 7}, {"10.0.0.9", 5, 4500, 0}}},
		{"identity", "bytes", []topClient{{"digest:bob", 5, 4500, 0}, {"digest:ann", 10, 100, 7}, {"", 2, 20, 0}}},
		{"session", "watches", []topClient{{"0x1", 10, 100, 7}, {"0x3", 5, 4500, 0}}},
	} {
		v := top{by: x.by, order: x.order, lines: 10, before: []servers.View{{Uses: before}}}
		if got := v.clients([]servers.View{{Uses: after}}, 2); !slices.Equal(got, x.want) {
			t.Errorf("by %s: got %v, want %v", x.by, got, x.want)
		}
	}
}

func TestPrefix(t *testing.T) {
	for _, x := range []struct {
		path  string
		depth int
		want  string
	}{{"/a/b/c", 2, "/a/b"}, {"/a/b", 2, "/a/b"}, {"/a", 2, "/a"}, {"/", 2, "/"}, {"/a/b", 1, "/a"}} {
		if got := prefix(x.path, x.depth); got != x.want {
			t.Errorf("prefix(%q, %d) = %q, want %q", x.path, x.depth, got, x.want)
		}
	}
}

// However long the grace is that was asked for, SIGKILL comes before the session
// may end.
func TestMargins(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 4 * time.Second, 30 * time.Second, time.Hour} {
		for _, asked := range []time.Duration{0, time.Second, 3 * time.Second, time.Hour} {
			grace, reserve := margins(timeout, asked)
			if grace > asked || grace+reserve > timeout/3 || reserve <= 0 {
				t.Errorf("timeout %v, grace %v: %v and %v", timeout, asked, grace, reserve)
			}
		}
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 5 << 40: "5.0 TiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %q, want %q", n, got, want)
		}
	}
	for in, want := range map[string]int64{"0": 0, "10": 10, "3c": 3, "10k": 10240, "1M": 1 << 20} {
		if got, err := parseBytes(in); got != want || err != nil {
			t.Errorf("parseBytes(%q) = %d, %v", in, got, err)
		}
	}
	for in, want := range map[string]time.Duration{"1": 24 * time.Hour, "0.5": 12 * time.Hour, "7d": 168 * time.Hour, "90s": 90 * time.Second, "2h": 2 * time.Hour} {
		if got, err := parseAge(in); got != want || err != nil {
			t.Errorf("parseAge(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "x", "-1", "1x", "k"} {
		if _, err := parseBytes(in); err == nil {
			t.Errorf("parseBytes(%q): taken", in)
		}
	}
}

func TestMeter(t *testing.T) {
	if got, want := bar(subtree.Progress{Doing: "deleting", Done: 50, Total: 200}), "deleting [#######.......................] 50 of 200 nodes, 25%"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := bar(subtree.Progress{Doing: "listing", Done: 7}), "listing: 7 nodes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var b strings.Builder
	m := meter{w: &b, columns: 80}
	m.show(subtree.Progress{Doing: "a", Done: 1, Total: 10})
	m.show(subtree.Progress{Doing: "a", Done: 2, Total: 10}) // too soon
	m.show(subtree.Progress{Doing: "a", Done: 10, Total: 10})
	m.clear()
	if n := strings.Count(b.String(), "nodes"); n != 2 || !strings.HasSuffix(b.String(), " \r") {
		t.Errorf("drawn %d times: %q", n, b.String())
	}
}
