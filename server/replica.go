package server

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// submission is what a connection, or the server itself, asks of the leader.
type submission struct {
	kind     submissionKind
	received time.Duration
	req      evaluate.Request
}

// size is about how much memory a submission takes.
func (s *submission) size() int64 { return int64(len(s.req.Body)) + 256 }

type submissionKind uint8

const (
	submitWrite   submissionKind = iota // becomes a transaction
	submitBarrier                       // sync: answered when all before it is applied, if the leader still leads
	submitResume                        // a session wants to go on from a new connection
)

// replica is the peer loop. It owns the core and carries what that asks for to
// the log writer, the applier and the other servers. What a server does with
// submissions depends on its role: a leader evaluates and proposes them, a
// follower passes them on, and one that is neither refuses them.
//
// What is committed leaves in one order, with the barriers in their places: see
// feed.
//
// A turn of the loop is short, whatever there is to do: heartbeats go out between two
// turns.
type replica struct {
	*Server
	in      *queue[submission]
	events  *queue[peerEvent]
	moved   chan struct{} // has a token when the applier has applied more and awaited is set
	again   chan struct{} // has a token when the leader can propose more
	core    *zab.Core
	out     zab.Output
	status  zab.Status
	links   map[zab.SID]uint64 // the present link of each peer
	records []wal.Record       // being handed to the log writer
	logged  fifo[loggedBatch]
	logging int64 // bytes of logged

	leading    leading
	learners   *learners
	arrivals   *arrivals
	passed     map[zab.SID]passed        // of each peer
	identity   ident                     // as the log has it: Server.ident is that of the start
	reserving  uint64                    // number of the log's record with identity.ids until it is durable, then 0
	reportedAt int64                     // time of the last report of touches to the leader, ms
	frame      []byte                    // being made for the leader
	answers    map[zab.SID]*answerFrames // for followers, being made
	left       []chan<- struct{}         // to be closed when this server does not lead
	dropPeers  time.Duration             // when to drop the peers that nothing lists any more; 0 for never
	barred     uint64                    // connections up to this one have been closed with a role
	held       map[uint64]heldRead       // reads of the leader's core that barriers wait for

	orders    []order     // being given to the applier
	ready     fifo[order] // committed, not given to the applier yet
	told      jute.Zxid   // how far the core knows that entries are applied
	collected jute.Zxid   // the last entry put into ready
	fed       jute.Zxid   // the last entry given to the applier
	barriers  fifo[barrier]
	lastRead  uint64
}

// heldRead is a read that was asked for, at the server where its barrier is. It goes when
// it is confirmed; one that failed stays until its barrier is passed.
type heldRead struct {
	at     zab.SID
	failed bool
}

// loggedBatch is a batch at the log writer: the number that the log gave the batch's last
// record, the core's number of the batch, and its size.
type loggedBatch struct {
	wal   uint64
	seq   zab.Seq
	bytes int64
}

func newReplica(s *Server, core *zab.Core, applied jute.Zxid) *replica {
	return &replica{
		Server:    s,
		in:        newQueue((*submission).size),
		events:    newQueue((*peerEvent).size),
		moved:     make(chan struct{}, 1),
		again:     make(chan struct{}, 1),
		core:      core,
		learners:  newLearners(s),
		arrivals:  newArrivals(s),
		identity:  s.ident,
		passed:    make(map[zab.SID]passed),
		links:     make(map[zab.SID]uint64),
		answers:   make(map[zab.SID]*answerFrames),
		held:      make(map[uint64]heldRead),
		collected: applied,
		fed:       applied,
	}
}

// submit hands requests over, in order. It may be called from any goroutine.
func (r *replica) submit(subs ...submission) { r.in.put(subs...) }

// coreTick is how often the core hears what time it is. Heartbeats and elections
// are some multiples of it.
const coreTick = 20 * time.Millisecond

