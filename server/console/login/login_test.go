package login

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/server/api"
)

// browser is one that has the console open. It keeps cookies as browsers do.
type browser struct {
	t           *testing.T
	h           http.Handler
	address     string
	certificate string // "" for a connection without TLS, "none" for one with TLS and no certificate
	cookies     map[string]*http.Cookie
	token       string
}

// server is a handler whose API answers with the identity of its caller.
func server() http.Handler {
	echo := http.NewServeMux()
	echo.HandleFunc("/v1/whoami", func(w http.ResponseWriter, r *http.Request) {
		c, _ := api.CallerOf(r)
		fmt.Fprintf(w, "%s %s via %s", c.Scheme, c.Data, c.Via)
	})
	echo.HandleFunc("/v1/feed", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		fmt.Fprint(w, "ended")
	})
	return Handler(Options{
		Pages: http.NotFoundHandler(), API: echo, Passwords: true, Tokens: true,
		SignIn: func(_ context.Context, c *api.Caller) (string, time.Time, error) {
			name, _, _ := strings.Cut(c.Data, ":")
			switch name {
			case "wrong":
				return "", time.Time{}, api.ErrUnauthorized
			case "often":
				return "", time.Time{}, api.ErrTooManyFailures
			case "short":
				return "jwt:short", time.Now().Add(5 * time.Minute), nil
			}
			return c.Scheme + ":" + name, time.Time{}, nil
		},
	})
}

func open(t *testing.T, h http.Handler) *browser {
	return &browser{t: t, h: h, address: "127.0.0.1:5000", cookies: make(map[string]*http.Cookie), token: visitor}
}

// send sends a request as a page would. headers are name and value in turn; an empty value takes one away.
func (b *browser) send(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequestWithContext(b.t.Context(), method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:8080", b.address
	if b.certificate != "" {
		r.TLS = &tls.ConnectionState{}
		if b.certificate != "none" {
			r.TLS.PeerCertificates = []*x509.Certificate{{Raw: []byte(b.certificate)}}
		}
	}
	r.Header.Set(header, b.token)
	r.Header.Set("Content-Type", "application/json")
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if b.cookies[c.Name] = c; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return w
}

// want is send for a request with a known answer.
func (b *browser) want(status int, part, method, path, body string, headers ...string) {
	b.t.Helper()
	if w := b.send(method, path, body, headers...); w.Code != status || !strings.Contains(w.Body.String(), part) {
		b.t.Errorf("%s %s %s: %d, want %d with %q\n%s", method, path, body, w.Code, status, part, w.Body)
	}
}

// session asks for the session, signs in if there is a body, and takes the token as a page does.
func (b *browser) session(method, body string) (st State) {
	b.t.Helper()
	w := b.send(method, "/console/session", body)
	if err := json.Unmarshal(w.Body.Bytes(), &st); err != nil || w.Code != http.StatusOK {
		b.t.Fatalf("%s of the session: %d\n%s", method, w.Code, w.Body)
	}
	b.token = st.Token
	return st
}

const (
	ann = `{"user": "ann", "password": "pw"}`
	bob = `{"user": "bob", "password": "pw"}`
)

// TestSignIn signs in, sends requests, loads the page again, and signs out.
func TestSignIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, server())
		b.want(200, "  via console", "GET", "/console/v1/whoami", "")
		if st := b.session("GET", ""); st != (State{Token: visitor, Passwords: true, Tokens: true}) {
			t.Errorf("a visitor: %+v", st)
		}
		if st := b.session("POST", ann); st.Name != "digest:ann" || st.Until-st.Since != longest.Milliseconds() || st.IdleMs != idle.Milliseconds() {
			t.Errorf("signed in: %+v", st)
		}
		b.want(200, "digest ann:pw via console", "GET", "/console/v1/whoami", "")
		b.want(200, "digest ann:pw via console", "GET", "/console/v1/whoami", "", "Authorization", "Bearer other")
		again := &browser{t: t, h: b.h, address: b.address, cookies: b.cookies, token: visitor}
		if st := again.session("GET", ""); st.Name != "digest:ann" || st.Token != b.token {
			t.Errorf("after a reload: %+v", st)
		}
		stolen := b.cookies["zkd-8080"]
		if st := b.session("DELETE", ""); st.Name != "" || len(b.cookies) != 0 {
			t.Errorf("signed out: %+v, %v", st, b.cookies)
		}
		b.want(200, "  via console", "GET", "/console/v1/whoami", "")
		again.cookies = map[string]*http.Cookie{"zkd-8080": stolen}
		again.want(401, "SIGNEDOUT", "GET", "/console/v1/whoami", "")
		b.session("POST", `{"token": " a.b.c\n"}`)
		b.want(200, "jwt a.b.c via console", "GET", "/console/v1/whoami", "")
	})
}

