package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/sasl"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// speaking is a server at which an edge logs in, and the files of that edge.
type speaking struct {
	t      *testing.T
	s      *zktest.Server
	socket string
	ids    *Identities

	connections int      // Options.Connections
	cached      []string // Options.Cached
	stale       []string // Options.Stale
}

func newSpeaking(t *testing.T, lines ...string) *speaking {
	t.Helper()
	dir := t.TempDir()
	jaas := filepath.Join(dir, "jaas.conf")
	ok(t, os.WriteFile(jaas, []byte(`Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_edge="secret"; };`), 0o600))
	w := &speaking{t: t, socket: filepath.Join(dir, "s")}
	w.s = zktest.Start(t, zktest.Config(append(lines, "java.security.auth.login.config="+jaas)...))
	w.ids = &Identities{path: filepath.Join(dir, "identities")}
	return w
}

// say replaces the file of identities: that of users who come by the socket, and that of others.
func (w *speaking) say(own, others string) {
	w.t.Helper()
	text := fmt.Sprintf("# of this test\nuser %d %s\ngroup %d sasl:second\nothers %s\n", os.Geteuid(), own, os.Getegid(), others)
	next := w.ids.path + ".new"
	ok(w.t, os.WriteFile(next, []byte(text), 0o600))
	ok(w.t, os.Rename(next, w.ids.path))
}

// start starts an edge for these identities, which also listens on the socket.
func (w *speaking) start(ids *Identities) (e *Edge, address string) {
	w.t.Helper()
	e, address = start(w.t, w.s.ConnectString(), func(o *Options) {
		o.Client.SASL, o.Identities, o.Connections = sasl.DigestMD5("edge", "secret"), ids, w.connections
		o.Cached, o.CachedBytes, o.Stale, o.StaleFor = w.cached, 1<<20, w.stale, patience
	})
	os.Remove(w.socket)
	l, err := net.Listen("unix", w.socket)
	ok(w.t, err)
	e.Serve("", l)
	return e, address
}

// bySocket has a client come by the socket.
func (w *speaking) bySocket(o *client.Options) {
	o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.socket)
	}
}

// who returns the identities that a client has at the server, without its address. One that has lost its connection comes back.
func who(c *client.Client) string {
	ids, err := c.Session().WhoAmI(context.Background())
	for errors.Is(err, client.ErrConnectionLoss) {
		if err = c.WaitConnected(context.Background()); err == nil {
			ids, err = c.Session().WhoAmI(context.Background())
		}
	}
	if err != nil {
		return err.Error()
	}
	var list []string
	for _, id := range ids {
		if id.Scheme != "ip" {
			list = append(list, fmt.Sprint(id))
		}
	}
	return strings.Join(list, " ")
}

var owners = client.CreateOptions{ACL: []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "auth"}}}}

// wrongUsers returns what is wrong with the identities that the clients of an edge have.
func wrongUsers(t *testing.T) (wrong []string) {
	is := func(what, got, want string) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s: %s, want %s", what, got, want))
		}
	}
	w := newSpeaking(t, "zkd.edge.test=sasl:edge sasl:ann sasl:eve sasl:second")
	w.say("sasl:ann", "sasl:eve")
	ids, err := OpenIdentities(w.ids.path)
	ok(t, err)
	e, address := w.start(ids)
	ctx := t.Context()
	ok(t, e.Ready(ctx))
	ann, eve := old(t, address, w.bySocket), old(t, address)
	is("by the socket", who(ann), "{sasl ann}")
	is("by the port", who(eve), "{sasl eve}")
	_, err = ann.Create(ctx, "/ann", nil, owners)
	_, err2 := eve.Create(ctx, "/eve", nil, owners)
	is("create", fmt.Sprint(errors.Join(err, err2)), "<nil>")
	for c, path := range map[*client.Client]string{ann: "/eve", eve: "/ann"} {
		_, err := c.Get(ctx, path)
		is("another's "+path, fmt.Sprint(errors.Is(err, client.ErrNoAuth)), "true")
	}

	cut := w.s.CutBefore(zktest.Op(jute.OpGetData)) // the next connection is for the same user
	_, err = ann.Get(ctx, "/ann")
	is("after a lost connection", fmt.Sprint(err), "<nil>")
	<-cut.Done()
	is("after a lost connection", who(ann), "{sasl ann}")
	ok(t, ann.Session().AddAuth(ctx, "digest", []byte("own:secret")))
	is("with a password of its own", who(ann), "{sasl ann} {digest own}")
	taken := old(t, address, func(o *client.Options) { o.Session = ann.Session().Key() }) // by another user
	is("a session of another user", who(taken), "{sasl eve}")
	if err := eve.Session().AddAuth(ctx, jute.SchemeEdge, []byte("sasl:ann")); !errors.Is(err, client.ErrAuthFailed) {
		wrong = append(wrong, fmt.Sprintf("a client speaks for another user: %v", err))
	}

	ann, eve = old(t, address, w.bySocket), old(t, address)
	since := eve.Status().Since
	w.say("sasl:second", "sasl:eve")
	e.readIdentities()
	is("after a change of the file", who(ann), "{sasl second}")
	is("who has the same as before", fmt.Sprint(eve.Status().Since.Equal(since)), "true")

	w.say("sasl:edge", "nobody")
	e.readIdentities()
	is("for whom the edge may not speak", w.answer("unix", w.socket), "")
	is("nobody", who(old(t, address)), "")
	ok(t, os.WriteFile(w.ids.path, []byte("user ann\n"), 0o600))
	e.readIdentities()
	is("with a file that can't be used", who(old(t, address)), "")

	_, plain := w.start(nil) // whose clients have the edge's own identity, and may not use it to get others
	own := old(t, plain)
	is("without a file", who(own), "{sasl edge}")
	if err := own.Session().AddAuth(ctx, jute.SchemeEdge, []byte("sasl:ann")); !errors.Is(err, client.ErrAuthFailed) {
		wrong = append(wrong, fmt.Sprintf("a client speaks by an edge that does not: %v", err))
	}
	return wrong
}

