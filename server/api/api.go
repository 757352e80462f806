package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/fair"
)

// Options configure a Handler.
type Options struct {
	// Connect proves who the caller is, and connects it to the server. visits: its session will be local to the server. The error
	// is ErrUnauthorized, ErrTooManyFailures, ErrRefused, a *Problem, or the end of ctx.
	Connect func(ctx context.Context, c *Caller, visits bool) (Connection, error)
	// Server returns the server, for one request; nil if the API is not part of one.
	Server func() Server
	// Feed serves /v1/feed. It gets the proof of a caller as the header Authorization: SCHEME DATA.
	Feed http.Handler
	// Ensemble asks all members how they are; nil means that nobody can.
	Ensemble func(context.Context) *Ensemble
	// Operator changes the members; nil means that nobody can.
	Operator Operator
	// Audit returns the tail of the audit log, nil if that is off.
	Audit func() AuditTail
	// MaxFrame is the longest request of the protocol: jute.maxbuffer.
	MaxFrame int
	// Host is the name by which the server may be called without TLS, besides addresses and localhost.
	Host string
	// Version is that of the server.
	Version string
	// ReadOnly means that the server is a standby, which only reads.
	ReadOnly bool
}

// Prefix is that of the paths of all endpoints.
const Prefix = "/v1/"

// Handler returns the API.
func Handler(o Options) http.Handler {
	a := &api{Options: o, links: links{connect: o.Connect, readOnly: o.ReadOnly, of: make(map[key]*shared)}}
	a.endpoints = a.table()
	for i := range a.endpoints {
		a.endpoints[i].compile()
	}
	a.description = describe(a.endpoints, o.Version)
	return a
}

type api struct {
	Options
	links       links
	configuring sync.Mutex
	streams     fair.Places[*http.Request] // of the audit log
	restores    sync.Map                   // from ids to what cancels them
	endpoints   []endpoint
	description []byte
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store") // a version is not unique among all nodes that a path has had
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	c := &call{api: a, w: w, r: r}
	if err := c.serve(); err != nil {
		if c.begun { // the caller must not take what it has for all
			panic(http.ErrAbortHandler)
		}
		p := asProblem(err, c.path)
		if a.ReadOnly && p.Code == int32(jute.ErrNotReadOnly) {
			p.Detail = "this is a standby, which only reads, and only what it has: ask a server of the ensemble that it follows"
		}
		p.Send(w)
	}
}

// call is one request.
type call struct {
	*api
	w      http.ResponseWriter
	r      *http.Request
	caller *Caller
	token  *token              // nil for none
	path   string              // of the node, "" for none
	id     string              // of a session, or a key, in the path of the request
	args   map[string][]string // of the endpoint's parameters in the query and in headers
	begun  bool                // a part of the answer has been sent
}

func (c *call) serve() error {
	if err := CheckOrigin(c.r, c.Host); err != nil {
		return err
	}
	e, err := c.route()
	if err != nil {
		return err
	}
	if c.args, err = e.arguments(c.r); err != nil {
		return err
	}
	if c.caller, err = CallerOf(c.r); err != nil {
		return err
	}
	c.caller.Operates = e.operates
	if text := c.arg("X-Session"); text != "" {
		if c.token, err = parseToken(text); err != nil {
			return refuse(http.StatusBadRequest, "%v", err)
		}
	}
	if c.ReadOnly && e.changes() && !e.writes {
		return c.notReadOnly()
	}
	return e.serve(c)
}

// notReadOnly refuses a change to a caller whom the server lets in.
func (c *call) notReadOnly() error {
	c.token = nil
	if _, err := c.send(jute.OpWhoAmI, encoded(nil), nil); err != nil {
		return err
	}
	return jute.ErrNotReadOnly
}

// route finds the endpoint of a request.
func (c *call) route() (*endpoint, error) {
	var others []string
	for i := range c.endpoints {
		e := &c.endpoints[i]
		rest, ok := e.matches(c.r.URL.EscapedPath())
		if !ok {
			continue
		}
		if e.method != c.r.Method {
			others = append(others, e.method)
			continue
		}
		text, err := url.PathUnescape(rest)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "%v", err)
		}
		switch {
		case strings.Contains(e.path, "{path}"):
			c.path = "/" + text
		case rest != "":
			c.id = text
		}
		return e, nil
	}
	if len(others) > 0 {
		c.w.Header().Set("Allow", strings.Join(others, ", "))
		return nil, refuse(http.StatusMethodNotAllowed, "the methods here are %s", strings.Join(others, ", "))
	}
	return nil, refuse(http.StatusNotFound, "there is no such resource: see /v1/openapi.json")
}

