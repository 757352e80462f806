package zab

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// network is a small ensemble of cores in one goroutine: a clock in ms, links with delays,
// and disks that forget everything without a PersistDone. It checks the main invariants
// after each step.
type network struct {
	t       testing.TB
	rng     *rand.Rand
	now     uint64
	members Members
	servers []*server // index: id - 1
	flying  []flight
	gens    uint64
	cut     map[[2]SID]bool // no link
	deaf    map[[2]SID]bool // from, to: messages are silently lost
	slow    map[[2]SID]bool // from, to: the bulk lane is held up; control messages overtake it
	waiting []flight        // in slow lanes

	drop, dup float64
	delay     int // maximum in ms, more than 1
	fsync     int
	tune      func(*Options)
	trace     func(from, to SID, m *Message)
	show      func(format string, args ...any) // what else servers do; nil if nobody looks
	note      func(line string)                // called for each snapshot sent

	forged    bool                 // histories were changed by hand: no longer compared
	committed []Entry              // by any server, ever
	asked     map[uint64]jute.Zxid // reads: the committed zxid when each was asked
	leaders   map[uint32]SID
}

type flight struct {
	at       uint64
	from, to SID
	gen      uint64
	data     []byte
	snap     *SnapInfo
	token    uint64
	tries    int
}

// server is a core with its shell.
type server struct {
	*network
	id    SID
	up    bool
	boots uint64
	core  *Core
	out   Output

	disk        []LogOp // durable
	writing     []write
	shown       Role // the last one shown
	incarnation ID
	damaged     bool
	file        Members // of the configuration file, read at the start
	vouched     bool    // start with Options.AcceptOldData
	copied      []LogOp // an old copy of disk
	copiedAs    ID      // its incarnation

	// The shell's view of the log and of the applied state.
	base     SnapInfo
	log      []Entry
	state    State // of the applied entries
	applied  int   // number of entries of network.committed
	logStart jute.Zxid
	frozen   bool // not scheduled
	noApply  bool

	snapshot *SnapInfo // to be sent, if it is new enough; nil means one of the applied state

	links  map[SID]uint64
	reads  []ReadResult
	events []Event
}

type write struct {
	at  uint64
	seq Seq
	ops []LogOp
}

func newNetwork(t testing.TB, seed uint64, voters, observers int) *network {
	n := &network{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), cut: map[[2]SID]bool{}, deaf: map[[2]SID]bool{}, slow: map[[2]SID]bool{}, asked: map[uint64]jute.Zxid{},
		delay: 1, fsync: 1, leaders: map[uint32]SID{},
	}
	for i := range voters + observers {
		id := SID(i + 1)
		n.members.List = append(n.members.List, Member{ID: id, Observer: i >= voters})
		s := &server{network: n, id: id}
		s.incarnation = n.newID()
		n.servers = append(n.servers, s)
	}
	for _, s := range n.servers {
		s.file = n.members
	}
	return n
}

func (n *network) newID() (id ID) {
	for i := range id {
		id[i] = byte(n.rng.Uint32())
	}
	id[0] |= 1
	return id
}

func (n *network) server(id SID) *server { return n.servers[id-1] }

// start starts a server from its disk.
func (s *server) start() {
	s.up, s.frozen = true, false
	s.boots++
	r := s.recover()
	boot := uint64(s.id)<<32 | s.boots
	r.Notes.Begin(Start{boot, uint64(len(s.disk) + 1)}, true)
	s.disk = append(s.disk, LogOp{Kind: LogNotes, Notes: r.Notes})
	opt := Options{
		ID: s.id, Boot: boot, Seed: s.rng.Uint64(), Members: s.file, AcceptOldData: s.vouched,
		Init: ClusterInit{Cluster: s.newID(), Secret: [32]byte{1}}, RenewInterval: 3000,
	}
	opt.Members.Text = []byte("app")
	if s.tune != nil {
		s.tune(&opt)
	}
	s.core = New(opt, r)
	s.out = Output{}
	s.links = map[SID]uint64{}
	s.core.Tick(s.now+1_000_000*uint64(s.id), int64(s.now))
	s.take()
}

