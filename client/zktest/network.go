package zktest

import "time"

// Patient lets servers that hear nothing of each other continue for 20 s instead of 2 s, for
// Lag and Strand.
func Patient() Option { return Config("zkd.electionTimeout=20000") }

// Isolate disconnects a server from the other servers until Rejoin. Soon it notices, and a leader
// stops leading. Its clients stay connected for up to zkd.interlude after that.
func (e *Ensemble) Isolate(id int) { e.links.sever(id) }

// Strand is Isolate for a server that does not notice: it continues to serve its clients,
// even as a leader, and answers reads from its own state. Its writes wait. The other
// servers notice, and continue without it. It ends with Rejoin, or when the server has heard
// nothing for too long: see Patient.
func (e *Ensemble) Strand(id int) {
	e.t.Helper()
	e.settle(id)
	e.links.strand(id)
}

// Rejoin ends Isolate and Strand.
func (e *Ensemble) Rejoin(id int) { e.links.restore(id) }

// Lag holds back what the other servers send to one server, until CatchUp. The server
// continues to answer reads from its own state, so its clients do not see later changes.
// Changes of its own clients are done, but their replies wait, as do Sync and new sessions on
// it. It ends when the server has heard nothing for too long: see Patient. A leader that lags
// commits nothing.
func (e *Ensemble) Lag(id int) {
	e.t.Helper()
	e.settle(id)
	e.links.hold(id)
}

// CatchUp ends Lag. The server receives what it missed, in order.
func (e *Ensemble) CatchUp(id int) { e.links.restore(id) }

// settle waits until a server has heard from its leader several times. A server that has just
// found or lost its leader may not answer.
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

// heal reconnects all servers.
func (e *Ensemble) heal() {
	for i := range e.nodes {
		e.links.restore(i + 1)
	}
}
