package zktest

import (
	"slices"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// Match tells whether a request is meant. It is asked about each request that a
// client sends, pings excepted, with "" as the path of operations without one. A
// multi is asked about once for each of its operations: op is OpMulti, path is
// the operation's. The connect request counts as OpCreateSession. The paths are
// those of the servers, with the client's chroot.
//
// A Match is called with a lock held: it must not block.
type Match func(op client.OpCode, path string) bool

// Any matches what the user of a client asks for: not what clients do of
// themselves, which is to connect, to authenticate and to set watches again.
func Any() Match {
	return func(op client.OpCode, _ string) bool {
		switch op {
		case jute.OpCreateSession, jute.OpAuth, jute.OpSASL, jute.OpSetWatches, jute.OpSetWatches2:
			return false
		}
		return true
	}
}

// Op matches the operations, at any path.
func Op(ops ...client.OpCode) Match {
	return func(op client.OpCode, _ string) bool { return slices.Contains(ops, op) }
}

// OpAt matches an operation at one path.
func OpAt(op client.OpCode, path string) Match {
	return func(o client.OpCode, p string) bool { return o == op && p == path }
}

// At matches all operations at one path.
func At(path string) Match {
	return func(_ client.OpCode, p string) bool { return p == path }
}

// Writes matches what changes the tree.
func Writes() Match {
	return func(op client.OpCode, _ string) bool {
		return op.Write() && op != jute.OpCreateSession && op != jute.OpCloseSession
	}
}

// Nth matches the nth, from 1, of what m matches.
func Nth(n int, m Match) Match {
	var mu sync.Mutex
	return func(op client.OpCode, path string) bool {
		if !m(op, path) {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		n--
		return n == 0
	}
}
