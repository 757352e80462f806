package mirror

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/zab"
)

// standby is a mirror of an ensemble of zkd with readers, and its pages, without a server that it follows.
type standby struct {
	*Mirror
	t     *testing.T
	addr  string // for clients
	how   show.Standby
	pages http.Handler
}

// owner is a session of the ensemble.
const owner = jute.SessionID(0x10000000000000a)

var (
	theirs = zab.ClusterInit{Cluster: zab.ID{1, 2, 3}}
	open   = []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}
	anns   = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: "ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM="}}} // whose password is secret
)

// lockHolder is the name of a node by which a program holds a lock.
const lockHolder = "_c_5f1d3c7a-0b1c-4d2e-8f3a-4b5c6d7e8f90-lock-0000000000"

func newStandby(t *testing.T, lines ...string) *standby {
	t.Helper()
	s := emptyStandby(t)
	marker := zab.Marker{TimeMs: 1, Init: &theirs}
	check(t, s.AppendEntry(&zab.Entry{Zxid: jute.MakeZxid(1, 0), Type: zab.EntryMarker, Data: marker.Append(nil)}))
	s.write(datatree.Op{Kind: datatree.OpCreateSession, TimeoutMs: 30_000})
	s.write(datatree.Op{Kind: datatree.OpCreate, Path: "/a", Data: []byte("hello"), ACL: open})
	s.write(datatree.Op{Kind: datatree.OpCreate, Path: "/secret", Data: []byte("no"), ACL: anns})
	s.write(datatree.Op{Kind: datatree.OpCreate, Path: "/lock", ACL: open})
	s.write(datatree.Op{Kind: datatree.OpCreate, Path: "/lock/" + lockHolder, ACL: open, Owner: jute.OwnerSession(owner)})
	s.serve(nil, lines...)
	return s
}

// emptyStandby has no copy yet, and no readers.
func emptyStandby(t *testing.T) *standby {
	t.Helper()
	dir := t.TempDir()
	p := data.Place{DataDir: dir, LogDir: dir, Server: zab.SIDOf(4)}
	check(t, data.CreateMirror(p, datadirs.OfZkd))
	m, err := Open(t.Context(), p, datadirs.OfZkd, nil)
	check(t, err)
	s := &standby{Mirror: m, t: t, how: show.Standby{Of: "http://zk1:8080,http://zk2:8080", From: "http://zk1:8080", Lag: 1500 * time.Millisecond, LagEntries: 12, LagBytes: 345}}
	t.Cleanup(func() { check(t, m.Close()) })
	return s
}

// serve serves readers, and the pages.
func (s *standby) serve(look func(context.Context) *api.Ensemble, lines ...string) {
	t := s.t
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	s.addr = l.Addr().String()
	cfg := parseConfig(t, s.place.DataDir, append([]string{"admin.serverPort=8080", "zkd.api=true", "zkd.console=true", "DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4="}, lines...)...) // super:secret
	check(t, s.ServeReaders(Options{Config: cfg, Version: "1", Standby: func() show.Standby { return s.how }, Listen: func(string, string) (net.Listener, error) { return l, nil }}))
	s.pages = s.Pages(look)
}

// write adds a transaction of the ensemble.
func (s *standby) write(ops ...datatree.Op) {
	s.t.Helper()
	txn := datatree.Txn{Zxid: s.Last() + 1, Time: int64(s.Last()), Session: owner, Ops: ops}
	check(s.t, s.AppendEntry(&zab.Entry{Zxid: txn.Zxid, Prev: s.Last(), Type: zab.EntryTxn, Data: txn.Append(nil)}))
}

// want sends a request with a known answer: a status, and what the body has. headers are name and value in turn.
func (s *standby) want(status int, part, method, path, body string, headers ...string) string {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	r.Host = "localhost:8080"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.pages.ServeHTTP(w, r)
	if w.Code != status || !strings.Contains(w.Body.String(), part) {
		s.t.Errorf("%s %s: %d, want %d with %q\n%s", method, path, w.Code, status, part, w.Body)
	}
	return w.Body.String()
}

var (
	super = []string{"Authorization", "digest super:secret"}
	page  = []string{"X-Console", "visitor"}
)

