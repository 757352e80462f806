package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
)

// These tests are about the doors beside the port for clients: feeds, streams and pages over HTTP. The same
// limits, permissions and ends of identities hold there.

// visit requests a page from an address, for as long as d, and returns the answer.
func (s *testServer) visit(t testing.TB, d time.Duration, from, path, authorization string) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.RemoteAddr = from
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { // as net/http compares it
				panic(p)
			}
		}()
		s.AdminPages("/commands", "").ServeHTTP(w, r)
	}()
	return w
}

// TestFeedEndsWithItsToken lets a token end while its feed waits, and while there are changes: nothing that
// only the token could see follows, and the reader is told.
func TestFeedEndsWithItsToken(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, i.lines...)
		root := s.super(t)
		ann := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "jwt", ID: "ann"}}}
		root.ok(jute.OpCreate, &jute.CreateRequest{Path: "/n", ACL: ann})
		for _, waits := range []bool{false, true} {
			token, began := i.token("ann", 5*time.Second), time.Now()
			var writing sync.WaitGroup
			writing.Go(func() {
				time.Sleep(2 * time.Second)
				root.set("/n", "seen")
				for n := 0; n < 8 && !waits; n++ {
					time.Sleep(time.Second)
					root.set("/n", "over")
				}
			})
			w := s.visit(t, time.Minute, "192.0.2.1:1", "/v1/feed?data=true", "jwt "+token)
			took := time.Since(began)
			writing.Wait()
			text := w.Body.String()
			if w.Code != http.StatusOK || strings.Count(text, `"path":"/n"`) < 1 || !strings.HasSuffix(text, "event: unauthorized\ndata: {}\n\n") {
				t.Errorf("waits %v: %d\n%s", waits, w.Code, text)
			}
			if n := strings.Count(text, `"path":"/n"`); n > 4 || took > 6*time.Second {
				t.Errorf("waits %v: %d changes in %v\n%s", waits, n, took, text)
			}
			if w := s.visit(t, time.Second, "192.0.2.1:1", "/v1/feed", "jwt "+token); w.Code != http.StatusUnauthorized {
				t.Errorf("again with a token that is over: %d", w.Code)
			}
		}
	})
}

// TestFeedOfACertificate reads changes that the certificate of the connection may see, without another proof.
func TestFeedOfACertificate(t *testing.T) {
	pair := certs.New(t, "authority").Issue("ann")
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, append(apiLines, "authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider")...)
		c := s.connect(t)
		c.ok(jute.OpCreate, &jute.CreateRequest{Path: "/n", ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "x509", ID: "CN=ann"}}}})
		for _, over := range []*tls.ConnectionState{nil, {PeerCertificates: []*x509.Certificate{pair.Cert}}} {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/feed?after=0&follow=false", nil)
			r.Host, r.TLS = "localhost", over
			w := httptest.NewRecorder()
			s.AdminPages("/commands", "").ServeHTTP(w, r)
			if sees := strings.Contains(w.Body.String(), `"path":"/n"`); sees != (over != nil) || w.Code != http.StatusOK {
				t.Errorf("with a certificate %v: %d\n%s", over != nil, w.Code, w.Body)
			}
		}
	})
}

// TestDoorsAskForALogin requests data over HTTP where clients must have an identity of a scheme.
func TestDoorsAskForALogin(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, append(i.lines, "enforce.auth.enabled=true", "enforce.auth.schemes=jwt")...)
		for _, path := range []string{"/v1/feed?after=0", "/commands/snapshot", "/commands/log?after=0x0", "/commands/stat_reset"} {
			for authorization, want := range map[string]int{
				"": http.StatusUnauthorized, "ip x": http.StatusUnauthorized, "digest ann:pw": http.StatusUnauthorized,
				"digest super:secret": http.StatusOK, "jwt " + i.token("ann", time.Hour): http.StatusOK,
			} {
				if w := s.visit(t, time.Second, "192.0.2.1:1", path, authorization); w.Code != want {
					t.Errorf("%s as %.10q: %d, want %d\n%s", path, authorization, w.Code, want, w.Body)
				}
				time.Sleep(10 * time.Minute) // snapshots are limited
			}
		}
	})
}

