package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Client is a session with an ensemble, or a view of one: see Namespace and
// WithRetry. Make it with New or Connect.
type Client struct {
	s     *session
	root  string // what this view's paths are below; "" or a path that doesn't end in /
	retry *RetryPolicy
	bound SessionID // the session that this view's operations are for; 0 is any
	inbox *Inbox    // of this view's watches; nil if each has its own channel
}

// New makes a client of the servers, which begins to connect to them and returns
// at once. servers is "host:port,host:port/path": the port may be left out
// (2181), IPv6 addresses are in brackets, and paths of the client are below the
// path, if there is one. New fails only if servers or the options are wrong.
func New(servers string, o Options) (*Client, error) {
	list, root, err := ParseServers(servers)
	if err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := newSession(list, o.withDefaults())
	s.root = root
	s.start()
	return &Client{s: s, root: root}, nil
}

// Connect is New that waits until there is a session. If ctx ends first, or the
// servers refuse the credentials, the error is a *ConnectError that says which
// servers were tried and how each failed.
func Connect(ctx context.Context, servers string, o Options) (*Client, error) {
	c, err := New(servers, o)
	if err != nil {
		return nil, err
	}
	err = c.WaitConnected(ctx)
	for i := 0; i < len(o.Auth) && err == nil; i++ { // they are on their way: wait for the answers
		if err = c.AddAuth(ctx, o.Auth[i].Scheme, o.Auth[i].Data); err != nil {
			err = c.s.connectError(err)
		}
	}
	if err != nil {
		c.s.abort()
		return nil, err
	}
	return c, nil
}

// Close ends the session: its ephemeral nodes are gone when it returns nil. It
// waits for the server to say so as long as ctx lets it, and no longer than the
// session's timeout. Operations under way fail with ErrClosed, watches are
// closed. Close returns nil if the session is over already.
//
// A callback may call Close, so Close does not wait for callbacks. Where what they
// use must outlive them, wait until they are told of StateClosed, by OnState or
// Options.Watcher: of what was issued before, nothing calls back after that.
func (c *Client) Close(ctx context.Context) error { return c.s.close(ctx) }

// WaitConnected waits until operations are served. The error, a *ConnectError,
// says why they aren't: ctx ended, or the session is over.
func (c *Client) WaitConnected(ctx context.Context) error { return c.s.waitConnected(ctx) }

// Options returns the options of the session, with the defaults filled in, as they
// hold for this view: Retry is the view's policy if it has one, and RenewSession is
// false for a view of InSession.
func (c *Client) Options() Options {
	o := c.s.opts
	o.Retry, o.RenewSession = c.policy(), o.RenewSession && c.bound == 0
	return o
}

// Background calls fn in a goroutine of the session, for work that a caller has left
// unfinished. fn's context ends with the session, and Close waits for fn. Background
// reports false, and does not call fn, if the session is closed already.
func (c *Client) Background(fn func(ctx context.Context)) bool { return c.s.inBackground(fn) }

// State returns the session's state.
func (c *Client) State() State { return State(c.s.stateNow.Load()) }

// Session returns the session's id, and the password with which it can be taken
// over; zero before the first connection.
func (c *Client) Session() (id SessionID, password []byte) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.id, append([]byte(nil), c.s.password...)
}

// Status is what a client knows of its session and its connection at one time.
type Status struct {
	// Timeout is the session's timeout as the servers decided it, or the one that is
	// asked for before the first connection.
	Timeout time.Duration
	// Deadline is when the session's timeout has passed since the client sent the last
	// request or ping that a server with a quorum answered. It moves with each such
	// answer. After it the session may be gone, and what its ephemeral nodes stood for
	// may belong to another client. It is zero while there is no session, and after the
	// session is known to have ended.
	Deadline time.Time
	// Server is the address of the server that the client is connected to, or "".
	Server string
	// Since is when the current connection was made, or zero if there is none. If two
	// calls return the same time, no connection was lost in between, whether or not the
	// changes of state have been received.
	Since time.Time
	// LastZxid is the highest zxid of a reply: what the client has seen of the ensemble's
	// history.
	LastZxid Zxid
	// Err lists the last failure to connect of each server. It is nil while the client is
	// connected.
	Err error
}

// Status returns what the client knows of its session and its connection.
func (c *Client) Status() Status {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Timeout: s.timeout, LastZxid: s.lastZxid}
	if s.id != 0 && !s.state.Final() {
		st.Deadline = s.kept.Add(s.timeout)
	}
	if s.conn != nil {
		st.Server, st.Since = s.conn.server, s.conn.began
	}
	if !s.state.Connected() && len(s.failures) > 0 {
		st.Err = s.connectErrorLocked(ErrConnectionLoss)
	}
	return st
}

// OnState calls fn for each change of the session's state, in the callbacks'
// goroutine, until stop is called.
func (c *Client) OnState(fn func(StateChange)) (stop func()) { return c.s.onState(fn) }

// States returns a channel with each change of the session's state from now on:
// none is dropped if the reader is slow. It is closed when ctx ends, and after
// StateClosed.
func (c *Client) States(ctx context.Context) <-chan StateChange { return c.s.states(ctx) }

// Namespace returns a view of c whose paths are below path: what c calls /app/x
// is /x to c.Namespace("/app"). The node need not exist. It panics if path is not
// a valid path, as that is a mistake in the program.
func (c *Client) Namespace(path string) *Client {
	full, err := c.full(path, false)
	if err != nil {
		panic(fmt.Sprintf("client: Namespace(%q): %v", path, err))
	}
	view := *c
	view.root = strings.TrimSuffix(full, "/")
	return &view
}

// Unrooted returns a view of c whose paths are those of the servers, whatever the
// connect string and Namespace say.
func (c *Client) Unrooted() *Client {
	view := *c
	view.root = ""
	return &view
}

// InSession returns a view of c whose operations are done in the session with that
// id or not at all: ErrSessionExpired if there is another one. It is for clients
// with Options.RenewSession, and for changes that rest on something which ends with
// the session, such as that an ephemeral node is one's own. The id 0 is any session.
func (c *Client) InSession(id SessionID) *Client {
	view := *c
	view.bound = id
	return &view
}

// Root returns what the view's paths are below: "" or the path of the connect
// string and of Namespace.
func (c *Client) Root() string { return c.root }

// full checks a path and returns it as the servers know it. What a sequential
// create is given may end in / because digits follow.
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

// strip returns a path of the servers as this view names it.
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
