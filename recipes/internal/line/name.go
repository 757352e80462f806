package line

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
)

// Layout says what the nodes of places are called: a stem that is unique, and the
// number. Different recipes and libraries have different ones.
type Layout struct {
	// Stem returns the name of a new place without the number. No other place may
	// ever have a name that begins so: id is a GUID to that end. If Stem is nil it
	// is "_c_", id, "-" and the first label of the kind, which is Curator's.
	Stem func(label, id string, session client.SessionID) string
	// Anonymous says that the name of a place is the label and the number alone. Who has
	// made it is told by its owner and data: places that one client makes at the same
	// time must have different ones.
	Anonymous bool
	// Labels tell places from other nodes, and kinds of places, such as readers and
	// writers, from each other: the stem ends with one of them. The kind of a
	// place is the label's index.
	Labels []string
	// Kind overrides Labels in telling the kind of the place with that stem.
	Kind func(stem string) (kind int, ok bool)
}

// Entry is a place as seen in the list of children.
type Entry struct {
	Name   string
	Kind   int
	Number int32
}

// Before reports whether e was there before o.
func (e Entry) Before(o Entry) bool { return e.Number-o.Number < 0 }

// Parse returns the place that a node's name stands for, and false if it is none.
//
// Beyond 2^31-1 the servers count on with -2^31, so a hyphen before the digits may be a
// sign, or the end of the stem: that has to be one.
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

// Number returns the number at the end of a sequential node's name whose stem is
// known. It is good for names of which stem is all that stands before the number.
func Number(name, stem string) (int32, bool) {
	rest, ok := strings.CutPrefix(name, stem)
	n, err := strconv.ParseInt(rest, 10, 32)
	return int32(n), ok && err == nil && rest == digits(int32(n))
}

// digits returns a number as the servers append it to a name: ten characters, the sign
// among them, and eleven if it is below -999999999.
func digits(n int32) string { return fmt.Sprintf("%010d", n) }

// NewID returns what makes a name unique.
func NewID() string { return settle.NewGUID() }