func (r *replica) run() {
	var tick <-chan time.Time
	if r.ensemble() {
		t := time.NewTicker(coreTick)
		defer t.Stop()
		tick = t.C
	}
	var batch []submission
	var events []peerEvent
	for {
		select {
		case <-r.in.ready:
			batch = r.in.take(batch)
			r.metrics.taken.observe(time.Duration(len(batch)), 1)
			r.process(batch)
			batch = r.in.done(batch)
		case <-r.events.ready:
			events = r.events.take(events)
			for i := range events {
				r.handle(&events[i])
			}
			events = r.events.done(events)
		case <-r.logWriter.progress:
			r.persisted(r.logWriter.durable.Load())
		case <-r.moved:
		case <-r.again:
		case <-tick:
			r.tick()
		case <-r.stopping:
			return
		}
		r.dispatch()
		r.proposeWaiting()
		r.showHeld()
	}
}

func (r *replica) tick() {
	r.core.DiskHealth(uint64(millis(r.logWriter.Stats().Pending)), r.diskFull())
	now := millis(r.now())
	r.noteProgress()
	r.core.Tick(uint64(now), time.Now().UnixMilli())
	r.snapshots.needed.Store(int64(r.core.Needs()))
	var peers []zab.PeerStatus
	if r.status.Role == zab.Leading {
		peers = r.core.Peers(nil)
		r.peers.Store(&peers)
	}
	r.watchQuorumDisks()
	r.knowLeases(peers)
	r.dropUnlisted()
	if now-r.reportedAt >= millis(r.cfg.TickTime)/2 {
		r.reportTouches(now)
	}
}

// passed are the bytes of the bulk lane that have come from a peer, and that it has
// read, as last seen.
type passed struct{ in, out uint64 }

// noteProgress tells the core which peers something got through to or from.
func (r *replica) noteProgress() {
	for peer, gen := range r.links {
		in, out := r.transport.Progress(peer)
		was := r.passed[peer]
		r.passed[peer] = passed{in, out}
		if r.status.Role == zab.Leading || r.status.Role == zab.SyncingLeader {
			in, was.in = out, was.out
		}
		if in != was.in {
			r.core.Progress(peer, gen)
		}
	}
}

// tellRoom tells a leader's core what the links take, so that no more waits there than
// keeps them busy.
func (r *replica) tellRoom() {
	if role := r.core.Status().Role; role != zab.Leading && role != zab.SyncingLeader {
		return
	}
	for peer, gen := range r.links {
		r.core.LinkRoom(peer, gen, r.transport.Room(peer, gen))
	}
}

// persisted tells the core which batches the log has made durable.
func (r *replica) persisted(upTo uint64) {
	var done zab.Seq
	for r.logged.len() > 0 && r.logged.front().wal <= upTo {
		done = r.logged.front().seq
		r.logging -= r.logged.front().bytes
		r.logged.pop(1)
	}
	if done > 0 {
		r.core.PersistDone(done)
	}
	if r.reserving != 0 && r.reserving <= upTo {
		r.ids.Reserved(r.identity.ids)
		r.reserving = 0
	}
}

// reserveIDs makes a higher bound of the ids durable.
func (r *replica) reserveIDs() {
	if r.reserving != 0 {
		return
	}
	r.identity.ids = r.ids.Ahead()
	if n, err := r.logWriter.Submit(r.identity.record()); err == nil { // or the log has failed, and the server ends
		r.reserving = n
	}
}

// process deals with what clients of this server want, by its role.
func (r *replica) process(batch []submission) {
	switch r.status.Role {
	case zab.Leading:
		r.propose(batch)
	case zab.Following:
		r.forward(batch)
	default:
		r.refuse(batch)
	}
}

// refuse closes the connections that want something while there is no leader.
// What they asked for has not been done.
func (r *replica) refuse(batch []submission) {
	for i := range batch {
		if c := r.conns.get(batch[i].req.Origin); c != nil {
			c.kill()
		}
	}
}

