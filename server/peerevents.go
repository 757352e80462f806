package server

import (
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/limits/shares"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// peerEvent is an input of the peer loop.
type peerEvent struct {
	kind     peerEventKind
	peer     zab.SID
	gen      uint64
	msg      zab.Message
	intro    zab.Introduction
	app      uint8
	body     []byte
	digest   datatree.Digest
	entries  []zab.Entry
	zxid     jute.Zxid
	bytes    int64
	token    uint64
	ok       bool
	received *received
	taken    chan<- error
	done     chan<- struct{}
	at       time.Duration
	uses     []shares.Use
}

// size returns approximately how much memory an event takes.
func (ev *peerEvent) size() int64 {
	n := int64(len(ev.body)) + 512
	for i := range ev.msg.Entries {
		n += replica.EntrySize(&ev.msg.Entries[i])
	}
	for i := range ev.entries {
		n += replica.EntrySize(&ev.entries[i])
	}
	return n
}

type peerEventKind uint8

const (
	evUp       peerEventKind = iota // intro
	evDown                          // gen
	evMessage                       // msg
	evApp                           // app, body
	evDrained                       // a link has room again
	evRead                          // entries after zxid; !ok: purged
	evBegun                         // snapshot at zxid is being sent, with token
	evSent                          // the snapshot was delivered, or !ok
	evReceived                      // received; taken gets the result: whether it becomes the history
	evTaken                         // snapshot at zxid, bytes
	evPurged                        // log begins at zxid, bytes
	evDigest                        // digest at zxid, to be sent to the leader
	evExpire                        // close the sessions that are due at that time
	evTransfer                      // hand over; done is closed afterwards
	evRefused                       // intro: of a server with which there is no link
	evReserveIDs
	evUses   // uses: what clients have used of limits
	evPing   // done is closed: the loop turns
	evReload // the live configuration has changed
)