// recover builds a history from the disk's records.
func (s *server) recover() Recovered {
	s.log, s.base = nil, SnapInfo{}
	r := Recovered{LogStart: s.logStart}
	for i := range s.disk {
		op := &s.disk[i]
		s.fold(op)
		switch op.Kind {
		case LogIncarnation:
			s.incarnation, s.damaged = op.Incarnation, op.Damaged
		case LogNotes:
			r.Notes = op.Notes
		case LogPromise:
			r.Promise = op.Promise
		case LogCommitHint:
			r.Commit = max(r.Commit, op.Upto)
		case LogSnapshot:
			r.Commit = max(r.Commit, op.Snap.Zxid)
		}
	}
	r.Incarnation, r.Damaged = s.incarnation, s.damaged
	r.Base = s.base.State
	r.LastZxid = s.last()
	r.SnapshotBytes = s.base.Bytes
	for _, e := range s.log {
		if e.Control() {
			r.Control = append(r.Control, e)
		}
	}
	s.state = s.base.State.Clone()
	s.applied = s.index(s.base.Zxid)
	s.apply(r.Commit)
	return r
}

// restarted returns the core that the server would have if it stopped now and started
// again.
func (s *server) restarted() *Core {
	disk := *s
	return New(Options{ID: s.id, Members: s.file, Init: ClusterInit{Cluster: ID{1}}}, disk.recover())
}

// fold applies a record to the shell's view of the log.
func (s *server) fold(op *LogOp) {
	switch op.Kind {
	case LogAppend:
		if s.last() != op.Entry.Prev {
			s.t.Fatalf("server %d appends %v after %v, names %v", s.id, op.Entry.Zxid, s.last(), op.Entry.Prev)
		}
		s.log = append(s.log, op.Entry)
	case LogTruncate:
		i := slices.IndexFunc(s.log, func(e Entry) bool { return e.Zxid > op.Upto })
		if i >= 0 {
			s.log = slices.Clone(s.log[:i])
		}
		if s.last() != op.Upto {
			s.t.Fatalf("server %d truncates to %v, has %v", s.id, op.Upto, s.last())
		}
	case LogSnapshot:
		s.log, s.base = nil, op.Snap
	}
}

func (s *server) last() jute.Zxid {
	if n := len(s.log); n > 0 {
		return s.log[n-1].Zxid
	}
	return s.base.Zxid
}

// index returns how many committed entries there are up to z.
func (n *network) index(z jute.Zxid) int {
	i := slices.IndexFunc(n.committed, func(e Entry) bool { return e.Zxid > z })
	if i < 0 {
		return len(n.committed)
	}
	return i
}

// apply applies the log up to z, and compares it with the entries applied by others.
func (s *server) apply(z jute.Zxid) {
	for i := range s.log {
		e := &s.log[i]
		if e.Zxid <= s.state.Zxid {
			continue
		}
		if e.Zxid > z {
			break
		}
		if err := s.state.Apply(e); err != nil {
			s.t.Fatalf("server %d: apply: %v", s.id, err)
		}
		if s.forged {
			continue
		}
		if s.applied < len(s.committed) {
			if c := s.committed[s.applied]; c.Zxid != e.Zxid || c.Type != e.Type || !bytes.Equal(c.Data, e.Data) {
				s.t.Fatalf("server %d applies %v %q, another has applied %v %q", s.id, e.Zxid, e.Data, c.Zxid, c.Data)
			}
		} else {
			s.committed = append(s.committed, *e)
		}
		s.applied++
	}
	if s.state.Zxid != z && z > s.state.Zxid {
		s.t.Fatalf("server %d is to apply up to %v, has %v", s.id, z, s.state.Zxid)
	}
}

// crash stops a server. Data that were not durable are lost, except a random part.
func (s *server) crash() {
	for _, w := range s.writing {
		keep := s.rng.IntN(len(w.ops) + 1)
		s.disk = append(s.disk, w.ops[:keep]...)
		if keep < len(w.ops) {
			break
		}
	}
	s.writing = nil
	s.up, s.core = false, nil
	for _, o := range s.servers {
		s.unlink(o)
	}
}

// wipe empties the disk of a stopped server.
func (s *server) wipe() {
	s.disk = nil
	s.logStart = 0
	s.incarnation, s.damaged = s.newID(), false
}

// damage makes a stopped server find that the end of its log is lost. Readable promises are
// kept.
func (s *server) damage() {
	cut := s.rng.IntN(len(s.disk) + 1)
	rest := s.disk[cut:]
	s.disk = s.disk[:cut:cut]
	for _, op := range rest {
		if op.Kind == LogPromise && s.rng.IntN(2) == 0 {
			s.disk = append(s.disk, op)
		}
	}
	s.logStart = 0
	s.incarnation, s.damaged = s.newID(), true
	s.disk = append(s.disk, LogOp{Kind: LogIncarnation, Incarnation: s.incarnation, Damaged: true})
}

