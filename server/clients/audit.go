package clients

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/replica"
)

// auditor makes the entries of the audit log about clients. A nil auditor makes none.
//
// An entry about a write is made with the answer, or when the write is applied and its
// connection has ended meanwhile. No answer to an operation that has an entry leaves before
// the entry is written: see wait.
type auditor struct {
	log         *audit.Log
	on          atomic.Bool // or else it makes no entries; answers still wait for those that were made
	allReads    atomic.Bool
	someReads   atomic.Bool   // refused ones, or all
	firstOrigin uint64        // of this start of the server
	scratch     []audit.Entry // owned by the applier

	mu struct {
		sync.Mutex
		ended  map[uint64]*endedConn // by origin
		order  []uint64              // of ended, the oldest first
		writes int                   // in ended
	}
}

// endedConn has what is known of the writes of an ended connection without an answer.
type endedConn struct {
	who    author // without ids
	writes []endedWrite
}

type endedWrite struct {
	xid     int32
	op      jute.OpCode
	ids     []jute.ID
	entries []audit.Entry
}

// maxEndedWrites bounds auditor.mu.writes: writes that were lost with a leader are never
// answered. An entry about an older one does not name the user.
const maxEndedWrites = 1 << 16

// author is the author of an operation.
type author struct {
	session jute.SessionID
	ip      string
	ids     []jute.ID
	door    string  // by which the author came; "" for the ports
	edge    jute.ID // that speaks for the author, or the zero ID
}

func newAuditor(log *audit.Log, firstOrigin uint64) *auditor {
	a := &auditor{log: log, firstOrigin: firstOrigin}
	a.mu.ended = make(map[uint64]*endedConn)
	return a
}

// off reports whether no entries are made.
func (a *auditor) off() bool { return a == nil || !a.on.Load() }

// wait blocks until the entry with this number is written, or done is closed. An error means that the answer
// must not be sent. Only a goroutine that may wait calls it.
func (a *auditor) wait(number uint64, done <-chan struct{}) error {
	if number == 0 {
		return nil
	}
	return a.log.Wait(number, done)
}

// wake has the entries of a batch of the applier written.
func (a *auditor) wake() {
	if a != nil {
		a.log.Wake()
	}
}

// isFull reports whether too many entries wait to be written, and a client may cause more of them.
// waits: it has a request that waits. WaitRoom of the log waits for room.
func (a *auditor) isFull(waits bool) bool {
	return !a.off() && a.log.IsFull() && (a.allReads.Load() || waits)
}

// answered makes the entries about a request that is being answered by the applier, and returns the
// number of the last one, 0 if there is none.
func (a *auditor) answered(who author, req *line.Request, o *replica.Order, txn *datatree.Txn, results []datatree.Result) (number uint64) {
	a.scratch = describe(a.scratch[:0], req.Op, jute.NewAliasDecoder(req.Body))
	w := endedWrite{op: req.Op, ids: req.Auth, entries: a.scratch}
	number = a.put(who, &w, o.Code, txn, results)
	clear(a.scratch)
	return number
}

// unansweredLocked makes the entries about a write whose connection is ending, and so gets
// no answer.
func (a *auditor) unansweredLocked(l *line.Line, who author, txn *datatree.Txn, results []datatree.Result) {
	for i, req := range l.Waiting.All() {
		if req.Ordered() && req.Xid == txn.Cxid && !req.Own() {
			w := endedWrite{op: req.Op, ids: req.Auth, entries: describe(nil, req.Op, jute.NewAliasDecoder(req.Body))}
			a.put(who, &w, 0, txn, results)
			for range i + 1 {
				l.Drop()
			}
			return
		}
	}
}

// keepLocked keeps what answerLost needs of a connection that is being forgotten.
func (a *auditor) keepLocked(l *line.Line, who author) {
	if a.off() {
		return
	}
	var writes []endedWrite
	for _, req := range l.Waiting.All() {
		if !req.Ordered() || req.Own() {
			continue
		}
		if entries := describe(nil, req.Op, jute.NewDecoder(req.Body)); len(entries) > 0 {
			writes = append(writes, endedWrite{xid: req.Xid, op: req.Op, ids: req.Auth, entries: entries})
		}
	}
	if len(writes) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.ended[l.Origin()] = &endedConn{who: who, writes: writes}
	a.mu.order = append(a.mu.order, l.Origin())
	a.mu.writes += len(writes)
	for a.mu.writes > maxEndedWrites {
		a.dropLocked(a.mu.order[0])
	}
}

