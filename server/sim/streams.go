package sim

import (
	"bytes"
	"math"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/feed"
)

// Streams: clients without a session follow changes over HTTP. They lose their connections with what is
// under way, and resume after the last id that came, at any server.

// stream is such a client. Its path and what it has are those of a feed.
type stream struct {
	clientFeed
	reader *feed.Reader // nil if there is no connection
	node   *node
	life   uint32    // of the node's process
	open   jute.Zxid // of the last change, unless an id came with it
}

// streamTurn runs a stream's turn.
func (s *Sim) streamTurn(i int32) {
	s.agenda.push(event{at: s.now + s.between(1, 8*s.cfg.ThinkUs+1000), kind: evStream, node: -1, arg: i})
	st := s.streams[i]
	if st.reader == nil || !st.node.alive || st.node.life != st.life {
		s.beginStream(st, s.nodes[s.rng.IntN(len(s.nodes))])
		return
	}
	if st.node.paused {
		return
	}
	arrive := math.MaxInt
	if s.phase == phaseChaos && s.percent(5) {
		arrive = s.rng.IntN(8)
	}
	if s.readStream(st, arrive); arrive < math.MaxInt {
		st.reader = nil
	}
}

// beginStream connects a stream to a server, if that runs.
func (s *Sim) beginStream(st *stream, n *node) {
	if st.reader = nil; !n.alive || n.paused {
		return
	}
	if !st.begun {
		s.drawSubject(&st.clientFeed)
		st.request.Recursive, st.request.Data, st.request.Kinds = true, true, 0
		if st.after = st.request.After; st.after == jute.FromNow {
			_, st.after = n.changes.Span()
		}
	}
	reader, err := n.changes.Reader(st.request.Path, st.after, s.readable)
	if err != nil {
		s.streamLacks(st, n, err)
		return
	}
	s.stats.Streams++
	st.begun, st.reader, st.node, st.life = true, reader, n, n.life
	st.seek(s.ghost.recordsAfter(st.after))
	st.open = 0
}

// streamLacks handles the end of a stream at a server that lacks changes: C4. The next one reads the state.
func (s *Sim) streamLacks(st *stream, n *node, err error) {
	gone, ok := err.(*jute.CompactedError)
	if !ok || gone.Oldest <= st.after && !s.ghost.gaveUp(st.after) {
		s.fail("C4", "a stream that has the changes up to %v is told: %v", st.after, err)
	}
	s.stats.Compacted++
	s.checkHistory(n)
	st.begun, st.reader = false, nil
}

// readStream reads the changes that follow, of which some arrive: C1, C7.
func (s *Sim) readStream(st *stream, arrive int) {
	err := st.reader.Next(func(c *jute.Change, ends bool) {
		if arrive--; arrive < 0 {
			return
		}
		if s.ghost.gaveUp(st.after) {
			s.fail("C4", "a stream has the changes up to %v, which was given up, and continues", st.after)
		}
		if st.open != 0 && st.open != c.Zxid {
			s.fail("C7", "a stream of %q gets %+v, and no id for %v", st.request.Path, c, st.open)
		}
		want := jute.Change{}
		if next := st.following(&s.ghost, math.MaxInt64); next != nil {
			want = next.Change
		}
		if !bytes.Equal(c.Append(nil), want.Append(nil)) {
			s.fail("C1", "a stream of %q that is at %v gets %+v, and the next change is %+v", st.request.Path, st.after, c, want)
		}
		s.stats.Streamed++
		st.took()
		if st.open = c.Zxid; !ends {
			return
		}
		if missed := st.following(&s.ghost, c.Zxid); missed != nil {
			s.fail("C7", "a stream of %q gets the id %v, and lacks %+v", st.request.Path, c.Zxid, missed)
		}
		st.after, st.open = c.Zxid, 0
	})
	if err != nil {
		s.streamLacks(st, st.node, err)
	}
}

// checkStreams checks that streams get everything that their servers have: Liveness.
func (s *Sim) checkStreams() {
	for _, st := range s.streams {
		if st.reader == nil || !st.node.alive || st.node.life != st.life {
			continue
		}
		for more := true; more && st.reader != nil; {
			s.readStream(st, math.MaxInt)
			more = st.reader != nil && isClosed(st.reader.More())
		}
		if missed := st.following(&s.ghost, st.node.applied); st.reader != nil && (missed != nil || st.open != 0) {
			s.fail("Liveness", "a stream of %q that has read everything of server %d lacks %+v, or the id of %v", st.request.Path, st.node.id, missed, st.open)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