// TestCookie looks at the cookie: no script can read it, no page of another site sends it, and over TLS no other host can set it.
func TestCookie(t *testing.T) {
	for certificate, want := range map[string]string{
		"":     "zkd-8080=ID; Path=/console/; HttpOnly; SameSite=Strict",
		"none": "__Host-zkd-8080=ID; Path=/; HttpOnly; Secure; SameSite=Strict",
	} {
		b := open(t, server())
		b.certificate = certificate
		set := b.send("POST", "/console/session", ann).Header()["Set-Cookie"]
		if len(set) != 1 {
			t.Fatalf("cookies %q", set)
		}
		name, rest, _ := strings.Cut(set[0], "=")
		id, rest, _ := strings.Cut(rest, ";")
		if got := name + "=ID;" + rest; got != want || len(id) < 26 {
			t.Errorf("%s, want %s", set[0], want)
		}
	}
}

// TestOtherOrigins sends what a page of another origin can have a browser send.
func TestOtherOrigins(t *testing.T) {
	b := open(t, server())
	b.session("POST", ann)
	for name, headers := range map[string][]string{
		"a form, or a picture":          {header, ""},
		"a header that it has guessed":  {header, "1"},
		"that of no session":            {header, visitor},
		"another origin":                {"Origin", "https://evil.example"},
		"no origin":                     {"Origin", "null"},
		"another port":                  {"Origin", "http://localhost:9999"},
		"another scheme":                {"Origin", "https://localhost:8080"},
		"another site":                  {"Sec-Fetch-Site", "cross-site"},
		"another host of the same site": {"Sec-Fetch-Site", "same-site"},
	} {
		for method, path := range map[string]string{"GET": "/console/v1/whoami", "DELETE": "/console/session"} {
			if w := b.send(method, path, "", headers...); w.Code != 403 && w.Code != 401 {
				t.Errorf("%s: %s %s: %d\n%s", name, method, path, w.Code, w.Body)
			}
		}
	}
	for _, headers := range [][]string{{header, ""}, {"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
		b.want(403, "", "POST", "/console/session", bob, headers...) // would sign the reader in as bob
		b.want(403, "", "GET", "/console/session", "", headers...)
	}
	b.want(415, "", "POST", "/console/session", bob, "Content-Type", "text/plain")
	b.want(200, "digest ann:pw", "GET", "/console/v1/whoami", "", "Origin", "http://localhost:8080", "Sec-Fetch-Site", "same-origin")
}

// TestRebinding sends requests for a name that somebody has made resolve to the server.
func TestRebinding(t *testing.T) {
	h := server()
	for _, path := range []string{"/console/session", "/console/provider", "/console/callback", "/console/v1/whoami"} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://evil.example:8080"+path, nil)
		r.Header.Set(header, visitor)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 403 || !strings.Contains(w.Body.String(), "without TLS, the host of a request is") {
			t.Errorf("%s: %d\n%s", path, w.Code, w.Body)
		}
	}
}

// TestFixation signs in with a cookie that somebody else has set: it is not the one of the session.
func TestFixation(t *testing.T) {
	b := open(t, server())
	b.cookies["zkd-8080"] = &http.Cookie{Name: "zkd-8080", Value: "known"}
	b.session("POST", ann)
	first := &browser{t: t, h: b.h, address: b.address, cookies: maps.Clone(b.cookies), token: b.token}
	if first.cookies["zkd-8080"].Value == "known" {
		t.Error("the number of the session is one that came with the request")
	}
	b.session("POST", bob)
	first.want(401, "SIGNEDOUT", "GET", "/console/v1/whoami", "")
	// With two cookies one of them is not ours, and nobody knows which.
	id := b.cookies["zkd-8080"].Value
	b.cookies = nil
	for _, both := range []string{"zkd-8080=x; zkd-8080=" + id, "zkd-8080=" + id + "; zkd-8080=x"} {
		b.want(401, "SIGNEDOUT", "GET", "/console/v1/whoami", "", "Cookie", both)
	}
	b.want(200, "bob", "GET", "/console/v1/whoami", "", "Cookie", "zkd-8080="+id)
}

// TestTwoPages has two pages of one browser: what one of them sends for ann is not done for bob.
func TestTwoPages(t *testing.T) {
	one := open(t, server())
	one.session("POST", ann)
	two := &browser{t: t, h: one.h, address: one.address, cookies: one.cookies, token: visitor}
	two.session("POST", bob)
	one.want(401, "SIGNEDOUT", "GET", "/console/v1/whoami", "")
	one.want(401, "SIGNEDOUT", "DELETE", "/console/session", "")
	two.want(200, "digest bob:pw", "GET", "/console/v1/whoami", "")
	one.session("GET", "")
	one.want(200, "digest bob:pw", "GET", "/console/v1/whoami", "")
}

// TestBond uses a cookie without the certificate with which its browser has signed in.
func TestBond(t *testing.T) {
	b := open(t, server())
	b.certificate = "ann's"
	b.session("POST", ann)
	for _, other := range []string{"bob's", "none"} {
		b.certificate = other
		b.want(401, "SIGNEDOUT", "GET", "/console/v1/whoami", "")
	}
	b.certificate = "ann's"
	b.want(200, "ann", "GET", "/console/v1/whoami", "")
}

