package line

import (
	"sync"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
)

// Host is the connection around a line. Its lock guards the line. Except for those of the lock,
// Kill, Decided and Operate, its methods are called with the lock held, and may not take it.
type Host interface {
	sync.Locker
	Kill()                      // ends the connection at once, with Line.Kill
	Decided()                   // the line's own request is decided: see Line.Open and Line.Upgrade
	Operate(*Request)           // answers a request about the server itself; the tree is locked
	Sent(size int)              // a frame of that size was put into the buffer
	Left(large, size int64)     // a request has left the queue: see Request.Large and Request.Size
	Ending()                    // the connection ends when the buffer is written
	Groups() []string           // what the client has in common with others: see package fair
	Present() *auth.Credentials // the client's, without those that have ended
	// Held returns those of the identities of a request that has waited which have not ended.
	Held([]jute.ID) []jute.ID
}
