package evaluate

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
)

// Options are settings for the evaluation of requests. Only the leader's count.
type Options struct {
	// ExtendedTypes allows TTL nodes (zookeeper.extendedTypesEnabled).
	ExtendedTypes bool
	// EnforceQuota rejects writes that exceed a hard quota (zookeeper.enforceQuota).
	EnforceQuota bool
	// ReconfigEnabled allows reconfig (reconfigEnabled).
	ReconfigEnabled bool
	// MaxListed is the largest number of ephemerals for which a closeSession lists each
	// one. A session with more leaves them to the tree: see Evaluator.Ready. 0 means
	// 10,000.
	MaxListed int
	// QuotaExceeded, which may be nil, is called with the path of each write that a hard quota
	// rejects.
	QuotaExceeded func(path string)
}

// Request is a write to be turned into a transaction.
type Request struct {
	Op      jute.OpCode
	Session jute.SessionID // 0 for a request of the server itself
	Cxid    int32          // the client's xid; of a createSession its jute.Holder
	Origin  uint64         // connection that waits for the outcome, 0 for none
	// Auth is the connection's identities when the request arrived.
	Auth []jute.ID
	// Body is the request's record. The transaction's Data shares its memory, so it must
	// stay unchanged until the transaction is applied. Paths and ACLs are copied.
	Body []byte
	// Refused is the code with which the server has already refused the request, such as
	// jute.ErrSessionMoved; 0 for none. It then determines the outcome alone.
	Refused jute.Code
	// Local marks a session that only its server knows: it may write, but can't own
	// ephemerals.
	Local bool
	// TimeoutMs is the negotiated timeout of a createSession.
	TimeoutMs int32
	// Resumes is set in a createSession that continues an open session.
	Resumes bool
	// Owns is set in a createSession whose Origin becomes the owner of the session.
	Owns bool
	// Exact is set in a createSession of an exactly-once session.
	Exact bool
	// Number and Confirmed are those of a write of an exactly-once session: see datatree.Txn.
	Number, Confirmed int64
	// Removal is the node of a deleteContainer.
	Removal Removal
	// Recount is the node with the usage of a quota that the server itself has counted again: see datatree.Drifting.
	// Such a request has nothing else.
	Recount string
}

// Removal names a container or TTL node that is due to be removed, and its state when the
// server found it due. If either number has changed, the node is no longer due.
type Removal struct {
	Path     string
	Cversion int32 // children ever created, as stored
	Mtime    int64 // ms
}

// Evaluator turns requests into transactions.
type Evaluator struct {
	tree    Tree
	schemes *auth.Schemes
	opts    Options
	over    overlay
	room    room
	// windows has the writes of exactly-once sessions that are accepted and not confirmed.
	windows map[jute.SessionID]*exact.Window

	// Of the current request.
	req   *Request
	zxid  jute.Zxid
	now   int64
	multi jute.MultiRequest // its memory is reused
	// aclBytes is the size of the ACL lists of the transaction so far.
	aclBytes int
	lists    auth.Memory // who may do what by long lists
	looked   int         // children, to find holders
	passed   int         // pending ephemerals that were none of these children
	trees    int         // deleteTrees
	cost     int         // see Cost
	recounts []string    // of this request: see noteQuota

	unlisted  jute.Zxid // see Ready; 0 for none
	retired   bool      // see Retired
	retiredAt bool      // it was at the last LookRetired, or since
	served    jute.Zxid // of the last transaction that ended a retirement
	mayRetire bool      // see AllowRetirement
}

// New returns an evaluator of requests against tree, without accepted writes.
func New(tree Tree, schemes *auth.Schemes, opts Options) *Evaluator {
	e := &Evaluator{tree: tree, schemes: schemes, over: newOverlay(), windows: make(map[jute.SessionID]*exact.Window)}
	e.Tune(opts)
	_, retired := tree.Get(jute.RetiredPath)
	retired = retired && !retiredForgotten.Planted()
	e.retired, e.retiredAt = retired, retired
	return e
}

// Tune sets other options for the requests to come.
func (e *Evaluator) Tune(opts Options) {
	if opts.MaxListed == 0 {
		opts.MaxListed = 10_000
	}
	e.opts = opts
}

// Applied reports that the tree has all transactions up to zxid. It takes time in
// proportion to the records that they touched, up to a bound.
func (e *Evaluator) Applied(zxid jute.Zxid) {
	e.over.applied(zxid)
	e.room.applied(zxid)
	if e.unlisted <= zxid {
		e.unlisted = 0
	}
}

// Ready reports whether Evaluate may be called. It may not be called after the close of a
// session with more than Options.MaxListed ephemerals until that close is applied: the
// overlay does not show which znodes will be gone. Listing a million of them would take
// longer than the close itself, and requests after the close have to wait for it anyway.
func (e *Evaluator) Ready() bool { return e.unlisted == 0 }

// Pending returns the number of changes that are accepted and not known to be applied.
func (e *Evaluator) Pending() int { return len(e.over.touches) - e.over.head }

// Timeout returns the timeout that session s will have, in ms, and whether it will be
// open.
func (e *Evaluator) Timeout(s jute.SessionID) (ms int32, ok bool) {
	if r, ok := e.over.sessions[s]; ok {
		return r.timeoutMs, r.open
	}
	return e.tree.Session(s)
}