// answer asks for a session, and returns all that comes until the connection ends.
func (w *speaking) answer(network, address string) string {
	nc, err := net.Dial(network, address)
	ok(w.t, err)
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	nc.Write(hello())
	b := make([]byte, 1)
	n, err := nc.Read(b)
	if err == io.EOF {
		return ""
	}
	return fmt.Sprint(n, err)
}

func TestUsers(t *testing.T) {
	for _, what := range wrongUsers(t) {
		t.Error(what)
	}
}

// TestServersThatRefuse has an edge that wants to speak for its clients, and servers that don't let it: its clients are refused, and have at no time the edge's
// own rights.
func TestServersThatRefuse(t *testing.T) {
	for name, lines := range map[string][]string{
		"no rule":          nil,
		"of another edge":  {"zkd.edge.test=sasl:other sasl:ann sasl:eve"},
		"for others alone": {"zkd.edge.test=sasl:edge sasl:bob"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSpeaking(t, lines...)
			w.say("sasl:ann", "sasl:eve")
			ids, err := OpenIdentities(w.ids.path)
			ok(t, err)
			e, address := w.start(ids)
			if got := w.answer("unix", w.socket) + w.answer("tcp", address); got != "" {
				t.Errorf("clients get %s", got)
			}
			if err := e.Ready(t.Context()); (err == nil) != (name == "for others alone") {
				t.Errorf("ready: %v", err)
			}
			if n, says := e.figures.denied.Load(), say(t, address, "srvr"); n != 2 || !strings.Contains(says, "the servers have refused since the start: 2") || !strings.Contains(says, "does not let this edge speak for sasl:eve") {
				t.Errorf("%d clients were refused: %s", n, says)
			}
		})
	}
}

// wrongHandovers returns what is wrong with the identities of clients that an edge hands over.
func wrongHandovers(t *testing.T) (wrong []string) {
	w := newSpeaking(t, "zkd.edge.test=sasl:edge sasl:ann sasl:eve sasl:second")
	path := filepath.Join(t.TempDir(), "handover")
	edge := func() *Edge {
		ids, err := OpenIdentities(w.ids.path)
		ok(t, err)
		return handing(t, w.s.ConnectString(), path, func(o *Options) { o.Client.SASL, o.Identities = sasl.DigestMD5("edge", "secret"), ids })
	}
	w.say("sasl:ann", "sasl:eve")
	first := edge()
	c := old(t, first.address())
	if got := who(c); got != "{sasl eve}" {
		wrong = append(wrong, got)
	}
	next := func(before *Edge, stays bool, want string) *Edge {
		since := c.Status().Since
		e := edge()
		<-before.Replaced()
		before.Close()
		if got := who(c); got != want {
			wrong = append(wrong, fmt.Sprintf("after a handover: %s, want %s", got, want))
		}
		if same := c.Status().Since.Equal(since); same != stays {
			wrong = append(wrong, fmt.Sprintf("%s has its connection after a handover: %v", want, same))
		}
		return e
	}
	second := next(first, true, "{sasl eve}")
	w.say("sasl:ann", "sasl:second")
	next(second, false, "{sasl second}")
	return wrong
}

func TestHandoverOfUsers(t *testing.T) {
	for _, what := range wrongHandovers(t) {
		t.Error(what)
	}
}

