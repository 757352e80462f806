package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Client is a session with an ensemble, or a view of one: see Namespace and WithRetry. New
// and Connect make one.
type Client struct {
	s     *session
	root  string // the path that this view's paths are relative to; "" or a path without a final /
	retry *RetryPolicy
	bound SessionID // the session that this view's operations require; 0 means any
	inbox *Inbox    // of this view's watches; nil if each watch has its own channel
}

// New makes a client of the servers. It returns at once, and the client connects in the
// background. servers is "host:port,host:port/path": the port may be omitted (2181), IPv6
// addresses are in brackets, and the client's paths are relative to the path, if there is
// one. New fails only if servers or the options are invalid.
func New(servers string, o Options) (*Client, error) {
	list, root, err := ParseServers(servers)
	if err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	full := o.withDefaults()
	s := newSession(list, &full)
	s.has(o.Session)
	s.is(o.Auth)
	s.root = root
	s.start()
	return &Client{s: s, root: root}, nil
}

// Connect is New that waits until there is a session. If ctx ends first, or the servers
// refuse the credentials, the error is a *ConnectError that says which servers were tried and
// how each failed.
func Connect(ctx context.Context, servers string, o Options) (*Client, error) {
	c, err := New(servers, o)
	if err != nil {
		return nil, err
	}
	err = c.WaitConnected(ctx)
	for i := 0; i < len(o.Auth) && err == nil; i++ { // the requests are sent already: wait for the answers
		if err = c.Session().AddAuth(ctx, o.Auth[i].Scheme, o.Auth[i].Data); err != nil {
			err = c.s.connectError(err)
		}
	}
	if err != nil {
		c.s.abort()
		return nil, err
	}
	return c, nil
}

// Close ends the session and so deletes its ephemeral nodes. It waits for the server's
// confirmation until ctx ends, but no longer than the session's timeout. Operations under way
// fail with ErrClosed, and watches are closed. Close returns nil if the session has ended
// already.
//
// A callback may call Close, so Close does not wait for callbacks. The last callback is the
// one that reports StateClosed, to Options.Watcher: wait for it before you release
// what callbacks use.
func (c *Client) Close(ctx context.Context) error { return c.s.close(ctx) }

// WaitConnected waits until operations are served. Otherwise the error is a *ConnectError,
// because ctx or the session has ended.
func (c *Client) WaitConnected(ctx context.Context) error { return c.s.waitConnected(ctx) }

// Options returns the options of the session with the defaults filled in, as they apply to
// this view: Retry is the view's policy if it has one, and RenewSession is false for a view
// of InSession.
func (c *Client) Options() Options {
	o := *c.s.opts
	o.Timeout, o.AllowReadOnly, o.Insist, o.User = c.s.asks.timeout, c.s.asks.readOnly, c.s.asks.insist, c.s.asks.user
	o.Retry, o.RenewSession = c.policy(), o.RenewSession && c.bound == 0
	return o
}

// State returns the session's state.
func (c *Client) State() State { return State(c.s.stateNow.Load()) }

// Status is what a client knows of its session and its connection at one time.
type Status struct {
	// Timeout is the session's timeout as the servers set it, or, before the first
	// connection, as the client requests it.
	Timeout time.Duration
	// Deadline is when the session may expire: its timeout after the client sent the last
	// request or ping that a server with a quorum answered. It moves with each such answer.
	// After it another client may hold what the session's ephemeral nodes stood for. It is
	// zero while there is no session, and after the session is known to have ended.
	Deadline time.Time
	// Server is the address of the server that the client is connected to, or "".
	Server string
	// Since is when the current connection was made, or zero if there is none. If two calls
	// return the same time, no connection was lost in between, even if not all changes of
	// state have been received.
	Since time.Time
	// Features are the extensions that this server has granted to the client. Servers other
	// than zkd's grant none.
	Features Features
	// LastZxid is the highest zxid of a reply; of a Relay, of an event as well.
	LastZxid Zxid
	// Err lists the last connection failure of each server. It is nil while the client is
	// connected.
	Err error
}

// Status returns what the client knows of its session and its connection.
func (c *Client) Status() Status {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Timeout: s.timeout, LastZxid: s.seenLocked()}
	if s.id != 0 && !s.state.Final() {
		st.Deadline = s.kept.Add(s.timeout)
	}
	if s.conn != nil {
		st.Server, st.Since, st.Features = s.conn.server, s.conn.began, s.conn.features
	}
	if !s.state.Connected() && len(s.failures) > 0 {
		st.Err = s.connectErrorLocked(ErrConnectionLoss)
	}
	return st
}

// Namespace returns a view of c whose paths are relative to path: c.Namespace("/app") calls
// /x what c calls /app/x. The node need not exist. Namespace panics if path is invalid,
// because that is a mistake in the program.
func (c *Client) Namespace(path string) *Client {
	full, err := c.full(path, false)
	if err != nil {
		panic(fmt.Sprintf("client: Namespace(%q): %v", path, err))
	}
	view := *c
	view.root = strings.TrimSuffix(full, "/")
	return &view
}

// Unrooted returns a view of c with the servers' own paths, regardless of the connect string
// and Namespace.
func (c *Client) Unrooted() *Client {
	view := *c
	view.root = ""
	return &view
}

// InSession returns a view of c whose operations fail with ErrSessionExpired if the client
// has another session than id. It is for clients with Options.RenewSession, and for changes
// that depend on the session, for example because they require that the client still owns an
// ephemeral node. The id 0 means any session.
func (c *Client) InSession(id SessionID) *Client {
	view := *c
	view.bound = id
	return &view
}

// Root returns the path that the view's paths are relative to: that of the connect string and
// of Namespace, or "".
func (c *Client) Root() string { return c.root }

// full checks a path and returns the servers' name of it. The path of a sequential create may
// end in /, because digits follow.
func (c *Client) full(path string, sequential bool) (string, error) {
	check := path
	if sequential && strings.HasSuffix(path, "/") {
		check = path + "0"
	}
	if err := jute.ValidatePath(check); err != nil {
		return "", err
	}
	switch {
	case c.root == "":
		return path, nil
	case path == "/" && !sequential:
		return c.root, nil
	}
	return c.root + path, nil
}

// strip converts a path of the servers to a path of this view.
func (c *Client) strip(path string) string {
	if c.root == "" {
		return path
	}
	rest, ok := strings.CutPrefix(path, c.root)
	switch {
	case !ok || rest != "" && rest[0] != '/':
		return path
	case rest == "":
		return "/"
	}
	return rest
}