func (s *server) unlink(o *server) {
	if gen, ok := s.links[o.id]; ok {
		delete(s.links, o.id)
		if s.up {
			s.core.PeerDown(o.id, gen)
			s.take()
		}
	}
	if gen, ok := o.links[s.id]; ok {
		delete(o.links, s.id)
		if o.up {
			o.core.PeerDown(s.id, gen)
			o.take()
		}
	}
}

func pair(a, b SID) [2]SID { return [2]SID{min(a, b), max(a, b)} }

// connect links all servers that can be linked.
func (n *network) connect() {
	for i := range n.servers {
		a := n.servers[len(n.servers)-1-i]
		for _, b := range n.servers[:a.id-1] {
			_, linked := a.links[b.id]
			switch can := a.up && b.up && !n.cut[pair(a.id, b.id)]; {
			case can && !linked:
				n.gens++
				a.links[b.id], b.links[a.id] = n.gens, n.gens
				a.core.PeerUp(b.id, n.gens, b.core.Introduction())
				b.core.PeerUp(a.id, n.gens, a.core.Introduction())
				a.take()
				b.take()
			case !can && linked:
				a.unlink(b)
			}
		}
	}
}

// take carries out the outputs of the core.
func (s *server) take() {
	if err := s.core.Check(); err != nil {
		s.t.Fatalf("server %d: %v", s.id, err)
	}
	s.core.Take(&s.out)
	out := &s.out
	if out.Fatal != "" {
		s.t.Fatalf("server %d: fatal: %s", s.id, out.Fatal)
	}
	if len(out.Persist) > 0 {
		w := write{at: s.now + uint64(s.fsync), seq: out.PersistSeq, ops: slices.Clone(out.Persist)}
		for i := range w.ops {
			s.fold(&w.ops[i])
			if s.show != nil {
				s.show("%d writes %s", s.id, describeOp(&w.ops[i]))
			}
		}
		s.writing = append(s.writing, w)
	}
	for i := range out.Send {
		s.send(&out.Send[i])
	}
	s.readLog(out.ReadLog)
	s.sendSnapshots(out.SendSnap)
	s.checkReads(out.Reads)
	s.events = append(s.events, out.Events...)
	if out.Install != nil {
		s.state = out.Install.State.Clone()
		s.applied = s.index(s.state.Zxid)
	}
	s.checkCommitted(out)
	if z := out.CommitTo; z > s.state.Zxid {
		if len(s.core.inFlight) > 0 && s.core.inFlight[0].snap != nil {
			s.t.Fatalf("server %d commits before its snapshot is durable", s.id)
		}
		s.apply(z)
	}
	s.checkLeader()
	s.showStep(out)
	if out.Relink {
		s.incarnation = s.core.incarnation
		for _, o := range s.servers {
			s.unlink(o)
		}
	}
	if !s.noApply && s.core.log.applied < s.state.Zxid {
		s.core.Applied(s.state.Zxid)
		s.take()
	}
}

// read requests a read index.
func (s *server) read() {
	id := uint64(len(s.asked) + 1)
	s.asked[id] = 0
	if k := len(s.committed); k > 0 {
		s.asked[id] = s.committed[k-1].Zxid
	}
	s.core.ReadIndex(id)
	s.take()
}

// checkReads checks that a read sees everything that had been completed anywhere when it
// was asked.
func (s *server) checkReads(list []ReadResult) {
	for _, r := range list {
		if r.OK && r.Index < s.asked[r.ID] {
			s.t.Fatalf("server %d may read at %v, but %v had been committed when it asked", s.id, r.Index, s.asked[r.ID])
		}
	}
	s.reads = append(s.reads, list...)
}

// checkCommitted checks that the entries handed out are the end of those to be applied.
func (s *server) checkCommitted(out *Output) {
	for i := range out.Committed {
		e := &out.Committed[i]
		if i > 0 && e.Prev != out.Committed[i-1].Zxid || e.Zxid <= s.state.Zxid {
			s.t.Fatalf("server %d hands out %v out of order", s.id, e.Zxid)
		}
	}
	if k := len(out.Committed); k > 0 && out.Committed[k-1].Zxid != out.CommitTo {
		s.t.Fatalf("server %d hands out entries up to %v, commits up to %v", s.id, out.Committed[k-1].Zxid, out.CommitTo)
	}
}

