package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// A behavior is what the servers of a run did, in the terms of the specification docs/dev/spec/Zab.tla: the records
// that they wrote, when these became durable, what they knew to be committed, and messages that say that something is
// durable. TLC decides whether the specification allows it: see Trace.tla.
//
// Servers take many decisions at a time, and show them with the next Take. So records come in their order, what a
// leader commits before them, and messages after them.
type behavior struct {
	steps []string // in TLA+
	// committed is what has been said of each server, and lives the incarnations of each.
	committed [16]jute.Zxid
	lives     [16][]zab.ID
	epochs    uint32 // the highest
}

// Behavior runs an ensemble and returns its behavior as a TLA+ sequence, and the highest epoch. The
// specification has one plain list of voters, and disks that lose only what is not durable: cfg must have no others.
func Behavior(cfg Config) (text string, epochs uint32, r Result) {
	s := newSim(cfg)
	s.behavior = new(behavior)
	r = s.run()
	return "<<" + strings.Join(s.behavior.steps, ",\n") + ">>", s.behavior.epochs, r
}

func (b *behavior) add(kind string, n *node, args ...any) {
	var t strings.Builder
	fmt.Fprintf(&t, "<<%q,%d", kind, n.id)
	for _, a := range args {
		switch a := a.(type) {
		case jute.Zxid:
			fmt.Fprintf(&t, ",<<%d,%d>>", a.Epoch(), a.Counter())
			b.epochs = max(b.epochs, a.Epoch())
		case bool:
			fmt.Fprintf(&t, ",%s", strings.ToUpper(fmt.Sprint(a)))
		default:
			fmt.Fprintf(&t, ",%v", a)
		}
	}
	b.steps = append(b.steps, t.String()+">>")
}

// commits notes what a server knows to be committed.
func (b *behavior) commits(n *node, z jute.Zxid, leads bool) {
	if b != nil && z > b.committed[n.idx] {
		b.committed[n.idx] = z
		kind := "learn"
		if leads {
			kind = "commit"
		}
		b.add(kind, n, z)
	}
}

// life returns the number of an incarnation of a server.
func (b *behavior) life(id zab.SID, incarnation zab.ID) int {
	l := &b.lives[id-1]
	i := slices.Index(*l, incarnation)
	if i < 0 {
		i = len(*l)
		*l = append(*l, incarnation)
	}
	return i
}

// starts notes that a process begins with what its disk has.
func (b *behavior) starts(n *node) {
	if b != nil {
		b.committed[n.idx] = 0
		b.life(n.id, n.disk.durable.incarnation)
		b.add("crash", n)
	}
}

// durable notes that a record has become durable.
func (b *behavior) durable(n *node, r *logRecord) {
	if b == nil {
		return
	}
	switch r.kind {
	case recAppend, recPromise, recTruncate, recHint, recInstall:
		b.add("durable", n)
	}
}

// writes notes a record before it is written.
func (b *behavior) writes(s *Sim, n *node, op *zab.LogOp) {
	if b == nil {
		return
	}
	switch op.Kind {
	case zab.LogAppend:
		kind, data := b.entry(s, n, &op.Entry)
		b.add("append", n, op.Entry.Zxid, fmt.Sprintf("%q", kind), data)
	case zab.LogPromise:
		b.epochs = max(b.epochs, op.Promise.Epoch)
		kind := "promise"
		if op.Promise.To == n.id {
			kind = "campaign"
			if r := n.core.Status().Role; r == zab.Leading || r == zab.SyncingLeader {
				kind = "renew"
			}
		}
		b.add(kind, n, op.Promise.Epoch, op.Promise.To)
	case zab.LogTruncate:
		b.add("truncate", n, op.Upto)
	case zab.LogCommitHint:
		b.commits(n, op.Upto, false)
		b.add("hint", n, op.Upto)
	case zab.LogSnapshot:
		b.add("install", n, op.Snap.Zxid)
		b.committed[n.idx] = max(b.committed[n.idx], op.Snap.Zxid)
	}
}

// entry returns the kind and the data of an entry.
func (b *behavior) entry(s *Sim, n *node, e *zab.Entry) (kind, data string) {
	var m zab.Marker
	var a zab.Admission
	switch {
	case e.Type == zab.EntryMarker && m.Decode(e.Data) == nil && m.Init != nil:
		var list []string
		for _, a := range m.Admitted {
			list = append(list, fmt.Sprintf("<<%d,%d>>", a.Server, b.life(a.Server, a.Incarnation)))
		}
		return "found", "{" + strings.Join(list, ",") + "}"
	case e.Type == zab.EntryMarker:
		return "marker", fmt.Sprint(m.Leader)
	case (e.Type == zab.EntryAdmit || e.Type&zab.EntryAdmits != 0) && a.Decode(e.Data) == nil:
		return "admit", fmt.Sprintf("<<%d,%d>>", a.Server, b.life(a.Server, a.Incarnation))
	}
	by := n.id
	if origin, ok := s.ghost.born[e.Zxid]; ok {
		by = origin.by
	}
	return "txn", fmt.Sprint(by)
}

// sends notes a message that says that something is durable.
func (b *behavior) sends(n *node, m *zab.Message) {
	if b == nil {
		return
	}
	switch {
	case m.Kind == zab.MsgNewEpoch && m.Flags&zab.FlagEstablished == 0:
		b.add("newepoch", n, m.Epoch, m.Zxid)
	case m.Kind == zab.MsgAckEpoch:
		b.add("ackepoch", n, m.Epoch)
	case m.Kind == zab.MsgAck, m.Kind == zab.MsgPong && m.Zxid != 0:
		b.add("ack", n, m.Epoch, m.Zxid, m.Flags&zab.FlagUncounted == 0)
	}
}