// TestStandbyShows reads a standby over HTTP, by the rules of its port for clients.
func TestStandbyShows(t *testing.T) {
	s := newStandby(t)
	s.want(200, "hello", "GET", "/v1/nodes/a", "")
	s.want(403, "NOAUTH", "GET", "/v1/nodes/secret", "")
	s.want(200, "no", "GET", "/v1/nodes/secret", "", "Authorization", "digest ann:secret")
	s.want(401, "", "GET", "/v1/nodes/a", "", "Authorization", "jwt x")
	s.want(200, `"name":"lock"`, "GET", "/v1/children/", "")
	s.want(200, `"name":"/lock"`, "GET", "/v1/subtree/", "")
	s.want(200, `"role":"holds","session":"0x10000000000000a"`, "GET", "/v1/coordination?path=/lock", "")
	s.want(200, `"id":"0x10000000000000a","local":false,"timeoutMs":30000,"ephemerals":1`, "GET", "/v1/sessions", "")
	s.want(200, `"standby":{"of":"http://zk1:8080,http://zk2:8080","from":"http://zk1:8080","sinceMs":0,"fetches":false,"fetched":0,"fetchSize":0,"silentMs":0,"refused":false,"zxid":"0x100000005","lagMs":1500,"lagEntries":12,"lagBytes":345,"retired":false}`, "GET", "/v1/overview", "")
	s.want(200, `"role":"standby"`, "GET", "/v1/overview", "")
	s.how = show.Standby{Of: "http://zk1:8080", Problem: "no answer", Refused: true, Lag: -1, LagEntries: -1, LagBytes: -1, Retired: true}
	s.want(200, `"members":[],"findings":[],"standby":{"of":"http://zk1:8080","sinceMs":0,"fetches":false,"fetched":0,"fetchSize":0,"silentMs":0,"problem":"no answer","refused":true,"zxid":"0x100000005","lagMs":-1,"lagEntries":-1,"lagBytes":-1,"retired":true}`, "GET", "/v1/ensemble", "")
	s.want(403, "NOAUTH", "GET", "/v1/configuration", "")
	s.want(200, `"key":"zkd.api","value":"true"`, "GET", "/v1/configuration", "", super...)
	s.want(404, "audit.enable", "GET", "/v1/audit", "", super...)
	for _, path := range []string{"/v1/members", "/v1/nodes/a?zxid=0x1", "/v1/past/a?zxid=0x1", "/v1/history/a", "/v1/backups"} {
		s.want(501, "a standby ", "GET", path, "", super...)
	}
	s.want(503, "NOTREADONLY", "GET", "/v1/nodes/a?consistency=linearizable", "")
	s.want(200, `data-read-only="standby"`, "GET", "/console/", "")
	s.want(200, "hello", "GET", "/console/v1/nodes/a", "", page...)
	s.want(403, "only the console's pages", "GET", "/console/v1/nodes/a", "")
	s.want(403, "", "POST", "/console/v1/nodes/b", "", append([]string{"Origin", "http://evil.example"}, page...)...)
	s.want(503, "NOTREADONLY", "POST", "/console/v1/nodes/b", "", page...)
	s.want(200, `"token":"visitor"`, "GET", "/console/session", "", page...)
}

// TestStandbyChangesNothing sends each request of the API that changes something, as the super user and as nobody. Its own sessions are
// those of the ensemble, which it neither continues nor ends.
func TestStandbyChangesNothing(t *testing.T) {
	s := newStandby(t, "audit.enable=true")
	before := s.Tree().Digest()
	var description struct {
		Paths map[string]map[string]any
	}
	check(t, json.Unmarshal([]byte(s.want(200, "", "GET", "/v1/openapi.json", "")), &description))
	bodies := map[string]string{"/v1/multi": `{"ops":[{"op":"delete","path":"/a"}]}`, "/v1/acl/{path}": `{"acl":[{"scheme":"world","id":"anyone","perms":"r"}]}`}
	place := strings.NewReplacer("{path}", "a", "{id}", owner.String(), "{key}", "maxClientCnxns", "{name}", "x")
	n := 0
	for path, methods := range description.Paths {
		for method := range methods {
			if method = strings.ToUpper(method); method == "GET" || method == "HEAD" {
				continue
			}
			n++
			for _, headers := range [][]string{super, nil} {
				s.want(503, "NOTREADONLY", method, place.Replace(path), bodies[path], headers...)
			}
			s.want(401, "", method, place.Replace(path), bodies[path], "Authorization", "jwt x")
		}
	}
	if n < 15 {
		t.Errorf("there are %d such requests", n)
	}
	s.want(200, `"operation":"setData"`, "GET", "/v1/audit?limit=256", "", super...)

	password := session.NewKeys(theirs.Secret).Password(owner)
	c := dial(t, s.addr)
	r := readOnlyRequest()
	r.SessionID, r.Password = owner, password[:]
	c.sendFrame(r.Append(nil))
	c.ended("a session of the ensemble, which is not over")
	if s.Tree().Digest() != before || s.Last() != 0x100000005 || s.Failure() != nil {
		t.Errorf("the copy has changed: it is at %v, %v", s.Last(), s.Failure())
	}
}

