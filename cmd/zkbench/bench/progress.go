package bench

import "time"

// Phase is a part of a run. All runs begin with preparing, and end with removing their nodes.
type Phase struct {
	Name  string
	Lasts time.Duration // how long it takes; 0 if that depends on the server
	Count int64         // how many replies it takes; 0 if that is not known
	// Done returns how many replies have come since the phase began. It may be called
	// by any goroutine.
	Done func() int64
}

// The names of phases.
const (
	preparing = "preparing"
	warmingUp = "warming up"
	measuring = "measuring"
	holding   = "holding the sessions"
	removing  = "removing the nodes"
)

// begin tells Config.OnPhase that a phase begins.
func (r *run) begin(name string, lasts time.Duration, count int64) {
	if r.cfg.OnPhase == nil {
		return
	}
	before := r.replies.Load()
	r.cfg.OnPhase(Phase{Name: name, Lasts: lasts, Count: count, Done: func() int64 { return r.replies.Load() - before }})
}

// beginMeasuring is begin for the measurement: it ends by the time or by the count.
func (r *run) beginMeasuring() {
	if r.cfg.Count > 0 {
		r.begin(measuring, 0, r.cfg.Count)
		return
	}
	r.begin(measuring, r.cfg.Duration, 0)
}