// checkLeader checks that an epoch has one leader, which has all entries committed in
// earlier epochs.
func (s *server) checkLeader() {
	st := s.core.Status()
	if st.Role != SyncingLeader && st.Role != Leading {
		return
	}
	if l := s.leaders[st.Epoch]; l != 0 && l != s.id {
		s.t.Fatalf("epoch %d is led by servers %d and %d", st.Epoch, l, s.id)
	}
	if s.leaders[st.Epoch] == 0 && !s.forged {
		for _, e := range s.committed {
			if e.Zxid.Epoch() < st.Epoch && e.Zxid > s.base.Zxid && !slices.ContainsFunc(s.log, func(o Entry) bool { return o.Zxid == e.Zxid }) {
				s.t.Fatalf("server %d leads epoch %d without %v, which is committed", s.id, st.Epoch, e.Zxid)
			}
		}
	}
	s.leaders[st.Epoch] = s.id
}

func (s *server) send(o *Outgoing) {
	if o.Gen != s.links[o.To] || s.deaf[[2]SID{s.id, o.To}] || s.rng.Float64() < s.drop {
		return
	}
	f := flight{from: s.id, to: o.To, gen: o.Gen, data: o.Msg.Append(nil)}
	if s.trace != nil {
		s.trace(s.id, o.To, &o.Msg)
	}
	if s.slow[[2]SID{s.id, o.To}] && o.Msg.Kind.Bulk() {
		s.waiting = append(s.waiting, f)
		return
	}
	s.launch(f)
	if s.rng.Float64() < s.dup {
		s.launch(f)
	}
}

// speedUp releases the bulk lane from a server to another.
func (n *network) speedUp(from, to SID) {
	delete(n.slow, [2]SID{from, to})
	waiting := n.waiting
	n.waiting = nil
	for _, f := range waiting {
		if f.from == from && f.to == to {
			n.launch(f)
		} else {
			n.waiting = append(n.waiting, f)
		}
	}
}

// showStep shows what a server does besides sending and writing.
func (s *server) showStep(out *Output) {
	if s.show == nil {
		return
	}
	if st := s.core.Status(); st.Role != s.shown {
		s.show("%d is %s, epoch %d", s.id, roleNames[st.Role], st.Epoch)
		s.shown = st.Role
	}
	for i := range out.Committed {
		if e := &out.Committed[i]; e.Txn() != nil {
			s.show("%d applies %v %s", s.id, e.Zxid, e.Txn())
		}
	}
}

func describeOp(op *LogOp) string {
	switch op.Kind {
	case LogAppend:
		return fmt.Sprintf("entry %v", op.Entry.Zxid)
	case LogPromise:
		return fmt.Sprintf("promise of epoch %d to %d", op.Promise.Epoch, op.Promise.To)
	case LogTruncate:
		return fmt.Sprintf("truncate to %v", op.Upto)
	case LogCommitHint:
		return fmt.Sprintf("committed to %v", op.Upto)
	case LogSnapshot:
		return fmt.Sprintf("snapshot %v", op.Snap.Zxid)
	case LogNotes:
		return "notes"
	}
	return "incarnation"
}

func (n *network) launch(f flight) {
	f.at = n.now + 1 + uint64(n.rng.IntN(n.delay))
	n.flying = append(n.flying, f)
}

func (s *server) readLog(list []LogRead) {
	for _, r := range list {
		var entries []Entry
		size := 0
		for i := range s.log {
			if e := &s.log[i]; e.Zxid > r.After && (len(entries) == 0 || size < r.MaxBytes) {
				entries = append(entries, *e)
				size += len(e.Data)
			}
		}
		s.core.LogRead(r.Peer, r.Gen, r.After, entries, r.After < s.logStart || r.After < s.base.Zxid)
	}
	if len(list) > 0 {
		s.take()
	}
}

func (s *server) sendSnapshots(list []SnapSend) {
	for _, r := range list {
		if s.note != nil {
			s.note(fmt.Sprintf("%d>%d snapshot, called off: %v", s.id, r.Peer, r.Stop))
		}
		if r.Stop {
			s.flying = slices.DeleteFunc(s.flying, func(f flight) bool { return f.snap != nil && f.from == s.id && f.token == r.Token })
			continue
		}
		if s.slow[[2]SID{s.id, r.Peer}] {
			continue // a snapshot on its way takes as long
		}
		snap := s.snapshot
		if snap == nil || snap.Zxid < r.AtLeast {
			snap = s.newSnapshot()
		}
		s.launch(flight{from: s.id, to: r.Peer, gen: r.Gen, snap: snap, token: r.Token})
		s.core.SnapshotBegun(r.Peer, r.Gen, r.Token, snap.Zxid)
		s.core.SnapshotSent(r.Peer, r.Gen, r.Token, snap.Zxid, true)
	}
}