// TestStandbyFeeds follows the changes of a copy as they are applied.
func TestStandbyFeeds(t *testing.T) {
	s := newStandby(t)
	s.write(datatree.Op{Kind: datatree.OpSetData, Path: "/a", Data: []byte("1"), Version: 1})
	s.want(200, `"path":"/a"`, "GET", "/v1/feed?path=/&after=0x100000005&follow=false", "")
	s.want(410, `"oldest":"0x100000005"`, "GET", "/v1/feed?after=0x100000001&follow=false", "") // what it had before it was started
	server := httptest.NewServer(s.pages)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/feed?path=/a&data=true", nil)
	check(t, err)
	resp, err := http.DefaultClient.Do(req)
	check(t, err)
	defer resp.Body.Close() // it was only read
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 {
		s.write(datatree.Op{Kind: datatree.OpSetData, Path: "/a", Data: fmt.Append(nil, i), Version: int32(2 + i)})
		want := fmt.Sprintf(`"version":%d`, 2+i)
		for !strings.Contains(lines.Text(), want) {
			if !lines.Scan() {
				t.Fatalf("the feed ends before %s: %v", want, lines.Err())
			}
		}
	}
	state, tree := *s.Ensemble(), s.Tree()
	state.Zxid++
	var out datatree.Applied
	tree.Apply(&datatree.Txn{Zxid: state.Zxid, Ops: []datatree.Op{{Kind: datatree.OpSetData, Path: "/a", Data: []byte("unseen"), Version: 9}}}, &out)
	check(t, s.InstallState(t.Context(), tree, state))
	for !strings.Contains(lines.Text(), "compacted") {
		if !lines.Scan() {
			t.Fatalf("the feed ends without a word: %v", lines.Err())
		}
	}
}

// TestStandbyHasNoPages has the API and the console only where they are configured.
func TestStandbyHasNoPages(t *testing.T) {
	s := newStandby(t, "zkd.console=false")
	s.want(404, "", "GET", "/console/", "")
	s.want(200, "hello", "GET", "/v1/nodes/a", "")
}

// TestStandbyWithoutACopy says what it waits for.
func TestStandbyWithoutACopy(t *testing.T) {
	s := emptyStandby(t)
	s.how = show.Standby{Of: "http://zk1:8080", Problem: "no answer", Lag: -1, LagEntries: -1, LagBytes: -1}
	s.serve(func(context.Context) *api.Ensemble { return &api.Ensemble{} })
	s.want(200, `"findings":null,"standby":{"of":"http://zk1:8080","sinceMs":0,"fetches":false,"fetched":0,"fetchSize":0,"silentMs":0,"problem":"no answer","refused":false,"zxid":"0x0","lagMs":-1,"lagEntries":-1,"lagBytes":-1,"retired":false}`, "GET", "/v1/ensemble", "")
	s.want(503, "no copy", "GET", "/v1/nodes/a", "")
	s.want(503, "no copy", "POST", "/v1/nodes/a", "")
}

// sendBoth sends two requests at once.
func (c *client) sendBoth(op jute.OpCode, body record, then jute.OpCode, last record) {
	c.t.Helper()
	var b []byte
	add := func(op jute.OpCode, body record) {
		var mark int
		b, mark = jute.BeginFrame(b)
		c.xid++
		if b = (&jute.RequestHeader{Xid: c.xid, Type: op}).Append(b); body != nil {
			b = body.Append(b)
		}
		b = jute.EndFrame(b, mark)
	}
	add(op, body)
	add(then, last)
	_, err := c.nc.Write(b)
	check(c.t, err)
}

// TestStandbyReadersCanSendNothing is TestReadersCanSendNothing with the extensions of the protocol, as nobody and as the super user.
func TestStandbyReadersCanSendNothing(t *testing.T) {
	s := newStandby(t, "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true", "maxClientCnxns=0")
	before := s.Tree().Digest()
	rng := rand.New(rand.NewPCG(seeds.First(t), 2))
	var ops []jute.OpCode
	for op := jute.OpCode(-20); op < 2040; op++ {
		if op < 120 || op > 2000 {
			ops = append(ops, op)
		}
	}
	bodies := []record{nil, get("/a", true), set("/a", "x"), create("/e", jute.ModeEphemeral), del("/a"),
		&jute.SubscribeRequest{Path: "/", Feed: 1, Recursive: true, Credit: 1000}, &jute.PastRequest{Path: "/a", Zxid: 1}, &jute.DrainRequest{Percent: 100}, &jute.TransferLeaderRequest{Server: 1},
		&jute.ConfigureRequest{Action: jute.ConfigureSet, Key: "maxClientCnxns", Value: "1"}}
	for _, features := range []jute.Features{^jute.FeatureExactlyOnce, ^jute.Features(0)} {
		for _, op := range ops {
			for i, body := range append(bodies, garbage(rng)) {
				c := dial(t, s.addr)
				ext := jute.ExtensionRequest{Features: features}
				c.sendFrame(ext.Append(readOnlyRequest().Append(nil)))
				if _, err := c.frame(); err != nil {
					t.Fatalf("a reader with %v is not let in: %v", features, err)
				}
				if features&jute.FeatureExactlyOnce == 0 && i%2 == int(op)&1 {
					c.call(jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte("super:secret")})
				}
				c.sendBoth(op, body, jute.OpExists, get("/a", false)) // some operations have no answer
				for err := error(nil); err == nil; {                  // and some end the connection
					var h jute.ReplyHeader
					if h, _, err = c.next(); h.Xid == c.xid {
						break
					}
				}
				c.nc.Close()
			}
		}
	}
	if err := s.Failure(); err != nil {
		t.Error(err)
	}
	if s.Tree().Digest() != before || s.Last() != 0x100000005 {
		t.Errorf("the copy has changed: it is at %v", s.Last())
	}
	s.want(200, "hello", "GET", "/v1/nodes/a", "")
}
