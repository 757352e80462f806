package console

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a console for a server, with a browser that has opened its link.
type stage struct {
	*testing.T
	console *Console
	zk      *client.Client
	browser *http.Client
	opened  int
}

// newStage returns a stage. apache: the servers have no extensions.
func newStage(t *testing.T, apache bool, opts ...func(*client.Options)) *stage {
	s := zktest.Start(t)
	st := &stage{T: t, zk: s.Client(t, opts...)}
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { st.console.ServeHTTP(w, r) }))
	st.console = New(Options{Client: st.zk, Servers: []string{s.ConnectString()}, Address: web.Listener.Addr().String(), Version: "9.9", Opened: func() { st.opened++ }})
	if apache {
		st.console.features = func() jute.Features { return 0 }
	}
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections() // those of feeds
		web.Close()
		st.console.Close()
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	st.browser = &http.Client{Jar: jar, Transport: transport}
	st.want(200, welcomed, st.console.Link())
	return st
}

// welcomed is in the answer to a browser that has opened a link.
const welcomed = "url=/console/"

// send sends a request; a path is one of the console.
func (s *stage) send(ctx context.Context, method, path string, header ...string) *http.Response {
	s.Helper()
	if strings.HasPrefix(path, "/") {
		path = "http://" + s.console.Address + path
	}
	r, err := http.NewRequestWithContext(ctx, method, path, nil)
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer, err := s.browser.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { answer.Body.Close() })
	return answer
}

// want gets a path that has to be answered by a status and a part of a text, and returns the text.
func (s *stage) want(status int, part, path string, header ...string) string {
	s.Helper()
	answer := s.send(s.Context(), "GET", path, header...)
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status || !strings.Contains(string(text), part) {
		s.Errorf("%s: %d, want %d with %q; %v\n%s", path, answer.StatusCode, status, part, err, text)
	}
	return string(text)
}

func (s *stage) create(path, data string, mode client.CreateMode) {
	s.Helper()
	if _, err := s.zk.Create(s.Context(), path, []byte(data), client.CreateOptions{Mode: mode}); err != nil {
		s.Fatal(err)
	}
}

// TestGate tries to use a console without its link.
func TestGate(t *testing.T) {
	s := newStage(t, false)
	if s.opened != 1 {
		t.Errorf("told of %d browsers", s.opened)
	}
	s.want(200, "<title>zkd console</title>", "/console/")
	s.want(200, "<title>zkd console</title>", "/") // a redirect
	s.want(200, ` data-read-only="">`, "/console/")
	s.want(200, `"visitor"`, "/console/session")
	s.want(200, `"children"`, "/v1/children/")
	s.want(200, `"children"`, "/console/v1/children/")
	for _, header := range [][]string{{"Host", "evil.example"}, {"Host", "localhost:1"}, {"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "same-site"}} {
		s.want(403, "", "/v1/children/", header...)
	}
	first := s.console.Link()
	s.browser.Jar, _ = cookiejar.New(nil) // another browser
	for _, path := range []string{"/", "/console/", "/v1/children/", "/console/v1/children/", "/commands/dump", "/v1/feed", "/x", "/enter/", "/enter/" + strings.Repeat("A", 26)} {
		s.want(403, "", path)
	}
	s.want(403, "", "/v1/children/", "Cookie", s.console.cookie()+"=")
	s.want(200, welcomed, first)
	s.want(200, `"children"`, "/v1/children/")
	s.want(403, "", first) // once
	if s.console.Link() == first || s.opened != 2 {
		t.Errorf("the link is good again, or nobody is told: %d", s.opened)
	}
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		if a := s.send(t.Context(), method, "/v1/nodes/x"); a.StatusCode != 403 {
			t.Errorf("%s: %s", method, a.Status)
		}
	}
	if got, err := s.zk.Exists(t.Context(), "/x"); err != nil || got.Exists {
		t.Errorf("it writes: %v, %v", got, err)
	}
}

