package zk

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// TestEvents has the events of a session from its beginning to its end.
func TestEvents(t *testing.T) {
	p := zktest.Start(t)
	var got []Event // of the callbacks' goroutine, until the channel is closed
	c, events, err := Connect([]string{p.Addr()}, time.Minute, WithLogger(testLog{t}), WithEventCallback(func(ev Event) { got = append(got, ev) }))
	must(t, err)
	var states []State
	for ev := range events {
		states = append(states, ev.State)
		if ev.State == StateHasSession {
			break
		}
	}
	if want := []State{StateConnecting, StateConnected, StateHasSession}; !slices.Equal(states, want) {
		t.Errorf("states %v, want %v", states, want)
	}
	if s := c.State(); s != StateHasSession || c.SessionID() == 0 || c.Server() != p.Addr() {
		t.Errorf("state %v, session %x, server %q; want one at %s", s, c.SessionID(), c.Server(), p.Addr())
	}
	_, _, watch, err := c.ChildrenW("/")
	must(t, err)
	_, err = c.Create("/a", nil, FlagPersistent, WorldACL(PermAll))
	must(t, err)
	if len(watch) != 1 { // the answer of the create has come after it
		t.Error("the event of a watch came after the answer that shows the change")
	}
	_, _, rest, err := c.GetW("/a")
	must(t, err)
	c.Close()
	c.Close()
	for range events { // until it is closed
	}
	want := `EventSession StateConnecting "" <nil>
EventSession StateConnected "" <nil>
EventSession StateHasSession "" <nil>
EventNodeChildrenChanged StateSyncConnected "/" <nil>
EventSession StateDisconnected "" <nil>
EventNotWatching StateDisconnected "/a" zk: zookeeper is closing
`
	if list(got) != want {
		t.Errorf("events:\n%swant:\n%s", list(got), want)
	}
	if ev := next(t, watch); ev.Type != EventNodeChildrenChanged || ev.Path != "/" || ev.Err != nil {
		t.Errorf("the watch got %v", ev)
	}
	if ev := next(t, rest); ev.Type != EventNotWatching || ev.Err != ErrClosing {
		t.Errorf("the watch of a closed session got %v", ev)
	}
	if _, _, err := c.Get("/"); err != ErrConnectionClosed {
		t.Errorf("get after Close: %v", err)
	}
	if s := c.State(); s != StateDisconnected {
		t.Errorf("state after Close: %v", s)
	}
}

// TestLostAnswer breaks connections under writes whose answers are lost: each is done once, and
// reported as it was done.
func TestLostAnswer(t *testing.T) {
	p := zktest.Start(t)
	c, await := connect(t, p.Proxy)
	id := c.SessionID()

	cut := p.CutAfter(zktest.Op(jute.OpCreate))
	made, err := c.Create("/n-", []byte("x"), FlagSequence, WorldACL(PermAll))
	<-cut.Done()
	if err != nil || made != "/n-0000000000" {
		t.Errorf("create = %q, %v", made, err)
	}
	await(StateDisconnected)
	if ev := await(StateHasSession); ev.Server != p.Addr() || c.SessionID() != id {
		t.Errorf("connected to %s with session %x, want %x", ev.Server, c.SessionID(), id)
	}

	cut = p.CutAfter(zktest.Op(jute.OpSetData))
	stat, err := c.Set(made, []byte("y"), 0)
	<-cut.Done()
	if err != nil || stat.Version != 1 {
		t.Errorf("set = %+v, %v", stat, err)
	}
	cut = p.CutAfter(zktest.Op(jute.OpDelete))
	err = c.Delete("/none", -1) // an answer that is an error
	<-cut.Done()
	if err != ErrNoNode {
		t.Errorf("delete = %v", err)
	}
	names, stat, err := c.Children("/")
	slices.Sort(names)
	if err != nil || strings.Join(names, " ") != "n-0000000000 zookeeper" || int(stat.NumChildren) != len(names) {
		t.Errorf("children = %q, %v, %v", names, stat, err)
	}
}

