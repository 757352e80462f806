package login

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/console"
	"github.com/zkd-project/zkd/server/limits"
)

const (
	// header has the token of the session in each request of a page, and visitor without a session. A page of another origin can't set
	// it.
	header  = "X-Console"
	visitor = "visitor"
	// via is the door in the audit log.
	via = "console"
	// maxBody bounds what somebody signs in with.
	maxBody = 64 << 10
	// perSecond is how often somebody may sign in from one network, with ten seconds' worth at once. What is wrong is limited besides,
	// with all other doors.
	perSecond = 1
)

// Options configure a Handler.
type Options struct {
	// Pages serves the pages.
	Pages http.Handler
	// API is the HTTP API.
	API http.Handler
	// SignIn proves who a caller is. until is when that ends, zero for never. The error is that of Connect of api.Options.
	SignIn func(ctx context.Context, c *api.Caller) (name string, until time.Time, err error)
	// Host is the name by which the server may be called without TLS, besides addresses and localhost.
	Host string
	// Provider begins a sign-in elsewhere: address is where the browser has to go, and finish returns a token of the scheme jwt for the parameters with which
	// it comes back to redirect. nil for none.
	Provider func(ctx context.Context, redirect string) (address string, finish func(context.Context, url.Values) (token string, err error), err error)
	// ProviderName is its name for people.
	ProviderName string
	// Passwords and Tokens say that there are the schemes digest and jwt.
	Passwords, Tokens bool
}

// Handler returns what serves all below console.Prefix.
func Handler(o Options) http.Handler {
	return &handler{Options: o, sessions: sessions{of: make(map[key]*session)}, flows: sessions{of: make(map[key]*session)}, attempts: limits.NewFailures(perSecond), began: time.Now(),
		calls: http.StripPrefix(strings.TrimSuffix(console.Prefix, "/"), o.API)}
}

type handler struct {
	Options
	sessions sessions
	flows    sessions         // sign-ins that are under way elsewhere
	attempts *limits.Failures // attempts to sign in count as failures
	began    time.Time
	calls    http.Handler
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	switch at := strings.TrimPrefix(r.URL.Path, console.Prefix); {
	case "/"+at == api.Prefix || strings.HasPrefix("/"+at, api.Prefix):
		err = h.call(w, r)
	case at == "session":
		guard(w)
		err = h.session(w, r)
	case at == "provider":
		guard(w)
		err = h.goElsewhere(w, r)
	case at == "callback":
		guard(w)
		h.comeBack(w, r)
	default:
		h.Pages.ServeHTTP(w, r)
	}
	if err == nil {
		return
	}
	p, ok := errors.AsType[*api.Problem](err)
	if !ok {
		p = refuse(http.StatusInternalServerError, "%v", err)
	}
	p.Send(w)
}

// guard has browsers do nothing with an answer but read it.
func guard(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
}

func refuse(status int, format string, args ...any) *api.Problem {
	return &api.Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// signedOut answers a request of a page whose session there is not, or not any more.
func signedOut() error {
	p := refuse(http.StatusUnauthorized, "you are not signed in any more, or as somebody else")
	p.Name = "SIGNEDOUT"
	return p
}

// call has the API serve a request.
func (h *handler) call(w http.ResponseWriter, r *http.Request) error {
	s, err := h.enter(r)
	switch {
	case err != nil:
		return err
	case s == nil:
		h.calls.ServeHTTP(w, api.With(r, api.Proof{Via: via}))
		return nil
	}
	defer h.sessions.leave(s)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	h.calls.ServeHTTP(w, api.With(r.WithContext(ctx), s.proof))
	return nil
}

// enter returns the session of a request that a page has sent, nil for none. sessions.leave has to be called for it.
func (h *handler) enter(r *http.Request) (*session, error) {
	shown, err := h.token(r)
	if err != nil {
		return nil, err
	}
	id := cookie(r, cookieName(r))
	if id == "" && shown == visitor {
		return nil, nil
	}
	s := h.sessions.enter(id, bondOf(r))
	if s == nil {
		return nil, signedOut()
	}
	if subtle.ConstantTimeCompare([]byte(shown), []byte(s.token)) == 0 {
		h.sessions.leave(s)
		return nil, signedOut()
	}
	return s, nil
}

// token returns what a request has as header. The error says why no page of this origin has sent it.
func (h *handler) token(r *http.Request) (string, error) {
	if err := api.CheckOrigin(r, h.Host); err != nil {
		return "", err
	}
	shown := r.Header.Get(header)
	if shown == "" {
		return "", refuse(http.StatusForbidden, "only the console's pages send requests here, with the header %s; programs use %s", header, api.Prefix)
	}
	return shown, nil
}

// State is what a page knows of who its reader is. It has no secret but the token, which is good for nothing without the cookie.
type State struct {
	Token string `json:"token"` // for the header X-Console
	// Name is the identity that has signed in, "" without one; the times are in ms since 1970.
	Name   string `json:"name,omitempty"`
	Since  int64  `json:"since,omitempty"`
	Until  int64  `json:"until,omitempty"`
	IdleMs int64  `json:"idleMs,omitempty"` // after which it ends without a request
	// Passwords and Tokens are ways to sign in.
	Passwords bool `json:"passwords"`
	Tokens    bool `json:"tokens"`
	// Provider is the name of the one that is another way, "" for none.
	Provider string `json:"provider,omitempty"`
}

func (h *handler) state(r *http.Request, s *session) State {
	st := State{Token: visitor, Passwords: h.Passwords && secret(r), Tokens: h.Tokens, Provider: h.ProviderName}
	if s != nil {
		st.Token, st.Name, st.Since, st.Until, st.IdleMs = s.token, s.name, s.began.UnixMilli(), s.until.UnixMilli(), idle.Milliseconds()
	}
	return st
}

// secret reports whether nobody can read a password on its way: it comes over TLS, or from this machine.
func secret(r *http.Request) bool {
	return r.TLS != nil || from(r).IsLoopback()
}

// from returns the address of the sender of a request.
func from(r *http.Request) netip.Addr {
	a, _ := netip.ParseAddrPort(r.RemoteAddr)
	return a.Addr().Unmap()
}

// session tells who the reader of a page is, signs in, and signs out.
func (h *handler) session(w http.ResponseWriter, r *http.Request) error {
	if _, err := h.token(r); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet:
		id := cookie(r, cookieName(r))
		s := h.sessions.enter(id, bondOf(r))
		if s != nil {
			defer h.sessions.leave(s)
		} else if id != "" { // with it the page would not be a visitor's
			forget(w, r)
		}
		return answer(w, h.state(r, s))
	case http.MethodPost:
		p, err := proofOf(w, r)
		if err != nil {
			return err
		}
		if err := h.attempt(r); err != nil {
			return err
		}
		s, err := h.signIn(w, r, p)
		if err != nil {
			return err
		}
		return answer(w, h.state(r, s))
	case http.MethodDelete:
		s, err := h.enter(r)
		if err != nil {
			return err
		}
		if s != nil {
			h.sessions.end(s)
		}
		forget(w, r)
		return answer(w, h.state(r, nil))
	}
	w.Header().Set("Allow", "DELETE, GET, POST")
	return refuse(http.StatusMethodNotAllowed, "the methods here are DELETE, GET and POST")
}

