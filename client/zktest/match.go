package zktest

import (
	"slices"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// Match reports whether a request is the wanted one. It is called for each request that a
// client sends, except pings, with "" as the path of operations without one. For a multi it
// is called once for each operation, with OpMulti and that operation's path. The connect
// request counts as OpCreateSession. Paths are the servers', with the client's chroot.
//
// A Match is called with a lock held: it must not block.
type Match func(op client.OpCode, path string) bool

// Any matches the requests of a client's user. It does not match those that clients make
// themselves: to connect, to authenticate, and to set watches again.
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

// Writes matches requests that change the tree.
func Writes() Match {
	return func(op client.OpCode, _ string) bool {
		return op.Write() && op != jute.OpCreateSession && op != jute.OpCloseSession
	}
}

// Nth matches the nth request, counted from 1, that m matches.
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
