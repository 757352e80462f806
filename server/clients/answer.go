package clients

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
)

// Answers delivers the applier's results to the connections that wait for them. Only the
// applier calls its methods, with State locked for writing except in Wake.
type Answers struct {
	*line.Answers
	shared *shared
	yield  func() // see NewAnswers
	tells  func(watches int)
	fired  func(ev *datatree.Event, heard int)

	now   time.Duration // of the batch
	dirty []*writer     // have output to be written after the batch; while there are any, shared.running counts them as one

	same               sameResults            // answers to writes in a row with the same latency
	latency            time.Duration          // of these
	namespace, written monitor.NamespaceCount // of reads and of writes
}

// NewAnswers returns the applier's side of the clients. yield is called after each read
// that had waited for an answer. It may unlock State for a while. tells is called after some
// watches of an event with many, and may do so, too. fired is called for each event, with the number of watchers that it was sent to.
func (s *Clients) NewAnswers(yield func(), tells func(watches int), fired func(ev *datatree.Event, heard int)) *Answers {
	a := &Answers{shared: &s.shared, yield: yield, tells: tells, fired: fired}
	a.Answers = s.lines.NewAnswers(applier{a})
	return a
}

// Written counts a write to a node. bytes is the length of the data.
func (a *Answers) Written(path string, bytes int) {
	a.written.Add(&a.shared.metrics.WritePerNamespace, path, len(path)+bytes)
}

// Begin begins a batch.
func (a *Answers) Begin(now time.Duration) {
	a.now = now
	a.Answers.Begin(now)
}

// Wake has the output of the batch written. State is not locked.
func (a *Answers) Wake() {
	a.shared.audit.Load().wake()
	if len(a.dirty) > 0 {
		for _, w := range a.dirty {
			w.dirty = false
		}
		a.shared.flushers.add(a.dirty...)
		a.shared.running.Done()
		clear(a.dirty)
		a.dirty = a.dirty[:0]
	}
	a.shared.throttler.relax()
	a.countSame()
	a.written.Flush()
	a.shared.metrics.WaitingWrites.Observe(int(a.shared.throttler.waiting.Load()))
}

// countSame counts the answers that applier.Answered has collected.
func (a *Answers) countSame() {
	if a.same.n > 0 {
		a.shared.metrics.Requests.Observe(a.same.op, a.same.code, a.latency, a.same.n)
		a.same.n = 0
	}
}

// applier is a line.Applier: it hears what the lines answer, for the audit log, the metrics, traces and the
// log of slow requests, and collects the connections that have output.
type applier struct{ *Answers }

// Answering makes the audit log's entries.
func (a applier) Answering(l *line.Line, req *line.Request, o *replica.Order, txn *datatree.Txn, results []datatree.Result) {
	if log := a.shared.audit.Load(); !log.off() {
		c := connOf(l)
		c.line.waitForLocked(log.answered(c.author(nil), req, o, txn, results))
	}
}

// Unanswered makes them for a connection that is ending.
func (a applier) Unanswered(l *line.Line, txn *datatree.Txn, results []datatree.Result) {
	if log := a.shared.audit.Load(); !log.off() && txn != nil {
		log.unansweredLocked(l, connOf(l).author(nil), txn, results)
	}
}

// AnswerLost makes them for a connection that has ended.
func (a applier) AnswerLost(txn *datatree.Txn, results []datatree.Result) {
	if log := a.shared.audit.Load(); !log.off() {
		log.answerLost(txn, results)
	}
}

// Answered counts the answer to a request that was ordered by the leader.
func (a applier) Answered(l *line.Line, req *line.Request, o *replica.Order, code jute.Code) {
	c := connOf(l)
	latency := a.now - req.Received
	if a.shared.tallies.slow.is(latency) {
		a.shared.tallies.slow.note(l.SessionID(), c.socket.remote(), req, slowRequest{code: code, took: latency, stages: stagesOf(o, req.Received, a.now)})
	}
	if a.shared.tallies.traces.Samples(l.SessionID(), req.Xid) {
		a.shared.tallies.traces.Add(tracedRequest(l.SessionID(), req, code, o, a.shared.now()))
	}
	if a.same.op != req.Op || a.same.code != code || a.latency != latency {
		a.countSame()
		a.same.op, a.same.code, a.latency = req.Op, code, latency
	}
	a.same.n++
	c.stats.answered(req, a.shared.state.Tree.LastZxid())
	c.stats.observe(latency, 1)
	c.stats.lastResponse = a.now
}

// ServedLate counts a read that has waited.
func (a applier) ServedLate(l *line.Line, req *line.Request, read *line.Read) {
	c := connOf(l)
	c.stats.answered(req, read.Zxid)
	took := a.now - req.Received
	a.shared.metrics.Requests.Observe(req.Op, req.Code, took, 1)
	if a.shared.tallies.slow.is(took) {
		a.shared.tallies.slow.note(l.SessionID(), c.socket.remote(), req, slowRequest{code: req.Code, took: took})
	}
	if a.shared.tallies.traces.Samples(l.SessionID(), req.Xid) {
		a.shared.tallies.traces.Add(tracedRequest(l.SessionID(), req, req.Code, nil, a.shared.now()))
	}
	if read.Path != "" {
		a.namespace.Add(&a.shared.metrics.ReadPerNamespace, read.Path, read.Bytes)
	}
}

// Yield lets others have the tree, if it is time.
func (a applier) Yield() { a.yield() }

// ServedAll counts the reads that had waited for one answer.
func (a applier) ServedAll(n int) {
	a.namespace.Flush()
	a.shared.metrics.ReadsAfterWrite.Observe(n)
}

// Telling lets others have the tree, if it is time.
func (a applier) Telling(watches int) { a.tells(watches) }

// Fired passes on how many watchers got an event.
func (a applier) Fired(ev *datatree.Event, heard int) { a.fired(ev, heard) }

// Notified counts an event.
func (a applier) Notified(_ *line.Line, size int) {
	a.shared.metrics.ResponseSizes.Observe(size - 4) // without the frame's length
	a.shared.metrics.WatchBytes.Add(int64(size))
}

// Dirty has the line's output written after the batch. The tree lock is held, so the
// connection's reader can't have completed forget, and the group of goroutines is not empty.
func (a applier) Dirty(l *line.Line) {
	w := &connOf(l).out
	if w.dirty {
		return
	}
	w.dirty = true
	if len(a.dirty) == 0 {
		a.shared.running.Add(1) // until Wake
	}
	a.Answers.dirty = append(a.dirty, w)
}

// Established notes a session in the log.
func (a applier) Established(l *line.Line) {
	a.shared.log.Debug("session established", zap.Stringer("session", l.SessionID()), zap.Stringer("remote", connOf(l).socket.remote()),
		zap.Int32("timeout_ms", l.Session.TimeoutMs()))
}

// Ends notes in the log why a connection is ended.
func (a applier) Ends(l *line.Line, why line.Ending, req *line.Request, o *replica.Order) {
	c := connOf(l)
	switch why {
	case line.Misfit:
		a.shared.log.Error("answer does not belong to the oldest request: closing the connection; report this",
			zap.Stringer("zxid", o.Zxid), zap.Int32("xid", req.Xid), zap.Stringer("op", req.Op))
	case line.LostRefusal:
		a.shared.log.Info("closing connection: the answer to a refused request was lost with the leader", zap.Stringer("session", l.SessionID()))
	case line.Ahead:
		a.shared.refusals.note(zap.InfoLevel, "closing connection", line.ErrClientAhead, zap.Stringer("remote", c.socket.remote()))
	}
}
