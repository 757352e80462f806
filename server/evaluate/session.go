package evaluate

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// sessionOpen reports whether session s exists and is not being closed.
func (e *Evaluator) sessionOpen(s jute.SessionID) bool {
	_, ok := e.Timeout(s)
	return ok
}

// checkSession checks that the request's session may write. The server itself always may,
// and local sessions are known only to their server.
func (e *Evaluator) checkSession() error {
	if e.req.Session == 0 || e.req.Local || e.sessionOpen(e.req.Session) {
		return nil
	}
	return jute.ErrSessionExpired
}

// checkOwner checks that the request's session may create a node of this owner.
func (e *Evaluator) checkOwner(owner jute.Owner) error {
	if e.req.Local && owner.Ephemeral() {
		return jute.ErrEphemeralOnLocalSession
	}
	return e.checkSession()
}

// createSession opens a session, or sets the timeout and the owner of one that its client
// resumes. It fails with ErrBadArguments if the id of a new one is taken or looks like another
// kind of owner: the server must pick another id.
func (e *Evaluator) createSession(txn *datatree.Txn) error {
	s := e.req.Session
	op := datatree.Op{Kind: datatree.OpCreateSession, Result: jute.OpCreateSession, TimeoutMs: e.req.TimeoutMs}
	r := sessionRecord{open: true, timeoutMs: e.req.TimeoutMs, owner: e.Owner(s), holder: e.Holder(s)}
	ms, open := e.Timeout(s)
	switch {
	case e.req.Resumes && !open:
		return jute.ErrSessionExpired
	case e.req.Resumes:
		op.Kind = datatree.OpSetTimeout
	case open || !jute.OwnerSession(s).Ephemeral():
		return jute.ErrBadArguments
	}
	if !e.req.Resumes {
		if err := e.growSession(); err != nil {
			return err
		}
	}
	if !e.req.Resumes || !e.req.Owns || ms != e.req.TimeoutMs {
		txn.Ops = append(txn.Ops, op)
	}
	if e.req.Owns {
		r.owner, r.holder = e.req.Origin, jute.Holder(e.req.Cxid).Name()
		txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpSetOwner, Result: jute.OpCreateSession})
	}
	if e.req.Owns && e.req.Exact && !e.req.Resumes {
		txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpExactlyOnce, Result: jute.OpCreateSession})
	}
	e.over.putSession(s, r)
	return nil
}

// closeSession closes the session and deletes its ephemerals. For a session that is
// already closed, or never existed, the transaction does nothing.
func (e *Evaluator) closeSession(txn *datatree.Txn) {
	s := e.req.Session
	if !e.sessionOpen(s) {
		return
	}
	op := datatree.Op{Kind: datatree.OpCloseSession, Result: jute.OpCloseSession}
	if paths, all := e.ephemerals(s, e.opts.MaxListed); all {
		for _, path := range paths {
			e.dropNode(path)
		}
		op.Paths = paths
	} else {
		e.unlisted = e.zxid
	}
	e.over.putSession(s, sessionRecord{})
	delete(e.windows, s)
	txn.Ops = append(txn.Ops, op)
}

// maxClosePaths bounds the paths that a closeSession lists, in bytes, as Options.MaxListed does their number.
const maxClosePaths = 4 << 20

// ephemerals returns, sorted, the paths of the ephemerals that s will own, or false if
// there are about most or more, or if their paths are too long together. Those that the tree does not show are in the overlay's
// list, and either may show some that will be gone.
func (e *Evaluator) ephemerals(s jute.SessionID, most int) (paths []string, all bool) {
	if e.tree.NumEphemerals(s) > most {
		return nil, false
	}
	bytes := 0
	add := func(path string) bool {
		if r, ok := e.over.nodes[path]; !ok || r.ownedBy(s) {
			paths = append(paths, path)
		}
		bytes += len(path)
		return bytes <= maxClosePaths
	}
	for path := range e.tree.Ephemerals(s, "") {
		e.lookedAt(path)
		if !add(path) {
			return nil, false
		}
	}
	pending := e.over.ephemerals[s]
	if len(paths)+len(pending) > most {
		return nil, false
	}
	for _, path := range pending {
		if !add(path) {
			return nil, false
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), true
}

func (r *record) ownedBy(s jute.SessionID) bool { return !r.gone && r.owner.Session() == s }
