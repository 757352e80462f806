package audit

import (
	"bytes"
	"sync"

	"github.com/zkd-project/zkd/jute"
)

const (
	// tailEntries is how many entries a Tail has.
	tailEntries = 1024
	// tailField is how much of a field it has, and tailList how much of a list, so that it has at most some megabytes.
	tailField, tailList = 512, 8
)

// Tail has the last entries in memory, as AppendJSON makes them. Long fields are cut.
type Tail struct {
	mu    sync.Mutex
	lines [tailEntries][]byte // that of an entry is at its number modulo tailEntries
	last  uint64              // the number of the last entry; the first is 1
	more  chan struct{}       // closed with the next entry; nil if nobody waits for that
}

// NewTail returns one without entries.
func NewTail() *Tail { return new(Tail) }

// short returns the entry as a Tail has it, and whether something was cut.
func (e *Entry) short() (short Entry, isCut bool) {
	short = *e
	for _, field := range []*string{&short.User, &short.Znode, &short.Key, &short.Value} {
		if len(*field) > tailField {
			*field = (*field)[:tailField] + "…"
			isCut = true
		}
	}
	var ids, acl bool
	short.IDs, ids = cut(e.IDs, func(id *jute.ID) *string { return &id.ID })
	short.ACL, acl = cut(e.ACL, func(a *jute.ACL) *string { return &a.ID.ID })
	return short, isCut || ids || acl
}

// put appends an entry, which AppendJSON has made, with its time.
func (t *Tail) put(object, at []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	line := &t.lines[t.last%tailEntries]
	*line = appendTimed((*line)[:0], object, at)
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
}

// cut returns the beginning of a list whose elements have a text, and whether it is less than the list.
func cut[T any](list []T, text func(*T) *string) (short []T, isCut bool) {
	short = list[:min(len(list), tailList)]
	for i := range short {
		if len(*text(&short[i])) > tailField {
			short = append([]T{}, short...)
			for j := range short {
				t := text(&short[j])
				*t = (*t)[:min(len(*t), tailField)]
			}
			return short, true
		}
	}
	return short, len(short) < len(list)
}

// After returns at most some entries after the one with a number, and the number of the first that it returns. If that is not the next
// one, those before it were forgotten.
func (t *Tail) After(number uint64, most int) (first uint64, lines [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first = number + 1
	if t.last >= tailEntries {
		first = max(first, t.last-tailEntries+1)
	}
	for n := first; n <= t.last && len(lines) < most; n++ {
		lines = append(lines, bytes.Clone(t.lines[n%tailEntries]))
	}
	return first, lines
}

// Last returns the number of the last entry, and a channel that is closed with the next one.
func (t *Tail) Last() (number uint64, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more == nil {
		t.more = make(chan struct{})
	}
	return t.last, t.more
}
