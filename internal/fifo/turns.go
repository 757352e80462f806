package fifo

import (
	"iter"
	"slices"
)

// Turns has a list for each key, and removes elements by turns. In a turn, a list may spend what it
// has saved: a quantum for each of its turns, less the costs of the elements that were removed since
// it was last empty. So however long a list is, another one waits for elements that cost a quantum,
// and an element that costs many quanta lets the other lists have as many turns first. (M. Shreedhar
// and G. Varghese: Efficient Fair Queueing Using Deficit Round-Robin, 1995.)
//
// A list can be set aside: it has no turns until Restore.
//
// The zero Turns is empty. All methods but All, Lists, Remove and Restore take constant time, spread over the calls, and the more
// the more quanta the elements cost.
type Turns[T any] struct {
	Quantum int // at least 1, which is the default

	nodes []node[T]
	free  int              // nodes without an element: the first of a list
	lines map[uint64]*line // the lists that are not empty
	ring  List[*line]      // those of them that have turns, the next one first
	aside List[*line]      // the others
	last  *line            // that of the last Push, or nil
	spare []*line
	n     int
}

// node is an element of a list.
type node[T any] struct {
	item T
	cost int
	next int // index in nodes, plus one; 0 is the end
}

// line is the list of a key.
type line struct {
	key         uint64
	first, last int // as node.next
	saved       int // what the list may spend before its turn ends
	cost        int // of its elements
}

// Len returns the number of elements, those of lists that are set aside included.
func (t *Turns[T]) Len() int { return t.n }

// Push appends an element to the list of a key. A new list has its turn after all others.
func (t *Turns[T]) Push(key uint64, item T, cost int) {
	at := t.node(node[T]{item: item, cost: cost})
	t.n++
	if t.last == nil || t.last.key != key {
		t.last = t.lines[key]
	}
	if l := t.last; l != nil {
		t.nodes[l.last-1].next = at
		l.last = at
	} else {
		t.last = t.line(key, at)
	}
	t.last.cost += cost
}

// line adds the list of a key.
func (t *Turns[T]) line(key uint64, at int) *line {
	if t.lines == nil {
		t.lines = make(map[uint64]*line)
	}
	var l *line
	if n := len(t.spare); n > 0 {
		l, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		l = new(line)
	}
	*l = line{key: key, first: at, last: at, saved: max(t.Quantum, 1)}
	t.lines[key] = l
	t.ring.Push(l)
	return l
}

// node returns a node with an element.
func (t *Turns[T]) node(n node[T]) (at int) {
	if at = t.free; at == 0 {
		t.nodes = append(t.nodes, n)
		return len(t.nodes)
	}
	t.free = t.nodes[at-1].next
	t.nodes[at-1] = n
	return at
}

// Front returns the next element, or nil if no list has turns. It is valid until the next Push or Pop.
func (t *Turns[T]) Front() *T {
	for t.ring.Len() > 0 {
		l := *t.ring.Front()
		n := &t.nodes[l.first-1]
		if n.cost <= l.saved || t.ring.Len() == 1 {
			return &n.item
		}
		l.saved += max(t.Quantum, 1)
		t.ring.Pop(1)
		t.ring.Push(l)
	}
	return nil
}

// SetAside sets the list aside whose element Front has returned.
func (t *Turns[T]) SetAside() {
	t.aside.Push(*t.ring.Front())
	t.ring.Pop(1)
}

// Restore gives turns to the lists that are set aside, after all others.
func (t *Turns[T]) Restore() {
	t.ring.Push(t.aside.All()...)
	t.aside.Pop(t.aside.Len())
}

// Pop removes the element that Front has returned.
func (t *Turns[T]) Pop() {
	l := *t.ring.Front()
	l.saved = max(l.saved-t.nodes[l.first-1].cost, 0) // less than nothing, if no other list has turns
	t.drop(l)
	if l.first == 0 {
		t.ring.Pop(1)
		t.forget(l)
	}
	t.shrink()
}

// drop removes the first element of a list.
func (t *Turns[T]) drop(l *line) {
	at := l.first
	l.first = t.nodes[at-1].next
	l.cost -= t.nodes[at-1].cost
	t.nodes[at-1] = node[T]{next: t.free}
	t.free = at
	t.n--
}

// forget keeps the memory of an empty list that has no turns.
func (t *Turns[T]) forget(l *line) {
	delete(t.lines, l.key)
	t.spare = append(t.spare, l)
	if t.last == l {
		t.last = nil
	}
}

// shrink gives back the memory of a burst after its end.
func (t *Turns[T]) shrink() {
	if t.n == 0 && len(t.nodes) > kept {
		*t = Turns[T]{Quantum: t.Quantum}
	}
}

// Remove removes the list of a key, after it has called each with its elements in their order. It takes
// time in proportion to the number of lists.
func (t *Turns[T]) Remove(key uint64, each func(*T)) {
	l := t.lines[key]
	if l == nil {
		return
	}
	for l.first != 0 {
		each(&t.nodes[l.first-1].item)
		t.drop(l)
	}
	for _, list := range [...]*List[*line]{&t.ring, &t.aside} {
		if i := slices.Index(list.All(), l); i >= 0 {
			copy(list.All()[1:], list.All()[:i])
			list.Pop(1)
		}
	}
	t.forget(l)
	t.shrink()
}

// Lists returns the lists: their keys, the first element of each, and the costs of all its elements.
func (t *Turns[T]) Lists() iter.Seq[Line[T]] {
	return func(yield func(Line[T]) bool) {
		for _, lists := range [...][]*line{t.ring.All(), t.aside.All()} {
			for _, l := range lists {
				if !yield(Line[T]{l.key, &t.nodes[l.first-1].item, l.cost}) {
					return
				}
			}
		}
	}
}

// Line is a list of Turns that is not empty. First is valid until the next Push, Pop or Remove.
type Line[T any] struct {
	Key   uint64
	First *T
	Cost  int
}

// All returns the elements: those of one list after the other, each list in its order.
func (t *Turns[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, lists := range [...][]*line{t.ring.All(), t.aside.All()} {
			for _, l := range lists {
				for at := l.first; at != 0; at = t.nodes[at-1].next {
					if !yield(&t.nodes[at-1].item) {
						return
					}
				}
			}
		}
	}
}
