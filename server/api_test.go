package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/api"
)

// apiLines turn the HTTP API on.
var apiLines = []string{"admin.serverPort=0", "zkd.api=true"}

// caller calls the HTTP API of a server.
type caller struct {
	t     testing.TB
	pages http.Handler
}

func (s *testServer) caller(t testing.TB) *caller { return &caller{t, s.AdminPages("/commands", "")} }

// call sends a request from 192.0.2.1. headers are name and value in turn.
func (c *caller) call(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), method, path, strings.NewReader(body))
	r.Host = "localhost:8080"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.pages.ServeHTTP(w, r)
	return w
}

// want is call for a request with a known answer: a status, and what the body has.
func (c *caller) want(status int, part, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	c.t.Helper()
	w := c.call(method, path, body, headers...)
	if w.Code != status || !strings.Contains(w.Body.String(), part) {
		c.t.Errorf("%s %s: %d, want %d with %q\n%v\n%s", method, path, w.Code, status, part, w.Header(), w.Body)
	}
	return w
}

// openSession opens a session, and returns it.
func (c *caller) openSession(headers ...string) (out api.Session) {
	c.t.Helper()
	w := c.want(http.StatusCreated, "token", "POST", "/v1/sessions?timeout=6000", "", headers...)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		c.t.Fatal(err)
	}
	return out
}

// TestAPINodes creates, reads, changes and deletes nodes over HTTP.
func TestAPINodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, apiLines...)
		c := s.caller(t)
		w := c.want(201, `"path":"/a","zxid":"0x`, "POST", "/v1/nodes/a", "hello")
		if got := w.Header().Get("Location"); got != "/v1/nodes/a" {
			t.Errorf("Location %q", got)
		}
		c.want(409, `"name":"NODEEXISTS","path":"/a"`, "POST", "/v1/nodes/a", "")
		w = c.want(200, "hello", "GET", "/v1/nodes/a", "")
		for name, want := range map[string]string{"ETag": `"0"`, "Content-Type": "application/octet-stream", "X-Stat-Data-Length": "5", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		c.want(200, `"data":"aGVsbG8="`, "GET", "/v1/nodes/a", "", "Accept", "application/json")
		c.want(200, "hello", "GET", "/v1/nodes/a", "", "Accept", "text/*")
		c.want(406, "can be had as", "GET", "/v1/nodes/a", "", "Accept", "image/png")
		c.want(206, "ell", "GET", "/v1/nodes/a", "", "Range", "bytes=1-3")
		c.want(416, "5 bytes", "GET", "/v1/nodes/a", "", "Range", "bytes=9-")
		c.want(412, `"code":-103,"name":"BADVERSION"`, "PUT", "/v1/nodes/a", "x", "If-Match", `"7"`)
		if w = c.want(200, `"version":1`, "PUT", "/v1/nodes/a", "x", "If-Match", `"0"`); w.Header().Get("ETag") != `"1"` {
			t.Errorf("ETag %q", w.Header().Get("ETag"))
		}
		c.want(404, `"code":-101,"name":"NONODE","path":"/b"`, "PUT", "/v1/nodes/b", "x")
		c.want(201, "0000000000", "POST", "/v1/nodes/a/s-?mode=persistent_sequential", "")
		c.want(201, "/a/l", "POST", "/v1/nodes/a%2Fl?mode=persistent_with_ttl&ttl=3600000", "")
		c.want(200, `{"name":"l"},{"name":"s-0000000000"}],"more":false`, "GET", "/v1/children/a", "")
		c.want(200, `"children":[{"name":"l"}],"more":true`, "GET", "/v1/children/a?limit=1", "")
		c.want(200, `"data":""`, "GET", "/v1/children/a?after=l&show=data", "")
		if w = c.want(200, `{"name":"/l"`, "GET", "/v1/subtree/a?show=acls", ""); strings.Count(w.Body.String(), "\n") != 3 {
			t.Errorf("a subtree of 3 nodes:\n%s", w.Body)
		}
		if w = c.want(200, "", "HEAD", "/v1/nodes/a", ""); w.Header().Get("X-Stat-Num-Children") != "2" || w.Header().Get("Content-Length") != "1" {
			t.Errorf("HEAD: %v", w.Header())
		}
		c.want(409, "NOTEMPTY", "DELETE", "/v1/nodes/a", "")
		c.want(204, "", "DELETE", "/v1/nodes/a/l", "")
		c.want(200, `"children":[{"name":"a"},{"name":"zookeeper"}]`, "GET", "/v1/children/", "")
		c.want(400, "no parameter", "GET", "/v1/nodes/a?watch=true", "")
		c.want(405, "the methods here are", "PATCH", "/v1/nodes/a", "")
		c.want(404, "openapi.json", "GET", "/v1/nothing", "")
		c.want(413, "jute.maxbuffer", "PUT", "/v1/nodes/a", strings.Repeat("x", 2<<20))
		c.want(415, "would stay on the data", "PUT", "/v1/nodes/a", "x", "Content-Encoding", "gzip")
		c.want(200, "", "PUT", "/v1/nodes/a", "x", "Content-Encoding", "identity")
		s.noErrors(t)
		time.Sleep(time.Minute)
		if n := s.connections(); n != 0 {
			t.Errorf("%d connections are open after a minute", n)
		}
	})
}

