package line

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// offered are the extensions of the protocol that this version of zkd has.
const offered = jute.FeatureExactlyOnce | jute.FeatureFeed | jute.FeaturePaging | jute.FeatureOperations | jute.FeatureMoved | jute.FeaturePast | jute.FeaturePings

// extensions are those of the protocol that the client asks for, and those that its connection gets. The
// reader sets them, or the applier while the reader waits, before the client has its session.
type extensions struct {
	wanted  bool // the client has asked
	asked   jute.ExtensionRequest
	granted jute.Features
}

// grant decides which extensions the connection gets. without are those that it can't have. outcomes are
// those of the session's writes that are kept. grant returns what the client is told, and the outcomes that it has not
// confirmed.
func (e *extensions) grant(without jute.Features, outcomes []datatree.Outcome) (ext jute.ExtensionResponse, replies []datatree.Outcome) {
	e.granted = e.asked.Features & offered &^ without
	ext.Features = e.granted
	if !e.exactlyOnce() {
		return ext, nil
	}
	replies = outcomes
	if n := len(replies); n > 0 {
		ext.Done = replies[n-1].Number
	}
	if doneBehind.Planted() {
		ext.Done--
	}
	first := slices.IndexFunc(replies, func(o datatree.Outcome) bool {
		unknown := o.Number > e.asked.Confirmed
		return unknown || confirmedReplayed.Planted()
	})
	if notReplayed.Planted() {
		first = -1
	}
	if first < 0 {
		return ext, nil
	}
	ext.Replies = int32(len(replies) - first)
	return ext, replies[first:]
}

// exactlyOnce reports whether writes carry numbers.
func (e *extensions) exactlyOnce() bool { return e.granted&jute.FeatureExactlyOnce != 0 }
