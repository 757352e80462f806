package evaluate

import (
	"maps"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Trace is a copy of an overlay, to be compared with reflect.DeepEqual.
type Trace struct {
	Nodes      map[string]record
	Sessions   map[jute.SessionID]sessionRecord
	Ephemerals map[jute.SessionID][]string
	Touches    []overlayChange
}

// Trace copies the overlay.
func (e *Evaluator) Trace() Trace {
	tr := Trace{
		Nodes:      maps.Clone(e.over.nodes),
		Sessions:   maps.Clone(e.over.sessions),
		Ephemerals: make(map[jute.SessionID][]string),
		Touches:    append([]overlayChange{}, e.over.touches[e.over.head:]...),
	}
	for s, paths := range e.over.ephemerals {
		tr.Ephemerals[s] = slices.Clone(paths)
	}
	return tr
}

// Empty reports whether nothing is pending.
func (t Trace) Empty() bool {
	return len(t.Nodes)+len(t.Sessions)+len(t.Ephemerals)+len(t.Touches) == 0
}

// Capacity returns the capacity of the list of touches.
func (e *Evaluator) Capacity() int { return cap(e.over.touches) }

// The faults that a page finds.
var (
	PendingNotCounted = pendingNotCounted
	ShrinkingRefused  = shrinkingRefused
)
