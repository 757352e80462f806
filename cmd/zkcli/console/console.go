package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/ensemble"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/console"
)

// Options configure a Console.
type Options struct {
	Client  *client.Client
	Asker   servers.Asker // asks the servers by four-letter words
	Servers []string      // the first ones that are asked
	Address string        // host:port of its listener, which is on loopback
	Version string        // of the program
	// Opened is called when a link was used, and there is another one.
	Opened func()
}

// Console is a handler of HTTP.
type Console struct {
	Options
	pages, calls http.Handler
	members      *ensemble.Ensemble
	features     func() jute.Features // of the server that the client is connected to
	life         context.Context      // ends with the Console
	end          context.CancelFunc
	far          sync.WaitGroup

	mu     sync.Mutex
	listed listing  // the last list of children
	secret string   // of the link that is good now
	known  []string // the cookies of browsers that have used one
}

// maxFrame is the longest request that the API passes on: the console only reads.
const maxFrame = 1 << 20

// commands is the path of what the AdminServer of a server would answer.
const commands = "/commands"

// New returns a Console.
func New(o Options) *Console {
	c := &Console{Options: o, secret: rand.Text(), members: ensemble.New(o.Asker, 0, o.Servers...)}
	c.members.Start()
	c.features = func() jute.Features { return c.Client.Status().Features }
	c.life, c.end = context.WithCancel(context.Background())
	c.calls = api.Handler(api.Options{
		Connect: c.connect, Feed: http.HandlerFunc(c.feed), Ensemble: c.members.Look, MaxFrame: maxFrame, Version: o.Version,
	})
	c.pages = console.Handler(console.Options{Check: func(r *http.Request) error { return api.CheckHost(r, "") }, Commands: commands, Version: o.Version, ReadOnly: true})
	return c
}

// Close ends the connections of the API.
func (c *Console) Close() {
	c.end()
	c.far.Wait()
	c.members.Close()
}

// enter is the path of the link, before its secret.
const enter = "/enter/"

// Link returns the link that a browser has to open. It is good for one use.
func (c *Console) Link() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return "http://" + c.Address + enter + c.secret
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if r.Host != c.Address { // a name that resolves to this machine makes it another origin
		http.Error(w, "This console is http://"+c.Address+"/ alone.", http.StatusForbidden)
		return
	}
	if secret, ok := strings.CutPrefix(r.URL.Path, enter); ok {
		c.welcome(w, secret)
		return
	}
	if !c.knows(r) {
		http.Error(w, "This console is for those who started it. Open the link that zkcli has printed last: each is good for one browser.", http.StatusForbidden)
		return
	}
	// The pages ask below the console's own path: a server of zkd has its sign-ins there.
	if rest, ok := strings.CutPrefix(r.URL.Path, strings.TrimSuffix(console.Prefix, "/")); ok && strings.HasPrefix(rest, api.Prefix) {
		r = withoutPrefix(r, strings.TrimSuffix(console.Prefix, "/"))
	}
	switch {
	case r.URL.Path == "/":
		http.Redirect(w, r, console.Prefix, http.StatusSeeOther)
	case r.URL.Path == console.Prefix+"session": // nobody signs in here
		h.Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"token":"visitor","passwords":false,"tokens":false}`)
	case strings.HasPrefix(r.URL.Path, api.Prefix):
		c.call(w, r)
	case strings.HasPrefix(r.URL.Path, commands+"/"):
		c.command(w, r, strings.TrimPrefix(r.URL.Path, commands+"/"))
	default:
		c.pages.ServeHTTP(w, r)
	}
}

// withoutPrefix returns a request whose path lacks a prefix.
func withoutPrefix(r *http.Request, prefix string) *http.Request {
	u := *r.URL
	u.Path, u.RawPath = strings.TrimPrefix(u.Path, prefix), strings.TrimPrefix(u.RawPath, prefix)
	other := *r
	other.URL = &u
	return &other
}

// welcome lets a browser in that knows the secret. It answers by a page, not by a redirect: if a page elsewhere has the link, the
// browser would follow the redirect without the cookie.
func (c *Console) welcome(w http.ResponseWriter, secret string) {
	c.mu.Lock()
	good := same(secret, c.secret)
	cookie := rand.Text()
	if good {
		c.secret = rand.Text()
		c.known = append(c.known, cookie)
	}
	c.mu.Unlock()
	if !good {
		http.Error(w, "This link was used, or is none. Open the one that zkcli has printed last.", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: c.cookie(), Value: cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><title>zkd console</title><meta http-equiv=\"refresh\" content=\"0; url=%s\"><a href=\"%[1]s\">Console</a>\n", console.Prefix)
	if c.Opened != nil {
		c.Opened()
	}
}

// cookie is the name of the cookie: browsers send those of one port to all ports of a host.
func (c *Console) cookie() string {
	_, port, _ := net.SplitHostPort(c.Address) // it is one
	return "zkcli-console-" + port
}

// knows reports whether a request comes from a browser that was let in.
func (c *Console) knows(r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cookie := range r.CookiesNamed(c.cookie()) {
		for _, known := range c.known {
			if same(cookie.Value, known) {
				return true
			}
		}
	}
	return false
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// call passes a request to the API if it reads.
func (c *Console) call(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(http.StatusForbidden, "this console only reads: that of a server of zkd, or zkcli, can change something").Send(w)
		return
	}
	c.calls.ServeHTTP(w, r)
}

// refuse returns an answer that is no success.
func refuse(status int, detail string) *api.Problem {
	return &api.Problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

// connect implements api.Options.
func (c *Console) connect(_ context.Context, _ *api.Caller, visits bool) (api.Connection, error) {
	if !visits {
		return api.Connection{}, refuse(http.StatusNotImplemented, "this console has no sessions")
	}
	near, far := net.Pipe()
	c.far.Go(func() { c.serve(far) })
	return api.Connection{Conn: near}, nil
}
