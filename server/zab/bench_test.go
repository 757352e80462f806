package zab

import (
	"testing"
)

// steady is a broadcasting ensemble of three, driven by hand so that only the cores' own
// work is measured.
type steady struct {
	leader, follower *Core
	down             uint64 // the leader's link to the follower
	up               uint64
	lead, learn      Output
	from, to         SID
	data             []byte
}

func newSteady(t testing.TB) *steady {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	n.run(3000) // all are admitted, all hints are out
	l := n.leader()
	f := n.server(l.id%3 + 1)
	return &steady{leader: l.core, follower: f.core, from: l.id, to: f.id, down: l.links[f.id], up: f.links[l.id], data: make([]byte, 100)}
}

// round takes batch proposals from Propose to committed and applied on both.
func (s *steady) round(t testing.TB, batch int) {
	for range batch {
		z, ok := s.leader.NextZxid()
		if !ok {
			t.Fatal("does not lead")
		}
		s.leader.Propose(z, s.data)
	}
	s.leader.Take(&s.lead)
	seq := s.lead.PersistSeq
	s.carry(&s.lead, s.follower, s.to, s.from, s.up)
	s.follower.Take(&s.learn)
	s.follower.PersistDone(s.learn.PersistSeq)
	s.follower.Take(&s.learn)
	s.carry(&s.learn, s.leader, s.from, s.to, s.down)
	s.leader.PersistDone(seq)
	s.leader.Take(&s.lead)
	if s.lead.CommitTo != s.leader.LastZxid() || len(s.lead.Committed) != batch {
		t.Fatalf("committed %v, the last is %v", s.lead.CommitTo, s.leader.LastZxid())
	}
	s.leader.Applied(s.lead.CommitTo)
	s.carry(&s.lead, s.follower, s.to, s.from, s.up)
	s.follower.Take(&s.learn)
	s.follower.Applied(s.learn.CommitTo)
}

// carry delivers the messages of one core to the other.
func (s *steady) carry(out *Output, to *Core, id, from SID, gen uint64) {
	for i := range out.Send {
		if out.Send[i].To == id {
			to.Recv(from, gen, &out.Send[i].Msg)
		}
	}
}

// TestBroadcastAllocations: a transaction costs the cores no separate allocation, on the
// leader and the follower together. The remaining allocations are the chunks of the caches,
// one for hundreds of entries.
func TestBroadcastAllocations(t *testing.T) {
	s := newSteady(t)
	for range 2000 {
		s.round(t, 16)
	}
	if got := testing.AllocsPerRun(500, func() { s.round(t, 16) }); got > 0.5 {
		t.Errorf("%v allocations for a round of 16", got)
	}
}

func BenchmarkBroadcast(b *testing.B) {
	for _, batch := range []int{1, 64} {
		b.Run(map[int]string{1: "batch=1", 64: "batch=64"}[batch], func(b *testing.B) {
			s := newSteady(b)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				s.round(b, batch)
			}
		})
	}
}

func BenchmarkAlone(b *testing.B) {
	c := alone(0)
	var out Output
	data := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		z, _ := c.NextZxid()
		c.Propose(z, data)
		c.Take(&out)
		c.PersistDone(out.PersistSeq)
		c.Take(&out)
	}
}

func BenchmarkMessage(b *testing.B) {
	m := Message{Kind: MsgAppend, Epoch: 3, Prev: 1 << 33, Commit: 1 << 33}
	for z := m.Prev; len(m.Entries) < 16; z++ {
		m.Entries = append(m.Entries, Entry{Zxid: z + 1, Prev: z, Data: make([]byte, 1024)})
	}
	buf := m.Append(nil)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			buf = m.Append(buf[:0])
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(buf)))
		var d Message
		for b.Loop() {
			if err := d.Decode(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
