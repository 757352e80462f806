package server

import (
	"context"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// loop is the peer loop. It owns the replica: it passes on the input from clients, other
// servers, the log and the clock, and carries out the replica's output.
//
// A turn of the loop is short however much there is to do, because heartbeats are sent
// between two turns.
type loop struct {
	cfg       *config.Config
	live      func() *config.Config
	log       *zap.Logger
	metrics   *monitor.Metrics
	now       func() time.Duration
	ending    func() bool
	fail      func(error)
	standing  *standing
	service   *service
	handover  *handover
	id        zab.SID
	ids       *session.IDs
	disk      *disk
	clients   *clients.Clients
	snapshots *snapshotter
	logWriter *logWriter
	transport *transport.Transport // set by the start; nil without an ensemble
	listsNew  func()               // the lists of members have changed
	rules     *peerRules
	seen      func(*replica.Output) // see Options; may be nil

	replica     *replica.Replica
	submissions *base.Queue[replica.Submission]
	events      *base.Queue[peerEvent]
	again       chan struct{} // has a token when the leader can propose more
	out         replica.Output
	records     []wal.Record // being handed to the log writer
	logged      fifo.List[loggedBatch]
	stages      stages
	lookingFrom time.Duration  // when the present election began
	syncingFrom time.Duration  // when a leader began to bring this server up to date
	interlude   line.Interlude // of the connections that wait for a service

	learners   *learners
	arrivals   *arrivals
	passed     map[zab.SID]bulkBytes // of each peer
	identity   datadirs.Identity     // as the log has it
	reserving  uint64                // number of the log's record with identity.IDs until it is durable, then 0
	reportedAt int64                 // time of the last report of touches to the leader, ms
	touches    []replica.Touch       // being reported
	left       []chan<- struct{}     // to be closed when this server does not lead
	heard      zab.Members           // the newest list received from another server; it decides nothing
	dropPeers  time.Duration         // when to drop the peers that are no longer listed; 0 for never
	counted    replica.Stats         // as already added to the metrics
	sharing    sharing
}

// loggedBatch is a batch at the log writer: the log's number of the batch's last record,
// and the core's number of the batch.
type loggedBatch struct {
	wal     uint64
	seq     zab.Seq
	entries int64
	at      time.Duration
}

// coreTick is the interval at which the core learns the time. Heartbeats and elections
// are multiples of it.
const coreTick = 20 * time.Millisecond

func (l *loop) run(ctx context.Context) {
	var tick <-chan time.Time
	if l.cfg.Replicated() {
		t := time.NewTicker(coreTick)
		defer t.Stop()
		tick = t.C
	}
	var batch []replica.Submission
	var events []peerEvent
	for {
		select {
		case <-l.submissions.Ready:
			l.replica.Advance()
			batch = l.submissions.Take(batch)
			l.metrics.Taken.Observe(len(batch))
			l.metrics.EvaluationQueued.Add(int64(len(batch)))
			l.replica.Submit(batch)
			batch = l.submissions.Done(batch)
		case <-l.events.Ready:
			l.replica.Advance()
			events = l.events.Take(events)
			for i := range events {
				l.handle(&events[i])
			}
			events = l.events.Done(events)
		case <-l.logWriter.progress:
			l.replica.Advance()
			l.persisted(l.logWriter.durable.Load())
		case <-l.handover.moved:
		case <-l.again:
		case <-tick:
			l.tick()
		case <-ctx.Done():
			return
		}
		l.turn()
	}
}

func (l *loop) tick() {
	l.replica.Core.DiskHealth(uint64(millis(l.logWriter.Stats().Pending)), l.disk.Full())
	l.noteProgress()
	l.replica.Tick()
	l.snapshots.needed.Store(int64(l.replica.Core.Needs()))
	if l.standing.leads() {
		peers := l.replica.Core.Peers(nil)
		for i := range peers {
			peers[i].Observer = peers[i].Observer && l.standing.listed(peers[i].ID) // others are followers without a vote
			l.standing.requests[peers[i].ID].Store(l.replica.Requests(peers[i].ID))
		}
		l.standing.peers.Store(&peers)
	}
	l.service.answersUntil.Store(l.replica.AnswersUntil())
	l.standing.quorumFull.Store(l.replica.QuorumFull())
	l.dropUnlisted()
	l.checkInterlude()
	if now := millis(l.now()); now-l.reportedAt >= millis(l.cfg.TickTime)/2 {
		l.reportTouches(now)
	}
}

// showRoom publishes how much memory the tree may take.
func (l *loop) showRoom() {
	room, of := l.replica.Room()
	l.standing.treeRoom.Store(room)
	l.standing.treeRoomOf.Store(int32(of.Number()))
	l.standing.treeFull.Store(l.replica.OutOfRoom())
}

// reportTouches tells the leader which sessions were heard of since the last report.
// Package replica explains the purpose.
func (l *loop) reportTouches(now int64) {
	l.reportedAt = now
	switch {
	case l.replica.Follows():
		l.touches = l.clients.Lines().Touches(l.touches[:0], now)
		l.replica.ReportTouches(l.touches)
	case l.replica.Leads():
		l.clients.Lines().ForgetTouches()
	default:
		l.clients.Lines().KeepTouches(now)
	}
}

// bulkBytes counts the bytes of the bulk lane received from a peer and read by it, as last
// seen.
type bulkBytes struct{ in, out uint64 }

// noteProgress tells the core which links made progress.
func (l *loop) noteProgress() {
	leads := l.replica.Leads()
	for peer, gen := range l.replica.Links() {
		in, out := l.transport.Progress(peer)
		was := l.passed[peer]
		l.passed[peer] = bulkBytes{in, out}
		if leads {
			in, was.in = out, was.out
		}
		if in != was.in {
			l.replica.Core.Progress(peer, gen)
		}
	}
}

// reportRoom tells a leader's core how much room the links have, so that no more waits
// there than keeps them busy.
func (l *loop) reportRoom() {
	if !l.replica.Leads() {
		return
	}
	for peer, gen := range l.replica.Links() {
		l.replica.Core.LinkRoom(peer, gen, l.transport.Room(peer, gen))
	}
}

// persisted tells the replica which batches the log has made durable.
func (l *loop) persisted(upTo uint64) {
	var done zab.Seq
	now := l.now()
	for l.logged.Len() > 0 && l.logged.Front().wal <= upTo {
		b := l.logged.Front()
		done = b.seq
		if b.entries > 0 {
			l.metrics.Logged.Observe(now-b.at, b.entries)
			l.stages.logging -= b.entries
		}
		l.logged.Pop(1)
	}
	l.stages.persisted(upTo, now)
	if done > 0 {
		l.replica.Persisted(done)
	}
	if l.reserving != 0 && l.reserving <= upTo {
		l.ids.Reserved(l.identity.IDs)
		l.reserving = 0
	}
}

// reserveIDs makes a higher bound of the ids durable.
func (l *loop) reserveIDs() {
	if l.reserving != 0 {
		return
	}
	l.identity.IDs = l.ids.Ahead()
	if n, err := l.logWriter.Submit(data.IdentityRecord(&l.identity)); err == nil { // on an error the log has failed, and the server ends
		l.reserving = n
	}
}

// turn carries out the result of a turn's inputs, and makes a leader propose the waiting
// requests, as many as a turn allows.
func (l *loop) turn() {
	l.replica.Turn()
	l.carryOut()
	for l.replica.Propose() {
		l.carryOut()
	}
	work, more := l.replica.Work()
	if work > 0 {
		l.metrics.TurnWork.Observe(work)
	}
	if more {
		base.Notify(l.again)
	}
	awaits, _ := l.replica.AwaitsApplied()
	l.handover.awaited.Store(awaits)
	if _, more := l.replica.AwaitsApplied(); more {
		base.Notify(l.handover.moved) // it moved before awaited was set
	}
	l.showHeld()
}

// carryOut carries out the replica's output, in its order.
func (l *loop) carryOut() {
	l.reportRoom()
	out := &l.out
	l.replica.Take(out)
	l.arrivals.setWanted(l.replica.Core.WantsSnapshot())
	if len(out.Persist) > 0 {
		l.persist()
	}
	if l.seen != nil {
		l.seen(out)
	}
	for i := range out.Frames {
		f := &out.Frames[i]
		lane := transport.Bulk
		if f.Urgent {
			lane = transport.Control
		}
		l.transport.SendApp(f.To, f.Gen, lane, f.Kind, f.Body)
	}
	for i := range out.Send {
		l.transport.Send(out.Send[i].To, out.Send[i].Gen, &out.Send[i].Msg)
	}
	l.logEvents()
	if out.Changed || out.Relink {
		l.introduce()
		l.changed()
	}
	if out.Relink {
		l.transport.Relink()
	}
	for _, link := range out.Cut {
		l.transport.Cut(link.Peer, link.Gen)
	}
	l.endConnections()
	l.committed()
	l.handover.orders.Put(out.Orders...)
	l.serveLearners()
	l.count()
	if out.Fatal != "" {
		l.fail(&HaltError{Reason: out.Fatal})
	}
}

// committed counts what was committed, and notes the times in the orders.
func (l *loop) committed() {
	n := int64(len(l.out.Committed))
	if n > 0 {
		l.metrics.CommitsQueued.Add(n)
		if !l.replica.Leads() {
			l.metrics.LearnerCommits.Add(n)
		}
	}
	if len(l.out.Orders) == 0 {
		return
	}
	leads := l.standing.leads()
	l.stages.committed(l.out.Orders, l.now(), func(d time.Duration, n int64) {
		l.metrics.Committed.Observe(d, n)
		if leads {
			l.metrics.QuorumAck.Observe(d, n)
		}
	})
}

// endConnections ends the connections whose requests can't be answered, and reports the
// sessions that expire.
func (l *loop) endConnections() {
	for _, origin := range l.out.End {
		l.clients.Kill(origin)
	}
	for _, id := range l.out.Expired {
		l.metrics.SessionsExpired.Add(1)
		l.log.Info("session expired", zap.Stringer("session", id))
	}
}

// count adds the replica's counts to the metrics.
func (l *loop) count() {
	now := l.replica.Stats()
	if now != l.counted {
		l.metrics.ThrottledOps.Add(now.Throttled - l.counted.Throttled)
		l.metrics.DigestMismatches.Add(now.DigestMismatches - l.counted.DigestMismatches)
		l.metrics.Demoted.Add(now.Demoted - l.counted.Demoted)
		l.metrics.OutOfRoom.Add(now.OutOfRoom - l.counted.OutOfRoom)
		l.metrics.Promoted.Add(now.Promoted - l.counted.Promoted)
		if broken := now.Broken - l.counted.Broken; broken > 0 {
			request := l.replica.Broken()
			l.metrics.BrokenRequest.Store(&request)
			l.metrics.Broken.Add(broken)
		}
		l.counted = now
	}
}

// HaltError means that the server stopped because it found its data, or the ensemble, in
// an impossible state.
type HaltError struct{ Reason string }

func (e *HaltError) Error() string { return "replication: " + e.Reason }

// levels are the logger's levels of the core's events.
var levels = [...]zapcore.Level{zab.Debug: zap.DebugLevel, zab.Info: zap.InfoLevel, zab.Warn: zap.WarnLevel, zab.Error: zap.ErrorLevel}

// logEvents logs the core's events.
func (l *loop) logEvents() {
	for _, e := range l.out.Events {
		var fields []zap.Field
		if e.Peer != 0 {
			fields = append(fields, zap.Uint8("peer", uint8(e.Peer)))
		}
		l.log.Log(levels[e.Level], e.Text, fields...)
	}
}

// persist gives the core's records to the log writer. If the log has failed they never
// become durable, so they are never committed, and the server is stopping already.
func (l *loop) persist() {
	l.records = l.records[:0]
	for i := range l.out.Persist {
		op := &l.out.Persist[i]
		if op.Kind == zab.LogSnapshot {
			l.snapshots.replacing()
			l.handover.supersede(op.Snap.Zxid) // before the log forgets what preceded it
		}
		l.records = append(l.records, l.walRecord(op))
	}
	last, err := l.logWriter.Submit(l.records...)
	clear(l.records)
	if cap(l.records) > base.KeptItems {
		l.records = nil
	}
	if err != nil {
		return
	}
	now := l.now()
	n := l.stages.toLog(l.out.Persist, last, now)
	if n > 0 {
		l.metrics.LogQueued.Add(n)
		l.metrics.Unlogged.Observe(int(l.stages.logging))
		if !l.replica.Leads() {
			l.metrics.LearnerProposals.Add(n)
		}
	}
	l.logged.Push(loggedBatch{wal: last, seq: l.out.PersistSeq, entries: n, at: now})
}

// changed publishes a change of the status, and lets clients in or makes them wait: see
// replica.Output.
func (l *loop) changed() {
	was, now := l.out.Was, l.out.Status
	if now.Observer && !l.standing.listed(l.id) {
		now.Observer = l.cfg.Self().Observer // as its file has it, like Apache's servers
	}
	l.standing.role.Store(&now)
	if was.List != now.List || was.Settled != now.Settled {
		l.listsChanged()
	}
	if was.Role == now.Role && was.Leader == now.Leader && was.LeaderGen == now.LeaderGen && was.Reason == now.Reason {
		return
	}
	if l.cfg.Replicated() {
		l.log.Info("now "+show.DescribeRole(&now), zap.Uint32("epoch", now.Epoch), zap.Uint8("leader", uint8(now.Leader)),
			zap.Stringer("zxid", l.replica.Core.LastZxid()), zap.String("reason", now.Reason))
	}
	if l.out.ServiceEnded {
		l.endService()
	}
	l.timeRoles(was.Role, &now)
	switch {
	case now.Role == zab.Leading && was.Role != zab.Leading:
		l.metrics.ProposalSizes.Reset()
		l.metrics.LeadsFrom.Store(int64(l.now()))
	case now.Role == zab.Looking:
		l.metrics.Elections.Add(1)
	}
	switch {
	case l.out.ServiceBegan:
		l.beginService()
	case now.Role == zab.Leading && was.Role != zab.Leading: // leaderServes=no
		l.interlude.Stop()
		l.clients.Lines().EndEarlier(0)
	}
	if now.Role != zab.Looking && now.Role != zab.SyncingFollower {
		l.arrivals.drop(0, errNotWanted)
	}
	if now.Role != zab.Leading && now.Role != zab.SyncingLeader {
		l.learners.forget(0)
	}
	if now.Role != zab.Leading {
		for _, ch := range l.left {
			close(ch)
		}
		l.left = nil
	}
}

// timeRoles measures elections, and the time until a leader has brought this server up to
// date.
func (l *loop) timeRoles(was zab.Role, now *zab.Status) {
	at := l.now()
	seeks := func(r zab.Role) bool { return r == zab.Looking || r == zab.Candidate }
	switch {
	case seeks(now.Role) && !seeks(was):
		l.lookingFrom = at
	case seeks(was) && now.Role != zab.Halted && !seeks(now.Role):
		l.metrics.Election.Observe(at-l.lookingFrom, 1)
	}
	switch {
	case now.Role == zab.SyncingFollower && was != zab.SyncingFollower:
		l.syncingFrom = at
	case now.Role == zab.Following && was == zab.SyncingFollower && now.Observer:
		l.metrics.ObserverSync.Observe(at-l.syncingFrom, 1)
	case now.Role == zab.Following && was == zab.SyncingFollower:
		l.metrics.FollowerSync.Observe(at-l.syncingFrom, 1)
	}
}

// beginService lets clients in.
func (l *loop) beginService() {
	now := l.now()
	l.service.from.Store(int64(now))
	if l.cfg.Replicated() {
		without := now - time.Duration(l.service.idleSince.Load())
		l.metrics.Unavailable.Observe(without, 1)
		if l.standing.leads() {
			l.metrics.LeaderUnavailable.Observe(without, 1)
		}
		l.clients.EndReadOnly()
	}
	l.service.number.Store(l.replica.Service())
	if !l.ending() {
		l.service.serving.Store(true)
		l.showLists()
		l.clients.Ports().LogServing()
	}
}

// endService begins an interlude: the connections wait for the next service, but not for long.
func (l *loop) endService() {
	now := l.now()
	l.interlude.Begin(now, l.cfg.Interlude, l.clients.Lines().Fenced() == l.service.number.Swap(0))
	l.service.serving.Store(false)
	l.service.idleSince.Store(int64(now))
	l.clients.StopServing()
	l.checkInterlude()
}

// checkInterlude ends the connections that have waited for too long for a service.
func (l *loop) checkInterlude() {
	service := l.service.number.Load()
	if l.interlude.Over(l.now(), service != 0 && l.clients.Lines().Fenced() == service) {
		l.clients.Lines().EndEarlier(service)
	}
}