func (a *auditor) dropLocked(origin uint64) {
	if e := a.mu.ended[origin]; e != nil {
		a.mu.writes -= len(e.writes)
		delete(a.mu.ended, origin)
	}
	for len(a.mu.order) > 0 && a.mu.ended[a.mu.order[0]] == nil {
		a.mu.order = a.mu.order[1:]
	}
}

// answerLost makes the entries about a transaction whose connection has ended. Writes of connections from before the
// last start are skipped: their entries may already exist.
func (a *auditor) answerLost(txn *datatree.Txn, results []datatree.Result) {
	if txn.Origin < a.firstOrigin {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.mu.ended[txn.Origin]
	if e == nil {
		a.putAnonymous(txn, results)
		return
	}
	for i := range e.writes {
		if e.writes[i].xid == txn.Cxid {
			a.put(e.who, &e.writes[i], 0, txn, results)
			e.writes = e.writes[i+1:]
			a.mu.writes -= i + 1
			break
		}
	}
	if len(e.writes) == 0 {
		a.dropLocked(txn.Origin)
	}
}

// putAnonymous makes the entries about what a transaction changed, of which nobody knows the
// user any more.
func (a *auditor) putAnonymous(txn *datatree.Txn, results []datatree.Result) {
	for i := range txn.Ops {
		op := &txn.Ops[i]
		e := audit.Entry{Session: txn.Session, Zxid: txn.Zxid, Znode: op.Path}
		switch op.Kind {
		case datatree.OpCreate:
			e.Operation, e.Znode = audit.Create, results[i].Path
		case datatree.OpDelete:
			e.Operation = audit.Delete
		case datatree.OpSetData:
			e.Operation = audit.SetData
		case datatree.OpSetACL:
			e.Operation, e.ACL = audit.SetACL, op.ACL
		default:
			continue
		}
		a.log.PutLater(&e)
	}
}

// put completes the entries of a write with its outcome, and returns the number of the last
// one, 0 if there is none.
func (a *auditor) put(who author, w *endedWrite, code jute.Code, txn *datatree.Txn, results []datatree.Result) (number uint64) {
	if len(w.entries) == 0 {
		return 0
	}
	if txn != nil {
		code = txn.Err
	}
	only := func(e audit.Entry) uint64 {
		if txn != nil {
			e.Zxid = txn.Zxid
		}
		if code != 0 {
			e.Result, e.Code = audit.Failure, code
		}
		e.Session, e.IP, e.IDs, e.Via, e.Edge = who.session, who.ip, w.ids, who.door, who.edge
		return a.log.PutLater(&e)
	}
	switch {
	case w.op != jute.OpMulti:
		e := w.entries[0]
		switch {
		case code != 0:
		case e.Operation == audit.Create && len(results) > 0:
			e.Znode = results[0].Path // with the sequence number
		case e.Operation == audit.Reconfig:
			e.Znode = datatree.ConfigPath
		}
		return only(e)
	case txn == nil || code != 0 || len(w.entries) > len(txn.Ops):
		return only(audit.Entry{Operation: audit.Multi})
	}
	part := 0 // of the request
	for i := range txn.Ops {
		e := w.entries[part]
		op := &txn.Ops[i]
		if op.Kind != datatree.OpDelete || e.Operation == audit.Delete { // else there are more of a deleteTree
			part++
		}
		switch op.Kind {
		case datatree.OpError:
			if op.Code == 0 {
				continue
			}
			code = op.Code
			return only(audit.Entry{Operation: audit.Multi, Znode: e.Znode})
		case datatree.OpCheck:
			continue
		case datatree.OpCreate:
			e.Znode = results[i].Path
		case datatree.OpDelete:
			e.Operation, e.Znode = audit.Delete, op.Path
		case datatree.OpSetData:
			e.Operation, e.ZnodeType = audit.SetData, ""
		}
		number = only(e)
	}
	return number
}

// describe appends what a write request says of itself: an entry, and for a multi one for
// each of its operations, of which checks have an empty one. It appends nothing if req is
// no write that has entries.
func describe(entries []audit.Entry, op jute.OpCode, d jute.Decoder) []audit.Entry {
	var e audit.Entry
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		var r jute.CreateRequest
		r.Decode(&d)
		e = audit.Entry{Operation: audit.Create, Znode: r.Path, ZnodeType: audit.ModeName(r.Mode)}
	case jute.OpCreateTTL:
		var r jute.CreateTTLRequest
		r.Decode(&d)
		e = audit.Entry{Operation: audit.Create, Znode: r.Path, ZnodeType: audit.ModeName(r.Mode)}
	case jute.OpDelete:
		var r jute.DeleteRequest
		r.Decode(&d)
		e = audit.Entry{Operation: audit.Delete, Znode: r.Path}
	case jute.OpSetData:
		var r jute.SetDataRequest
		r.Decode(&d)
		e = audit.Entry{Operation: audit.SetData, Znode: r.Path}
	case jute.OpSetACL:
		var r jute.SetACLRequest
		r.Decode(&d)
		e = audit.Entry{Operation: audit.SetACL, Znode: r.Path, ACL: r.ACL}
	case jute.OpReconfig, jute.OpTransferLeader, jute.OpDrain, jute.OpConfigure:
		e = describeOperation(op, &d)
	case jute.OpMulti:
		return describeMulti(entries, d)
	default:
		return entries
	}
	if d.Err() != nil {
		e = audit.Entry{Operation: e.Operation}
	}
	return append(entries, e)
}