// TestAPIPermissions uses ACLs over HTTP: the identities of the caller decide.
func TestAPIPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, append(apiLines, "audit.enable=true")...)
		c := s.caller(t)
		ann := []string{"Authorization", "digest ann:pw"}
		id := s.digestID(t, "ann:pw").ID
		c.want(201, "", "POST", "/v1/nodes/a?acl=digest:"+strings.ReplaceAll(id, "+", "%2B")+":cdrwa", "secret", ann...)
		c.want(403, `"name":"NOAUTH"`, "GET", "/v1/nodes/a", "")
		c.want(200, "secret", "GET", "/v1/nodes/a", "", ann...)
		c.want(403, `"name":"NOAUTH"`, "GET", "/v1/acl/a", "")
		c.want(200, `{"scheme":"digest","id":"`+id+`","perms":"cdrwa"}`, "GET", "/v1/acl/a", "", ann...)
		c.want(403, "over TLS only", "GET", "/v1/nodes/a", "", "Authorization", "Basic YW5uOnB3")
		w := c.want(401, "prove nothing", "GET", "/v1/nodes/a", "", "Authorization", "Bearer x")
		if w.Header().Get("WWW-Authenticate") == "" {
			t.Error("a 401 does not say what it wants")
		}
		c.want(412, "BADVERSION", "PUT", "/v1/acl/a", `{"acl":[{"scheme":"world","id":"anyone","perms":"r"}]}`, append(ann, "If-Match", `"3"`)...)
		c.want(200, `"aversion":1`, "PUT", "/v1/acl/a", `{"acl":[{"scheme":"world","id":"anyone","perms":"r"}]}`, append(ann, "If-Match", `"0"`)...)
		c.want(200, "secret", "GET", "/v1/nodes/a", "")
		c.want(200, `{"scheme":"ip","user":"192.0.2.1"},{"scheme":"digest","user":"ann"}`, "GET", "/v1/whoami", "", ann...)
	})
}