// TestPlainSession is what programs get where servers have no exactly-once sessions.
func TestPlainSession(t *testing.T) {
	p := zktest.Start(t)
	c, await := connect(t, p.Proxy, WithOptions(zktest.Plain))
	cut := p.CutAfter(zktest.Op(jute.OpSetData))
	_, err := c.Set("/", []byte("x"), -1)
	<-cut.Done()
	if err != ErrConnectionClosed {
		t.Errorf("set = %v", err)
	}
	await(StateHasSession)

	cut = p.CutAfter(zktest.Op(jute.OpCreate))
	made, err := c.CreateProtectedEphemeralSequential("/n-", nil, WorldACL(PermAll))
	<-cut.Done()
	names, _, e := c.Children("/")
	if err != nil || e != nil || len(names) != 2 || !slices.Contains(names, strings.TrimPrefix(made, "/")) {
		t.Errorf("create = %q, %v; children are %q, %v", made, err, names, e)
	}
}

// TestWatchesOutliveConnections changes nodes while a client has no connection.
func TestWatchesOutliveConnections(t *testing.T) {
	p := zktest.Start(t)
	other := p.Client(t)
	c, await := connect(t, p.Proxy)
	_, err := c.Create("/a", nil, FlagEphemeral, WorldACL(PermAll))
	must(t, err)
	_, _, data, err := c.GetW("/a")
	must(t, err)
	_, _, same, err := c.GetW("/a")
	must(t, err)
	_, _, children, err := c.ChildrenW("/")
	must(t, err)
	exists, stat, created, err := c.ExistsW("/b")
	if must(t, err); exists || stat == nil {
		t.Errorf("exists = %v, %v", exists, stat)
	}
	_, _, kept, err := c.ExistsW("/c")
	must(t, err)

	p.Refuse()
	p.CutSession(client.SessionID(c.SessionID()))
	await(StateDisconnected)
	ctx := within(t)
	_, err = other.Set(ctx, "/a", []byte("x"), 0)
	must(t, err)
	_, err = other.Create(ctx, "/b", nil, client.CreateOptions{})
	must(t, err)
	if s := c.State(); len(data)+len(same)+len(children)+len(created) != 0 || s == StateHasSession {
		t.Errorf("events without a connection, in state %v", s)
	}
	p.Accept()
	await(StateHasSession)
	for _, w := range []struct {
		watch <-chan Event
		want  EventType
		path  string
	}{{data, EventNodeDataChanged, "/a"}, {same, EventNodeDataChanged, "/a"}, {children, EventNodeChildrenChanged, "/"}, {created, EventNodeCreated, "/b"}} {
		if ev := next(t, w.watch); ev.Type != w.want || ev.Path != w.path || ev.Err != nil {
			t.Errorf("got %v, want %v of %s", ev, w.want, w.path)
		}
	}
	_, err = c.Create("/c", nil, FlagContainer, WorldACL(PermAll))
	must(t, err)
	if ev := next(t, kept); ev.Type != EventNodeCreated {
		t.Errorf("a watch that was set before the connection was lost got %v", ev)
	}
}

// TestExpiry ends a session: watches are told, and a new session follows.
func TestExpiry(t *testing.T) {
	p := zktest.Start(t)
	c, await := connect(t, p.Proxy)
	id := c.SessionID()
	_, err := c.Create("/e", nil, FlagEphemeral, WorldACL(PermAll))
	must(t, err)
	_, _, watch, err := c.GetW("/")
	must(t, err)
	must(t, c.AddAuth("digest", []byte("user:password")))
	_, err = c.Create("/secret", nil, FlagPersistent, AuthACL(PermAll))
	must(t, err)

	p.ExpireSession(client.SessionID(id))
	await(StateDisconnected)
	await(StateConnecting)
	await(StateConnected)
	await(StateExpired)
	await(StateDisconnected)
	await(StateHasSession)
	if ev := next(t, watch); ev.Type != EventNotWatching || ev.Err != ErrSessionExpired || ev.Path != "/" {
		t.Errorf("the watch got %v", ev)
	}
	if c.SessionID() == id || c.SessionID() == 0 {
		t.Errorf("session %x after %x", c.SessionID(), id)
	}
	if exists, _, err := c.Exists("/e"); exists || err != nil {
		t.Errorf("the ephemeral node of the old session: %v, %v", exists, err)
	}
	if _, _, err := c.Get("/secret"); err != nil {
		t.Errorf("the new session lacks the identities of the old one: %v", err)
	}
}