func (s *server) newSnapshot() *SnapInfo {
	return &SnapInfo{Zxid: s.state.Zxid, State: s.state.Clone(), Bytes: 1000}
}

// step advances the time by a ms.
func (n *network) step() {
	n.now++
	n.connect()
	due := n.flying
	n.flying = nil
	for _, f := range due {
		if f.at > n.now || n.server(f.to).frozen {
			n.flying = append(n.flying, f)
			continue
		}
		n.deliver(f)
	}
	for _, s := range n.servers {
		if !s.up || s.frozen {
			continue
		}
		done := Seq(0)
		for len(s.writing) > 0 && s.writing[0].at <= n.now {
			s.disk = append(s.disk, s.writing[0].ops...)
			done = s.writing[0].seq
			s.writing = s.writing[1:]
		}
		if done > 0 {
			s.core.PersistDone(done)
			s.take()
		}
		if n.now%10 == 0 {
			s.core.Tick(n.now+1_000_000*uint64(s.id), int64(n.now))
			s.take()
		}
	}
}

func (n *network) deliver(f flight) {
	s := n.server(f.to)
	if !s.up || s.links[f.from] != f.gen {
		return
	}
	if f.snap != nil {
		if from, token := s.core.WantsSnapshot(); from == f.from && token == f.token {
			s.core.SnapshotReceived(f.from, f.token, *f.snap)
			s.take()
		} else if f.tries < 1000 { // the message that announces it is on its way, or it was cancelled
			f.tries++
			n.launch(f)
		}
		return
	}
	var m Message
	if err := m.Decode(f.data); err != nil {
		n.t.Fatalf("decode: %v", err)
	}
	if again := m.Append(nil); !bytes.Equal(again, f.data) {
		n.t.Fatalf("%v encodes to other bytes", &m)
	}
	s.core.Recv(f.from, f.gen, &m)
	s.take()
}

func (n *network) run(ms int) {
	for range ms {
		n.step()
	}
}

// until steps until cond holds.
func (n *network) until(ms int, what string, cond func() bool) {
	n.t.Helper()
	for range ms {
		if cond() {
			return
		}
		n.step()
	}
	if !cond() {
		n.t.Fatalf("not within %d ms: %s\n%s", ms, what, n.dump())
	}
}

// leader returns the active leader of the highest epoch, or nil.
func (n *network) leader() (best *server) {
	for _, s := range n.servers {
		if s.up && s.core.Status().Role == Leading && (best == nil || s.core.Status().Epoch > best.core.Status().Epoch) {
			best = s
		}
	}
	return best
}

func (s *server) role() Role {
	if !s.up {
		return Halted
	}
	return s.core.Status().Role
}

// serve starts all servers, and waits until they serve.
func (n *network) serve() {
	n.t.Helper()
	for _, s := range n.servers {
		s.start()
	}
	n.until(1000, "all serve", n.settledDown)
}

// settledDown reports whether all running servers serve, with one leader.
func (n *network) settledDown() bool {
	l := n.leader()
	if l == nil {
		return false
	}
	for _, s := range n.servers {
		if s.up && (s.role() != Leading && s.role() != Following || s.core.Status().Epoch != l.core.Status().Epoch) {
			return false
		}
	}
	return true
}

// propose proposes at a server and reports whether the server accepted.
func (s *server) propose(data string) bool {
	if !s.up {
		return false
	}
	z, ok := s.core.NextZxid()
	if !ok {
		return false
	}
	s.core.Propose(z, []byte(data))
	s.take()
	return true
}

// converged reports whether all running servers have applied everything.
func (n *network) converged() bool {
	l := n.leader()
	for _, s := range n.servers {
		if s.up && (l == nil || s.state.Zxid != l.core.LastZxid()) {
			return false
		}
	}
	return true
}

func (n *network) dump() string {
	var b []byte
	for _, s := range n.servers {
		if !s.up {
			b = fmt.Appendf(b, "%d down\n", s.id)
			continue
		}
		st := s.core.Status()
		b = fmt.Appendf(b, "%d %v epoch %d leader %d last %v durable %v committed %v applied %v promise %d to %d %s (%s)\n", s.id, roleNames[st.Role], st.Epoch, st.Leader,
			s.core.log.appended, s.core.log.durable, s.core.log.committed, s.core.log.applied, s.core.promise.Epoch, s.core.promise.To, st.NotCounted, st.Reason)
	}
	return string(b)
}

var roleNames = [...]string{"looking", "candidate", "syncing-leader", "leading", "syncing-follower", "following", "halted"}