// TestAPISessions has ephemerals over HTTP, which end with their session: when it is closed, and when its client is silent.
func TestAPISessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, apiLines...)
		c := s.caller(t)
		c.want(409, `"name":"EPHEMERALONLOCALSESSION"`, "POST", "/v1/nodes/e?mode=ephemeral", "")
		one, two := c.openSession(), c.openSession()
		c.want(201, one.ID, "POST", "/v1/nodes/one?mode=ephemeral", "", "X-Session", one.Token)
		c.want(201, "", "POST", "/v1/nodes/two?mode=ephemeral", "", "X-Session", two.Token)
		c.want(200, `"ephemerals":["/one"]`, "GET", "/v1/sessions/"+one.ID, "", "X-Session", one.Token)
		c.want(403, "another session", "DELETE", "/v1/sessions/"+two.ID, "", "X-Session", one.Token)
		for range 10 {
			time.Sleep(3 * time.Second)
			c.want(204, "", "POST", "/v1/sessions/"+two.ID+"/touch", "", "X-Session", two.Token)
		}
		c.want(404, "", "GET", "/v1/nodes/one", "")
		c.want(410, `"name":"SESSIONEXPIRED"`, "GET", "/v1/nodes/two", "", "X-Session", one.Token)
		c.want(200, "", "GET", "/v1/nodes/two", "")
		c.want(204, "", "DELETE", "/v1/sessions/"+two.ID, "", "X-Session", two.Token)
		c.want(404, "", "GET", "/v1/nodes/two", "")
		c.want(410, "", "GET", "/v1/sessions/"+two.ID, "", "X-Session", two.Token)
		if w := c.call("GET", "/v1/nodes/two", "", "X-Session", "nonsense"); w.Code != 400 {
			t.Errorf("a token of nobody: %d", w.Code)
		}
	})
}

// TestAPISessionsMove uses a session after a restart, and with another identity: it is resumed by its token.
func TestAPISessionsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, apiLines...)
		one := s.caller(t).openSession()
		s.caller(t).want(201, "", "POST", "/v1/nodes/e?mode=ephemeral", "", "X-Session", one.Token)
		s = s.restart(t)
		c := s.caller(t)
		for _, who := range []string{"digest ann:pw", "digest bob:pw", "digest ann:pw"} {
			c.want(200, `"ephemerals":["/e"]`, "GET", "/v1/sessions/"+one.ID, "", "X-Session", one.Token, "Authorization", who)
		}
		synctest.Wait()
		if n := s.connections(); n != 1 {
			t.Errorf("%d connections of one session", n)
		}
		// Another password than the session's.
		other, err := base64.RawURLEncoding.DecodeString(one.Token)
		if err != nil {
			t.Fatal(err)
		}
		other[len(other)-3]++
		c.want(410, "", "GET", "/v1/sessions/"+one.ID, "", "X-Session", base64.RawURLEncoding.EncodeToString(other))
		c.want(200, "", "GET", "/v1/nodes/e", "", "X-Session", one.Token)
	})
}

// TestAPIMulti does operations together.
func TestAPIMulti(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t, apiLines...).caller(t)
		c.want(200, `"results":[{"op":"create","path":"/m","stat":{`, "POST", "/v1/multi",
			`{"ops":[{"op":"create","path":"/m","text":"x"},{"op":"create","path":"/m/s-","mode":"persistent_sequential"},{"op":"set","path":"/m","data":"eQ==","version":0},{"op":"check","path":"/m","version":1}]}`)
		c.want(200, "y", "GET", "/v1/nodes/m", "")
		w := c.want(412, `"results":[{"op":"set","path":"/m"},{"op":"delete","path":"/m/s-0000000000","code":-103,"name":"BADVERSION"},{"op":"checkAbsent","path":"/x","code":-2,"name":"RUNTIMEINCONSISTENCY"}]`,
			"POST", "/v1/multi", `{"ops":[{"op":"set","path":"/m"},{"op":"delete","path":"/m/s-0000000000","version":7},{"op":"checkAbsent","path":"/x"}]}`)
		if w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v", w.Header())
		}
		c.want(200, "y", "GET", "/v1/nodes/m", "")
		c.want(200, `{"op":"deleteTree","path":"/m","deleted":2},{"op":"createOrSet","path":"/m","stat"`, "POST", "/v1/multi",
			`{"ops":[{"op":"deleteTree","path":"/m"},{"op":"createOrSet","path":"/m"}]}`)
		c.want(400, "not as described", "POST", "/v1/multi", `{"ops":[{"op":"set","paht":"/m"}]}`)
		c.want(400, "no operation", "POST", "/v1/multi", `{"ops":[{"op":"getData","path":"/m"}]}`)
		c.want(409, "EPHEMERALONLOCALSESSION", "POST", "/v1/multi", `{"ops":[{"op":"create","path":"/e","mode":"ephemeral"}]}`)
	})
}