// TestParseIdentities reads files.
func TestParseIdentities(t *testing.T) {
	for _, what := range wrongTables() {
		t.Error(what)
	}
	for text, want := range map[string]string{
		"usr ann sasl:ann":             `line 1: "usr": want user NAME IDENTITY`,
		"\nuser ann":                   `line 2: "" is no identity`,
		"user ann ann":                 `line 1: "ann" is no identity`,
		"user ann sasl:":               `"sasl:" is no identity`,
		"cgroup web sasl:web":          `line 1: "web" is no control group: want its path`,
		"cgroup /a/../b sasl:web":      "is no control group",
		"cgroup / sasl:web":            "is no control group",
		"cgroup  sasl:web":             `"sasl:web" is no control group`,
		"others":                       `"" is no identity`,
		"others nobody\nothers nobody": "line 2: there is a line for others already",
		"user zoe sasl:zoe":            "line 1: no zoe",
	} {
		if _, err := parseIdentities(text, numbers); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := lookUp("user", "no such user"); err == nil {
		t.Error("a user that does not exist has a number")
	}
	if n, err := lookUp("group", "4000000000"); err != nil || n != 4000000000 {
		t.Errorf("%d, %v", n, err)
	}
}

func numbers(kind, name string) (uint32, error) {
	n, ok := map[string]uint32{"user ann": 1, "user eve": 2, "group web": 1, "group dev": 7, "cgroup /a/*b-*c*": 0, "cgroup /web": 0}[kind+" "+name]
	if !ok {
		return 0, errors.New("no " + name)
	}
	return n, nil
}

func wrongTables() (wrong []string) {
	const text = "# the web\nuser ann sasl:ann\n\tgroup  web\tx509:CN=the web servers,O=Acme \n#others sasl:x\ngroup dev nobody\nothers sasl:guest\nuser eve sasl:eve\n" +
		"cgroup /web sasl:web\ncgroup /a/*b-*c* sasl:abc\n"
	t, err := parseIdentities(text, numbers)
	if err != nil {
		return []string{err.Error()}
	}
	for _, tc := range []struct {
		who  caller
		want string
	}{
		{caller{}, "sasl:guest"}, {caller{known: true}, "sasl:guest"}, {caller{user: 1, groups: []uint32{1}}, "sasl:guest"},
		{caller{known: true, user: 1}, "sasl:ann"}, {caller{known: true, user: 1, groups: []uint32{1}}, "sasl:ann"},
		{caller{known: true, user: 3, groups: []uint32{9, 1}}, "x509:CN=the web servers,O=Acme"},
		{caller{known: true, user: 2, groups: []uint32{7, 1}}, "x509:CN=the web servers,O=Acme"},
		{caller{known: true, user: 2, groups: []uint32{7}}, ""}, {caller{known: true, user: 2}, "sasl:eve"}, {caller{known: true, user: 7}, "sasl:guest"},
		{caller{known: true, cgroup: "/web"}, "sasl:web"}, {caller{known: true, cgroup: "/web/1/2"}, "sasl:web"}, {caller{cgroup: "/web"}, "sasl:guest"},
		{caller{known: true, cgroup: "/webs"}, "sasl:guest"}, {caller{known: true, cgroup: "/"}, "sasl:guest"}, {caller{known: true, cgroup: "/x/web"}, "sasl:guest"},
		{caller{known: true, cgroup: "/../web"}, "sasl:guest"}, {caller{known: true, user: 1, cgroup: "/web"}, "sasl:ann"},
		{caller{known: true, cgroup: "/a/b-c"}, "sasl:abc"}, {caller{known: true, cgroup: "/a/1b-2c3/d"}, "sasl:abc"}, {caller{known: true, cgroup: "/a/b-/c"}, "sasl:guest"},
		{caller{known: true, cgroup: "/a/bc"}, "sasl:guest"}, {caller{known: true, cgroup: "/a"}, "sasl:guest"},
	} {
		if got := t.of(tc.who); got != tc.want {
			wrong = append(wrong, fmt.Sprintf("%+v is %q, want %q", tc.who, got, tc.want))
		}
	}
	if t, err := parseIdentities("user ann sasl:ann", numbers); err != nil || t.of(caller{}) != "" {
		wrong = append(wrong, "without a line others are somebody")
	}
	return wrong
}

// TestUsersOfCarriedConnections has the sessions of two users on one connection to the server: each has its own rights.
func TestUsersOfCarriedConnections(t *testing.T) {
	w := newSpeaking(t, "zkd.edge.test=sasl:edge sasl:ann sasl:eve")
	w.connections = 1
	w.say("sasl:ann", "sasl:eve")
	ids, err := OpenIdentities(w.ids.path)
	ok(t, err)
	_, address := w.start(ids)
	ann, eve := old(t, address, w.bySocket), old(t, address)
	for range 2 {
		if a, b := who(ann), who(eve); a != "{sasl ann}" || b != "{sasl eve}" {
			t.Errorf("%s, %s", a, b)
		}
		w.s.CutConnections()
	}
	if n := len(w.s.Requests()); n != 0 {
		t.Errorf("the sessions have connections of their own, which were asked %v", w.s.Requests())
	}
}

// wrongMemories returns what is wrong where clients with several identities read what is cached.
func wrongMemories(t *testing.T) (wrong []string) {
	w := newSpeaking(t, "zkd.edge.test=sasl:edge sasl:ann sasl:eve")
	w.cached = []string{"/ann"}
	w.say("sasl:ann", "sasl:eve")
	ids, err := OpenIdentities(w.ids.path)
	ok(t, err)
	e, address := w.start(ids)
	ctx := t.Context()
	ann, eve := old(t, address, w.bySocket), old(t, address)
	_, err = ann.Create(ctx, "/ann", []byte("secret"), owners)
	ok(t, err)
	remembers(t, e, ann, "/ann")
	for range 50 {
		if n, err := eve.Get(ctx, "/ann"); !errors.Is(err, client.ErrNoAuth) {
			wrong = append(wrong, fmt.Sprintf("another user reads %q, %v", n.Data, err))
			break
		}
	}
	acl := []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "sasl", ID: "eve"}}}
	_, err = ann.SetACL(ctx, "/ann", acl, -1)
	ok(t, err)
	if n, err := ann.Get(ctx, "/ann"); !errors.Is(err, client.ErrNoAuth) {
		wrong = append(wrong, fmt.Sprintf("who has given the node away reads %q, %v", n.Data, err))
	}
	if n, err := eve.Get(ctx, "/ann"); err != nil || string(n.Data) != "secret" {
		wrong = append(wrong, fmt.Sprintf("who has it now reads %q, %v", n.Data, err))
	}
	return wrong
}

