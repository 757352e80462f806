package transport

import (
	"time"

	"github.com/zkd-project/zkd/server/zab"
)

// PeerStatus is what an operator wants to know of the way to a peer. The counts
// are of all links to it since Start.
type PeerStatus struct {
	ID    zab.SID
	Addrs []string

	Up    bool
	Gen   uint64    // of the link, if Up
	Since time.Time // when it came up, or went down; zero if it never was up
	Hello Hello     // of the newest link

	BytesIn, BytesOut   uint64
	FramesIn, FramesOut uint64
	// What waits to be written in each lane; of the bulk lane also what is written
	// and not read at the other end, and how much that may be at the moment.
	ControlBytes, BulkBytes, UnreadBytes, WindowBytes int

	Links        uint64 // how often it was up
	DialFailures uint64
	// LastError is why the newest attempt to reach it failed, or why the newest
	// link went down; empty since a link is up.
	LastError   string
	LastErrorAt time.Time
}
