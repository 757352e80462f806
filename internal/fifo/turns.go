package fifo

import "iter"

// Turns has lists of elements, each in a group, and removes elements by turns: groups have turns, and within a
// group its lists. So a group with many lists has as many turns as one with a single list. In a turn, a group, or a list, may
// spend what it has saved: a quantum for each of its turns, less the costs of the elements that were removed since
// it was last empty. Each group has its own quantum, in proportion to its share. So however long a list is, another one of its group waits for elements that cost a quantum,
// and an element that costs many quanta lets the others have as many turns first. (M. Shreedhar
// and G. Varghese: Efficient Fair Queueing Using Deficit Round-Robin, 1995.)
//
// A list can be set aside: it has no turns until Restore.
//
// The zero Turns is empty. All methods but All, Lists, Remove and Restore take constant time, spread over the calls, and the more
// the more quanta the elements cost.
type Turns[G comparable, T any] struct {
	Quantum int // of a list; at least 1, which is the default

	nodes  []node[T]
	free   int                 // nodes without an element: the first of a list
	lines  map[uint64]*line[G] // the lists that are not empty
	groups map[G]*group[G]     // of these lists
	ring   List[*group[G]]     // the groups with lists that have turns, the next one first
	aside  List[*line[G]]      // the lists that have none
	last   *line[G]            // that of the last Push, or nil
	spare  spare[G]
	n      int
}

// node is an element of a list.
type node[T any] struct {
	item T
	cost int
	next int // index in nodes, plus one; 0 is the end
}

// group has lists.
type group[G comparable] struct {
	key     G
	ring    List[*line[G]] // its lists that have turns, the next one first
	lists   int            // those that are set aside included
	quantum int
	saved   int // what it may spend before its turn ends
}

// line is the list of a key.
type line[G comparable] struct {
	key         uint64
	group       *group[G]
	first, last int // as node.next
	saved       int // what the list may spend before its turn ends
	cost        int // of its elements
}

// spare is memory to be used again.
type spare[G comparable] struct {
	lines  []*line[G]
	groups []*group[G]
}

// Len returns the number of elements, those of lists that are set aside included.
func (t *Turns[G, T]) Len() int { return t.n }

// Groups returns the number of groups that have elements.
func (t *Turns[G, T]) Groups() int { return len(t.groups) }

// Append appends an element to the list of a key, and reports whether there is one. If there is none, Push makes it.
func (t *Turns[G, T]) Append(key uint64, item T, cost int) bool {
	if t.last == nil || t.last.key != key {
		t.last = t.lines[key]
	}
	l := t.last
	if l == nil {
		return false
	}
	at := t.node(node[T]{item: item, cost: cost})
	t.nodes[l.last-1].next = at
	l.last = at
	l.cost += cost
	t.n++
	return true
}

// Push makes the list of a key, which has none, with an element. It is in the group, and has its turn after all others of
// that; a new group after all others. The group has this quantum from now on; 0 stands for that of a list.
func (t *Turns[G, T]) Push(in G, quantum int, key uint64, item T, cost int) {
	t.last = t.line(in, key, t.node(node[T]{item: item, cost: cost}))
	t.last.cost = cost
	t.n++
	g := t.last.group
	if g.quantum = quantum; quantum <= 0 {
		g.quantum = t.quantum()
	}
	if g.lists == 1 {
		g.saved = g.quantum
	}
}

// line adds the list of a key.
func (t *Turns[G, T]) line(in G, key uint64, at int) *line[G] {
	if t.lines == nil {
		t.lines, t.groups = make(map[uint64]*line[G]), make(map[G]*group[G])
	}
	l := take(&t.spare.lines)
	*l = line[G]{key: key, group: t.group(in), first: at, last: at, saved: t.quantum()}
	t.lines[key] = l
	l.group.lists++
	t.giveTurns(l)
	return l
}

func (t *Turns[G, T]) group(key G) *group[G] {
	g := t.groups[key]
	if g == nil {
		g = take(&t.spare.groups)
		g.key = key
		t.groups[key] = g
	}
	return g
}

func take[E any](spare *[]*E) *E {
	n := len(*spare)
	if n == 0 {
		return new(E)
	}
	e := (*spare)[n-1]
	*spare = (*spare)[:n-1]
	return e
}

// giveTurns gives a list turns after all others of its group.
func (t *Turns[G, T]) giveTurns(l *line[G]) {
	if l.group.ring.Len() == 0 {
		t.ring.Push(l.group)
	}
	l.group.ring.Push(l)
}

func (t *Turns[G, T]) quantum() int { return max(t.Quantum, 1) }