// TestStreamsEndWithTheirToken lets a token end while the log is sent to its owner, and an ACL change
// while it is sent to another.
func TestStreamsEndWithTheirToken(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, i.lines...)
		root := s.super(t)
		root.create("/n", "")
		close := func() {
			root.ok(jute.OpSetACL, &jute.SetACLRequest{Path: "/", ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "jwt", ID: "root"}}}, Version: -1})
		}
		for _, tt := range []struct {
			name          string
			authorization func() string
			end           func()
		}{
			{"the ACL of the root changes", func() string { return "digest ann:pw" }, close},
			{"the token ends", func() string { return "jwt " + i.token("root", 5*time.Second) }, func() {}},
		} {
			var last jute.Zxid // that may be sent
			var writing sync.WaitGroup
			writing.Go(func() {
				time.Sleep(3 * time.Second)
				last = root.set("/n", "seen").Zxid
				time.Sleep(time.Second)
				tt.end()
				last++
				time.Sleep(2 * time.Second)
				root.set("/n", "over")
			})
			w := s.visit(t, time.Minute, "192.0.2.1:1", "/commands/log?after=0x0", tt.authorization())
			writing.Wait()
			dec, err := archive.NewDecoder(w.Body)
			check(t, err)
			for err == nil {
				_, err = dec.Next()
			}
			if w.Code != http.StatusOK || dec.At < last-1 || dec.At > last {
				t.Errorf("%s: %d, up to %v, want %v: %v", tt.name, w.Code, dec.At, last, err)
			}
		}
	})
}

// TestPasswordsOverHTTPAreLimited guesses the super user's password by all pages and headers: together they
// get as many tries as the port for clients would give, which is out of tries, too.
func TestPasswordsOverHTTPAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, superIs, "audit.enable=true")
		guess := func(n int) int {
			path := []string{"/v1/feed?path=/", "/commands/log?after=0x0", "/commands/stat_reset"}[n%3]
			if n%5 == 0 {
				path = "/commands/stat_reset" // the others would send data to this other user of that name
			}
			scheme := []string{"digest super:%d", "Basic c3VwZXI6%d", "Bearer %d", "jwt x%d", "nis super:%d"}[n%5]
			return s.visit(t, 20*time.Second, fmt.Sprintf("[2001:db8::%x]:%d", n+1, n), path, fmt.Sprintf(scheme, n)).Code
		}
		began := time.Now()
		for n := range 30 {
			guess(5*n + 1) // Basic, which fails at once
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("30 tries, one after the other, took %v, want 5 s", took)
		}
		var guessing sync.WaitGroup
		var refused atomic.Int64
		for n := range 100 {
			guessing.Go(func() {
				if guess(n) == http.StatusTooManyRequests {
					refused.Add(1)
				}
			})
		}
		guessing.Wait()
		if n := refused.Load(); n != 80 || s.metrics.AuthRefused.Load() != 80 {
			t.Errorf("of 100 tries at once %d were refused", n)
		}
		if n := s.logged.FilterMessageSnippet("many failed authentications").Len(); n != 1 {
			t.Errorf("%d lines in the log", n)
		}
		c := s.dialFrom(t, "2001:db8::ffff")
		before := time.Now()
		if c.addAuth("digest", "super:secret"); time.Since(before) == 0 {
			t.Error("the port for clients does not make the same network wait")
		}
		if w := s.visit(t, time.Second, "10.0.0.1:1", "/commands/stat_reset", "digest super:secret"); w.Code != http.StatusOK {
			t.Errorf("another address: %d", w.Code)
		}
	})
}

