package client

import (
	"context"
	"sync"

	"github.com/zkd-project/zkd/jute"
)

// op is an operation of the protocol with result T. The methods of Client and of Async are
// its two forms.
type op[T any] struct {
	code jute.OpCode
	// check validates the arguments before the request gets its place in the order. It may
	// choose another code.
	check func(c *Client, k *call, a *args) error
	// encode appends the request's body to b, while session.mu is held. It returns an error
	// if the operation needs no request: errDone for success.
	encode func(c *Client, k *call, a *args, b []byte) ([]byte, error)
	// decode reads the body of a successful reply into val. Nil means that the body is
	// empty.
	decode func(p *pending, val *T, d *jute.Decoder)
	// refused reports whether an error of the server counts as success. It may be nil.
	refused func(p *pending, val *T, code jute.Code) bool
	// pool holds the futures of operations whose callers wait.
	pool sync.Pool
}

// args are the arguments of an operation. Each operation uses some of them.
type args struct {
	path    string // as the caller passed it
	full    string // the servers' name of it: see checkPath
	data    []byte
	version int64
	acl     []ACL
	create  CreateOptions
	mode    WatchMode
	typ     WatchType
	watched bool      // the read sets a watch
	kind    watchKind // of that watch, or of the one that AddWatch sets
	target  *Watch    // of forget
	auth    Auth
	renews  bool // auth takes the place of others
	members Members
	page    PageOptions
	subtree SubtreePageOptions
	past    PastOptions
	feed    *subscription
	ops     []Op
}

// errDone is returned by encode if the operation needs no request.
type errDone struct{}

func (errDone) Error() string { return "done" }

// do performs an operation and waits for its result. It repeats the operation by the view's
// policy.
func do[T any](ctx context.Context, c *Client, o *op[T], a args) (T, error) {
	for attempt := 1; ; attempt++ {
		f, _ := o.pool.Get().(*Future[T])
		if f == nil {
			f = new(Future[T])
		}
		f.p.reset(ctx, c, f)
		f.row = o
		f.p.issue(o.code, o.check, o.encode, &a)
		again, err := f.p.await(ctx)
		var val, none T
		if again {
			val, f.val = f.val, none
			f.p.ctx, f.p.multi = nil, nil
			o.pool.Put(f)
		}
		switch {
		case c.retry == nil:
			return val, err
		case err == nil:
			c.retry.Succeeded()
			return val, nil
		case IsRetryable(err):
			err = c.retry.Again(ctx, attempt, err)
		}
		if err != nil {
			return val, err
		}
	}
}

// start issues an operation and does not wait for its result.
func start[T any](c *Client, o *op[T], a args, then []func(T, error)) *Future[T] {
	f := &Future[T]{row: o, then: then}
	f.p.c, f.p.result, f.p.bound = c, f, c.bound
	f.p.issue(o.code, o.check, o.encode, &a)
	return f
}

// issue appends the request of an operation with that code, check and encode to the session's out
// buffer. The future gets the result, also if an argument is invalid.
func (p *pending) issue(code jute.OpCode, check func(*Client, *call, *args) error, encode func(*Client, *call, *args, []byte) ([]byte, error), given *args) {
	c, k := p.c, &p.call
	a, _ := c.s.table().args.Get().(*args) // given would escape and be allocated for each call
	if a == nil {
		a = new(args)
	}
	*a = *given
	k.op, k.path = code, a.path
	err := error(nil)
	if check != nil {
		err = check(c, k, a)
	}
	switch {
	case err != nil:
		c.s.fail(k, ErrBadArguments, err, false)
	case code == jute.OpAuth: // its request is outside the order of xids
		c.s.authenticate(k, a.auth, a.renews)
	case c.s.begin(k):
		var b []byte
		err := error(ErrUnimplemented)
		if l := c.s.conn; l == nil || l.grants(k) {
			b, err = encode(c, k, a, c.s.enc)
		}
		switch {
		case err == nil:
			c.s.end(k, b)
		case err == errDone{}:
			c.s.undo(k)
			c.s.finish(k, 0, nil)
		case err == ErrUnimplemented:
			c.s.undo(k)
			c.s.finish(k, 0, &Error{Op: k.op, Path: k.path, Err: err, Cause: errNotGranted})
		default:
			c.s.undo(k)
			c.s.finish(k, 0, &Error{Op: k.op, Path: k.path, Err: err})
		}
	}
	*a = args{}
	c.s.table().args.Put(a)
}

