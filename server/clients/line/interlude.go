package line

import (
	"cmp"
	"slices"
	"time"

	"github.com/zkd-project/zkd/server/clients/line/pending"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/replica"
)

// An interlude is the time from the end of a service until the fence of the next one has passed
// (package replica). The connections stay, and their requests are read and wait.

// Interlude bounds the time for which connections wait for the next service. The owner is the loop that follows the server's role.
// The zero value is that of a server whose connections do not wait.
type Interlude struct {
	ends time.Duration // when the connections end that still wait; 0 if none waits
}

// Begin is called when a service has ended. fenced: its fence had passed, so no connection waited any more. Otherwise those
// that waited already do not get more time. length is that of a whole interlude.
func (i *Interlude) Begin(now, length time.Duration, fenced bool) {
	begins := fenced || i.ends == 0
	begins = begins || waitsLonger.Planted()
	if begins {
		i.ends = now + length
	}
}

// Over reports whether the connections have to end that have not entered the present service. It reports that once.
// fenced: there is a service, and its fence has passed.
func (i *Interlude) Over(now time.Duration, fenced bool) bool {
	over := i.ends != 0 && !fenced && now >= i.ends
	over = over && !waitsOn.Planted()
	if over || fenced {
		i.ends = 0
	}
	return over
}

// Stop ends the interlude: the connections do not wait.
func (i *Interlude) Stop() { i.ends = 0 }

// ordered returns the lines in the order of their numbers.
func (s *Lines) ordered() []*Line {
	list := s.Register.All()
	slices.SortFunc(list, func(a, b *Line) int { return cmp.Compare(a.id, b.id) })
	return list
}

// EndEarlier ends the connections that have sent any request, except those of the given service.
func (s *Lines) EndEarlier(service uint64) {
	for _, l := range s.ordered() {
		l.host.Lock()
		stays := service != 0 && l.Waiting.queue.Service == service
		l.host.Unlock()
		if !stays && l.WantsSession() {
			l.host.Kill()
		}
	}
}

// BeginInterlude ends the connections that can't wait for the next service. The tree is not locked.
func (a *Answers) BeginInterlude() {
	a.interlude = true
	for _, l := range a.ordered() {
		l.host.Lock()
		stays := l.Waiting.queue.Survives()
		stays = stays || boundKept.Planted()
		l.host.Unlock()
		if !stays {
			l.host.Kill()
		}
	}
}

// BeforeApply answers the requests whose barriers were lost in an interlude, and that precede the
// request of a transaction which is about to be applied.
func (a *Answers) BeforeApply(txn *datatree.Txn) {
	between := a.interlude
	between = between && !notPassed.Planted()
	if !between {
		return
	}
	for l := a.Register.Get(txn.Origin); l != nil; {
		fate := pending.Done
		l.host.Lock()
		if !l.Outbox.Ends() && l.Waiting.queue.Len() > 0 {
			fate = l.Waiting.queue.Overtaken(txn.Cxid)
		}
		l.host.Unlock()
		switch fate {
		case pending.Passed:
			a.answer(l, &replica.Order{Kind: replica.OrderBarrier, Origin: l.id}, nil, nil)
			continue
		case pending.Refused:
			if refusedWaits.Planted() {
				return
			}
			a.applier.Ends(l, LostRefusal, nil, nil)
			l.host.Kill()
		}
		return
	}
}

// EndInterlude submits the waiting requests of earlier services again, when the fence of a service
// has passed. Connections end whose session belongs to another connection, or to none that the
// history knows: a leader could not tell their requests from those that it has to refuse. The tree
// is not locked.
func (a *Answers) EndInterlude(service uint64) {
	a.interlude = false
	a.fenced.Store(service)
	a.Locals.Disown() // those whose upgrades were lost are local ones again
	for _, l := range a.ordered() {
		l.host.Lock()
		enters := a.enter(l, service)
		l.host.Unlock()
		if !enters {
			l.host.Kill()
		}
	}
}

// owns reports whether the session of a line is its own. The applier is the caller, so the tree does
// not change.
func (s *Lines) owns(l *Line) bool {
	return l.Session.Local() || s.State.Tree.SessionOwner(l.SessionID()) == l.id
}

// enter makes a line continue in a service, and reports whether it may.
func (s *Lines) enter(l *Line, service uint64) bool {
	q := &l.Waiting.queue
	owns := s.owns(l)
	owns = owns || unownedKept.Planted()
	asked := q.Len() > 0 || l.SessionID() != 0
	asked = asked || silentEnded.Planted()
	repeatable := q.Repeatable(uint64(s.Server.Members()))
	repeatable = repeatable || changeAgain.Planted() && q.Survives()
	ended := l.Outbox.Ends() // what is answered then stays in the queue, and must not be done again
	ended = ended && !endedAgain.Planted()
	switch {
	case q.Service >= service, !asked, ended:
		return true
	case !owns || !repeatable:
		return false
	}
	var again []replica.Submission
	q.Again(service, func(req *Request) { again = append(again, l.submission(req, service)) })
	if againBackwards.Planted() {
		slices.Reverse(again)
	}
	if !notAgain.Planted() {
		s.Server.Submit(again...) // before the reader submits later ones
	}
	return true
}

// Install replaces the tree by the one of a snapshot, and the sessions by those that are there. Before the
// tree is locked for it, EndAll has ended the connections.
func (a *Answers) Install(tree *datatree.Tree, now time.Duration) {
	a.Forget()
	a.State.Tree = tree
	for id, timeoutMs := range tree.Sessions() {
		a.Sessions.Add(id, timeoutMs, millis(now))
		if !upgradeMissed.Planted() {
			a.Locals.Remove(id) // it has become a global one, in what the snapshot skips
		}
	}
	a.State.SetApplied(tree.LastZxid())
	follows := a.History != nil
	follows = follows && !resetForgotten.Planted()
	if follows {
		a.History.Reset(tree.LastZxid())
	}
}

// Forget ends the tracking of the sessions of the present tree. The tree is locked for writing.
func (a *Answers) Forget() {
	for id := range a.State.Tree.Sessions() {
		a.Sessions.Remove(id)
	}
}

// EndAll ends the connections that have sent any request: a snapshot has replaced the tree, and
// what it skips was neither answered nor told to watchers.
func (a *Answers) EndAll() {
	if !connsKept.Planted() {
		a.EndEarlier(0)
	}
}