// TestReads asks for what the pages ask for, of a server with extensions and of one that has none.
func TestReads(t *testing.T) {
	for _, apache := range []bool{false, true} {
		t.Run(map[bool]string{false: "zkd", true: "Apache"}[apache], func(t *testing.T) {
			s := newStage(t, apache)
			s.create("/d", "hello", client.Persistent)
			for i := range 7 {
				s.create(fmt.Sprintf("/d/n%d", i), fmt.Sprint(i), client.Persistent)
			}
			s.create("/d/secret", "no", client.Persistent)
			if _, err := s.zk.SetACL(t.Context(), "/d/secret", []client.ACL{client.DigestACL(jute.PermAll, "a", "b")}, -1); err != nil {
				t.Fatal(err)
			}
			s.create("/lock", "", client.Persistent)
			s.create("/lock/_c_5f1d3c7a-0b1c-4d2e-8f3a-4b5c6d7e8f90-lock-", "me", client.EphemeralSequential)
			s.want(200, "hello", "/v1/nodes/d")
			s.want(404, "NONODE", "/v1/nodes/none")
			s.want(403, "NOAUTH", "/v1/nodes/d/secret")
			s.want(200, `"scheme":"world"`, "/v1/acl/d")
			s.want(200, `"identities"`, "/v1/whoami")
			s.want(200, "hello", "/v1/nodes/d?consistency=linearizable")
			var names []string
			for after, more := "", true; more; {
				var page api.Children
				text := s.want(200, `"path":"/d"`, "/v1/children/d?limit=3&show=stats&after="+after)
				if err := json.Unmarshal([]byte(text), &page); err != nil {
					t.Fatal(err)
				}
				for _, c := range page.Children {
					names = append(names, c.Name)
					if c.Stat == nil && c.Name != "secret" {
						t.Errorf("%s has no Stat", c.Name)
					}
				}
				after, more = names[len(names)-1], page.More
			}
			if got := fmt.Sprint(names); got != "[n0 n1 n2 n3 n4 n5 n6 secret]" {
				t.Error(got)
			}
			s.create("/d/n00", "", client.Persistent)
			s.want(200, `"name":"n00"`, "/v1/children/d?after=n0&limit=1&show=names")
			s.want(200, `"more":false`, "/v1/children/d?after=z&show=stats")
			s.want(404, "NONODE", "/v1/children/none")
			s.want(200, `"kind":"lock"`, "/v1/coordination?path=/lock&path=/none")
			s.want(501, "only a server", "/v1/overview")
			s.want(501, "only a server", "/v1/configuration")
			s.want(501, "no sessions", "/v1/whoami", "X-Session", base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{1}, 28)))
			s.want(map[bool]int{false: 200, true: 501}[apache], "", "/v1/subtree/d")
			s.want(200, `/lock/_c_5f1d3c7a`, "/commands/dump")
			s.want(200, `"remote_socket_address":"127.0.0.1:`, "/commands/connections")
			s.want(200, `"error":"only a server`, "/commands/stat")
			s.want(200, `"role":"standalone"`, "/v1/ensemble")
		})
	}
}

// TestFeed follows changes, of a server with feeds and by a watch.
func TestFeed(t *testing.T) {
	for _, apache := range []bool{false, true} {
		t.Run(map[bool]string{false: "zkd", true: "Apache"}[apache], func(t *testing.T) {
			s := newStage(t, apache)
			s.create("/f", "", client.Persistent)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer := s.send(ctx, "GET", "/v1/feed?path=/f")
			if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
				t.Fatal(answer.Status)
			}
			s.create("/f/a", "", client.Persistent)
			if err := s.zk.Delete(t.Context(), "/f/a", -1); err != nil {
				t.Fatal(err)
			}
			text, buf := "", make([]byte, 4096)
			for !strings.Contains(text, "event: created") || !strings.Contains(text, "event: deleted") || !strings.HasSuffix(text, "\n\n") {
				n, err := answer.Body.Read(buf)
				if text += string(buf[:n]); err != nil {
					t.Fatalf("%v after\n%s", err, text)
				}
			}
			if !strings.Contains(text, `"path":"/f/a"`) {
				t.Error(text)
			}
		})
	}
	s := newStage(t, false)
	s.want(501, "no end", "/v1/feed?follow=false")
}

// TestWordsOfNobody says what is missing if no server answers the words.
func TestWordsOfNobody(t *testing.T) {
	s := newStage(t, false)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.console.Servers = []string{l.Addr().String()}
	l.Close()
	s.want(200, "no server answers the word dump", "/commands/dump")
	s.want(200, `{"connections":[],"secure_connections":[]}`, "/commands/connections")
}

// TestChroot shows ephemerals below the root of the client.
func TestChroot(t *testing.T) {
	s := newStage(t, false)
	s.create("/app", "", client.Persistent)
	s.create("/app/e", "", client.Ephemeral)
	s.create("/apple", "", client.Ephemeral)
	s.console.Client = s.zk.Namespace("/app")
	s.want(200, `["/e"]`, "/commands/dump")
}