// table has the operations. Each session has its own table because of the pools.
type table struct {
	args sync.Pool // of *args, used from the check to the end of the encoding

	create           op[Created]
	delete, sync     op[None]
	exists           op[Presence]
	get              op[Node]
	children         op[Listing]
	childrenPage     op[Page]
	subtreePage      op[SubtreePage]
	past             op[PastPage]
	set, setACL      op[Stat]
	getACL           op[Access]
	multi, multiRead op[[]OpResult]
	addWatch         op[*Watch]
	subscribe        op[jute.SubscribeResponse]
	credit           op[None]
	unsubscribe      op[None]
	checkWatches     op[None]
	removeWatches    op[None]
	forget           op[None]
	ephemerals       op[[]string]
	countDescendants op[int]
	whoAmI           op[[]Identity]
	reconfig         op[Node]
	transferLeader   op[None]
	drain, keepAway  op[int]
	configure        op[jute.ConfigureResponse]
	addAuth          op[None]
}

func newTable() *table {
	return &table{
		create:   op[Created]{code: jute.OpCreate, check: checkCreate, encode: encodeCreate, decode: decodeCreated},
		delete:   op[None]{code: jute.OpDelete, check: checkPath, encode: encodeDelete},
		sync:     op[None]{code: jute.OpSync, check: checkPath, encode: encodeSync},
		exists:   op[Presence]{code: jute.OpExists, check: checkPath, encode: encodeRead, decode: decodePresence, refused: isAbsent},
		get:      op[Node]{code: jute.OpGetData, check: checkPath, encode: encodeRead, decode: decodeNode},
		children: op[Listing]{code: jute.OpGetChildren2, check: checkPath, encode: encodeRead, decode: decodeListing},

		childrenPage: op[Page]{code: jute.OpChildrenPage, check: checkPage, encode: encodePage, decode: decodePage},
		subtreePage:  op[SubtreePage]{code: jute.OpSubtreePage, check: checkPath, encode: encodeSubtreePage, decode: decodeSubtreePage},
		past:         op[PastPage]{code: jute.OpPast, check: checkPath, encode: encodePast, decode: decodePast},

		set:    op[Stat]{code: jute.OpSetData, check: checkPath, encode: encodeSet, decode: decodeStat},
		getACL: op[Access]{code: jute.OpGetACL, check: checkPath, encode: encodePath, decode: decodeAccess},
		setACL: op[Stat]{code: jute.OpSetACL, check: checkPath, encode: encodeSetACL, decode: decodeStat},

		multi:     op[[]OpResult]{code: jute.OpMulti, check: checkMulti, encode: encodeMulti, decode: decodeMulti},
		multiRead: op[[]OpResult]{code: jute.OpMultiRead, check: checkMulti, encode: encodeMulti, decode: decodeMultiRead},

		addWatch:      op[*Watch]{code: jute.OpAddWatch, check: checkPath, encode: encodeAddWatch, decode: decodeWatch},
		checkWatches:  op[None]{code: jute.OpCheckWatches, check: checkPath, encode: encodeCheckWatches},
		removeWatches: op[None]{code: jute.OpRemoveWatches, check: checkPath, encode: encodeRemoveWatches, refused: hadWatches},
		forget:        op[None]{code: jute.OpRemoveWatches, encode: encodeForget},

		subscribe:   op[jute.SubscribeResponse]{code: jute.OpSubscribe, check: checkPath, encode: encodeSubscribe, decode: decodeSubscribed},
		credit:      op[None]{code: jute.OpCredit, encode: encodeCredit},
		unsubscribe: op[None]{code: jute.OpUnsubscribe, encode: encodeUnsubscribe},

		ephemerals:       op[[]string]{code: jute.OpGetEphemerals, encode: encodeEphemerals, decode: decodeEphemerals},
		countDescendants: op[int]{code: jute.OpGetAllChildrenNumber, check: checkPath, encode: encodePath, decode: decodeCount},
		whoAmI:           op[[]Identity]{code: jute.OpWhoAmI, encode: encodeNothing, decode: decodeIdentities},
		reconfig:         op[Node]{code: jute.OpReconfig, encode: encodeReconfig, decode: decodeNode},
		transferLeader:   op[None]{code: jute.OpTransferLeader, encode: encodeNumber},
		drain:            op[int]{code: jute.OpDrain, encode: encodeNumber, decode: decodeCount},
		keepAway:         op[int]{code: jute.OpDrain, encode: encodeKeepAway, decode: decodeCount},
		configure:        op[jute.ConfigureResponse]{code: jute.OpConfigure, encode: encodeConfigure, decode: decodeConfigured},
		addAuth:          op[None]{code: jute.OpAuth, check: checkAuth},
	}
}
