package client

// Pending reports whether there are events that have come in and that Events has
// not handed out yet. Having read something from the servers, and Pending being
// false, its owner knows that it has received all events up to that read; that
// the channel happens to be empty does not say so, as what has overflowed it comes
// after a moment only.
func (w *Watch) Pending() bool {
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	return w.events.feeding || len(w.events.ch) > 0
}

// Fired reports whether a one-shot watch has had its event, received or not, or
// has ended. Of a persistent watch it reports whether it has ended.
func (w *Watch) Fired() bool {
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	return w.events.closed
}