// dispatch carries out what the core asks for.
func (r *replica) dispatch() {
	r.told = r.lastApplied()
	r.core.Applied(r.told)
	r.tellRoom()
	r.core.Take(&r.out)
	r.arrivals.want(r.core.WantsSnapshot())
	out := &r.out
	if len(out.Persist) > 0 {
		r.persist()
	}
	for _, read := range out.Reads {
		r.confirmed(read)
	}
	r.sendAnswers() // before entries that are ordered behind them
	for i := range out.Send {
		r.transport.Send(out.Send[i].To, out.Send[i].Gen, &out.Send[i].Msg)
	}
	r.explain()
	if snap := out.Install; snap != nil {
		r.ready.push(order{kind: orderInstall, Entry: zab.Entry{Zxid: snap.Zxid}, install: snap.Ref.(*received)})
		r.collected = snap.Zxid
	}
	r.collect()
	if out.Changed || out.Relink {
		r.introduce()
		r.changed(r.core.Status())
	}
	if out.Relink {
		r.transport.Relink()
	}
	r.feed()
	r.metrics.pendingSyncs.Store(int64(len(r.held)))
	r.serveLearners()
	if out.Fatal != "" {
		r.fail(&HaltError{Reason: out.Fatal})
	}
}

// HaltError is the end of a server that found its data, or the ensemble, in a
// state that must not be.
type HaltError struct{ Reason string }

// Error says what was found.
func (e *HaltError) Error() string { return "replication: " + e.Reason }

// explain logs what the core found worth it.
func (r *replica) explain() {
	for _, e := range r.out.Events {
		var fields []zap.Field
		if e.Peer != 0 {
			fields = append(fields, zap.Uint8("peer", uint8(e.Peer)))
		}
		switch e.Level {
		case 0:
			r.log.Debug(e.Text, fields...)
		case 1:
			r.log.Info(e.Text, fields...)
		case 2:
			r.log.Warn(e.Text, fields...)
		default:
			r.log.Error(e.Text, fields...)
		}
	}
}

// persist gives the core's records to the log writer. If the log has failed they
// are never durable, so never committed, and the server is stopping already.
func (r *replica) persist() {
	r.records = r.records[:0]
	var bytes int64
	for i := range r.out.Persist {
		op := &r.out.Persist[i]
		if op.Kind == zab.LogSnapshot {
			r.snapshots.replacing()
			r.applier.superseded.Store(int64(op.Snap.Zxid)) // before the log forgets what was before
		}
		r.records = append(r.records, r.walRecord(op))
		bytes += entrySize(&op.Entry)
	}
	last, err := r.logWriter.Submit(r.records...)
	clear(r.records)
	if cap(r.records) > keptItems {
		r.records = nil
	}
	if err == nil {
		r.logged.push(loggedBatch{wal: last, seq: r.out.PersistSeq, bytes: bytes})
		r.logging += bytes
	}
}

// entrySize is about how much memory an entry takes on its way.
func entrySize(e *zab.Entry) int64 { return int64(len(e.Data)) + 128 }

// walRecord is a record of the core's as the log has it.
func (r *replica) walRecord(op *zab.LogOp) wal.Record {
	switch op.Kind {
	case zab.LogNotes:
		return wal.Record{Kind: wal.Notes, Payload: op.Notes.Append(nil)}
	case zab.LogIncarnation:
		id := &r.identity
		if op.Incarnation != id.incarnation {
			id.replaced = id.incarnation // of dataDir, until the next start
		}
		id.incarnation, id.unproven = op.Incarnation, op.Damaged
		return id.record()
	case zab.LogPromise:
		return wal.Record{Kind: wal.Promise, Payload: encodePromise(op.Promise)}
	case zab.LogTruncate:
		return wal.Record{Kind: wal.Truncate, Zxid: op.Upto}
	case zab.LogCommitHint:
		return wal.Record{Kind: wal.CommitHint, Zxid: op.Upto}
	case zab.LogSnapshot:
		return op.Snap.Ref.(*received).ref.Record()
	}
	e := &op.Entry
	return wal.Record{Kind: wal.Append, Type: uint8(e.Type), Zxid: e.Zxid, Prev: e.Prev, Payload: e.Data}
}