// TestRoot has a path in the connect string, a dialer, and the client below.
func TestRoot(t *testing.T) {
	p := zktest.Start(t)
	_, err := p.Client(t).Create(within(t), "/app", nil, client.CreateOptions{})
	must(t, err)
	var dialed atomic.Int32
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		dialed.Add(1)
		return net.DialTimeout(network, address, timeout)
	}
	c, events, err := ConnectWithDialer([]string{p.Addr() + "/app"}, time.Minute, dial)
	must(t, err)
	c.SetLogger(testLog{t})
	made, err := c.Create("/x", []byte{}, FlagPersistent, WorldACL(PermAll))
	if must(t, err); made != "/x" {
		t.Errorf("created %q", made)
	}
	if exists, err := c.Client().Unrooted().Exists(within(t), "/app/x"); err != nil || !exists.Exists {
		t.Errorf("there is no /app/x: %v", err)
	}
	if dialed.Load() == 0 {
		t.Error("the dialer was not called")
	}
	c.Close()
	for range events {
	}
}

// hosts is a HostProvider that first returns a server that does not exist.
type hosts struct {
	good      string
	given     []string
	next      int
	connected atomic.Int32
}

func (h *hosts) Init(servers []string) error { h.given = servers; return nil }
func (h *hosts) Len() int                    { return 2 }
func (h *hosts) Connected()                  { h.connected.Add(1) }
func (h *hosts) Next() (string, bool) {
	h.next++
	return []string{h.good, "127.0.0.1:1"}[h.next%2], false
}

func TestHostProvider(t *testing.T) {
	p := zktest.Start(t)
	h := &hosts{good: p.Addr()}
	c, events, err := Connect([]string{"nowhere.invalid", "elsewhere.invalid:1234"}, time.Minute, WithHostProvider(h), WithLogger(testLog{t}))
	must(t, err)
	_, _, err = c.Get("/")
	must(t, err)
	if got := strings.Join(h.given, " "); got != "nowhere.invalid:2181 elsewhere.invalid:1234" || c.Server() != p.Addr() || h.connected.Load() != 1 {
		t.Errorf("Init(%s), connected %d times, to %s", got, h.connected.Load(), c.Server())
	}
	c.Close()
	for range events {
	}
	c, events, err = Connect([]string{p.Addr()}, time.Minute, WithHostProvider(&DNSHostProvider{}), WithLogger(testLog{t}))
	must(t, err)
	_, _, err = c.Get("/")
	must(t, err)
	c.Close()
	for range events {
	}
	broken := NewDNSHostProvider(WithLookupTimeout(time.Nanosecond))
	if _, _, err := Connect([]string{"nowhere.invalid"}, time.Minute, WithHostProvider(broken)); err == nil {
		t.Error("a HostProvider whose Init fails")
	}
	if _, _, err := Connect(nil, time.Minute); err == nil {
		t.Error("no servers")
	}
	if _, _, err := Connect([]string{"a:b:c"}, time.Minute); err == nil {
		t.Error("an address that is none")
	}
}

