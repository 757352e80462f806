package zab

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// Core is the state machine. See the package comment.
type Core struct {
	opt       Options
	status    Status
	changed   bool
	appended  jute.Zxid
	committed jute.Zxid
	handed    jute.Zxid // CommitTo of the last Take

	lastSeq     Seq // of the newest batch handed out
	unpersisted []LogOp
	uncommitted []Entry // appended, not handed out as committed
	inFlight    []batch // handed out, PersistDone not seen; in order
	reads       []ReadResult
}

// batch remembers which entries a Seq makes durable.
type batch struct {
	seq  Seq
	last jute.Zxid
}

// New returns a core that continues the recovered history.
func New(opt Options, r Recovered) *Core {
	return &Core{
		opt:       opt,
		appended:  r.LastZxid,
		committed: r.LastZxid,
		handed:    r.LastZxid,
		status:    Status{Role: Leading, Epoch: r.LastZxid.Epoch(), Leader: opt.ID},
		changed:   true,
	}
}

// Tick tells the time: now is of a monotonic clock, wallMs of the wall clock,
// both in ms. Call it every 10 to 25 ms. A jump of now shows that the process
// was stopped.
func (c *Core) Tick(now uint64, wallMs int64) {}

// PeerUp tells that there is a link to a peer, with a number that grows from link
// to link.
func (c *Core) PeerUp(peer SID, gen uint64, incarnation ID) {}

// PeerDown tells that a link is gone. Nothing more will be received on it.
func (c *Core) PeerDown(peer SID, gen uint64) {}

// Recv takes a message that came over a link. It and the memory that its entries
// alias belong to the core from then on, but for the Message itself.
func (c *Core) Recv(from SID, gen uint64, m *Message) {}

// NextZxid returns the zxid of the next proposal, and false if this server can't
// propose now: it does not lead, or its epoch is being renewed.
func (c *Core) NextZxid() (jute.Zxid, bool) {
	if c.appended.Counter() == ^uint32(0) {
		return jute.MakeZxid(c.appended.Epoch()+1, 1), true
	}
	return c.appended + 1, true
}

// Propose appends a transaction. zxid must be NextZxid; data belongs to the core
// from then on. Anything else is a bug of the caller and panics.
func (c *Core) Propose(zxid jute.Zxid, data []byte) {
	if next, ok := c.NextZxid(); !ok || zxid != next {
		panic(fmt.Sprintf("zab: proposal %v, next is %v", zxid, next))
	}
	e := Entry{Zxid: zxid, Prev: c.appended, Data: data}
	c.unpersisted = append(c.unpersisted, LogOp{Kind: LogAppend, Entry: e})
	c.uncommitted = append(c.uncommitted, e)
	c.appended = zxid
}

// PersistDone tells that all batches up to seq are on stable storage. There is
// no opposite: a process whose log fails stops.
func (c *Core) PersistDone(seq Seq) {
	if seq > c.lastSeq {
		panic(fmt.Sprintf("zab: batch %d is durable, but only %d were handed out", seq, c.lastSeq))
	}
	n := 0
	for n < len(c.inFlight) && c.inFlight[n].seq <= seq {
		c.committed = c.inFlight[n].last
		n++
	}
	c.inFlight = append(c.inFlight[:0], c.inFlight[n:]...)
}

// Applied tells how far the shell has applied what was committed.
func (c *Core) Applied(upto jute.Zxid) {}

// ReadIndex asks for a point behind everything that was completed before. The
// answer comes in Output.Reads with the same id, at the latest when the role
// changes.
func (c *Core) ReadIndex(id uint64) {
	c.reads = append(c.reads, ReadResult{ID: id, OK: true, Index: c.committed})
}

// LogRead answers Output.ReadLog: entries behind after. purged says that the log
// does not have them any more.
func (c *Core) LogRead(peer SID, gen uint64, after jute.Zxid, entries []Entry, purged bool) {}

// SnapshotSent answers Output.SendSnap: the snapshot at zxid has been delivered,
// or not.
func (c *Core) SnapshotSent(peer SID, gen uint64, zxid jute.Zxid, ok bool) {}

// SnapshotReceived tells that a snapshot from the leader is complete, verified
// and durable in its file. token came with it. The core decides whether it
// still wants it.
func (c *Core) SnapshotReceived(from SID, token uint64, snap SnapInfo) {}

// SnapshotTaken tells of a snapshot of this server's own whose reference is
// durable.
func (c *Core) SnapshotTaken(zxid jute.Zxid, bytes int64) {}

// LogPurged tells behind which zxid the log can be read now.
func (c *Core) LogPurged(start jute.Zxid, bytes int64) {}

// DiskHealth tells for how long the oldest fsync has been under way, in ms, and
// whether the disk is full.
func (c *Core) DiskHealth(oldestMs uint64, full bool) {}

// Transfer makes a leader hand over to the learner that is best prepared, before
// it stops for maintenance. It accepts no more proposals. Without such a learner
// nothing changes. When the role changes it is done.
func (c *Core) Transfer() {}

// Status returns what the core is at the moment.
func (c *Core) Status() Status { return c.status }

// Peers appends what a leader knows of its learners, sorted by id.
func (c *Core) Peers(dst []PeerStatus) []PeerStatus { return dst }

// Committed returns the highest zxid known to be committed.
func (c *Core) Committed() jute.Zxid { return c.committed }

// LastZxid returns the zxid of the last entry, durable or not.
func (c *Core) LastZxid() jute.Zxid { return c.appended }

// Take moves everything produced since the last Take to out, reusing its
// memory.
func (c *Core) Take(out *Output) {
	*out = Output{
		Persist:   append(out.Persist[:0], c.unpersisted...),
		Committed: out.Committed[:0],
		Reads:     append(out.Reads[:0], c.reads...),
		Send:      out.Send[:0],
		ReadLog:   out.ReadLog[:0],
		SendSnap:  out.SendSnap[:0],
		Events:    out.Events[:0],
		Changed:   c.changed,
	}
	c.changed = false
	c.reads = c.reads[:0]
	clear(c.unpersisted)
	c.unpersisted = c.unpersisted[:0]
	if len(out.Persist) > 0 {
		c.lastSeq++
		c.inFlight = append(c.inFlight, batch{seq: c.lastSeq, last: c.appended})
		out.PersistSeq = c.lastSeq
	}
	n := 0
	for n < len(c.uncommitted) && c.uncommitted[n].Zxid <= c.committed {
		out.Committed = append(out.Committed, c.uncommitted[n])
		n++
	}
	rest := copy(c.uncommitted, c.uncommitted[n:])
	clear(c.uncommitted[rest:])
	c.uncommitted = c.uncommitted[:rest]
	out.CommitTo = c.committed
}