// collect turns what has been committed into orders. What is not in memory any more the
// applier reads from the log, and also what would make its backlog longer than it may be.
func (r *replica) collect() {
	r.metrics.commitsQueued.Add(int64(len(r.out.Committed)))
	for i := range r.out.Committed {
		e := &r.out.Committed[i]
		r.replayTo(e.Prev)
		size := entrySize(e)
		if r.applier.backlog.Load()+size > r.limits.backlog {
			r.replayTo(e.Zxid)
			continue
		}
		r.applier.backlog.Add(size)
		r.ready.push(order{Entry: *e, held: size, txn: r.leading.txnOf(e.Zxid)})
		r.collected = e.Zxid
	}
	r.replayTo(r.out.CommitTo)
}

// replayTo has the applier read the log up to an entry, unless that was collected.
func (r *replica) replayTo(upTo jute.Zxid) {
	if upTo <= r.collected {
		return
	}
	r.leading.passed(upTo)
	r.collected = upTo
	if n := r.ready.len(); n > 0 && r.ready.all()[n-1].kind == orderReplay {
		r.ready.all()[n-1].Zxid = upTo
		return
	}
	r.ready.push(order{kind: orderReplay, Entry: zab.Entry{Zxid: upTo}})
}

// feed gives the applier what is ready, each barrier behind the transactions that
// it stands behind: a replay stops at the places of barriers. A barrier that is not
// confirmed holds up what comes after it: the request behind a sync must not be answered
// before it. That costs nothing, since what comes after needs a round to the same
// servers, and their disks.
func (r *replica) feed() {
	out := r.orders[:0]
	ready, barriers := r.ready.all(), r.barriers.all()
	n, b := 0, 0
	for {
		if b < len(barriers) && barriers[b].after <= r.fed {
			x := &barriers[b]
			read, held := r.held[x.read]
			if held && !read.failed {
				break
			}
			code := x.code
			if held {
				delete(r.held, x.read)
				code = jute.ErrSessionMoved
			}
			out = append(out, order{kind: orderBarrier, origin: x.origin, code: code, session: x.session})
			b++
			continue
		}
		if n == len(ready) {
			break
		}
		next := &ready[n]
		if next.kind == orderReplay && b < len(barriers) && barriers[b].after < next.Zxid {
			r.fed = barriers[b].after
			out = append(out, order{kind: orderReplay, Entry: zab.Entry{Zxid: r.fed}})
			continue
		}
		out = append(out, *next)
		r.fed = next.Zxid
		n++
	}
	r.applier.in.put(out...)
	clear(out)
	r.orders = out[:0]
	if cap(out) > keptItems {
		r.orders = nil
	}
	r.ready.pop(n)
	r.barriers.pop(b)
}

// answerFrames are the frames for one follower that are being made.
type answerFrames struct{ barriers, confirmed []byte }

// answer returns the frames being made for a follower.
func (r *replica) answer(to zab.SID) *answerFrames {
	a := r.answers[to]
	if a == nil {
		a = &answerFrames{}
		r.answers[to] = a
	}
	return a
}

// sendAnswers sends what other servers wait for.
func (r *replica) sendAnswers() {
	for to, a := range r.answers {
		a.barriers = r.sendFrame(to, frameBarriers, a.barriers)
		a.confirmed = r.sendFrame(to, frameConfirmed, a.confirmed)
	}
}