// describeOperation returns what a request of an operator says of itself.
func describeOperation(op jute.OpCode, d *jute.Decoder) (e audit.Entry) {
	switch op {
	case jute.OpReconfig:
		var r jute.ReconfigRequest
		r.Decode(d)
		e = audit.Entry{Operation: audit.Reconfig, Value: changeText(&r)}
	case jute.OpTransferLeader:
		var r jute.TransferLeaderRequest
		r.Decode(d)
		e.Operation = audit.TransferLeader
		if r.Server != 0 {
			e.Value = strconv.Itoa(int(r.Server))
		}
	case jute.OpDrain:
		var r jute.DrainRequest
		r.Decode(d)
		e = audit.Entry{Operation: audit.Drain, Value: fmt.Sprintf("%d%%", r.Percent)}
		if r.HasKeepAway {
			e.Value = fmt.Sprintf("keep clients away for %d ms", r.KeepAwayMs)
		}
	case jute.OpConfigure:
		var r jute.ConfigureRequest
		r.Decode(d)
		e = audit.Entry{Operation: audit.Configure, Key: r.Key}
		if _, err := config.LiveKey(r.Key); err == nil && r.Action == jute.ConfigureSet {
			e.Value = r.Value // of another key it may be a secret
		}
	}
	return e
}

// changeText describes a change of the members.
func changeText(r *jute.ReconfigRequest) string {
	var parts []string
	for _, p := range []struct{ name, value string }{{"joining", r.Joining}, {"leaving", r.Leaving}, {"members", r.NewMembers}} {
		if p.value != "" {
			parts = append(parts, p.name+" "+p.value)
		}
	}
	return strings.Join(parts, " ")
}

func describeMulti(entries []audit.Entry, d jute.Decoder) []audit.Entry {
	var m jute.MultiRequest
	m.Decode(&d)
	if d.Err() != nil {
		return append(entries, audit.Entry{Operation: audit.Multi})
	}
	for i := range m.Ops {
		op := &m.Ops[i]
		e := audit.Entry{Znode: op.Path}
		switch op.Type {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpCreateOrSet:
			e.Operation, e.ZnodeType = audit.Create, audit.ModeName(op.Mode)
		case jute.OpDelete:
			e.Operation = audit.Delete
		case jute.OpSetData:
			e.Operation = audit.SetData
		}
		entries = append(entries, e)
	}
	return entries
}

// refused makes an entry about a request that this server refuses by itself, and returns its number, 0 if there is none.
func (a *auditor) refused(who author, req *line.Request, code jute.Code) (number uint64) {
	if a.off() {
		return 0
	}
	entries := describe(nil, req.Op, jute.NewAliasDecoder(req.Body))
	if len(entries) == 0 && a.someReads.Load() {
		entries = describeRead(nil, req)
	}
	switch {
	case len(entries) == 0:
		return 0
	case req.Op == jute.OpMulti:
		entries = []audit.Entry{{Operation: audit.Multi}}
	}
	return a.putAll(who, entries, code)
}

