package zktest

import "time"

// Patient lets servers that hear nothing of each other go on for 20 s, as Lag
// and Strand want it, and not for 2 s.
func Patient() Option { return Config("zkd.electionTimeout=20000") }

// Isolate takes a server off the network of the servers until Rejoin; its clients
// stay connected to it until it notices, which is soon. A leader is none any more
// then.
func (e *Ensemble) Isolate(id int) { e.links.sever(id) }

// Strand is Isolate for a server that doesn't notice: it goes on, with its clients,
// as a leader too, and answers reads out of what it has. Its writes are not done.
// The others, which notice, go on without it. It ends with Rejoin, and by itself
// when the server has heard nothing for too long: see Patient.
func (e *Ensemble) Strand(id int) {
	e.t.Helper()
	e.settle(id)
	e.links.strand(id)
}

// Rejoin ends Isolate and Strand.
func (e *Ensemble) Rejoin(id int) { e.links.restore(id) }

// Lag holds back what the other servers send to one, until CatchUp. What clients
// change from now on they don't see at that server, which goes on answering reads
// out of what it has. Its own clients' changes are done, and the answers to these
// wait, as do Sync and new sessions there. It ends by itself when the server has
// heard nothing for too long: see Patient. A leader that lags commits nothing.
func (e *Ensemble) Lag(id int) {
	e.t.Helper()
	e.settle(id)
	e.links.hold(id)
}

// CatchUp ends Lag. The server learns what it has missed, in order.
func (e *Ensemble) CatchUp(id int) { e.links.restore(id) }

// settle waits until a server has heard of its leader for a while: one that has just
// found it, or lost it, may answer nothing without it.
func (e *Ensemble) settle(id int) {
	e.t.Helper()
	const words = 8
	tick, late := time.NewTicker(2*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for before := e.links.heard(id); e.links.heard(id) < before+words; {
		select {
		case <-tick.C:
		case <-late:
			e.t.Errorf("zktest: server %d hears nothing of the others", id)
			return
		}
	}
}

// heal puts all servers back on the network.
func (e *Ensemble) heal() {
	for i := range e.nodes {
		e.links.restore(i + 1)
	}
}