// TestFeedOfAConnectionEndsWithItsToken checks that a feed on a connection has nothing of what only a token
// could see after the end of that, also if the client makes no request, and has it again with a new token.
func TestFeedOfAConnectionEndsWithItsToken(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, i.lines...)
		root, c := s.super(t), s.subscriber(t, nil)
		ann := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "jwt", ID: "ann"}}}
		root.ok(jute.OpCreate, &jute.CreateRequest{Path: "/n", ACL: ann})
		if code := c.addAuth("jwt", i.token("ann", 5*time.Second)); code != 0 {
			t.Fatal(code)
		}
		c.subscribe(all(1, jute.FromNow))
		root.set("/n", "seen")
		synctest.Wait()
		c.pinged()
		time.Sleep(5 * time.Second)
		root.set("/n", "over")
		root.ok(jute.OpDelete, del("/n"))
		synctest.Wait()
		c.quiet("an event of a feed for an identity that has ended")
		root.ok(jute.OpCreate, &jute.CreateRequest{Path: "/n", ACL: ann})
		synctest.Wait()
		c.addAuth("jwt", i.token("ann", 5*time.Second))
		root.set("/n", "again")
		synctest.Wait()
		c.pinged()
		if got := text(c.got[1]); got != "0x4 data /n, 0x8 data /n" {
			t.Errorf("the feed has %s", got)
		}
	})
}

// TestConnectionsOfANetwork counts the connections of IPv6 by network: one client can have any number of
// addresses in it.
func TestConnectionsOfANetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, line := range []string{"maxClientCnxns=2", "zkd.limit.x=address * connections=2"} {
			s := startServer(t, line)
			for _, tt := range []struct {
				ip      string
				refused bool
			}{
				{"2001:db8::1", false}, {"2001:db8::2", false}, {"2001:db8:0:0:ffff::3", true}, {"2001:db8:0:1::1", false},
				{"10.0.0.1", false}, {"10.0.0.2", false}, {"10.0.0.1", false}, {"10.0.0.1", true},
			} {
				c := s.dial(t, dialOptions{ip: tt.ip})
				if tt.refused {
					c.eof(line + ": one more from " + tt.ip)
					continue
				}
				c.establish(&jute.ConnectRequest{TimeoutMs: 40_000, Password: make([]byte, 16)})
			}
		}
	})
}

// TestLimitsOfEveryIdentity sends requests as an identity whose rate is limited, which the client has proved
// before or after another one, in fake time.
func TestLimitsOfEveryIdentity(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		for _, rule := range []string{"identity *", "identity jwt:ann"} {
			s := startServer(t, append(i.lines, "zkd.limit.each="+rule+" requests/s=10")...)
			for _, digestFirst := range []bool{true, false} {
				c := s.connect(t)
				if digestFirst {
					c.auth("x:y")
				}
				c.addAuth("jwt", i.token("ann", time.Hour))
				c.auth("x:z")
				began := time.Now()
				for range 200 {
					c.ok(jute.OpExists, get("/", false))
				}
				if took := time.Since(began); took < 18*time.Second || took > 22*time.Second {
					t.Errorf("%s, digest first %v: 200 requests take %v", rule, digestFirst, took)
				}
				c.nc.Close()
				time.Sleep(time.Minute)
			}
		}
	})
}