// TestAPIConsistency reads with a zxid that the server has not got to.
func TestAPIConsistency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t, apiLines...).caller(t)
		zxid := c.want(201, "", "POST", "/v1/nodes/a", "").Header().Get("X-Zxid")
		for _, how := range []string{"", "?consistency=session", "?consistency=local", "?consistency=linearizable"} {
			if w := c.want(200, "", "GET", "/v1/nodes/a"+how, "", "X-Zxid", zxid); w.Header().Get("X-Zxid") != zxid {
				t.Errorf("%s: at %s, want %s", how, w.Header().Get("X-Zxid"), zxid)
			}
			want := 409
			if how == "?consistency=local" {
				want = 200
			}
			c.want(want, "", "GET", "/v1/nodes/a"+how, "", "X-Zxid", "0x7fff")
		}
	})
}

// TestAPIOrigins calls the API as a page of another origin would have a browser do it.
func TestAPIOrigins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t, apiLines...).caller(t)
		for _, headers := range [][]string{
			{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Origin", "https://localhost:8080"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
		} {
			for _, path := range []string{"/v1/nodes/a", "/v1/feed", "/v1/openapi.json"} {
				c.want(403, "origin", "GET", path, "", headers...)
			}
			c.want(403, "origin", "POST", "/v1/nodes/a", "", headers...)
		}
		c.want(201, "", "POST", "/v1/nodes/a", "", "Origin", "http://localhost:8080", "Sec-Fetch-Site", "same-origin")
		for host, want := range map[string]int{"127.0.0.1:8080": 200, "[::1]:8080": 200, "[::1]": 200, "localhost": 200, "rebound.example:8080": 403, "localhost.evil.example": 403} {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/nodes/a", nil)
			r.Host = host
			w := httptest.NewRecorder()
			c.pages.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("host %s: %d, want %d", host, w.Code, want)
			}
		}
	})
}

// TestAPIIsLimited holds callers to what limits other clients.
func TestAPIIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, append(apiLines, "maxClientCnxns=3", "zkd.limit.slow=address 192.0.2.0/24 requests/s=10", "zkd.limitCodes=exact")...)
		c := s.caller(t)
		c.openSession()
		c.openSession()
		c.want(200, "", "GET", "/v1/whoami", "")
		c.want(200, `"user":"ann"`, "GET", "/v1/whoami", "", "Authorization", "digest ann:pw") // an idle connection makes room
		c.openSession()
		c.want(503, "too many connections", "POST", "/v1/sessions", "")
		c.want(503, "too many connections", "GET", "/v1/whoami", "")
		time.Sleep(time.Minute)
		began := time.Now()
		for range 30 {
			c.want(200, "", "GET", "/v1/whoami", "")
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("30 requests, of which 10 are allowed in a second, took %v", took)
		}
	})
}

// TestAPIIsAudited looks for what callers do in the audit log: it says by which door they came.
func TestAPIIsAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, append(apiLines, "audit.enable=true", "zkd.audit.file="+auditFile, "zkd.audit.reads=all")...)
		c := s.caller(t)
		ann := []string{"Authorization", "digest ann:pw"}
		c.want(201, "", "POST", "/v1/nodes/a", "", ann...)
		c.want(409, "", "POST", "/v1/nodes/a", "", ann...)
		c.want(200, "", "GET", "/v1/nodes/a", "", ann...)
		s.connect(t).create("/b", "")
		log := strings.Join(auditLines(t, s.opts.FS, nil), "\n")
		for _, line := range []string{
			"user=192.0.2.1,ann ip=192.0.2.1 via=http operation=create znode=/a znode_type=persistent result=success",
			"user=192.0.2.1,ann ip=192.0.2.1 via=http operation=create znode=/a znode_type=persistent result=failure",
			"user=192.0.2.1,ann ip=192.0.2.1 via=http operation=getData znode=/a result=success",
			"ip=10.0.0.2 operation=create znode=/b",
		} {
			if !strings.Contains(log, line) {
				t.Errorf("the audit log lacks %q:\n%s", line, log)
			}
		}
	})
}