// TestOperations has the results and errors of operations that the other tests don't.
func TestOperations(t *testing.T) {
	p := zktest.Start(t, zktest.Config("extendedTypesEnabled=true"))
	c, _ := connect(t, p.Proxy)
	open := WorldACL(PermAll)
	_, err := c.Create("/a", []byte("1"), FlagPersistent, open)
	must(t, err)
	data, stat, err := c.Get("/a")
	if must(t, err); string(data) != "1" || stat.Czxid == 0 || stat.Czxid != stat.Mzxid || stat.DataLength != 1 || stat.Ctime == 0 {
		t.Errorf("get = %q, %+v", data, stat)
	}
	names, _, err := c.Children("/a")
	if err != nil || names == nil || len(names) != 0 {
		t.Errorf("children of a leaf: %#v, %v", names, err)
	}
	private := DigestACL(PermRead|PermAdmin, "user", "password")
	stat, err = c.SetACL("/a", private, 0)
	if must(t, err); stat.Aversion != 1 {
		t.Errorf("SetACL = %+v", stat)
	}
	if _, _, err := c.Get("/a"); err != ErrNoAuth {
		t.Errorf("get = %v", err)
	}
	must(t, c.AddAuth("digest", []byte("user:password")))
	if acl, stat, err := c.GetACL("/a"); err != nil || stat.Aversion != 1 || !slices.Equal(acl, private) {
		t.Errorf("GetACL = %v, %+v, %v", acl, stat, err)
	}
	if path, err := c.Sync("/"); path != "/" || err != nil {
		t.Errorf("sync = %q, %v", path, err)
	}
	if made, err := c.CreateTTL("/t-", nil, FlagPersistentSequentialWithTTL, open, time.Hour); made != "/t-0000000001" || err != nil {
		t.Errorf("CreateTTL = %q, %v", made, err)
	}
	results, err := c.Multi(&CreateRequest{Path: "/m", Acl: open}, &SetDataRequest{"/m", []byte("x"), 0}, &CheckVersionRequest{"/m", 1}, &DeleteRequest{"/m", 1})
	if err != nil || len(results) != 4 || results[0].String != "/m" || results[1].Stat == nil || results[1].Stat.Version != 1 {
		t.Errorf("multi = %+v, %v", results, err)
	}
	results, err = c.Multi(&CheckVersionRequest{"/", 0}, &DeleteRequest{"/none", -1}, &DeleteRequest{"/a", -1})
	if err != ErrNoNode || len(results) != 3 || results[0].Error != nil || results[1].Error != ErrNoNode || !errors.Is(results[2].Error, client.ErrRuntimeInconsistency) {
		t.Errorf("multi = %+v, %v", results, err)
	}
	for _, e := range []struct {
		what string
		err  error
		want error
	}{
		{"relative", second(c.Create("a", nil, 0, open)), ErrInvalidPath},
		{"ends in a slash", c.Delete("/a/", -1), ErrInvalidPath},
		{"sequential that ends in a slash", second(c.Create("/a/", nil, FlagSequence, open)), ErrNoAuth},
		{"exists", second(c.Create("/a", nil, 0, open)), ErrNodeExists},
		{"no ACL", second(c.Create("/x", nil, 0, nil)), ErrInvalidACL},
		{"time to live", second(c.Create("/x", nil, FlagTTL, open)), ErrInvalidFlags},
		{"container", second(c.CreateContainer("/x", nil, FlagPersistent, open)), ErrInvalidFlags},
		{"version", second(c.Set("/", nil, 7)), ErrBadVersion},
		{"children", c.Delete("/zookeeper", -1), ErrBadArguments},
		{"reconfig", second(c.Reconfig([]string{"server.1=a:1:2;3"}, -1)), ErrReconfigDisabled},
		{"incremental", second(c.IncrementalReconfig(nil, []string{"1"}, -1)), ErrReconfigDisabled},
		{"time to live in a multi", second(c.Multi(&CreateRequest{Path: "/x", Acl: open, Flags: FlagTTL})), ErrInvalidFlags},
	} {
		if !errors.Is(e.err, e.want) {
			t.Errorf("%s: %v, want %v", e.what, e.err, e.want)
		}
	}
	if _, err := c.Multi(&CreateTTLRequest{}); err == nil {
		t.Error("a multi with a CreateTTLRequest")
	}
	if _, err := c.Create("/x", nil, 7, open); err == nil {
		t.Error("flags 7")
	}
}

func second[T any](_ T, err error) error { return err }

// TestWords asks a server of zkd; go-zookeeper's own tests have the forms of older servers.
func TestWords(t *testing.T) {
	p := zktest.Start(t, zktest.Config("4lw.commands.whitelist=*"))
	c, _ := connect(t, p.Proxy)
	servers := []string{p.Addr(), "127.0.0.1:1"}
	if ok := FLWRuok(servers, time.Minute); !ok[0] || ok[1] {
		t.Errorf("ruok = %v", ok)
	}
	stats, ok := FLWSrvr(servers, time.Minute)
	if s := stats[0]; ok || s.Error != nil || s.Mode != ModeStandalone || s.NodeCount == 0 || stats[1].Error == nil {
		t.Errorf("srvr = %+v, %v", *s, stats[1].Error)
	}
	all, ok := FLWCons(servers, time.Minute)
	if ok || all[0].Error != nil || all[1].Error == nil {
		t.Fatalf("cons = %v, %v", all[0].Error, all[1].Error)
	}
	if !slices.ContainsFunc(all[0].Clients, func(s *ServerClient) bool { return s.SessionID == c.SessionID() && s.Timeout == 60000 }) {
		t.Errorf("cons has no session %x", c.SessionID())
	}
	if _, err := connection("garbage"); err == nil {
		t.Error("garbage is no connection")
	}
	if err := new(ServerStats).read("garbage"); err == nil {
		t.Error("garbage is no answer to srvr")
	}
}