// arg returns the value of a parameter, or "".
func (c *call) arg(name string) string {
	if list := c.args[name]; len(list) > 0 {
		return list[0]
	}
	return ""
}

// number returns the value of a parameter that is a number.
func (c *call) number(name string) int64 {
	n, _ := strconv.ParseInt(c.arg(name), 10, 64) // it was checked
	return n
}

// Proof is how a caller proves who it is, and the door by which it comes.
type Proof struct {
	Scheme, Data string // as of addAuth; empty for none
	Via          string
}

// proofKey is that of a Proof in the context of a request.
type proofKey struct{}

// With returns a request whose caller has a proof in the place of the header Authorization.
func With(r *http.Request, p Proof) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), proofKey{}, p))
}

// callerBy returns the sender of a request, with a proof.
func callerBy(r *http.Request, p Proof) *Caller {
	c := &Caller{Scheme: p.Scheme, Data: p.Data, Via: p.Via, Secure: r.TLS != nil}
	c.From, _ = netip.ParseAddrPort(r.RemoteAddr)
	c.From = netip.AddrPortFrom(c.From.Addr().Unmap(), c.From.Port())
	if r.TLS != nil {
		c.Certificates = r.TLS.PeerCertificates
	}
	return c
}

// CallerOf returns the sender of a request, with what it shows of itself: that of With, or the header Authorization.
func CallerOf(r *http.Request) (*Caller, error) {
	if p, ok := r.Context().Value(proofKey{}).(Proof); ok {
		return callerBy(r, p), nil
	}
	c := callerBy(r, Proof{Via: "http"})
	c.Scheme, c.Data, _ = strings.Cut(r.Header.Get("Authorization"), " ")
	switch strings.ToLower(c.Scheme) {
	case "bearer":
		c.Scheme = "jwt"
	case "basic":
		text, err := base64.StdEncoding.DecodeString(c.Data)
		if err != nil || !strings.Contains(string(text), ":") {
			return nil, refuse(http.StatusBadRequest, "the header Authorization can't be read")
		}
		if r.TLS == nil {
			return nil, refuse(http.StatusForbidden, "a password is taken over TLS only")
		}
		c.Scheme, c.Data = "digest", string(text)
	}
	return c, nil
}

// do sends requests together on the link of the caller, and returns their replies. It repeats them on another link if they
// were lost with the first one and only read.
func (c *call) do(requests ...request) ([]reply, error) {
	number, err := c.writeNumber(requests[len(requests)-1].op)
	if err != nil {
		return nil, err
	}
	reads := true
	for i, q := range requests {
		body := encoded(q.body.Append(nil))
		if 8+len(body) > c.MaxFrame {
			return nil, refuse(http.StatusRequestEntityTooLarge, "the request is longer than jute.maxbuffer, which is %d", c.MaxFrame)
		}
		requests[i].body = body
		reads = reads && !q.op.Write()
	}
	for again := false; ; again = true {
		l, leave, err := c.links.use(c.r.Context(), c.caller, c.token)
		if err != nil {
			return nil, err
		}
		var replies []reply
		if number != 0 {
			replies, err = l.write(c.r.Context(), number, requests[0])
		} else {
			replies, err = l.call(c.r.Context(), requests...)
		}
		leave()
		if again || err != errUnsent && !(err == errLost && (reads || number != 0)) {
			return replies, err
		}
	}
}

// encoded is the body of a request.
type encoded []byte

func (e encoded) Append(b []byte) []byte { return append(b, e...) }

// seen returns the zxid that the caller has seen, 0 if it does not say.
func (c *call) seen() jute.Zxid { return jute.Zxid(c.hex("X-Zxid")) }

// hex returns the value of a parameter in hex.
func (c *call) hex(name string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(c.arg(name), "0x"), 16, 64) // it was checked
	return n
}