// TestMemoriesOfUsers: nobody reads from memory what the servers would not let him read.
func TestMemoriesOfUsers(t *testing.T) {
	for _, what := range wrongMemories(t) {
		t.Error(what)
	}
}

// wrongAwayUsers returns what is wrong with what users are shown when the server has gone.
func wrongAwayUsers(t *testing.T) (wrong []string) {
	w := newSpeaking(t, "zkd.edge.test=sasl:edge sasl:ann sasl:eve")
	w.stale = []string{"/s"}
	w.say("sasl:ann", "sasl:eve")
	ids, err := OpenIdentities(w.ids.path)
	ok(t, err)
	e, address := w.start(ids)
	ctx := t.Context()
	ann, eve := old(t, address, w.bySocket), old(t, address)
	_, err = ann.Create(ctx, "/s", nil, client.CreateOptions{})
	ok(t, err)
	for _, id := range []string{"ann", "eve", "edge"} {
		acl := []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "sasl", ID: id}}}
		_, err := ann.Create(ctx, "/s/"+id, []byte(id), client.CreateOptions{ACL: acl})
		ok(t, err)
	}
	e.memory.mu.Lock()
	for _, m := range e.memory.open {
		began := time.Now()
		until(t, "nothing is known", func() bool { return m.m.Known().Current.After(began) })
	}
	e.memory.mu.Unlock()
	ann.Close(ctx)
	eve.Close(ctx)
	w.s.Stop()
	until(t, "the edge does not say that it is cut off", func() bool { return say(t, address, "isro") == "ro" })
	accepts := func(o *client.Options) { o.AllowReadOnly = true }
	for name, c := range map[string]*client.Client{"ann": old(t, address, w.bySocket, accepts), "eve": old(t, address, accepts)} {
		for _, other := range []string{"ann", "eve", "edge"} {
			n, err := c.Get(ctx, "/s/"+other)
			refused := errors.Is(err, client.ErrNotReadOnly)
			if refused == (other == name) || err == nil && string(n.Data) != name {
				wrong = append(wrong, fmt.Sprintf("%s is shown what only %s may read: %q, %v", name, other, n.Data, err))
			}
		}
	}
	return wrong
}

// TestUsersOfAnEdgeAway: nobody is shown what the servers would not have let him read, when they can't be asked any more.
func TestUsersOfAnEdgeAway(t *testing.T) {
	for _, what := range wrongAwayUsers(t) {
		t.Error(what)
	}
}

// The system tells the control group of a process while it is there.
func TestControlGroup(t *testing.T) {
	own := ""
	text, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = group
		}
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	ok(t, err)
	defer l.Close()
	ours, err := net.Dial("unix", l.Addr().String())
	ok(t, err)
	defer ours.Close()
	nc, err := l.Accept()
	ok(t, err)
	defer nc.Close()
	p, without := callerOf(nc, true), callerOf(nc, false)
	if tells := tellsGroups(); !p.known || without.cgroup != "" || tells == nil && p.cgroup != own || tells != nil && p.cgroup != "" {
		t.Errorf("%+v, want the control group %q; %v", p, own, tells)
	}
}
