package copies

import (
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// entries returns how many entries a history has after the entry with a zxid, and whether that is known: a history that began with the
// state of another one does not count what was before.
func entries(c *zab.State, after jute.Zxid) (n int64, known bool) {
	if after == 0 || !c.Contains(after) {
		return 0, false
	}
	for _, e := range c.Epochs {
		switch {
		case e.Epoch == after.Epoch():
			n += int64(e.Last) - int64(after.Counter())
		case e.Epoch > after.Epoch():
			later := int64(e.Last) + 1 // the first one has counter 0
			if markersForgotten.Planted() {
				later--
			}
			n += later
		}
	}
	return n, true
}

// Left is what a server has that a copy does not have. What is negative is not known.
type Left struct {
	Zxid    jute.Zxid // that the server is at
	Entries int64
	Bytes   int64         // of the log that has them
	Behind  time.Duration // since the server had all that the ensemble had: 0, unless it is a copy itself
	// Via are the copies through which the log comes: the server, if it is one, and what that follows.
	Via []zab.ID
}

// LeftAfter returns what a server has after a zxid, whose log has so many bytes there.
func LeftAfter(c *zab.State, after jute.Zxid, bytes int64) Left {
	l := Left{Zxid: c.Zxid, Entries: -1, Bytes: bytes}
	if n, known := entries(c, after); known {
		l.Entries = n
	}
	if l.Entries == 0 { // the log has other records, too
		l.Bytes = 0
	}
	return l
}

// Add returns what a copy does not have of an ensemble: l of a server, which is a copy itself and does not have what more says.
func (l Left) Add(more Left) Left {
	add := func(a, b int64) int64 {
		if a < 0 || b < 0 {
			return -1
		}
		return a + b
	}
	l.Via = append(l.Via[:len(l.Via):len(l.Via)], more.Via...)
	l.Entries, l.Bytes, l.Behind = add(l.Entries, more.Entries), add(l.Bytes, more.Bytes), more.Behind
	return l
}

// mostMarks is how many moments an Age remembers.
const mostMarks = 4096

// Age says of when a copy is: when it last had all that its ensemble had. A server says so in what it sends of its log, but that may be long
// under way, on a line that is full. So the server is asked as well, beside that: what it has is a mark, which the copy must pass.
// Times are those of one clock, which may be negative. An Age belongs to one goroutine.
type Age struct {
	at    time.Duration
	known bool
	marks []mark // that the copy has not passed, ascending
}

// mark is that a server had a zxid, and what follows it only after a time.
type mark struct {
	zxid jute.Zxid
	at   time.Duration
}

// At returns when the copy last had all that the ensemble had, if that is known of any time.
func (a *Age) At() (at time.Duration, known bool) { return a.at, a.known }

// Had notes that the copy had all at a time.
func (a *Age) Had(at time.Duration) {
	if !a.known || at > a.at {
		a.at, a.known = at, true
	}
}

// Answered notes what a server has said that was asked at a time, before which it had no more than that. The copy is at has.
func (a *Age) Answered(l Left, asked time.Duration, has jute.Zxid) {
	if l.Behind < 0 {
		return
	}
	a.marks = append(a.marks, mark{l.Zxid, asked - l.Behind})
	if len(a.marks) > mostMarks { // every other one is enough
		n := 0
		a.marks = slices.DeleteFunc(a.marks, func(mark) bool { n++; return n%2 == 0 })
	}
	a.Has(has)
}

// Has notes up to which zxid the copy has everything.
func (a *Age) Has(zxid jute.Zxid) {
	for len(a.marks) > 0 {
		passed := a.marks[0].zxid <= zxid
		passed = passed || markNotReached.Planted()
		if !passed {
			return
		}
		a.Had(a.marks[0].at)
		a.marks = a.marks[1:]
	}
}

// All notes that a server has sent, at the latest at a time, that it had nothing more. It has sent that before the answers of which the copy
// lacks something.
func (a *Age) All(at time.Duration) {
	late := len(a.marks) > 0 && a.marks[0].at < at
	late = late && !staleIsNew.Planted()
	if late {
		at = a.marks[0].at
	}
	a.Had(at)
}
