package client

import "context"

// Session is what belongs to the session of a client rather than to the tree: who it is, what it
// has proved, and what ends with it.
type Session struct{ c *Client }

// Session returns a view of c that is about its session.
func (c *Client) Session() Session { return Session{c} }

// ID returns the session's id. It is 0 before the first connection.
func (s Session) ID() SessionID {
	s.c.s.mu.Lock()
	defer s.c.s.mu.Unlock()
	return s.c.s.id
}

// Key returns what another client needs to take the session over: see Options.Session.
func (s Session) Key() SessionKey {
	s.c.s.mu.Lock()
	defer s.c.s.mu.Unlock()
	return SessionKey{ID: s.c.s.id, Password: append([]byte(nil), s.c.s.password...)}
}

// States returns a channel with each further change of the session's state. No change is
// dropped, even if the reader is slow. The channel is closed when ctx ends, and after
// StateClosed.
func (s Session) States(ctx context.Context) <-chan StateChange { return s.c.s.states(ctx) }

// AddAuth authenticates the client with a further identity, on this connection and all later
// ones. ErrAuthFailed ends the session.
func (s Session) AddAuth(ctx context.Context, scheme string, auth []byte) error {
	_, err := do(ctx, s.c, &s.c.s.table().addAuth, args{auth: Auth{Scheme: scheme, Data: auth}})
	return err
}

// RenewAuth is AddAuth for credentials that end, such as tokens of the scheme jwt: call it with
// the next token some time before the last one ends. Once the server has accepted it, the
// client drops its earlier credentials of this scheme, and later connections do not send them.
func (s Session) RenewAuth(ctx context.Context, scheme string, auth []byte) error {
	_, err := do(ctx, s.c, &s.c.s.table().addAuth, args{auth: Auth{Scheme: scheme, Data: auth}, renews: true})
	return err
}

// WhoAmI returns the identities of the connection.
func (s Session) WhoAmI(ctx context.Context) ([]Identity, error) {
	return do(ctx, s.c, &s.c.s.table().whoAmI, args{})
}

// Ephemerals returns the paths of the session's own ephemeral nodes that begin with the
// prefix. The prefix is compared as text, not by path components; "/" means all.
func (s Session) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	return do(ctx, s.c, &s.c.s.table().ephemerals, args{path: prefix})
}

// CheckWatches asks the server whether this connection has a watch of the type at the path,
// and returns ErrNoWatcher if not. The server counts several watches of the client as one.
func (s Session) CheckWatches(ctx context.Context, path string, t WatchType) error {
	_, err := do(ctx, s.c, &s.c.s.table().checkWatches, args{path: path, typ: t})
	return err
}

// RemoveWatches closes all of the client's watches of the type at the path, here and at the
// server. It returns ErrNoWatcher if there are none. To close one watch, see Watch.Close.
func (s Session) RemoveWatches(ctx context.Context, path string, t WatchType) error {
	_, err := do(ctx, s.c, &s.c.s.table().removeWatches, args{path: path, typ: t})
	return err
}

// Background calls fn in a goroutine of the session, for work that a caller leaves
// unfinished. fn's context ends with the session, and Close waits for fn. If the session is
// closed already, Background does not call fn and returns false.
func (s Session) Background(fn func(ctx context.Context)) bool { return s.c.s.inBackground(fn) }