// TestPingsAreCharged sends more pings than a rate allows: they are slowed down, and never refused. One a second
// costs nothing.
func TestPingsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "zkd.limit.each=address * requests/s=10")
		c := s.connect(t)
		began := time.Now()
		for range 200 {
			c.ping()
		}
		if took := time.Since(began); took < 16*time.Second || took > 22*time.Second {
			t.Errorf("200 pings take %v", took)
		}
		var all []*client
		for range 30 {
			all = append(all, s.connect(t))
		}
		time.Sleep(5 * time.Second)
		for range 3 {
			began := time.Now()
			for _, c := range all {
				c.ping()
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("one ping of each of 30 connections takes %v", took)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestSetWatchesOfAHiddenNode restores watches of a node that the client may not read: it gets no event, and its
// watches are there, as for a node that is absent.
func TestSetWatchesOfAHiddenNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, superIs)
		root, c := s.super(t), s.connect(t)
		hidden := create("/hidden", "", 0)
		hidden.ACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: "ann:x"}}}
		root.ok(jute.OpCreate, hidden)
		root.create("/shown", "")
		root.set("/hidden", "2")
		paths := []string{"/hidden", "/shown"}
		c.ok(jute.OpSetWatches, &jute.SetWatchesRequest{RelativeZxid: 1, Data: paths, Exist: []string{"/hidden", "/shown", "/absent"}, Child: paths})
		for _, e := range c.events {
			if ev := e.event(); ev.Path != "/shown" {
				t.Errorf("event %+v", ev)
			}
		}
		if len(c.events) != 3 {
			t.Errorf("%d events, want 3 of /shown", len(c.events))
		}
		for _, path := range []string{"/hidden", "/absent"} {
			if r := c.call(jute.OpCheckWatches, &jute.RemoveWatchesRequest{Path: path, Type: jute.WatchData}); r.Err != 0 {
				t.Errorf("the watch of %s: %v", path, r)
			}
		}
	})
}

// TestAddressesAsJavaSpellsThem compares the spelling of IPv6 addresses where programs read them: whoAmI, the
// words, the audit log and the AdminServer.
func TestAddressesAsJavaSpellsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, audited...)
		c := s.dialFrom(t, "2001:db8::1")
		const spelled = "2001:db8:0:0:0:0:0:1"
		if got := c.whoAmI(); got != "ip:"+spelled {
			t.Errorf("whoAmI: %s", got)
		}
		acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "ip", ID: "2001:db8::/32"}}, {Perms: jute.PermRead, ID: jute.ID{Scheme: "ip", ID: "2001:db8::1"}}}
		c.ok(jute.OpCreate, &jute.CreateRequest{Path: "/n", ACL: acl})
		c.ok(jute.OpGetData, get("/n", false))
		for word, want := range map[string]string{"cons": "/[" + spelled + "]:", "stat": "/[" + spelled + "]:", "topc": spelled} {
			if text := s.ask(t, word, false); !strings.Contains(text, want) {
				t.Errorf("%s lacks %s:\n%s", word, want, text)
			}
		}
		if _, body := s.page("/commands/connections", ""); !strings.Contains(body, `"[`+spelled+`]:`) {
			t.Errorf("connections:\n%s", body)
		}
		s.Close()
		lines := strings.Join(auditLines(t, s.opts.FS, map[jute.SessionID]string{c.session: "C"}), "\n")
		if !strings.Contains(lines, "user="+spelled+"\tip="+spelled) && !strings.Contains(lines, "ip="+spelled) {
			t.Errorf("audit:\n%s", lines)
		}
	})
}

// TestQueuedReadAfterItsToken lets a token end while a read waits behind a write, since the disk hangs: the read
// is answered without that identity.
func TestQueuedReadAfterItsToken(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(1)
		s := startOn(t, disk, "/data", i.lines...)
		root, c := s.super(t), s.connect(t)
		ann := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "jwt", ID: "ann"}}}
		root.ok(jute.OpCreate, &jute.CreateRequest{Path: "/n", ACL: ann})
		root.create("/open", "")
		c.addAuth("jwt", i.token("ann", 5*time.Second))
		well := make(chan struct{})
		disk.SetHook(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpSync {
				<-well
			}
			return nil
		})
		write := c.send(jute.OpSetData, set("/open", "1"))
		read := c.send(jute.OpGetData, get("/n", false))
		time.Sleep(6 * time.Second)
		disk.SetHook(nil)
		close(well)
		if r := c.await(write); r.Err != 0 {
			t.Errorf("the write: %v", r)
		}
		if r := c.await(read); r.Err != jute.ErrNoAuth {
			t.Errorf("the read: %v", r)
		}
	})
}
