package line

import (
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/watch"
)

// Answers deliver the applier's results to the lines that wait for them. Only the
// applier calls the methods, with the tree locked for writing unless they say otherwise.
type Answers struct {
	*Lines
	applier Applier

	now       time.Duration
	interlude bool    // see BeginInterlude
	req       Request // being answered; a field, since it would be allocated elsewhere
	read      Read    // the outcome of req
	ends      []*Line // to end when the lock of the line being answered is free

	deliver  func(watch.Watcher) // deliverTo, made once
	ev       *datatree.Event     // being delivered
	zxid     jute.Zxid           // of the transaction that it belongs to
	event    []byte              // its notification, encoded once; empty until a watcher is found
	notified int                 // how many watchers it was sent to
	lists    auth.Memory         // which of them may read the nodes of the transaction
	late     []heldEvent         // of a planted fault
	fired    []watch.Watcher     // of another one
}

// NewAnswers returns the applier's side of the lines.
func (s *Lines) NewAnswers(applier Applier) *Answers {
	a := &Answers{Lines: s, applier: applier}
	a.deliver = a.deliverTo
	return a
}

// Begin sets the time of a batch. The tree need not be locked.
func (a *Answers) Begin(now time.Duration) { a.now = now }

// end ends a connection when the lock of the line being answered is free.
func (a *Answers) end(l *Line) { a.ends = append(a.ends, l) }

// endThem ends the connections for which end was called.
func (a *Answers) endThem() {
	for i, l := range a.ends {
		l.host.Kill()
		a.ends[i] = nil
	}
	a.ends = a.ends[:0]
}