// TestAPIAsksForALogin has callers where clients must have an identity of a scheme, and one whose token ends.
func TestAPIAsksForALogin(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t, append(append(apiLines, i.lines...), "enforce.auth.enabled=true", "enforce.auth.schemes=jwt")...).caller(t)
		for authorization, want := range map[string]int{"": 401, "digest ann:pw": 401, "Bearer " + i.token("ann", time.Hour): 200} {
			c.want(want, "", "GET", "/v1/nodes/", "", "Authorization", authorization)
		}
		short := []string{"Authorization", "Bearer " + i.token("ann", 5*time.Second)}
		c.want(200, `"user":"ann"`, "GET", "/v1/whoami", "", short...)
		one := c.openSession(short...)
		time.Sleep(6 * time.Second)
		c.want(401, "prove nothing", "GET", "/v1/whoami", "", short...)
		c.want(401, "prove nothing", "GET", "/v1/nodes/", "", append(short, "X-Session", one.Token)...)
	})
}

// TestAPIDrain moves callers away as all clients: a request under way is answered, and the next is refused.
func TestAPIDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, apiLines...)
		c := s.caller(t)
		c.want(200, "", "GET", "/v1/nodes/", "")
		one := c.openSession()
		s.clients.Drain().KeepAway()
		time.Sleep(15 * time.Second)
		c.want(503, "moves its clients", "GET", "/v1/nodes/", "")
		s.clients.Drain().LetIn()
		c.want(200, "", "GET", "/v1/nodes/", "")
		c.want(410, "SESSIONEXPIRED", "GET", "/v1/nodes/", "", "X-Session", one.Token)
	})
}

// TestAPIFeed follows changes over HTTP, with a proof as other requests have it.
func TestAPIFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, apiLines...)
		c := s.caller(t)
		c.want(201, "", "POST", "/v1/nodes/f", "x")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, "GET", "/v1/feed?path=/f&after=0x0", nil)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		c.pages.ServeHTTP(w, r)
		if w.Code != 200 || !strings.Contains(w.Body.String(), "event: created\ndata: {") {
			t.Errorf("%d\n%s", w.Code, w.Body)
		}
		for range 100 {
			c.want(200, "", "PUT", "/v1/nodes/f", "y")
		}
		began := time.Now()
		w = c.want(200, "changes follow", "GET", "/v1/feed?path=/f&after=0&follow=false", "")
		if n := strings.Count(w.Body.String(), "event: "); n != 101 || !time.Now().Equal(began) {
			t.Errorf("%d changes in %v, of 101\n%.500s", n, time.Since(began), w.Body)
		}
		c.want(201, "", "POST", "/v1/nodes/g", strings.Repeat("x", 100_000))
		c.want(201, "", "POST", "/v1/nodes/f/h", "")
		for range 20 { // what is read at a time ends before the last change
			c.want(200, `"path":"/f/h"`, "GET", "/v1/feed?path=/f/h&after=0&follow=false", "")
		}
	})
}

// TestAPIFeedForgotten asks for changes that are forgotten, and for those after the zxid that the problem names.
func TestAPIFeedForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t, append(apiLines, "zkd.feedHistoryKb=1")...).caller(t)
		c.want(201, "", "POST", "/v1/nodes/f", "")
		for range 10 {
			c.want(200, "", "PUT", "/v1/nodes/f", strings.Repeat("x", 100_000))
		}
		w := c.want(410, `"oldest":"0x`, "GET", "/v1/feed?path=/f&after=0&follow=false", "")
		var p api.Problem
		check(t, json.Unmarshal(w.Body.Bytes(), &p))
		c.want(200, "event: data", "GET", "/v1/feed?path=/f&follow=false&after="+p.Oldest, "")
		if w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(p.Detail, p.Oldest) {
			t.Errorf("%v\n%s", w.Header(), w.Body)
		}
	})
}

