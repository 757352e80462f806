package client

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// An exactly-once session (docs/dev/spec/extensions.md) keeps its calls when a connection is lost. The number
// of a request in its session is the call's place in the order of all calls.

// greeting is a server's answer to a connect request.
type greeting struct {
	jute.ConnectResponse
	ext     jute.ExtensionResponse
	replies []outcome // to writes of earlier connections
}

// outcome is the reply to a write.
type outcome struct {
	jute.ReplyHeader
	body []byte
}

// takeReplies reads the replies that follow a connect response.
func (g *greeting) takeReplies(in *input) error {
	if g.ext.Replies < 0 || g.ext.Replies > exact.MaxWrites {
		return fmt.Errorf("the server announces %d replies to earlier writes; it can have %d", g.ext.Replies, exact.MaxWrites)
	}
	for range g.ext.Replies {
		frame, err := in.next()
		if err != nil {
			return fmt.Errorf("replies to earlier writes: %w", err)
		}
		d := jute.NewDecoder(frame)
		var o outcome
		o.Decode(&d)
		if o.body = slices.Clone(d.Rest()); d.Err() != nil {
			return fmt.Errorf("reply header: %w", d.Err())
		}
		g.replies = append(g.replies, o)
	}
	return nil
}

// replyTo returns the reply to the write of a number.
func (g *greeting) replyTo(number int64) (o *outcome, ok bool) {
	i := slices.IndexFunc(g.replies, func(o outcome) bool { return o.Xid == exact.Xid(number) })
	if i < 0 {
		return nil, false
	}
	return &g.replies[i], true
}

// wantsLocked returns the extensions that the client asks for.
func (s *session) wantsLocked() Features {
	if s.relay != nil { // its client can use no others
		return jute.FeatureExactlyOnce | jute.FeatureFeed | jute.FeatureMoved | jute.FeaturePings
	}
	wants := jute.FeatureFeed | jute.FeaturePaging | jute.FeatureOperations | jute.FeaturePast
	if !s.opts.PlainSession && (s.id == 0 || s.id != s.opts.Session.ID) {
		wants |= jute.FeatureExactlyOnce
	}
	return wants
}

// confirmedLocked returns the number of the last call up to which all are complete.
func (s *session) confirmedLocked() int64 {
	if s.calls.Len() == 0 {
		return int64(s.seq)
	}
	return int64((*s.calls.Front()).seq) - 1
}

// cost returns what a write counts for in the window.
func (k *call) cost(size int) int64 {
	ops := len(k.multi)
	for i := range k.multi {
		if op := &k.multi[i]; op.Type == jute.OpDeleteTree {
			ops += jute.TreeLimit(op.Limit)
		}
	}
	return exact.Cost(ops, size)
}

// fitsLocked reports whether a request of that size may be sent now: the servers keep a bounded
// number of outcomes of an exactly-once session.
func (s *session) fitsLocked(k *call, size int) bool {
	if s.relay != nil && s.relay.overtakesLocked(k) {
		return false
	}
	return !s.exact || !exact.Covers(k.op) || s.window.Fits(k.cost(size))
}

// sendLocked completes the request of k, which begins at mark, for a connection.
func (s *session) sendLocked(b []byte, mark int, k *call) []byte {
	if !s.exact {
		return b
	}
	if s.relay != nil {
		s.relay.sentLocked(k)
	}
	k.kept = append(k.kept[:0], b[mark:]...)
	if !exact.Covers(k.op) {
		return b
	}
	s.window.Add(int64(k.seq), k.cost(len(k.kept)))
	return jute.EndFrame(jute.AppendInt64(b, s.confirmedLocked()), mark)
}

// extraBytes returns how much longer a request may become when it is sent.
func (s *session) extraBytes(op jute.OpCode) int {
	if !s.opts.PlainSession && exact.Covers(op) {
		return 8
	}
	return 0
}