// node returns a node with an element.
func (t *Turns[G, T]) node(n node[T]) (at int) {
	if at = t.free; at == 0 {
		t.nodes = append(t.nodes, n)
		return len(t.nodes)
	}
	t.free = t.nodes[at-1].next
	t.nodes[at-1] = n
	return at
}

// Front returns the next element, or nil if no list has turns. It is valid until the next Push or Pop.
func (t *Turns[G, T]) Front() *T {
	for t.ring.Len() > 0 {
		g := *t.ring.Front()
		n := &t.nodes[t.next(g).first-1]
		if n.cost <= g.saved || t.ring.Len() == 1 {
			return &n.item
		}
		g.saved += g.quantum
		t.ring.Pop(1)
		t.ring.Push(g)
	}
	return nil
}

// next returns the list of a group that has its turn, which is the first one then.
func (t *Turns[G, T]) next(g *group[G]) *line[G] {
	for {
		l := *g.ring.Front()
		if t.nodes[l.first-1].cost <= l.saved || g.ring.Len() == 1 {
			return l
		}
		l.saved += t.quantum()
		g.ring.Pop(1)
		g.ring.Push(l)
	}
}

// SetAside sets the list aside whose element Front has returned.
func (t *Turns[G, T]) SetAside() {
	t.aside.Push(t.endTurns())
}

// endTurns takes the turns from the list whose element Front has returned.
func (t *Turns[G, T]) endTurns() *line[G] {
	g := *t.ring.Front()
	l := *g.ring.Front()
	g.ring.Pop(1)
	if g.ring.Len() == 0 {
		t.ring.Pop(1)
	}
	return l
}

// Restore gives turns to the lists that are set aside, after all others.
func (t *Turns[G, T]) Restore() {
	for _, l := range t.aside.All() {
		t.giveTurns(l)
	}
	t.aside.Pop(t.aside.Len())
}

// Pop removes the element that Front has returned.
func (t *Turns[G, T]) Pop() {
	g := *t.ring.Front()
	l := *g.ring.Front()
	cost := t.nodes[l.first-1].cost
	l.saved = max(l.saved-cost, 0) // less than nothing, if no other list has turns
	g.saved = max(g.saved-cost, 0)
	t.drop(l)
	if l.first == 0 {
		t.endTurns()
		t.forget(l)
	}
	t.shrink()
}

// drop removes the first element of a list.
func (t *Turns[G, T]) drop(l *line[G]) {
	at := l.first
	l.first = t.nodes[at-1].next
	l.cost -= t.nodes[at-1].cost
	t.nodes[at-1] = node[T]{next: t.free}
	t.free = at
	t.n--
}

// forget keeps the memory of an empty list that has no turns, and of its group if that has no other one.
func (t *Turns[G, T]) forget(l *line[G]) {
	delete(t.lines, l.key)
	t.spare.lines = append(t.spare.lines, l)
	if t.last == l {
		t.last = nil
	}
	g := l.group
	l.group = nil
	if g.lists--; g.lists == 0 {
		delete(t.groups, g.key)
		t.spare.groups = append(t.spare.groups, g)
	}
}

// shrink gives back the memory of a burst after its end.
func (t *Turns[G, T]) shrink() {
	if t.n == 0 && len(t.nodes) > kept {
		*t = Turns[G, T]{Quantum: t.Quantum}
	}
}

// Remove removes the list of a key, after it has called each with its elements in their order. It takes
// time in proportion to the number of lists.
func (t *Turns[G, T]) Remove(key uint64, each func(*T)) {
	l := t.lines[key]
	if l == nil {
		return
	}
	for l.first != 0 {
		each(&t.nodes[l.first-1].item)
		t.drop(l)
	}
	if !Remove(&t.aside, l) && Remove(&l.group.ring, l) && l.group.ring.Len() == 0 {
		Remove(&t.ring, l.group)
	}
	t.forget(l)
	t.shrink()
}

// Lists returns the lists: their keys, the first element of each, and the costs of all its elements.
func (t *Turns[G, T]) Lists() iter.Seq[Line[T]] {
	return func(yield func(Line[T]) bool) {
		for l := range t.each() {
			if !yield(Line[T]{l.key, &t.nodes[l.first-1].item, l.cost}) {
				return
			}
		}
	}
}

// each returns the lists that have turns, those of one group after the other, and then those that have none.
func (t *Turns[G, T]) each() iter.Seq[*line[G]] {
	return func(yield func(*line[G]) bool) {
		for _, g := range t.ring.All() {
			for _, l := range g.ring.All() {
				if !yield(l) {
					return
				}
			}
		}
		for _, l := range t.aside.All() {
			if !yield(l) {
				return
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
func (t *Turns[G, T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for l := range t.each() {
			for at := l.first; at != 0; at = t.nodes[at-1].next {
				if !yield(&t.nodes[at-1].item) {
					return
				}
			}
		}
	}
}
