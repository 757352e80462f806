package line

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/client"
)

// Layout says what the nodes of places are called: a stem that is unique, and the
// number. Different recipes and libraries have different ones.
type Layout struct {
	// Stem returns the name of a new place without the number. No other place may
	// ever have a name that begins so: id is a GUID to that end. If Stem is nil it
	// is "_c_", id, "-" and the first label of the kind, which is Curator's.
	Stem func(label, id string, session client.SessionID) string
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
func (l *Layout) Parse(name string) (Entry, bool) {
	stem, n, ok := cut(name)
	if !ok {
		return Entry{}, false
	}
	if kind, ok := l.kind(stem); ok && n <= 1<<31-1 {
		return Entry{name, kind, int32(n)}, true
	}
	// Beyond 2^31-1 the servers count on with -2^31: the sign looks like a hyphen.
	stem, negative := strings.CutSuffix(stem, "-")
	if kind, ok := l.kind(stem); ok && negative && n <= 1<<31 {
		return Entry{name, kind, int32(-n)}, true
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
	if l.Stem != nil {
		return l.Stem(l.Labels[kind], NewID(), session)
	}
	return "_c_" + NewID() + "-" + l.Labels[kind]
}

// digits is how many the servers append to a sequential node's name.
const digits = 10

// cut splits a name before its number.
func cut(name string) (stem string, number int64, ok bool) {
	i := len(name) - digits
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(name[i:], 10, 64)
	return name[:i], int64(n), err == nil
}

// Number returns the number at the end of a sequential node's name whose stem is
// known. It is good for names of which stem is all that stands before the number.
func Number(name, stem string) (int32, bool) {
	rest, ok := strings.CutPrefix(name, stem)
	if !ok || len(strings.TrimPrefix(rest, "-")) != digits {
		return 0, false
	}
	n, err := strconv.ParseInt(rest, 10, 32)
	return int32(n), err == nil
}

// NewID returns a random (version 4) UUID in the usual notation.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Join returns the path of a child.
func Join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// Base returns the last element of a path.
func Base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