// TestAPIInAnEnsemble uses a session at two servers, reads at one what was written at the other, and writes while the leader dies.
func TestAPIInAnEnsemble(t *testing.T) {
	inBubble(t, 3, apiLines, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		at := slices.DeleteFunc([]int{1, 2, 3}, func(id int) bool { return id == leader })
		one, other := e.servers[at[0]].caller(t), e.servers[at[1]].caller(t)
		own := one.openSession()
		zxid := one.want(201, "", "POST", "/v1/nodes/e?mode=ephemeral", "", "X-Session", own.Token).Header().Get("X-Zxid")
		other.want(200, own.ID, "GET", "/v1/nodes/e", "", "X-Zxid", zxid, "Accept", "application/json")
		for range 3 {
			other.want(200, `"/e"`, "GET", "/v1/sessions/"+own.ID, "", "X-Session", own.Token)
			time.Sleep(time.Second) // the first server knows that the session has moved
			one.want(200, `"/e"`, "GET", "/v1/sessions/"+own.ID, "", "X-Session", own.Token)
			time.Sleep(time.Second)
		}
		for n := range 10 {
			one.want(200, "", "PUT", "/v1/nodes/e", fmt.Sprint(n), "X-Session", own.Token)
			if w := other.want(200, fmt.Sprint(n), "GET", "/v1/nodes/e?consistency=linearizable", ""); w.Body.Len() != 1 {
				t.Errorf("after %d: %s", n, w.Body)
			}
		}
		e.kill(leader)
		one.want(200, "", "PUT", "/v1/nodes/e", "later", "X-Session", own.Token) // it waits for the next leader
		other.want(200, "later", "GET", "/v1/nodes/e?consistency=linearizable", "")
		one.want(204, "", "DELETE", "/v1/sessions/"+own.ID, "", "X-Session", own.Token)
		other.want(404, "", "GET", "/v1/nodes/e?consistency=linearizable", "")
		e.start(leader)
		e.settled()
	})
}

// TestAPIRequestsKeepTheirSession has a write wait for longer than the timeout of its session, since there is no leader.
func TestAPIRequestsKeepTheirSession(t *testing.T) {
	inBubble(t, 3, append(apiLines, "zkd.interlude=60000"), func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		others := slices.DeleteFunc([]int{1, 2, 3}, func(id int) bool { return id == leader })
		c := e.servers[others[0]].caller(t)
		own := c.openSession()
		c.want(201, "", "POST", "/v1/nodes/e?mode=ephemeral", "", "X-Session", own.Token)
		c.want(200, "", "GET", "/v1/nodes/", "")
		e.kill(leader)
		e.kill(others[1])
		var waiting sync.WaitGroup
		waiting.Go(func() {
			c.want(200, `"version":1`, "PUT", "/v1/nodes/e", "later", "X-Session", own.Token)
		})
		waiting.Go(func() { c.want(201, "", "POST", "/v1/nodes/of-nobody", "") })
		time.Sleep(30 * time.Second)
		e.start(leader)
		waiting.Wait()
		c.want(200, "/e", "GET", "/v1/sessions/"+own.ID, "", "X-Session", own.Token)
	})
}