func answer(w http.ResponseWriter, st State) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(st)
}

// proofOf returns what somebody signs in with.
func proofOf(w http.ResponseWriter, r *http.Request) (p api.Proof, err error) {
	if t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); t != "application/json" {
		return p, refuse(http.StatusUnsupportedMediaType, "the body is application/json")
	}
	var with struct{ User, Password, Token string }
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&with); err != nil {
		return p, refuse(http.StatusBadRequest, "the body has user and password, or token: %v", err)
	}
	switch {
	case with.Token != "":
		return api.Proof{Scheme: "jwt", Data: strings.TrimSpace(with.Token), Via: via}, nil
	case with.User == "" || strings.Contains(with.User, ":"):
		return p, refuse(http.StatusBadRequest, "the name of a user is not empty, and has no colon")
	case !secret(r):
		return p, refuse(http.StatusForbidden, "a password is taken over TLS, or from this machine, only")
	}
	return api.Proof{Scheme: "digest", Data: with.User + ":" + with.Password, Via: via}, nil
}

// signIn begins a session, and ends the one that the browser has had.
func (h *handler) signIn(w http.ResponseWriter, r *http.Request, p api.Proof) (*session, error) {
	c, err := api.CallerOf(api.With(r, p))
	if err != nil {
		return nil, err
	}
	name, until, err := h.SignIn(r.Context(), c)
	switch {
	case errors.Is(err, api.ErrTooManyFailures):
		return nil, refuse(http.StatusTooManyRequests, "%v", err)
	case errors.Is(err, api.ErrUnauthorized):
		return nil, refuse(http.StatusUnauthorized, "%v", err)
	case err != nil:
		return nil, refuse(http.StatusServiceUnavailable, "%v", err)
	}
	if old := h.sessions.enter(cookie(r, cookieName(r)), bondOf(r)); old != nil {
		h.sessions.end(old)
	}
	id, s := h.sessions.begin(session{bond: bondOf(r), network: limits.Network(from(r).String()), proof: p, name: name}, until)
	setCookie(w, r, &http.Cookie{Name: cookieName(r), Value: id, SameSite: http.SameSiteStrictMode})
	return s, nil
}

// attempt counts an attempt to sign in, and refuses one too many.
func (h *handler) attempt(r *http.Request) error {
	address, now := from(r).String(), time.Since(h.began)
	if h.attempts.Blocked(address, now) {
		return refuse(http.StatusTooManyRequests, "too many attempts to sign in from this address: wait a second")
	}
	h.attempts.Failed(address, now)
	return nil
}

// bondOf returns what a session of the sender of a request is bound to.
func bondOf(r *http.Request) (b bond) {
	if r.TLS == nil {
		return b
	}
	if certs := r.TLS.PeerCertificates; len(certs) > 0 {
		return sha256.Sum256(certs[0].Raw)
	}
	return sha256.Sum256(nil)
}

// cookieName returns the name of the cookie. It has the port, since browsers send cookies to all ports of a host, and several servers
// may be on one.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		port = "0"
	}
	if r.TLS != nil {
		return "__Host-zkd-" + port
	}
	return "zkd-" + port
}

// cookie returns what a cookie has, "" if there is none. Of several, some are not ours.
func cookie(r *http.Request, name string) string {
	if all := r.CookiesNamed(name); len(all) == 1 {
		return all[0].Value
	}
	return ""
}

// setCookie gives the browser a cookie. Only with TLS can it be kept from other hosts; without, this machine is the only one.
func setCookie(w http.ResponseWriter, r *http.Request, c *http.Cookie) {
	c.Path, c.HttpOnly = console.Prefix, true
	if r.TLS != nil {
		c.Path, c.Secure = "/", true
	}
	http.SetCookie(w, c)
}

// forget takes the cookie of the session away.
func forget(w http.ResponseWriter, r *http.Request) {
	setCookie(w, r, &http.Cookie{Name: cookieName(r), MaxAge: -1, SameSite: http.SameSiteStrictMode})
}
