package evaluate

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
)

// Options are settings that decide about requests. Only the leader's count.
type Options struct {
	// ExtendedTypes allows TTL nodes (zookeeper.extendedTypesEnabled).
	ExtendedTypes bool
	// EnforceQuota rejects what exceeds a hard quota (zookeeper.enforceQuota).
	EnforceQuota bool
	// ReconfigEnabled changes the code by which reconfig is rejected
	// (reconfigEnabled): there is no ensemble here that it could change.
	ReconfigEnabled bool
	// MaxListed is how many ephemerals a closeSession decides upon one by one. One
	// with more leaves them to the tree: see Evaluator.Ready. 0 means 10,000.
	MaxListed int
}

// Request is a write on its way to become a transaction.
type Request struct {
	Op      jute.OpCode
	Session jute.SessionID // 0 for a request of the server's own
	Cxid    int32          // the client's xid
	Origin  uint64         // connection that waits for the outcome, 0 for none
	// Auth is who asks: the identities of the connection when the request
	// arrived.
	Auth []jute.ID
	// Body is the request's record. The transaction's Data shares its memory, so
	// that it must stay unchanged until the transaction is applied. Nothing else
	// does: paths and ACLs are copied.
	Body []byte
	// Refused is the code by which the server has refused the request already,
	// such as jute.ErrSessionMoved; 0 for none. It is all that counts then.
	Refused jute.Code
	// Local marks a session that only its server knows: it may write, but can't
	// own ephemerals.
	Local bool
	// TimeoutMs is the negotiated timeout of a createSession.
	TimeoutMs int32
	// Resumes is set in a createSession that changes the timeout of a session which is
	// open.
	Resumes bool
	// Removal is the node of a deleteContainer.
	Removal Removal
}

// Removal names a container or TTL node that is due to be removed, and what it
// looked like when the server found so. If either number has changed, it is not
// due any more.
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

	// Of the request at hand.
	req   *Request
	zxid  jute.Zxid
	now   int64
	multi jute.MultiRequest // its memory is used again
	// aclBytes is the size of the ACL lists of the transaction so far.
	aclBytes int

	unlisted jute.Zxid // see Ready; 0 for none
}

// New returns an evaluator of requests against tree, without accepted writes.
func New(tree Tree, schemes *auth.Schemes, opts Options) *Evaluator {
	if opts.MaxListed == 0 {
		opts.MaxListed = 10_000
	}
	return &Evaluator{tree: tree, schemes: schemes, opts: opts, over: newOverlay()}
}

// Applied tells that the tree has all transactions up to zxid. It takes time in
// proportion to what those touched, up to a bound.
func (e *Evaluator) Applied(zxid jute.Zxid) {
	e.over.applied(zxid)
	if e.unlisted <= zxid {
		e.unlisted = 0
	}
}

// Ready reports whether Evaluate may be called. It may not be from the close of a
// session with more than Options.MaxListed ephemerals until that is applied: the
// overlay does not say which znodes will be gone. Listing a million of them would
// take longer than the close itself, and what comes after the close has to wait for
// it anyway.
func (e *Evaluator) Ready() bool { return e.unlisted == 0 }

// Pending returns how many changes are accepted and not known to be applied.
func (e *Evaluator) Pending() int { return len(e.over.touches) - e.over.head }

// Timeout returns the timeout that session s will have, in ms, and whether it will be
// open.
func (e *Evaluator) Timeout(s jute.SessionID) (ms int32, ok bool) {
	if r, ok := e.over.sessions[s]; ok {
		return r.timeoutMs, r.open
	}
	return e.tree.Session(s)
}

// errUndecodable means that a request can't be decoded and takes no zxid.
var errUndecodable = fmt.Errorf("no transaction: %w", jute.ErrMarshalling)

// Evaluate decides what req does and stores that in txn, reusing the memory of
// txn.Ops. Zxids must grow from call to call; nowMs is the leader's clock in ms
// since the Unix epoch. The tree must be locked for reading, and the evaluator Ready.
//
// The transaction takes effect for later calls at once: the caller must propose
// it, or stop leading. It is never longer than datatree.MaxTxn: a request that
// would make it so is rejected. Evaluate returns false if there is no transaction,
// since req can't be decoded. Then the zxid is free, and the answer is
// jute.ErrMarshalling. (Most multis that can't be decoded have a transaction.)
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
	e.req, e.zxid, e.now, e.aclBytes = req, zxid, nowMs, 0
	e.over.begin(zxid)
	err := e.evaluate(txn)
	if err == nil && txn.MaxSize() > datatree.MaxTxn {
		e.over.rollback()
		err = jute.ErrBadArguments
	}
	if err != nil {
		txn.Ops, txn.Multi = txn.Ops[:0], false
		txn.Err = jute.CodeOf(err)
	}
	e.req = nil
	return !errors.Is(err, errUndecodable)
}

func (e *Evaluator) evaluate(txn *datatree.Txn) error {
	if e.req.Refused != 0 {
		return e.req.Refused
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
		return e.reconfig()
	}
	return jute.ErrUnimplemented
}

// single evaluates a request that could also stand in a multi.
func (e *Evaluator) single(txn *datatree.Txn) error {
	d := jute.NewAliasDecoder(e.req.Body)
	op := jute.MultiOp{Type: e.req.Op}
	op.Decode(&d)
	if d.Err() != nil {
		return errUndecodable
	}
	return e.op(&op, txn)
}

// op evaluates one operation and appends its effect to txn. If it fails, it has
// changed nothing.
func (e *Evaluator) op(op *jute.MultiOp, txn *datatree.Txn) error {
	switch op.Type {
	case jute.OpDelete:
		return e.delete(op, txn)
	case jute.OpSetData:
		return e.setData(op, txn)
	case jute.OpCheck:
		return e.check(op, txn)
	}
	return e.create(op, txn)
}

// reconfig always fails: a server of its own has no ensemble to change.
func (e *Evaluator) reconfig() error {
	d := jute.NewAliasDecoder(e.req.Body)
	var r jute.ReconfigRequest
	r.Decode(&d)
	if d.Err() != nil {
		return errUndecodable
	}
	if !e.opts.ReconfigEnabled {
		return jute.ErrReconfigDisabled
	}
	if err := e.checkSession(); err != nil {
		return err
	}
	return jute.ErrUnimplemented
}