// served makes the entries about a request that is answered from the tree, of the reads
// that the configuration names. It returns the number of the last one.
func (a *auditor) served(who author, req *line.Request, err error) (number uint64) {
	if a.allReads.Load() || a.someReads.Load() && errors.Is(err, jute.ErrNoAuth) {
		return a.putAll(who, describeRead(nil, req), codeOf(err))
	}
	return 0
}

// servedPart is served for an operation of a multiRead.
func (a *auditor) servedPart(who author, op *jute.MultiOp, code jute.Code) (number uint64) {
	if a.allReads.Load() || a.someReads.Load() && code == jute.ErrNoAuth {
		return a.putAll(who, []audit.Entry{{Operation: op.Type.String(), Znode: op.Path}}, code)
	}
	return 0
}

// operated makes the entry about a request of an operator to this server, and returns its number.
func (a *auditor) operated(who author, req *line.Request, code jute.Code) (number uint64) {
	return a.putAll(who, describe(nil, req.Op, jute.NewAliasDecoder(req.Body)), code)
}

func codeOf(err error) jute.Code {
	if err == nil {
		return 0
	}
	return jute.CodeOf(err)
}

// putAll puts entries about one request, and returns the number of the last one, 0 if there are none.
func (a *auditor) putAll(who author, entries []audit.Entry, code jute.Code) (number uint64) {
	for i := range entries {
		e := &entries[i]
		e.Session, e.IP, e.IDs, e.Via, e.Edge = who.session, who.ip, who.ids, who.door, who.edge
		if code != 0 {
			e.Result, e.Code = audit.Failure, code
		}
		number = a.log.Put(e)
	}
	return number
}

// describeRead appends what a read says of itself. It appends nothing if req is no read that
// has entries, as a multiRead, whose operations have them.
func describeRead(entries []audit.Entry, req *line.Request) []audit.Entry {
	e := audit.Entry{Operation: req.Op.String()}
	switch req.Op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetAllChildrenNumber, jute.OpGetEphemerals, jute.OpAddWatch, jute.OpChildrenPage, jute.OpSubtreePage, jute.OpPast, jute.OpSubscribe:
	case jute.OpGetChildren2:
		e.Operation = jute.OpGetChildren.String()
	case jute.OpGetACL:
		e.Operation = "getAcl"
	default:
		return entries
	}
	d := jute.NewAliasDecoder(req.Body)
	e.Znode = d.String()
	return append(entries, e)
}

// authenticated makes an entry about a proof of identities that a client has offered, and returns its number, 0
// if there is none. For whom an edge speaks is no secret.
func (a *auditor) authenticated(who author, r *jute.AuthRequest, code jute.Code) (number uint64) {
	if a.off() {
		return 0
	}
	e := audit.Entry{Operation: audit.AddAuth, Scheme: r.Scheme}
	if r.Scheme == jute.SchemeEdge {
		e.Value = "nobody"
		if scheme, id, ok := strings.Cut(jute.Text(r.Auth), ":"); ok {
			e.Value = auth.Name(jute.ID{Scheme: scheme, ID: id})
		}
	}
	return a.putAll(who, []audit.Entry{e}, code)
}

// ended makes an entry about a session that an operator has ended, or could not end.
func (a *auditor) ended(who author, id jute.SessionID, code jute.Code) (number uint64) {
	if a.off() {
		return 0
	}
	return a.putAll(who, []audit.Entry{{Operation: audit.EndSession, Value: id.String()}}, code)
}

// failedElsewhere makes an entry about a failed proof of somebody without a connection.
func (a *auditor) failedElsewhere(of *Presented) {
	if !a.off() {
		a.log.Put(&audit.Entry{IP: of.Address, Via: of.Via, Operation: audit.AddAuth, Scheme: of.Scheme, Result: audit.Failure, Code: jute.ErrAuthFailed})
	}
}

// notResumed makes an entry about a wrong password of the author's session.
func (a *auditor) notResumed(who author) {
	if !a.off() {
		a.log.Put(&audit.Entry{Session: who.session, IP: who.ip, IDs: who.ids, Via: who.door, Operation: audit.ResumeSession, Result: audit.Failure})
	}
}
