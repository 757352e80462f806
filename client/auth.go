package client

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// authEntry is an identity that the client adds on each connection.
type authEntry struct {
	Auth
	sent    bool    // on the current connection, and not answered yet
	known   bool    // the current connection has it
	renews  bool    // when the server accepts it, the others of its scheme are dropped
	waiting []*call // AddAuth calls that wait for an answer
}

// authenticate issues an AddAuth. Its request is outside the order of xids, and is sent again
// on each connection. If it renews, the earlier identities of its scheme are dropped once it is
// accepted.
func (s *session) authenticate(k *call, auth Auth, renews bool) {
	s.mu.Lock()
	if err := s.refusalLocked(k); err != nil {
		s.mu.Unlock()
		s.fail(k, err, nil, false)
		return
	}
	i := slices.IndexFunc(s.auths, func(a *authEntry) bool { return a.Scheme == auth.Scheme && string(a.Data) == string(auth.Data) })
	if i < 0 {
		s.auths = append(s.auths, &authEntry{Auth: Auth{Scheme: auth.Scheme, Data: slices.Clone(auth.Data)}})
		i = len(s.auths) - 1
	}
	a := s.auths[i]
	a.renews = a.renews || renews
	if a.known {
		s.renewedLocked(a)
		s.mu.Unlock()
		s.finish(k, 0, nil)
		return
	}
	a.waiting = append(a.waiting, k)
	l := s.conn
	if l == nil || a.sent {
		s.mu.Unlock()
		return
	}
	s.out = l.appendAuthLocked(s.out, a)
	l.flushLocked()
	s.mu.Unlock()
}

// renewedLocked drops the identities that a, which the server has accepted, renews. One with
// callers that wait stays until they are answered.
func (s *session) renewedLocked(a *authEntry) {
	if !a.renews {
		return
	}
	a.renews = false
	s.auths = slices.DeleteFunc(s.auths, func(old *authEntry) bool {
		return old != a && old.Scheme == a.Scheme && len(old.waiting) == 0
	})
}

// appendAuthLocked appends the request that adds identity a to the connection.
func (l *link) appendAuthLocked(b []byte, a *authEntry) []byte {
	b, mark := jute.BeginFrame(b)
	h := jute.RequestHeader{Xid: jute.XidAuth, Type: jute.OpAuth}
	r := jute.AuthRequest{Scheme: a.Scheme, Auth: a.Data}
	b = jute.EndFrame(r.Append(h.Append(b)), mark)
	a.sent = true
	l.authsSent = append(l.authsSent, a)
	return b
}

func (l *link) authReplied(code jute.Code) error {
	s := l.s
	s.mu.Lock()
	if len(l.authsSent) == 0 {
		s.mu.Unlock()
		return errors.New("the server answered an authentication that was not asked for")
	}
	a := l.authsSent[0]
	l.authsSent = l.authsSent[1:]
	a.sent, a.known = false, code == 0
	waiting := a.waiting
	a.waiting = nil
	err := fmt.Errorf("%w: scheme %s", ErrAuthFailed, a.Scheme)
	if a.known {
		s.renewedLocked(a)
	}
	if s.relay != nil {
		s.relay.forgetProofsLocked()
	}
	if code != 0 {
		s.failedLocked(l.server, err) // recorded before any caller learns of the failure
	}
	s.mu.Unlock()
	if code != 0 {
		cause := &ServerError{Server: l.server, Err: errors.New("scheme " + a.Scheme)}
		for _, k := range waiting {
			s.fail(k, code, cause, false)
		}
		return err
	}
	for _, k := range waiting {
		s.finish(k, 0, nil)
	}
	return nil
}
