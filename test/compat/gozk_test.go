//go:build compat

package compat

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/internal/ask"
)

const eventDeadline = time.Minute

// TestGoZookeeper uses the target through github.com/go-zookeeper/zk.
func TestGoZookeeper(t *testing.T) {
	goSuite(t, start(t, target(t), config{}).addr)
}

// goSuite runs the checks on the servers of a connect string.
func goSuite(t *testing.T, hosts string) {
	t.Helper()
	s := &server{addr: hosts}
	passed, failed := 0, 0
	for _, sub := range []struct {
		name string
		run  func(*testing.T, *server)
	}{
		{"nodes", goNodes}, {"acl", goACL}, {"multi", goMulti}, {"watches", goWatches}, {"locks", goLocks},
		{"reconnect", goReconnect}, {"session end", goSessionEnd}, {"words", goWords}, {"many", goMany},
	} {
		if t.Run(sub.name, func(t *testing.T) { sub.run(t, s) }) {
			passed++
		} else {
			failed++
		}
	}
	summary(t, t.Name(), passed, failed)
}

func goConnect(t *testing.T, s *server) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	conn, events, err := zk.Connect(strings.Split(s.addr, ","), 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(conn.Close)
	waitState(t, events, zk.StateHasSession)
	return conn, events
}

// goSync waits until a client's server has what was written through other ones.
func goSync(t *testing.T, conn *zk.Conn) {
	t.Helper()
	_, err := conn.Sync("/")
	ok(t, "sync", err)
}

func waitState(t *testing.T, events <-chan zk.Event, want zk.State) {
	t.Helper()
	deadline := time.After(eventDeadline)
	for {
		select {
		case e := <-events:
			if e.Type == zk.EventSession && e.State == want {
				return
			}
		case <-deadline:
			t.Fatalf("no session event %v in %v", want, eventDeadline)
		}
	}
}

