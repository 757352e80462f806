package zab

import (
	"bytes"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// alone returns a core without an ensemble.
func alone(last jute.Zxid) *Core {
	c := New(Options{ID: 1}, Recovered{LastZxid: last})
	c.Take(&Output{})
	return c
}

// TestAlone: without an ensemble a core leads from the start, begins with zxid 0x1, and
// commits durable entries.
func TestAlone(t *testing.T) {
	c := alone(0)
	if s := c.Status(); s.Role != Leading || s.Epoch != 0 || s.Leader != 1 {
		t.Fatalf("status: %+v", s)
	}
	var out Output
	for i := range 3 {
		z, ok := c.NextZxid()
		if want := jute.Zxid(i + 1); z != want || !ok {
			t.Fatalf("next is %v, %v; want %v", z, ok, want)
		}
		c.Propose(z, []byte{byte(i)})
		if i == 1 {
			c.Take(&out)
		}
	}
	if len(out.Persist) != 2 || out.PersistSeq != 1 || out.CommitTo != 0 || out.Persist[1].Entry.Prev != 1 {
		t.Fatalf("first batch: %+v", out)
	}
	c.PersistDone(1)
	c.ReadIndex(7)
	c.Take(&out)
	if out.CommitTo != 2 || len(out.Committed) != 2 || !bytes.Equal(out.Committed[1].Data, []byte{1}) {
		t.Errorf("after the first batch is durable: commits up to %v: %v", out.CommitTo, out.Committed)
	}
	if !slices.Equal(out.Reads, []ReadResult{{ID: 7, OK: true, Index: 2}}) {
		t.Errorf("read: %v", out.Reads)
	}
	if len(out.Persist) != 1 || out.PersistSeq != 2 {
		t.Errorf("second batch: %+v", out.Persist)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

// TestAloneCounterUsedUp: a standalone server continues in the next epoch.
func TestAloneCounterUsedUp(t *testing.T) {
	c := alone(0xFFFFFFFF)
	z, ok := c.NextZxid()
	if z != 0x100000001 || !ok {
		t.Fatalf("next is %v, %v", z, ok)
	}
	c.Propose(z, nil)
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

// TestMisuse: errors that only a bug of the caller can cause panic.
func TestMisuse(t *testing.T) {
	ensemble := Members{List: []Member{{ID: 1}, {ID: 2}, {ID: 3}}}
	for name, fn := range map[string]func(){
		"proposal out of order": func() { alone(0).Propose(2, nil) },
		"proposal without leading": func() {
			New(Options{ID: 1, Members: ensemble, Init: ClusterInit{Cluster: ID{1}}}, Recovered{}).Propose(1, nil)
		},
		"durable, not handed out":   func() { alone(0).PersistDone(1) },
		"ensemble without its name": func() { New(Options{ID: 1, Members: ensemble}, Recovered{}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			fn()
		})
	}
}

// TestFromAloneToEnsemble: the history of a standalone server becomes the ensemble's; all
// of it counts as committed.
func TestFromAloneToEnsemble(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	s := n.server(1)
	for i := range 5 {
		s.disk = append(s.disk, LogOp{Kind: LogAppend, Entry: Entry{Zxid: jute.Zxid(i + 1), Prev: jute.Zxid(i), Data: []byte("alone")}})
	}
	for _, s := range n.servers {
		s.start()
	}
	n.until(1000, "all serve", func() bool { return n.settledDown() && n.converged() })
	if l := n.leader(); l.id != 1 || l.core.Status().Epoch != 1 || len(n.committed) != 6 {
		t.Errorf("committed %d entries\n%s", len(n.committed), n.dump())
	}
}

// TestGarbage: messages from a peer do no harm: the core stays consistent and does not
// fail.
func TestGarbage(t *testing.T) {
	n := newNetwork(t, 3, 3, 0)
	n.serve()
	number := func() uint64 { return []uint64{0, 1, 2, 3, 1 << 31, 1<<32 + 1, 1 << 63, ^uint64(0)}[n.rng.IntN(8)] }
	for range 20_000 {
		s := n.servers[n.rng.IntN(3)]
		from := SID(n.rng.IntN(4))
		st := s.core.Status()
		m := Message{
			Kind: MessageKind(n.rng.IntN(int(lastMessageKind) + 3)), Leader: SIDOf(uint8(number())), Flags: uint16(n.rng.Uint32()),
			Epoch: st.Epoch - 1 + uint32(n.rng.IntN(3)), Zxid: jute.Zxid(number()), Prev: jute.Zxid(number()), Commit: jute.Zxid(number()),
			Seq: number(), Echo: number(), Nonce: number(),
		}
		if m.Kind == MsgAck || m.Kind == MsgPong || m.Kind == MsgSync && from == st.Leader || m.Kind == MsgNewEpoch {
			continue // a peer is believed about itself, a leader about everything
		}
		if m.Kind == MsgCommit || m.Kind == MsgPing || m.Kind == MsgAppend {
			m.Commit = min(m.Commit, s.core.Committed())
		}
		for range n.rng.IntN(3) {
			m.Entries = append(m.Entries, Entry{Zxid: jute.Zxid(number()), Prev: jute.Zxid(number()), Type: EntryType(number()), Data: make([]byte, number()%40)})
		}
		if n.rng.IntN(2) == 0 {
			m.Epochs = []EpochEnd{{uint32(number()), uint32(number())}}
		}
		s.core.Recv(from, s.links[from], &m)
		s.take()
	}
	n.until(5000, "all serve", func() bool { return n.settledDown() && n.converged() })
}

// TestForeigners: the peer of another ensemble, and one with this server's id,
// are refused with an event, and no data is touched.
func TestForeigners(t *testing.T) {
	n := newNetwork(t, 3, 3, 0)
	n.serve()
	l := n.leader()
	l.core.PeerUp(l.id, 99, Introduction{Incarnation: ID{1}})
	l.core.PeerUp(9, 100, Introduction{Incarnation: ID{2}})
	l.core.Recv(9, 100, &Message{Kind: MsgFollow, Cluster: ID{3}, Promise: 7})
	l.take()
	bad := 0
	for _, e := range l.events {
		if e.Level == Error {
			bad++
		}
	}
	if bad != 2 {
		t.Errorf("events: %v", l.events)
	}
	n.run(3000)
	if n.leader() != l || l.core.Status().Epoch != 1 {
		t.Error(n.dump())
	}
}

// A member's data that were run alone are a separate history from then on: they may not be
// taken for the ensemble's, and can found a new one.
func TestFromEnsembleToAlone(t *testing.T) {
	first := Marker{Leader: 1, Init: &ClusterInit{Cluster: ID{1}}, Admitted: []Admission{{1, ID{7}}}}
	history := []Entry{{Zxid: jute.MakeZxid(3, 0), Type: EntryMarker, Data: first.Append(nil)}}
	c := New(Options{}, Recovered{Control: history, LastZxid: jute.MakeZxid(3, 5), Incarnation: ID{7}})
	if z, ok := c.NextZxid(); !ok || z != jute.MakeZxid(4, 1) {
		t.Fatalf("the next zxid is %v, want one of an epoch of its own", z)
	}
	var out Output
	c.Take(&out)
	if len(out.Persist) != 1 || out.Persist[0].Entry.Type != EntryMarker {
		t.Fatalf("persists %+v, want a marker", out.Persist)
	}
	history = append(history, out.Persist[0].Entry)
	again := New(Options{}, Recovered{Control: history, LastZxid: jute.MakeZxid(4, 9), Incarnation: ID{7}})
	if z, _ := again.NextZxid(); z != jute.MakeZxid(4, 10) {
		t.Errorf("after a restart the next zxid is %v: one marker is enough", z)
	}
	three := Members{List: []Member{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}, {ID: 3, Weight: 1}}}
	member := New(Options{ID: 1, Members: three, Init: ClusterInit{Cluster: ID{2}}},
		Recovered{Control: history, LastZxid: jute.MakeZxid(4, 9), Incarnation: ID{7}})
	if member.log.tip.Seeded() || member.Committed() != jute.MakeZxid(4, 9) {
		t.Errorf("as a member it belongs to ensemble %x and has committed %v", member.log.tip.Init.Cluster, member.Committed())
	}
}

// TestPromiseAfterAPause: a stopped server sees a message before the next Tick. What the message
// begins is measured from that moment, not from the last Tick.
func TestPromiseAfterAPause(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	c := n.leader().core
	successor := c.peers[0]
	at := c.origin + c.now + c.opt.ElectionTimeout/2 - 1
	c.Advance(at)
	c.Recv(successor.id, successor.gen, &Message{
		Kind: MsgNewEpoch, Epoch: c.lead.epoch + 1, Promise: c.lead.epoch, Zxid: c.log.appended, Flags: FlagTransfer | FlagSeeded | FlagCounts | FlagAnchored,
	})
	if c.promise != (Promise{c.lead.epoch + 1, successor.id}) {
		t.Fatalf("no promise: %v", c.promise)
	}
	c.Tick(at+c.opt.ElectionTimeout-1, 0)
	if !c.awaitsPromised() {
		t.Error("the successor has not the time of an election")
	}
}