// TestEnds lets the times of sessions go by.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := server()
		table := &h.(*handler).sessions
		b := open(t, h)
		b.session("POST", ann)
		time.Sleep(idle - time.Second)
		b.want(200, "ann", "GET", "/console/v1/whoami", "")
		time.Sleep(idle - time.Second)
		b.want(200, "ann", "GET", "/console/v1/whoami", "")
		time.Sleep(idle)
		synctest.Wait()
		if n := len(table.of); n != 0 {
			t.Errorf("%d sessions without a request for %v", n, idle)
		}
		b.want(401, "SIGNEDOUT", "GET", "/console/v1/whoami", "")
		if st := b.session("GET", ""); st.Name != "" || len(b.cookies) != 0 {
			t.Errorf("afterwards: %+v, %v", st, b.cookies)
		}

		b.session("POST", ann)
		for range 2 * longest / idle {
			time.Sleep(idle / 2)
			b.send("GET", "/console/v1/whoami", "")
		}
		b.want(401, "SIGNEDOUT", "GET", "/console/v1/whoami", "")

		b.session("GET", "")
		st := b.session("POST", `{"user": "short", "password": ""}`)
		if st.Until-st.Since != (5 * time.Minute).Milliseconds() {
			t.Errorf("with a token of five minutes: %+v", st)
		}
		time.Sleep(5 * time.Minute)
		b.want(401, "SIGNEDOUT", "GET", "/console/v1/whoami", "")
		synctest.Wait()
		if n := len(table.of); n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}

// TestFeedEnds has feeds open: one keeps a session, whose end is that of the feed.
func TestFeedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, server())
		follow := func() <-chan string {
			body := make(chan string, 1)
			page := *b
			go func() { body <- page.send("GET", "/console/v1/feed", "").Body.String() }()
			synctest.Wait()
			return body
		}
		b.session("POST", ann)
		feed := follow()
		time.Sleep(3 * idle)
		b.want(200, "ann", "GET", "/console/v1/whoami", "")
		b.session("DELETE", "")
		synctest.Wait()
		if began := time.Now(); <-feed != "ended" || time.Since(began) != 0 {
			t.Errorf("the feed after signing out lasted %v", time.Since(began))
		}
		b.session("POST", ann)
		feed = follow()
		began := time.Now()
		if <-feed; time.Since(began) != longest {
			t.Errorf("the feed lasted %v", time.Since(began))
		}
	})
}

// TestAttempts signs in more often than anybody has to.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, server())
		for range 10 * perSecond {
			b.want(401, "prove nothing", "POST", "/console/session", `{"user": "wrong", "password": ""}`)
		}
		b.want(429, "wait", "POST", "/console/session", ann)
		other := open(t, b.h)
		other.address = "127.0.0.2:5000"
		other.session("POST", ann)
		time.Sleep(time.Second)
		b.session("POST", ann)
		other.want(429, "too many credentials", "POST", "/console/session", `{"user": "often", "password": ""}`)
	})
}

// TestRefusedProofs signs in with what is none.
func TestRefusedProofs(t *testing.T) {
	for body, want := range map[string]int{
		"": 400, "{}": 400, `{"user": "a:b", "password": ""}`: 400, `{"user": "a", "more": 1}`: 400, `{"token": 1}`: 400, `{"token": "` + strings.Repeat("x", maxBody) + `"}`: 400,
	} {
		b := open(t, server())
		b.want(want, "", "POST", "/console/session", body)
		b.want(405, "the methods here are", "PUT", "/console/session", "")
		if len(b.cookies) != 0 {
			t.Errorf("%.40s: %v", body, b.cookies)
		}
	}
	b := open(t, server())
	b.address = "192.0.2.1:5000"
	b.want(403, "over TLS, or from this machine", "POST", "/console/session", ann)
	if st := b.session("GET", ""); st.Passwords {
		t.Errorf("a password without TLS is offered: %+v", st)
	}
	b.certificate = "none"
	b.session("POST", ann)
}

// TestTooMany signs in from more places than there is room for. Nobody can push out those of other networks, unless there is no room for
// anybody.
func TestTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := sessions{of: make(map[key]*session)}
		begin := func(network string) *session {
			time.Sleep(time.Millisecond)
			_, s := table.begin(session{network: network}, time.Time{})
			return s
		}
		first := begin("a")
		second := begin("a")
		victim := begin("v")
		for range mostOfOne - 1 {
			begin("a")
		}
		if table.of[first.key] != nil || table.of[second.key] == nil || len(table.of) != mostOfOne+1 {
			t.Errorf("one too many of one network: %d sessions", len(table.of))
		}
		for i := range 2 * most {
			begin(fmt.Sprint("n", i%20))
		}
		if table.of[victim.key] == nil || len(table.of) != most {
			t.Errorf("of %d sessions that of a network with one is gone", len(table.of))
		}
		for _, s := range table.of {
			table.end(s)
		}
	})
}