// ok fails the test when err is not nil.
func ok(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func goNodes(t *testing.T, s *server) {
	conn, _ := goConnect(t, s)
	all := zk.WorldACL(zk.PermAll)
	_, err := conn.Create("/go", []byte("data"), 0, all)
	ok(t, "create", err)
	_, err = conn.Create("/go", nil, 0, all)
	wantErr(t, "create again", err, zk.ErrNodeExists)
	_, err = conn.Create("/none/x", nil, 0, all)
	wantErr(t, "create without parent", err, zk.ErrNoNode)
	data, stat, err := conn.Get("/go")
	ok(t, "get", err)
	if string(data) != "data" || stat.DataLength != 4 || stat.Version != 0 || stat.Czxid != stat.Mzxid {
		t.Errorf("get: %q %+v", data, stat)
	}
	stat, err = conn.Set("/go", []byte("new"), 0)
	ok(t, "set", err)
	if stat.Version != 1 {
		t.Errorf("set: version %d, want 1", stat.Version)
	}
	_, err = conn.Set("/go", nil, 0)
	wantErr(t, "set of an old version", err, zk.ErrBadVersion)
	for i := range 3 {
		path, err := conn.Create("/go/s-", nil, zk.FlagSequence, all)
		ok(t, "create sequential", err)
		if want := fmt.Sprintf("/go/s-%010d", i); path != want {
			t.Errorf("sequential: %s, want %s", path, want)
		}
	}
	_, err = conn.CreateContainer("/go/box", nil, zk.FlagContainer, all)
	ok(t, "create container", err)
	_, err = conn.CreateTTL("/go/ttl", nil, zk.FlagTTL, all, time.Hour)
	ok(t, "create ttl", err)
	_, err = conn.CreateProtectedEphemeralSequential("/go/p-", nil, all)
	ok(t, "create protected", err)
	_, err = conn.Create("/go/e", nil, zk.FlagEphemeral, all)
	ok(t, "create ephemeral", err)
	_, err = conn.Create("/go/e/x", nil, 0, all)
	wantErr(t, "child of an ephemeral", err, zk.ErrNoChildrenForEphemerals)
	_, stat, err = conn.Exists("/go/e")
	ok(t, "exists", err)
	if stat.EphemeralOwner != conn.SessionID() {
		t.Errorf("owner %x, want %x", stat.EphemeralOwner, conn.SessionID())
	}
	children, stat, err := conn.Children("/go")
	ok(t, "children", err)
	if len(children) != 7 || stat.NumChildren != 7 || stat.Cversion != 7 {
		t.Errorf("children %q, %+v", children, stat)
	}
	wantErr(t, "delete with children", conn.Delete("/go", -1), zk.ErrNotEmpty)
	wantErr(t, "delete of nothing", conn.Delete("/go/none", -1), zk.ErrNoNode)
	ok(t, "delete", conn.Delete("/go/e", 0))
	there, _, err := conn.Exists("/go/e")
	if there || err != nil {
		t.Errorf("exists of a deleted node: %v, %v", there, err)
	}
	path, err := conn.Sync("/go")
	if path != "/go" || err != nil {
		t.Errorf("sync: %q, %v", path, err)
	}
	large := bytes.Repeat([]byte("x"), 1000*1000)
	_, err = conn.Set("/go", large, -1)
	ok(t, "set 1 MB", err)
	data, _, err = conn.Get("/go")
	if err != nil || !bytes.Equal(data, large) {
		t.Errorf("get 1 MB: %d bytes, %v", len(data), err)
	}
}

func goACL(t *testing.T, s *server) {
	owner, _ := goConnect(t, s)
	other, _ := goConnect(t, s)
	ok(t, "auth", owner.AddAuth("digest", []byte("bob:pw")))
	mine := zk.DigestACL(zk.PermAll, "bob", "pw")
	_, err := owner.Create("/goacl", []byte("x"), 0, mine)
	ok(t, "create", err)
	goSync(t, other)
	_, _, err = other.Get("/goacl")
	wantErr(t, "get by a stranger", err, zk.ErrNoAuth)
	acl, stat, err := owner.GetACL("/goacl")
	if err != nil || len(acl) != 1 || acl[0] != mine[0] || stat.Aversion != 0 {
		t.Errorf("getACL: %+v %+v %v", acl, stat, err)
	}
	stat, err = owner.SetACL("/goacl", zk.WorldACL(zk.PermRead), 0)
	if err != nil || stat.Aversion != 1 {
		t.Errorf("setACL: %+v %v", stat, err)
	}
	goSync(t, other)
	_, _, err = other.Get("/goacl")
	ok(t, "get after setACL", err)
	goSync(t, other)
	_, err = other.Set("/goacl", nil, -1)
	wantErr(t, "set by a stranger", err, zk.ErrNoAuth)
	_, err = other.Create("/badacl", nil, 0, []zk.ACL{{Perms: 31, Scheme: "nobody", ID: "x"}})
	wantErr(t, "unknown scheme", err, zk.ErrInvalidACL)
	wantErr(t, "auth with an unknown scheme", other.AddAuth("nobody", nil), zk.ErrAuthFailed)
}

func goMulti(t *testing.T, s *server) {
	conn, _ := goConnect(t, s)
	all := zk.WorldACL(zk.PermAll)
	res, err := conn.Multi(
		&zk.CreateRequest{Path: "/gomulti", Data: []byte("1"), Acl: all},
		&zk.CreateRequest{Path: "/gomulti/s-", Acl: all, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: "/gomulti", Data: []byte("2"), Version: 0},
		&zk.CheckVersionRequest{Path: "/gomulti", Version: 1},
		&zk.DeleteRequest{Path: "/gomulti/s-0000000000", Version: -1})
	ok(t, "multi", err)
	if len(res) != 5 || res[1].String != "/gomulti/s-0000000000" || res[2].Stat.Version != 1 {
		t.Errorf("multi: %+v", res)
	}
	res, err = conn.Multi(&zk.CreateRequest{Path: "/gomulti/a", Acl: all}, &zk.DeleteRequest{Path: "/none", Version: -1}, &zk.SetDataRequest{Path: "/gomulti"})
	wantErr(t, "failed multi", err, zk.ErrNoNode)
	if len(res) != 3 || !errors.Is(res[1].Error, zk.ErrNoNode) {
		t.Errorf("failed multi: %+v", res)
	}
	there, _, err := conn.Exists("/gomulti/a")
	if there || err != nil {
		t.Errorf("a failed multi left a node: %v, %v", there, err)
	}
}

func wantEvent(t *testing.T, ch <-chan zk.Event, typ zk.EventType, path string) {
	t.Helper()
	select {
	case e := <-ch:
		if e.Type != typ || e.Path != path || e.Err != nil {
			t.Errorf("event %+v, want %v on %s", e, typ, path)
		}
	case <-time.After(eventDeadline):
		t.Errorf("no event, want %v on %s", typ, path)
	}
}

func goWatches(t *testing.T, s *server) {
	watcher, _ := goConnect(t, s)
	actor, _ := goConnect(t, s)
	all := zk.WorldACL(zk.PermAll)
	_, _, created, err := watcher.ExistsW("/gow")
	ok(t, "existsW", err)
	_, err = actor.Create("/gow", nil, 0, all)
	ok(t, "create", err)
	wantEvent(t, created, zk.EventNodeCreated, "/gow")
	_, _, changed, err := watcher.GetW("/gow")
	ok(t, "getW", err)
	_, _, kids, err := watcher.ChildrenW("/gow")
	ok(t, "childrenW", err)
	_, err = actor.Set("/gow", []byte("x"), -1)
	ok(t, "set", err)
	_, err = actor.Create("/gow/x", nil, 0, all)
	ok(t, "create child", err)
	wantEvent(t, changed, zk.EventNodeDataChanged, "/gow")
	wantEvent(t, kids, zk.EventNodeChildrenChanged, "/gow")
	_, _, deleted, err := watcher.ExistsW("/gow/x")
	ok(t, "existsW", err)
	ok(t, "delete", actor.Delete("/gow/x", -1))
	wantEvent(t, deleted, zk.EventNodeDeleted, "/gow/x")
}

func goLocks(t *testing.T, s *server) {
	const workers, rounds = 4, 10
	var wg sync.WaitGroup
	held, most, entries := 0, 0, 0
	var mu sync.Mutex
	for range workers {
		conn, _ := goConnect(t, s)
		wg.Go(func() {
			for range rounds {
				lock := zk.NewLock(conn, "/golock", zk.WorldACL(zk.PermAll))
				if err := lock.Lock(); err != nil {
					t.Errorf("lock: %v", err)
					return
				}
				mu.Lock()
				held++
				entries++
				most = max(most, held)
				mu.Unlock()
				mu.Lock()
				held--
				mu.Unlock()
				if err := lock.Unlock(); err != nil {
					t.Errorf("unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if most != 1 || entries != workers*rounds {
		t.Errorf("%d holders at once, %d entries; want 1 and %d", most, entries, workers*rounds)
	}
}

// goReconnect cuts the connection under the client: session, ephemerals and
// watches must survive.
func goReconnect(t *testing.T, s *server) {
	var mu sync.Mutex
	var last net.Conn
	dialer := func(network, address string, timeout time.Duration) (net.Conn, error) {
		c, err := net.DialTimeout(network, address, timeout)
		mu.Lock()
		defer mu.Unlock()
		last = c
		return c, err
	}
	conn, events, err := zk.Connect(strings.Split(s.addr, ","), 10*time.Second, zk.WithDialer(dialer), zk.WithLogInfo(false))
	ok(t, "connect", err)
	defer conn.Close()
	waitState(t, events, zk.StateHasSession)
	id := conn.SessionID()
	actor, _ := goConnect(t, s)
	_, err = conn.Create("/gor", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	ok(t, "create", err)
	_, _, changed, err := conn.GetW("/gor")
	ok(t, "getW", err)
	mu.Lock()
	last.Close()
	mu.Unlock()
	waitState(t, events, zk.StateDisconnected)
	waitState(t, events, zk.StateHasSession)
	if conn.SessionID() != id {
		t.Errorf("session %x after reconnecting, was %x", conn.SessionID(), id)
	}
	_, err = actor.Set("/gor", []byte("x"), -1)
	ok(t, "set", err)
	wantEvent(t, changed, zk.EventNodeDataChanged, "/gor")
}

func goSessionEnd(t *testing.T, s *server) {
	watcher, _ := goConnect(t, s)
	conn, _, err := zk.Connect(strings.Split(s.addr, ","), 10*time.Second, zk.WithLogInfo(false))
	ok(t, "connect", err)
	_, err = conn.Create("/goe", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	ok(t, "create", err)
	goSync(t, watcher)
	_, _, gone, err := watcher.ExistsW("/goe")
	ok(t, "existsW", err)
	conn.Close()
	wantEvent(t, gone, zk.EventNodeDeleted, "/goe")
}

// srvrForm is what go-zookeeper's FLWSrvr looks for, with the form of the date
// that servers since 3.5 print and its pattern does not know.
var srvrForm = regexp.MustCompile(`(?m:\AZookeeper version: ([A-Za-z0-9.\-${}]+), built on (\d\d/\d\d/\d{4}|\d{4}-\d\d-\d\d) \d\d:\d\d [A-Za-z0-9:+\-]+.*\n` +
	`^Latency min/avg/max: \d+/[0-9.]+/\d+.*\n^Received: \d+.*\n^Sent: \d+.*\n^Connections: \d+.*\n^Outstanding: \d+.*\n^Zxid: 0x[A-Za-z0-9]+.*\n^Mode: \w+.*\n^Node count: \d+)`)

func goWords(t *testing.T, s *server) {
	if strings.Contains(s.addr, ",") {
		return // which server would answer?
	}
	conn, _ := goConnect(t, s)
	_, _, err := conn.Exists("/")
	ok(t, "exists", err)
	servers := []string{s.addr}
	if got := zk.FLWRuok(servers, 5*time.Second); !slices.Equal(got, []bool{true}) {
		t.Errorf("ruok: %v", got)
	}
	// FLWCons calls any answer bad, because the line of its own connection has no
	// session; it returns the other lines all the same.
	clients, _ := zk.FLWCons(servers, 5*time.Second)
	if len(clients) != 1 || clients[0].Error != nil {
		t.Fatalf("cons: %+v", clients)
	}
	if !slices.ContainsFunc(clients[0].Clients, func(c *zk.ServerClient) bool { return c.SessionID == conn.SessionID() && c.Timeout == 10000 }) {
		t.Errorf("cons lacks session %x: %+v", conn.SessionID(), clients[0].Clients)
	}
	text, err := ask.Within(wordTimeout, s.addr, "srvr")
	if err != nil || !srvrForm.MatchString(text) {
		t.Errorf("srvr: %v %q", err, text)
	}
	stats, fine := zk.FLWSrvr(servers, 5*time.Second)
	t.Logf("FLWSrvr of go-zookeeper 1.0.4 parses the answer: %v (it wants a date as 12/31/2024)", fine && stats[0].Error == nil)
	if fine && (stats[0].Mode == zk.ModeUnknown || !strings.HasPrefix(stats[0].Version, "3.")) {
		t.Errorf("srvr: %+v", stats[0])
	}
}

// goMany pipelines through the library: many goroutines on one connection.
func goMany(t *testing.T, s *server) {
	const workers, each = 20, 50
	conn, _ := goConnect(t, s)
	_, err := conn.Create("/gomany", nil, 0, zk.WorldACL(zk.PermAll))
	ok(t, "create", err)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for j := range each {
				path, want := fmt.Sprintf("/gomany/%d-%d", i, j), fmt.Appendf(nil, "%d", j)
				if _, err := conn.Create(path, want, 0, zk.WorldACL(zk.PermAll)); err != nil {
					t.Errorf("create %s: %v", path, err)
					return
				}
				if got, _, err := conn.Get(path); err != nil || !bytes.Equal(got, want) {
					t.Errorf("get %s: %q, %v", path, got, err)
				}
			}
		})
	}
	wg.Wait()
	children, _, err := conn.Children("/gomany")
	if err != nil || len(children) != workers*each {
		t.Errorf("%d children, want %d; %v", len(children), workers*each, err)
	}
}
