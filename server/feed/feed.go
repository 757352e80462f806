package feed

import (
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
)

const (
	// frameBytes is the length of a frame after which no further record is appended. Less in a small
	// history, as lookBytes.
	frameBytes = 64 << 10
	// lookBytes is how much of the history is looked at for one frame.
	lookBytes = 1 << 20
)

// Feed is what one client gets of a history: events with the changes that it has asked for, as far
// as its credit goes. It is not safe for concurrent use.
type Feed struct {
	request jute.SubscribeRequest
	cursor  *Cursor
	credit  int // negative if the last event cost more than there was
	looked  int // bytes of the records since the last event
	state   State
	level   bool // it has sent everything, and has had credit since: it precedes replies
	told    bool // the client knows that it does

	place     *Place
	displaced atomic.Bool // it has to end, so that another one can begin
}

// State says whether a feed has something to send.
type State int

// The states of a feed.
const (
	Behind  State = iota // there may be more to send
	Current              // all that there is has been sent
	Waiting              // for credit
	Ended                // the history lacks what follows, or another feed has its place
)

// Subscribe makes a feed. now is the zxid that jute.FromNow means. The error is
// jute.ErrBadArguments or a *jute.CompactedError.
func (h *History) Subscribe(r *jute.SubscribeRequest, now jute.Zxid) (*Feed, error) {
	if jute.ValidatePath(r.Path) != nil || r.After < jute.FromNow || !r.Kinds.Valid() || r.Credit < 0 || r.Credit > jute.MaxFeedCredit {
		return nil, jute.ErrBadArguments
	}
	after := r.After
	if after == jute.FromNow {
		after = now
	}
	cursor, err := h.from(after)
	if err != nil {
		return nil, err
	}
	return &Feed{request: *r, cursor: cursor, credit: int(r.Credit)}, nil
}

// ID returns the client's number of the feed.
func (f *Feed) ID() int32 { return f.request.Feed }

// Zxid returns the zxid up to which everything has been sent.
func (f *Feed) Zxid() jute.Zxid { return f.cursor.Zxid() }

// State returns the state as of the last call of Append or Grant.
func (f *Feed) State() State { return f.state }

// Grant adds to the credit, or fails with jute.ErrBadArguments.
func (f *Feed) Grant(bytes int32) error {
	if bytes < 0 || f.credit+int(bytes) > jute.MaxFeedCredit {
		return jute.ErrBadArguments
	}
	f.credit += int(bytes)
	if f.state == Waiting {
		f.state = Behind
	}
	return nil
}

// eventHead is the length of an event without changes.
const eventHead = 4 + 8 + 4 + 4 + 8 + 1 + 1 + 4

// Append appends the frame of the next event, unless there is nothing to be sent now. The client
// gets what allowed reports of an ACL list that it may read.
func (f *Feed) Append(b []byte, allowed func([]jute.ACL) bool) []byte {
	displaced := f.displaced.Load()
	displaced = displaced && !displacedKept.Planted()
	switch {
	case f.state == Ended:
		return b
	case displaced:
		b, mark := begin(b)
		return f.endFeed(b, mark, f.Zxid())
	case f.credit <= 0:
		f.state = Waiting
		if !levelUntold.Planted() {
			f.level = false
		}
		if f.told && !f.level {
			b, mark := begin(b)
			return f.end(b, mark, jute.FeedEvent{Zxid: f.Zxid()}, 0)
		}
		return b
	}
	b, mark := begin(b)
	h := f.cursor.history
	count, longest, most := 0, h.part(frameBytes), f.looked+h.part(lookBytes)
	f.state = Current
	err := f.cursor.Next(func(r Record) bool {
		if len(b)-mark > longest || f.looked >= most {
			f.state = Behind
			return false
		}
		f.looked += r.Len()
		before := len(b)
		if b = f.appendChange(b, &r, allowed); len(b) > before {
			count++
		}
		before = len(b)
		if b = f.appendChildren(b, &r, allowed); len(b) > before {
			count++
		}
		return true
	})
	if levelForgotten.Planted() {
		f.level = false
	}
	f.level = f.level || f.state == Current
	if gone, ok := errors.AsType[*jute.CompactedError](err); ok {
		return f.endFeed(b[:mark+4+eventHead], mark, gone.Oldest)
	}
	if count == 0 && f.level == f.told && f.looked < h.limit/minParts {
		return b[:mark] // after more it says how far it is, so that the client can resume it
	}
	event := jute.FeedEvent{Zxid: f.Zxid(), Level: f.level}
	if partConfirmed.Planted() {
		event.Zxid = max(event.Zxid, f.cursor.current)
	}
	return f.end(b, mark, event, count)
}

// appendChange appends what the client gets of a change, if it has asked for that.
func (f *Feed) appendChange(b []byte, r *Record, allowed func([]jute.ACL) bool) []byte {
	if !f.request.Kinds.Has(r.Kind()) || !Below(f.request.Path, r.Path(), f.request.Recursive) {
		return b
	}
	switch sight := r.Sight(allowed); {
	case sight == Nothing:
		return b
	case sight == Loss:
		return r.AppendLost(b)
	case f.request.Data:
		return r.Append(b)
	}
	return r.AppendWithoutData(b)
}

// appendChildren appends the change of the parent's children that comes with a change, if the client gets that.
func (f *Feed) appendChildren(b []byte, r *Record, allowed func([]jute.ACL) bool) []byte {
	listed := r.Kind() == jute.ChangeCreated || r.Kind() == jute.ChangeDeleted
	if !listed || !f.request.Kinds.Has(jute.ChangeChildren) || !Below(f.request.Path, r.Parent(), f.request.Recursive) || !r.parentSight(allowed) {
		return b
	}
	return r.AppendChildren(b)
}

// begin appends the beginning of an event's frame, with room for the head.
func begin(b []byte) (_ []byte, mark int) {
	b, mark = jute.BeginFrame(b)
	return append(b, make([]byte, eventHead)...), mark
}

// endFeed completes the frame of the last event, which says that there is nothing else but what follows
// oldest.
func (f *Feed) endFeed(b []byte, mark int, oldest jute.Zxid) []byte {
	f.state, f.level = Ended, false
	return f.end(b, mark, jute.FeedEvent{Zxid: oldest, Compacted: true}, 0)
}

// end completes the frame of an event that has count changes.
func (f *Feed) end(b []byte, mark int, event jute.FeedEvent, count int) []byte {
	f.looked, f.told = 0, event.Level
	event.Feed = f.request.Feed
	head := jute.ReplyHeader{Xid: jute.XidFeed, Zxid: event.Zxid}
	event.Append(head.Append(b[:mark+4])) // over the empty head
	binary.BigEndian.PutUint32(b[mark+eventHead:], uint32(count))
	b = jute.EndFrame(b, mark)
	if !chargeless.Planted() {
		f.credit -= len(b) - mark - 4
	}
	return b
}

// Below reports whether changed is a znode's path or, if that is to count, the path of one below it.
func Below(path string, changed []byte, below bool) bool {
	n := len(path)
	switch {
	case len(changed) < n || string(changed[:n]) != path:
		return false
	case len(changed) == n:
		return true
	}
	return below && (changed[n] == '/' || n == 1)
}