// maxBlamed is how many connections may be lost before the answer to the same call.
const maxBlamed = 10

// keepCallsLocked makes the calls that were sent on the connection of an exactly-once session, which
// is lost for the reason err, wait for the next one. Those whose callers have left stay as they are,
// and so do operations that are about a connection or the ensemble, and a call that seems to be why
// connections end.
func (s *session) keepCallsLocked(err error) {
	if !s.exact {
		return
	}
	for i, k := range s.calls.All() {
		if k.frame != nil || k.left() || !exact.Covers(k.op) && !s.repeats(k.op) {
			continue
		}
		if i == 0 && k.seq <= s.sent {
			k.blamed++
			if _, long := errors.AsType[*frames.LengthError](err); long || k.blamed == maxBlamed {
				continue
			}
		}
		k.again = k.again || k.seq <= s.sent
		k.frame, k.kept = k.kept, nil
		s.waiting += len(k.frame)
	}
}

// repeats reports whether an operation that is no write can be asked again on another connection.
func (s *session) repeats(op jute.OpCode) bool {
	if s.relay != nil {
		return resume.Again(op)
	}
	return exact.Reads(op)
}

// settledCall is a call of an earlier connection that is decided. reply is nil if there is no outcome.
type settledCall struct {
	k     *call
	fate  exact.Fate
	reply *outcome
}

// decideLocked takes the calls of earlier connections out of those that wait, except for those that
// are sent again.
func (s *session) decideLocked(g *greeting) (settled []settledCall) {
	for _, k := range s.calls.TakeAll() {
		d := settledCall{k: k, fate: exact.Again}
		switch number := int64(k.seq); {
		case !k.again:
		case s.exact:
			replied := false
			d.reply, replied = g.replyTo(number)
			if s.relay != nil {
				d.fate = resume.Fate(number, k.op, g.ext.Done, replied)
			} else {
				d.fate = exact.FateOf(number, exact.Covers(k.op), g.ext.Done, replied)
			}
		default:
			d.fate = exact.Lost
		}
		if d.fate == exact.Again {
			s.calls.Push(k)
			continue
		}
		s.waiting -= len(k.frame)
		if k.watch != nil {
			s.watches.remove(k.watch)
		}
		settled = append(settled, d)
	}
	return settled
}

// errReasonLost explains a refusal.
var errReasonLost = errors.New("the server refused the operation, and its reason was lost with the connection")

// errNotKept explains why the outcome of a call is not known.
var errNotKept = errors.New("the connection was lost, and this server does not know what became of the operation")

// failOwed fails the decided calls.
func (s *session) failOwed(err error) {
	s.mu.Lock()
	calls := s.owed
	s.owed = nil
	s.mu.Unlock()
	for _, d := range calls {
		s.fail(d.k, err, nil, true)
	}
}

// settles reports whether decided calls can be told what became of them, when the watches are set again.
func (s *session) settles() bool {
	if s.relay == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.relay.rules.Settles()
}

// settleOwed makes the results of decided calls known. An error means that a reply is invalid.
func (s *session) settleOwed(server string) error {
	s.mu.Lock()
	calls := s.owed
	s.owed = nil
	s.mu.Unlock()
	var broken error
	for _, d := range calls {
		switch d.fate {
		case exact.Answered:
			body := jute.NewDecoder(d.reply.body)
			s.mu.Lock()
			s.lastZxid = max(s.lastZxid, d.reply.Zxid)
			if s.relay != nil {
				s.relay.rules.Shows(d.reply.Zxid)
			}
			s.mu.Unlock()
			broken = errors.Join(broken, s.answer(d.k, &d.reply.ReplyHeader, &body))
		case exact.Refused:
			s.fail(d.k, ErrThrottled, errReasonLost, false)
		default:
			s.fail(d.k, ErrConnectionLoss, &ServerError{Server: server, Err: errNotKept}, true)
		}
	}
	return broken
}
