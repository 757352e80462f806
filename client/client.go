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

// Timeout returns the session's timeout as the servers decided on it, or what is
// asked for before the first connection.
func (c *Client) Timeout() time.Duration {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.timeout
}

// SessionDeadline returns until when the servers keep the session, as far as the
// client knows: its timeout after it has sent the last request or ping that was
// answered by a server with a quorum. It moves with each such answer; after it the session may be gone, and what
// its ephemeral nodes stood for may be somebody else's. It is zero while there is no
// session, which includes one that is known to have ended.
func (c *Client) SessionDeadline() time.Time {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.id == 0 || c.s.state.Final() {
		return time.Time{}
	}
	return c.s.kept.Add(c.s.timeout)
}

// Server returns the address of the server that the client is connected to, or "".
func (c *Client) Server() string {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.conn == nil {
		return ""
	}
	return c.s.conn.server
}

// ConnectedSince returns when the connection at hand was made, and whether there
// is one. Two calls that return the same time have seen the same connection: so
// one knows that none was lost in between, whether or not the changes of state
// have been received.
func (c *Client) ConnectedSince() (since time.Time, connected bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.conn == nil {
		return time.Time{}, false
	}
	return c.s.conn.began, true
}

// LastZxid returns the highest zxid that a reply had: what the client has seen of
// the ensemble's history.
func (c *Client) LastZxid() Zxid {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.lastZxid
}

// LastError returns the last failure to connect of each server, or nil while the
// client is connected.
func (c *Client) LastError() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.state.Connected() || len(c.s.failures) == 0 {
		return nil
	}
	return c.s.connectErrorLocked(ErrConnectionLoss)
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
