package line

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line/pending"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/replica"
)

// Request is one request of a line, from its arrival to its reply.
type Request struct {
	Op       jute.OpCode
	Xid      int32
	Auth     []jute.ID // the client's identities when the request arrived
	Body     []byte    // without the header
	Received time.Duration
	// Refusal is the reply to a request that a limit refuses.
	Refusal jute.Code
	Large   int64     // of its host: bytes that count as a large request, or 0
	Code    jute.Code // of the reply to a read, once it is answered

	// ordered requests are answered in the leader's order: the writes, sync and connect.
	// The others are served locally, but only after the ordered requests before them have
	// been answered.
	ordered bool
	// own is what the line itself asks for, while its reader waits. (A client can send an op of
	// the same number.)
	own own
	// number and confirmed are those of a write of an exactly-once session.
	number, confirmed int64
	members           jute.Zxid // of a change of the members: of the list when it was submitted
}

// own is a request that no client has sent.
type own uint8

const (
	connects    own = iota + 1 // opens or resumes the session
	connectsRO                 // connects, for a client that sent the flag readOnly
	upgradesOwn                // makes the local session a global one
)

// Size returns approximately how much memory a waiting request takes.
func (r *Request) Size() int64 { return int64(len(r.Body)) + 256 }

// Ordered reports whether the request waits for the leader.
func (r *Request) Ordered() bool { return r.ordered }

// ServedByHost reports whether Host.Operate answers the request.
func (r *Request) ServedByHost() bool { return r.Op == jute.OpDrain && r.Refusal == 0 }

// ShowsPart reports whether the answer to a read could show a part of the transaction that is being applied in slices. The
// tree is locked.
func (r *Request) ShowsPart(tree *datatree.Tree) bool {
	if partShown.Planted() {
		return false
	}
	switch r.Op {
	case jute.OpPing, jute.OpAuth, jute.OpWhoAmI, jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpCloseSession, jute.OpCredit, jute.OpUnsubscribe:
		return false
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL:
		d := jute.NewAliasDecoder(r.Body)
		path := d.String()
		return d.Err() == nil && tree.Changing(path)
	}
	return true
}

// Own reports whether the line itself has made the request.
func (r *Request) Own() bool { return r.own != 0 }

// Kind returns how the request gets its outcome.
func (r Request) Kind() pending.Kind {
	switch {
	case !r.ordered:
		return pending.Read
	case r.own != 0:
		return pending.Bound
	case r.Op == jute.OpReconfig:
		return pending.Change
	case r.Op == jute.OpSync || !replica.Ordered(r.Op):
		return pending.Barrier
	}
	return pending.Write
}

// Number returns the request's xid.
func (r Request) Number() int32 { return r.Xid }

// Members returns, for a change of the members, the zxid of the list when it was submitted.
func (r Request) Members() uint64 { return uint64(r.members) }

// errNumber means that a write of an exactly-once session has no valid number.
var errNumber = errors.New("a write of an exactly-once session without a valid number")

// takeNumber takes from the end of the request up to which number the client has all replies, and
// finds the request's own number.
func (r *Request) takeNumber() error {
	n := len(r.Body) - 8
	if n < 0 || r.Xid < 1 {
		return errNumber
	}
	r.confirmed = int64(binary.BigEndian.Uint64(r.Body[n:]))
	r.Body = r.Body[:n:n]
	if r.confirmed < 0 || r.confirmed > 1<<62 {
		return errNumber
	}
	r.number = exact.Number(r.confirmed, r.Xid)
	return nil
}

// Ephemerals returns how many ephemerals a request creates, alone or within a multi: none if it
// can't be decoded, as the leader refuses it then.
func (r *Request) Ephemerals() (n int64) {
	d := jute.NewAliasDecoder(r.Body)
	switch r.Op {
	case jute.OpCreate, jute.OpCreate2:
		var p jute.CreateRequest
		if p.Decode(&d); d.Err() == nil && p.Mode.Ephemeral() {
			return 1
		}
	case jute.OpMulti:
		var m jute.MultiRequest
		m.Decode(&d)
		for i := range m.Ops {
			op := &m.Ops[i]
			switch op.Type {
			case jute.OpCreate, jute.OpCreate2, jute.OpCreateOrSet, jute.OpCreateTTL: // with such a mode, createTTL acts as create
				if op.Mode.Ephemeral() {
					n++
				}
			}
		}
	}
	return n
}
