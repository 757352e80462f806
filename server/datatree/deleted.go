package datatree

import "container/heap"

// deletedChildren are those of one node that have been deleted since the moment of a Subtree. They are taken out in the
// order of their names. Nil has none.
type deletedChildren struct{ list childHeap }

type deletedChild struct {
	name string
	id   nodeID
}

func (d *deletedChildren) empty() bool { return d == nil || len(d.list) == 0 }

// upTo reports whether there is one whose name is the given one or comes before it.
func (d *deletedChildren) upTo(name string) bool { return !d.empty() && d.list[0].name <= name }

func (d *deletedChildren) push(c deletedChild) { heap.Push(&d.list, c) }

// pop takes out the one that comes first.
func (d *deletedChildren) pop() nodeID { return heap.Pop(&d.list).(deletedChild).id }

// childHeap implements heap.Interface.
type childHeap []deletedChild

func (h childHeap) Len() int           { return len(h) }
func (h childHeap) Less(i, j int) bool { return h[i].name < h[j].name }
func (h childHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *childHeap) Push(x any)        { *h = append(*h, x.(deletedChild)) }

func (h *childHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = deletedChild{}
	*h = (*h)[:last]
	return c
}