// sendFrame sends a frame unless it is empty, and returns its memory.
func (r *replica) sendFrame(to zab.SID, kind uint8, frame []byte) []byte {
	if len(frame) > 0 {
		r.sendApp(to, r.links[to], kind, frame)
	}
	if cap(frame) > 4*forwardBytes {
		return nil
	}
	return frame[:0]
}

func (r *replica) sendApp(to zab.SID, gen uint64, kind uint8, frame []byte) {
	r.transport.SendApp(to, gen, laneOf(kind), kind, frame)
}

// serverOf returns the server that a connection belongs to.
func serverOf(origin uint64) zab.SID { return zab.SID(origin >> 56) }

// confirmed notes that a read of the leader's core may be answered. What waits for one
// that may not is dropped in its turn: its connection ends, and the client asks elsewhere.
func (r *replica) confirmed(read zab.ReadResult) {
	held, ok := r.held[read.ID]
	switch {
	case !ok:
	case held.at != r.id:
		delete(r.held, read.ID)
		a := r.answer(held.at)
		if len(a.confirmed) == 0 {
			a.confirmed = beginPeerFrame(a.confirmed, r.status.Epoch)
		}
		a.confirmed = appendConfirmed(a.confirmed, read)
	case read.OK:
		delete(r.held, read.ID)
	default:
		r.held[read.ID] = heldRead{at: held.at, failed: true}
	}
}

// changed deals with a change of the core's status. Whenever a role ends in which
// clients were served, or the link to the leader was another one, the clients'
// connections end: what they have under way may be lost, and nothing behind it
// may happen then.
func (r *replica) changed(now zab.Status) {
	was := r.status
	r.status = now
	r.role.Store(&now)
	if was.List != now.List || was.Settled != now.Settled {
		r.listsChanged()
	}
	if was.Role == now.Role && was.Leader == now.Leader && was.LeaderGen == now.LeaderGen && was.Reason == now.Reason {
		return // another epoch, or weight
	}
	if r.ensemble() {
		r.log.Info("now "+explainRole(now), zap.Uint32("epoch", now.Epoch), zap.Uint8("leader", uint8(now.Leader)),
			zap.Stringer("zxid", r.core.LastZxid()), zap.String("reason", now.Reason))
	}
	if served(was.Role) && (was.Role != now.Role || was.Leader != now.Leader || was.LeaderGen != now.LeaderGen) {
		r.endService()
	}
	switch now.Role {
	case zab.Leading:
		if was.Role != zab.Leading {
			r.lead(now)
		}
	case zab.Following:
		r.beginService()
	case zab.Looking:
		r.metrics.elections.Add(1)
	}
	if now.Role != zab.Looking && now.Role != zab.SyncingFollower {
		r.arrivals.drop(0, errNotWanted)
	}
	if now.Role != zab.Leading && now.Role != zab.SyncingLeader {
		r.learners.forget(0)
		r.leading.end() // what came too early, too
	}
	if now.Role != zab.Leading {
		for _, ch := range r.left {
			close(ch)
		}
		r.left = nil
	}
}

func served(role zab.Role) bool { return role == zab.Leading || role == zab.Following }

// beginService lets clients in.
func (r *replica) beginService() {
	now := r.now()
	r.servingFrom.Store(int64(now))
	if r.ensemble() {
		r.metrics.election.observe(now-time.Duration(r.idleSince.Load()), 1)
		r.endReadOnly()
	}
	r.serving.Store(!r.ending.Load())
}

// endService ends what clients have here. The sessions live on, and the clients
// go on at whichever server follows a leader first.
func (r *replica) endService() {
	r.serving.Store(false)
	r.idleSince.Store(int64(r.now()))
	r.barred = r.nextOrigin()
	for _, c := range r.conns.all() {
		if c.asked() {
			c.kill()
		}
	}
	r.leading.end()
	r.barriers.drop()
	clear(r.held)
	// Marks of a leader that is none any more: a close may be lost.
	r.tracker.Reset(millis(r.now()))
}
