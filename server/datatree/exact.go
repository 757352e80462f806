package datatree

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/zkd-project/zkd/internal/wire"
	"github.com/zkd-project/zkd/jute"
)

// Outcome is the answer to a write of an exactly-once session. It is kept until the client has
// confirmed that it has the answer; that of the last write is kept in any case, as it tells
// how far the session is.
type Outcome struct {
	Number int64 // of the request in its session
	Zxid   jute.Zxid
	Code   jute.Code
	Body   string // of the reply
}

// ExactlyOnce reports whether session s is an exactly-once session.
func (t *Tree) ExactlyOnce(s jute.SessionID) bool {
	e := t.sessions.get(s)
	return e != nil && e.exact
}

// Outcomes returns the outcomes of session s, by rising numbers. They must not be changed, and stay
// valid when the tree changes.
func (t *Tree) Outcomes(s jute.SessionID) []Outcome {
	if e := t.sessions.get(s); e != nil {
		return e.outcomes
	}
	return nil
}

// HasExact reports whether there is an exactly-once session.
func (t *Tree) HasExact() bool { return t.sessions.exact > 0 }

// setExact makes an open session, which has an owner, an exactly-once session.
func (t *Tree) setExact(id jute.SessionID) bool {
	s := t.sessions.get(id)
	if s == nil || s.owner == 0 {
		return false
	}
	t.saveSession(id)
	t.digest.sub(sessionPart(s))
	if !s.exact {
		s.exact = true
		t.sessions.exact++
	}
	t.digest.add(sessionPart(s))
	return true
}

// keepOutcome adds the outcome of a write to its session, and drops those that the client has
// confirmed with it.
func (t *Tree) keepOutcome(txn *Txn, results []Result) {
	s := t.sessions.get(txn.Session)
	if s == nil || !s.exact {
		return
	}
	t.saveSession(txn.Session)
	n := 0
	for n < len(s.outcomes) && s.outcomes[n].Number <= txn.Confirmed {
		t.digest.sub(outcomePart(s.id, &s.outcomes[n]))
		t.sessions.outcomes -= s.outcomes[n].memory()
		n++
	}
	o := Outcome{Number: txn.Number, Zxid: txn.Zxid, Code: txn.Err}
	if txn.Err == 0 {
		o.Body = string(AppendReply(nil, txn, results))
	}
	t.addOutcome(s, n, o)
}

// addOutcome drops the first n outcomes, and adds one. Views share the memory of the others.
func (t *Tree) addOutcome(s *session, n int, o Outcome) {
	s.outcomes = append(s.outcomes[n:], o)
	t.sessions.outcomes += o.memory()
	t.digest.add(outcomePart(s.id, &o))
}

// AppendReply appends the body of the reply to a write that was not refused.
func AppendReply(b []byte, txn *Txn, results []Result) []byte {
	if txn.Multi {
		return appendMulti(b, txn, results)
	}
	if len(txn.Ops) == 0 {
		return b
	}
	op, res := &txn.Ops[0], &results[0]
	switch {
	case op.Kind == OpCreate && op.Result == jute.OpCreate:
		return jute.AppendString(b, res.Path)
	case op.Kind == OpCreate:
		return res.Stat.Append(jute.AppendString(b, res.Path))
	case op.Kind == OpSetData || op.Kind == OpSetACL:
		return res.Stat.Append(b)
	}
	return b // delete
}

// appendMulti appends a multi's results, one for each operation.
func appendMulti(b []byte, txn *Txn, results []Result) []byte {
	for i := range txn.Ops {
		op, res := &txn.Ops[i], &results[i]
		m := jute.MultiResult{Type: op.Result, Path: res.Path, Stat: res.Stat}
		if op.Kind == OpError {
			m = jute.MultiResult{Type: jute.OpError, Err: op.Code}
		}
		b = m.Append(b)
	}
	return jute.AppendMultiEnd(b)
}

// appendOutcomes appends the outcomes as the row of a session has them: their number, and for
// each the number of its request, zxid, code and body.
func appendOutcomes(b []byte, list []Outcome) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for i := range list {
		o := &list[i]
		b = binary.AppendUvarint(b, uint64(o.Number))
		b = binary.AppendVarint(b, int64(o.Zxid))
		b = binary.AppendVarint(b, int64(o.Code))
		b = appendString(b, o.Body)
	}
	return b
}

// decodeOutcomes reads what appendOutcomes has written. It shares no memory with b.
func decodeOutcomes(b []byte) ([]Outcome, error) {
	r := reader{wire.NewStringReader(string(b))}
	list := make([]Outcome, r.Count(4))
	last := int64(0)
	for i := range list {
		list[i] = Outcome{Number: r.number(), Zxid: jute.Zxid(r.Varint()), Code: jute.Code(r.Varint32()), Body: r.Text()}
		if r.Err() == nil && list[i].Number <= last {
			r.Malformed("outcomes out of order")
		}
		last = list[i].Number
	}
	return slices.Clip(list), r.End()
}

// number reads the number of a request.
func (r *reader) number() int64 { return int64(r.UvarintTo(math.MaxInt64)) }
