package resume

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// Reads can be answered from a memory that a feed keeps, as if the session's server had answered them. Three rules make that look like one server:
//
//   - The memory answers only while nothing of the session is under way, and it has everything that the session has seen.
//   - If watches of the client are at the server, an answer shows what the session has seen already: a node that has not changed since. There is
//     none after an event until a reply shows that all events of its transaction have come. Without such watches it may show something newer,
//     which the session then has seen.
//   - A request that goes to the server takes the client's watches of the memory along. The server is first made to have what the session has seen,
//     by a sync, and then sets the watches as after the loss of a connection: it tells what they have missed.
//
// So the watches of a client are either all in the memory or all at the server. If it is lost, those of the memory are not set again at the next.

// Remembered is what a memory knows of a path.
type Remembered struct {
	Exists bool
	Data   []byte
	Stat   jute.Stat
	Whole  bool                    // Names has all children
	Names  func([]string) []string // appends the names of the children
	// Since and Zxid: the node has been so since the transaction Since at the latest, and up to Zxid. All events up to Zxid have been heard.
	Since, Zxid jute.Zxid
}

// Append appends the body of the reply to a read of the node, which exists. names is memory for those of the children.
func (n *Remembered) Append(b []byte, op jute.OpCode, names *[]string) []byte {
	switch op {
	case jute.OpGetData:
		b = jute.AppendBuffer(b, n.Data)
	case jute.OpGetChildren, jute.OpGetChildren2:
		*names = n.Names((*names)[:0])
		b = jute.AppendStrings(b, *names)
		clear(*names)
	}
	if op != jute.OpGetChildren {
		b = n.Stat.Append(b)
	}
	return b
}

// WatchSet is a set of kinds of one-shot watches, as events fire them.
type WatchSet uint8

// The kinds of watches.
const (
	WatchesData     WatchSet = 1 << iota // on data, and on whether there is a node
	WatchesChildren                      // on the list of children
)

// Fired returns those of the kinds that an event fires.
func (w WatchSet) Fired(typ jute.EventType) WatchSet {
	switch typ {
	case jute.EventCreated, jute.EventDataChanged:
		return w & WatchesData
	case jute.EventChildrenChanged:
		return w & WatchesChildren
	case jute.EventDeleted:
		return w
	}
	return 0
}

// Remembers reports whether the memory may answer reads. busy: requests are under way, or their answers are.
func (s *Session) Remembers(busy bool) bool {
	quiet := !busy
	quiet = quiet || memoryBusy.Planted()
	return quiet && s.exact && !s.Bound && s.replay == nil
}

// Recalled is what becomes of a read that the memory knows of.
type Recalled struct {
	Answered bool
	Zxid     jute.Zxid // of the answer
	Watches  WatchSet  // that the memory has to keep from now on
	Behind   bool      // the memory has to get what the session has seen
}

// Recalls answers a read by what the memory knows, if that is what one server could show.
func (s *Session) Recalls(op jute.OpCode, q *jute.PathWatchRequest, n *Remembered) (r Recalled) {
	seen, free := s.Seen(), s.local || s.Watches.Empty()
	told := s.last <= s.shown // all events of what the client has seen
	told = told || memoryBetween.Planted()
	free = free || memoryAhead.Planted()
	old := seen > n.Zxid
	old = old && !memoryOld.Planted()
	lists := op == jute.OpGetChildren || op == jute.OpGetChildren2
	switch {
	case old:
		return Recalled{Behind: true}
	case n.Since > n.Zxid && seen <= n.Zxid:
		return r
	case !free && (q.Watch || n.Since > s.shown || !told):
		return r
	case lists && n.Exists && !n.Whole:
		return r
	}
	r = Recalled{Answered: true, Zxid: max(seen, n.Since)}
	if free {
		s.Shows(r.Zxid)
	}
	if q.Watch {
		r.Watches = s.watchLocally(op, q.Path, n.Exists)
	}
	return r
}

// watchLocally notes the watch that a read has set in the memory.
func (s *Session) watchLocally(op jute.OpCode, path string, exists bool) (set WatchSet) {
	kind := Data
	set = WatchesData
	switch {
	case op == jute.OpExists && !exists:
		kind = Exist
	case !exists:
		return 0
	case op == jute.OpGetChildren || op == jute.OpGetChildren2:
		kind, set = Children, WatchesChildren
	}
	s.local = true
	s.Watches.Set(kind, path)
	return set
}

// HearsLocally handles an event of the memory. It reports whether it is to be told: not if the watch has gone to the server.
func (s *Session) HearsLocally(t Event) (tell bool) {
	if tell = s.local && s.Watches.FiredBy(&t.WatcherEvent); tell {
		s.Learnt(t)
	}
	return tell
}

// Upstream is what a server is asked before a request.
type Upstream struct {
	Syncs   bool // as CatchesUp says
	Watches []jute.SetWatchesRequest
	Forgets bool // the memory is to forget the client's watches
}

// GoUpstream is called before a request goes to the server, or the memory can't keep the client's watches. Unless the server can be asked now, the next connection begins with
// what it needs. chunk is as for RestoreWatches.
func (s *Session) GoUpstream(now bool, chunk int) (u Upstream) {
	if now {
		u.Syncs = s.CatchesUp()
		sets := s.local
		sets = sets && !memoryUnwatched.Planted()
		if sets {
			u.Watches = s.RestoreWatches(chunk, true)
		}
	}
	u.Forgets, s.local = s.local, false
	return u
}

// CatchesUp reports whether the client has seen what the server may lack, also on a new connection. The server is then asked for a sync, whose reply is for CaughtUp.
func (s *Session) CatchesUp() bool {
	lags := s.Seen() > s.has
	if lags {
		s.has = s.Seen()
	}
	lags = lags && !memoryUnsynced.Planted()
	if lags {
		s.awaited = append(s.awaited, s.has)
	}
	return lags
}

// CaughtUp handles the reply to a sync.
func (s *Session) CaughtUp(zxid jute.Zxid, code jute.Code) error {
	if len(s.awaited) == 0 {
		return errors.New("the server answered a sync that was not asked for")
	}
	want := s.awaited[0]
	s.awaited = s.awaited[1:]
	if code != 0 || zxid < want {
		return fmt.Errorf("the server is at zxid %v (%v), and the client has seen %v", zxid, code, want)
	}
	return nil
}
