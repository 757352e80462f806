package fifo

import "slices"

// kept is the number of elements whose memory an empty list keeps.
const kept = 1024

// List is a list whose elements are contiguous in memory. The zero List is empty.
type List[T any] struct {
	items []T
	head  int
}

// Len returns the number of elements.
func (l *List[T]) Len() int { return len(l.items) - l.head }

// Push appends elements.
func (l *List[T]) Push(items ...T) { l.items = append(l.items, items...) }

// Front returns the oldest element. It is valid until the next Push or Pop.
func (l *List[T]) Front() *T { return &l.items[l.head] }

// All returns the elements, oldest first. They are valid until the next Push or Pop.
func (l *List[T]) All() []T { return l.items[l.head:] }

// Pop removes the n oldest elements.
func (l *List[T]) Pop(n int) {
	clear(l.items[l.head : l.head+n])
	l.head += n
	switch {
	case l.head == len(l.items) && cap(l.items) > kept:
		*l = List[T]{}
	case l.head == len(l.items):
		l.items, l.head = l.items[:0], 0
	case l.head >= 256 && l.head*2 >= len(l.items):
		n := copy(l.items, l.items[l.head:])
		clear(l.items[n:])
		l.items, l.head = l.items[:n], 0
	}
}

// Clear removes all elements.
func (l *List[T]) Clear() { *l = List[T]{} }

// TakeAll removes all elements and returns them, oldest first.
func (l *List[T]) TakeAll() []T {
	all := l.All()
	l.Clear()
	return all
}

// Remove removes an element, and reports whether the list had it. It moves those before it: elements
// that leave out of turn are mostly old ones.
func Remove[E comparable](l *List[E], e E) bool {
	i := slices.Index(l.All(), e)
	if i >= 0 {
		copy(l.All()[1:], l.All()[:i])
		l.Pop(1)
	}
	return i >= 0
}