// read reads with the consistency that the caller asks for: see result.
func (c *call) read(op jute.OpCode, body appender, into decoder) (jute.Zxid, error) {
	requests := []request{{op, body}}
	sync := request{jute.OpSync, &jute.SyncRequest{Path: "/"}}
	if c.arg("consistency") == "linearizable" {
		requests = []request{sync, {op, body}}
	}
	r, err := c.last(requests)
	if err != nil || r.Zxid >= c.seen() || c.arg("consistency") == "local" {
		return result(r, err, into)
	}
	if r, err = c.last([]request{sync, {op, body}}); err == nil && r.Zxid < c.seen() {
		return 0, refuse(http.StatusConflict, "the ensemble is at %v, and has not got to the X-Zxid %v", r.Zxid, c.seen())
	}
	return result(r, err, into)
}

// last sends requests, and returns the last reply, or an error that a reply before it has.
func (c *call) last(requests []request) (*reply, error) {
	replies, err := c.do(requests...)
	if err != nil {
		return nil, err
	}
	for i := range replies[:len(replies)-1] {
		if code := replies[i].Err; code != 0 {
			return nil, code
		}
	}
	return &replies[len(replies)-1], nil
}

// result decodes a reply, unless into is nil, and returns its zxid. The code of a reply is an error.
func result(r *reply, err error, into decoder) (jute.Zxid, error) {
	switch {
	case err != nil:
		return 0, err
	case r.Err != 0:
		return 0, r.Err
	case into == nil:
		return r.Zxid, nil
	}
	return r.Zxid, r.decode(into)
}

// send sends a request for which consistency means nothing: see result.
func (c *call) send(op jute.OpCode, body appender, into decoder) (jute.Zxid, error) {
	r, err := c.last([]request{{op, body}})
	return result(r, err, into)
}

// body reads the body of the request. It is taken as it is: data that a caller has compressed on the way would
// stay so in the tree.
func (c *call) body() ([]byte, error) {
	if coding := c.r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, refuse(http.StatusUnsupportedMediaType, "a body has no Content-Encoding here: %q would stay on the data", coding)
	}
	if c.r.ContentLength > int64(c.MaxFrame) {
		return nil, c.tooLong()
	}
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, int64(c.MaxFrame)))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, c.tooLong()
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the body can't be read: %v", err)
	}
	return b, nil
}

func (c *call) tooLong() error {
	return refuse(http.StatusRequestEntityTooLarge, "the body is longer than jute.maxbuffer, which is %d", c.MaxFrame)
}

// record decodes a body in JSON.
func (c *call) record(into any) error {
	b, err := c.body()
	if err != nil {
		return err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return refuse(http.StatusBadRequest, "the body is not as described: %v", err)
	}
	if d.More() {
		return refuse(http.StatusBadRequest, "the body has more than one value")
	}
	return nil
}

// zxid sets the header with the zxid of the state that the answer shows.
func (c *call) zxid(z jute.Zxid) { c.w.Header().Set("X-Zxid", z.String()) }

// answer sends a record in JSON.
func (c *call) answer(status int, record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(text, '\n')) // a caller that is gone needs none
	return nil
}

// accepted returns which of the media types the caller likes best, the first one of those that it likes alike, or "".
func accepted(header string, types ...string) string {
	if strings.TrimSpace(header) == "" {
		return types[0]
	}
	best, most := "", 0.0
	for _, t := range types {
		if q := quality(header, t); q > most {
			best, most = t, q
		}
	}
	return best
}

// quality returns how much a header Accept likes a media type: what the most specific range says that it is in.
func quality(header, mediaType string) float64 {
	q, specific := 0.0, -1
	family, _, _ := strings.Cut(mediaType, "/")
	for part := range strings.SplitSeq(header, ",") {
		fields := strings.Split(part, ";")
		level := slices.Index([]string{"*/*", family + "/*", mediaType}, strings.ToLower(strings.TrimSpace(fields[0])))
		if level <= specific {
			continue
		}
		specific, q = level, 1
		for _, f := range fields[1:] {
			if text, ok := strings.CutPrefix(strings.TrimSpace(f), "q="); ok {
				q, _ = strconv.ParseFloat(text, 64) // 0 if it is none
			}
		}
	}
	return q
}