// TestAPIOverview looks at a server over HTTP.
func TestAPIOverview(t *testing.T) {
	inBubble(t, 3, append(apiLines, "zkd.limit.all=identity * requests/s=1000"), func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		s := e.servers[leader]
		k := s.connect(t)
		k.ephemeral("/e")
		k.ok(jute.OpGetData, get("/e", true))
		c := s.caller(t)
		one := c.openSession()
		c.want(200, `"mode":"leader","role":"leader","serving":true`, "GET", "/v1/overview", "")
		c.want(200, `{"name":"clients","ok":true}`, "GET", "/v1/overview", "")
		c.want(200, fmt.Sprintf(`"leader":%d,"members":[{"id":1,"voter":true,"quorum":["10.0.0.1:2888"]`, leader), "GET", "/v1/members", "")
		if w := c.want(200, `"following":{"synced":true,"counted":true,"zxid":"0x10000000`, "GET", "/v1/members", ""); strings.Count(w.Body.String(), "following") != 2 {
			t.Errorf("not two followers:\n%s", w.Body)
		}
		c.want(200, `"id":"`+k.session.String()+`","local":false,"timeoutMs":10000,"expires":"20`, "GET", "/v1/sessions", "")
		c.want(200, `"ephemerals":1}`, "GET", "/v1/sessions", "")
		c.want(200, `"more":true`, "GET", "/v1/sessions?limit=1", "")
		c.want(200, one.ID, "GET", "/v1/sessions?after="+k.session.String(), "")
		c.want(200, `"address":"10.0.0.2:`, "GET", "/v1/connections", "")
		c.want(200, `{"path":"/e","sessions":["`+k.session.String()+`"]}`, "GET", "/v1/watches", "")
		c.want(200, `{"path":"/e","sessions":["`+k.session.String()+`"]}`, "GET", "/v1/watches?path=/e", "")
		c.want(200, `{"watches":[]`, "GET", "/v1/watches?path=/other", "")
		c.want(200, `"quotas":[]`, "GET", "/v1/quotas", "")
		c.want(200, `{"rule":"all","resource":"requests/s"`, "GET", "/v1/limits", "")
		for _, id := range []int{1, 2, 3} {
			if id != leader {
				e.kill(id)
			}
		}
		time.Sleep(30 * time.Second)
		c.want(200, `"serving":false`, "GET", "/v1/overview", "")
		c.want(200, `"leader":-1`, "GET", "/v1/members", "")
		c.want(503, "does not serve", "GET", "/v1/sessions", "")
		c.want(503, "no leader", "GET", "/v1/nodes/", "")
	})
}

// TestAPISearch searches a subtree of many pages, of which the caller may not read all, and gives up a search.
func TestAPISearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, apiLines...)
		k := s.connect(t)
		k.create("/s", "")
		for i := range 100 {
			k.ok(jute.OpCreate, create(fmt.Sprintf("/s/d%02d", i), strings.Repeat("x", 10_000*(i%3))+fmt.Sprint("value ", i), 0))
		}
		k.ok(jute.OpCreate, &jute.CreateRequest{Path: "/s/hidden7", Data: []byte("value 7"), ACL: []jute.ACL{{Perms: jute.PermAll, ID: s.digestID(t, "ann:pw")}}})
		c := s.caller(t)
		for query, want := range map[string]int{"name=7$": 10, "name=7": 19, "data=value+7": 11, "name=7%26%24&data=x": 0, "name=^d&limit=5": 5, "data=x{100}": 66, "": 101} {
			w := c.want(200, `"searched":`, "GET", "/v1/search/s?"+query, "")
			if n := strings.Count(w.Body.String(), `"stat"`); n != want {
				t.Errorf("%s: %d nodes, want %d\n%.2000s", query, n, want, w.Body)
			}
		}
		c.want(200, `"name":"/hidden7"`, "GET", "/v1/search/s?name=^hidden", "", "Authorization", "digest ann:pw")
		c.want(400, "no regular expression", "GET", "/v1/search/s?name=(", "")
		c.want(404, "NONODE", "GET", "/v1/search/t?name=x", "")
		s.noErrors(t)
		synctest.Wait()
		if open := s.overview.read().Views; open != 0 {
			t.Errorf("%d views are open", open)
		}
	})
}

// TestAPIIsOff has no API unless the configuration asks for one.
func TestAPIIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t, "admin.serverPort=0").caller(t)
		c.want(404, "", "GET", "/v1/nodes/", "")
		c.want(404, "", "GET", "/v1/openapi.json", "")
	})
}

// TestAPIWhileTheServerStops lets callers wait for answers when the server stops.
func TestAPIWhileTheServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, apiLines...)
		c := s.caller(t)
		c.want(201, "", "POST", "/v1/nodes/a", "")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		w := c.want(503, "takes no connection", "GET", "/v1/nodes/a", "")
		if w.Header().Get("Retry-After") == "" {
			t.Error("a 503 does not say when to come again")
		}
		_, _ = io.Copy(io.Discard, w.Body)
	})
}
