package clients

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// offered are the extensions of the protocol that this version of zkd has.
const offered = jute.FeatureExactlyOnce | jute.FeatureFeed | jute.FeaturePaging | jute.FeatureOperations

// grant decides which of the extensions that the client has asked for its connection gets. It
// returns what the client is told, and the outcomes that it has not confirmed. The caller holds
// the tree lock for writing, unless the session is local.
func (c *conn) grant(id jute.SessionID) (ext jute.ExtensionResponse, replies []datatree.Outcome) {
	tree := c.clients.state.Tree
	c.granted = c.asked.Features & offered
	if c.clients.feeder.history == nil {
		c.granted &^= jute.FeatureFeed
	}
	if c.local.Load() || !tree.ExactlyOnce(id) {
		c.granted &^= jute.FeatureExactlyOnce
	}
	ext.Features = c.granted
	if c.granted&jute.FeatureExactlyOnce == 0 {
		return ext, nil
	}
	replies = tree.Outcomes(id)
	if n := len(replies); n > 0 {
		ext.Done = replies[n-1].Number
	}
	first := slices.IndexFunc(replies, func(o datatree.Outcome) bool { return o.Number > c.asked.Confirmed })
	if first < 0 {
		return ext, nil
	}
	ext.Replies = int32(len(replies) - first)
	return ext, replies[first:]
}

// sendOutcome sends the reply to a write of an earlier connection of the session.
func (c *conn) sendOutcome(o *datatree.Outcome) {
	b, mark := jute.BeginFrame(nil)
	h := jute.ReplyHeader{Xid: exact.Xid(o.Number), Zxid: o.Zxid, Err: o.Code}
	c.send(jute.EndFrame(append(h.Append(b), o.Body...), mark))
}

// errNumber means that a write of an exactly-once session has no valid number.
var errNumber = errors.New("a write of an exactly-once session without a valid number")

// takeNumber takes from the end of the request up to which number the client has all replies, and
// finds the request's own number.
func (r *request) takeNumber() error {
	n := len(r.body) - 8
	if n < 0 || r.xid < 1 {
		return errNumber
	}
	r.confirmed = int64(binary.BigEndian.Uint64(r.body[n:]))
	r.body = r.body[:n:n]
	if r.confirmed < 0 || r.confirmed > 1<<62 {
		return errNumber
	}
	r.number = exact.Number(r.confirmed, r.xid)
	return nil
}