// Owner returns the connection that will own session s, or 0 if none is known.
func (e *Evaluator) Owner(s jute.SessionID) uint64 {
	r, accepted := e.over.sessions[s]
	accepted = accepted && !ownerOfTree.Planted()
	if accepted {
		return r.owner
	}
	return e.tree.SessionOwner(s)
}

// Holder returns the client that will own session s, or 0 if none is known.
func (e *Evaluator) Holder(s jute.SessionID) jute.Holder {
	r, accepted := e.over.sessions[s]
	accepted = accepted && !ownerOfTree.Planted()
	if accepted {
		return r.holder
	}
	return e.tree.SessionHolder(s)
}

// errUndecodable means that a request can't be decoded and takes no zxid.
var errUndecodable = fmt.Errorf("no transaction: %w", jute.ErrMarshalling)

// Evaluate decides the effect of req and stores it in txn, reusing the memory of txn.Ops.
// Zxids must increase from call to call; nowMs is the leader's clock in ms since the Unix
// epoch. The tree must be locked for reading, and the evaluator Ready.
//
// The transaction takes effect for later calls at once: the caller must propose it, or
// stop leading. It is never longer than datatree.MaxTxn: a request that would make it
// longer is rejected. Evaluate returns false if there is no transaction, since req can't
// be decoded. Then the zxid is unused, and the answer is jute.ErrMarshalling. (Most
// multis that can't be decoded have a transaction.)
func (e *Evaluator) Evaluate(req *Request, zxid jute.Zxid, nowMs int64, txn *datatree.Txn) bool {
	if !e.Ready() {
		panic(fmt.Sprintf("evaluate: request before %v is applied", e.unlisted))
	}
	*txn = datatree.Txn{
		Zxid:    zxid,
		Time:    nowMs,
		Session: req.Session,
		Cxid:    req.Cxid,
		Origin:  req.Origin,
		Ops:     txn.Ops[:0],
	}
	e.req, e.zxid, e.now, e.aclBytes, e.looked, e.passed, e.trees, e.cost = req, zxid, nowMs, 0, 0, 0, 0, 0
	e.lists.Forget()
	e.recounts = nil
	e.room.grown, e.room.refused = 0, false
	e.over.begin(zxid)
	err := e.evaluate(txn)
	if err == nil {
		e.recountNow(txn)
	}
	if err == nil && txn.MaxSize() > datatree.MaxTxn {
		e.over.rollback()
		err = jute.ErrBadArguments
	}
	if req.Number != 0 && err != jute.ErrSessionMoved {
		if e.fits(txn) {
			txn.Number, txn.Confirmed = req.Number, req.Confirmed
		} else {
			e.over.rollback()
			err = jute.ErrSessionMoved
		}
	}
	if err != nil {
		txn.Ops, txn.Multi = txn.Ops[:0], false
		txn.Err = jute.CodeOf(err)
	} else {
		e.room.accept(zxid)
	}
	e.req = nil
	return !errors.Is(err, errUndecodable)
}

// Cost returns how many nodes the last call of Evaluate looked at besides those that its request names,
// also if it was refused. 256 bytes of their paths count as another one.
func (e *Evaluator) Cost() int { return e.cost + e.looked + e.passed/16 }

// lookedAt counts a node that the request does not name.
func (e *Evaluator) lookedAt(path string) { e.spend(1 + len(path)/256) }

func (e *Evaluator) spend(n int) { e.cost += n }

func (e *Evaluator) evaluate(txn *datatree.Txn) error {
	if e.req.Refused != 0 {
		return e.req.Refused
	}
	if e.req.Recount != "" {
		return e.recount(e.req.Recount, txn)
	}
	switch e.req.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL,
		jute.OpDelete, jute.OpSetData:
		return e.single(txn)
	case jute.OpSetACL:
		return e.setACL(txn)
	case jute.OpMulti:
		return e.evaluateMulti(txn)
	case jute.OpCreateSession:
		return e.createSession(txn)
	case jute.OpCloseSession:
		e.closeSession(txn)
		return nil
	case jute.OpDeleteContainer:
		return e.remove(txn)
	case jute.OpReconfig:
		if _, err := e.reconfig(); err != nil {
			return err
		}
		return jute.ErrUnimplemented // without an ensemble
	case jute.OpTransferLeader:
		if _, err := e.transferLeader(); err != nil {
			return err
		}
		return jute.ErrUnimplemented
	}
	return jute.ErrUnimplemented
}

// single evaluates a request that could also be part of a multi.
func (e *Evaluator) single(txn *datatree.Txn) error {
	d := jute.NewAliasDecoder(e.req.Body)
	op := jute.MultiOp{Type: e.req.Op}
	op.Decode(&d)
	if d.Err() != nil {
		return errUndecodable
	}
	return e.op(&op, txn)
}

// op evaluates one operation and appends its effect to txn. If it fails, it changes
// nothing.
func (e *Evaluator) op(op *jute.MultiOp, txn *datatree.Txn) error {
	switch op.Type {
	case jute.OpDelete:
		return e.delete(op, txn)
	case jute.OpSetData:
		return e.setData(op, txn)
	case jute.OpCheck:
		return e.check(op, txn)
	case jute.OpCheckAbsent:
		return e.checkAbsent(op, txn)
	case jute.OpCreateOrSet:
		return e.createOrSet(op, txn)
	case jute.OpDeleteTree:
		return e.deleteTree(op, txn)
	}
	return e.create(op, txn)
}
