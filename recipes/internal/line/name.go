package line

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/jute"
)

// Layout defines the names of places: a unique stem, followed by the number. Recipes and
// libraries have different ones.
type Layout struct {
	// Stem returns the name of a new place without the number. No other place may ever have a
	// name that begins with it: for that purpose id is a GUID. If Stem is nil the stem is
	// "_c_", id, "-" and the label of the kind, as in Curator.
	Stem func(label, id string, session client.SessionID) string
	// Anonymous means that the name of a place is only the label and the number. Its session
	// and data identify its creator: places that one client creates at the same time must
	// have different data.
	Anonymous bool
	// Labels distinguish places from other nodes, and kinds of places, such as readers and
	// writers, from each other: the stem ends with one of them. The kind of a place is the
	// label's index.
	Labels []string
	// Kind, if not nil, returns the kind of the place with that stem, instead of Labels.
	Kind func(stem string) (kind int, ok bool)
}

// Entry is a place as seen in the list of children.
type Entry struct {
	Name   string
	Kind   int
	Number int32
}

// Before reports whether e was created before o.
func (e Entry) Before(o Entry) bool { return jute.Precedes(e.Number, o.Number) }

// Parse returns the place that a node's name denotes, and false if it is none.
//
// After 2^31-1 the servers continue with -2^31, so a hyphen before the digits may be a sign
// or the end of the stem. Only one of the two stems has a kind.
func (l *Layout) Parse(name string) (Entry, bool) {
	for _, width := range [...]int{10, 11} {
		if len(name) < width {
			break
		}
		stem := name[:len(name)-width]
		n, ok := Number(name, stem)
		if kind, known := l.kind(stem); ok && known {
			return Entry{name, kind, n}, true
		}
	}
	return Entry{}, false
}

func (l *Layout) kind(stem string) (int, bool) {
	if l.Kind != nil {
		return l.Kind(stem)
	}
	i := slices.IndexFunc(l.Labels, func(label string) bool { return strings.HasSuffix(stem, label) })
	return i, i >= 0
}

func (l *Layout) stem(kind int, session client.SessionID) string {
	if l.Anonymous {
		return l.Labels[kind]
	}
	if l.Stem != nil {
		return l.Stem(l.Labels[kind], NewID(), session)
	}
	return "_c_" + NewID() + "-" + l.Labels[kind]
}

// Number returns the number of a sequential node's name that consists of stem and the
// number.
func Number(name, stem string) (int32, bool) {
	rest, ok := strings.CutPrefix(name, stem)
	n, numbered := jute.Sequence(rest, len(rest))
	return n, ok && numbered
}

// NewID returns a GUID that makes a name unique.
func NewID() string { return settle.NewGUID() }

// Compare orders entries for slices.SortFunc: it is negative if a was created before b, and
// positive if b was created before a.
func Compare(a, b Entry) int {
	switch {
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return 0
}
