package resume

import "github.com/zkd-project/zkd/internal/fifo"

// Queue has the requests of a client that have no answer, in their order, with the answers that earlier requests hold up: outcomes that come
// before earlier requests, which were asked again. The zero Queue is empty. A is an answer.
type Queue[A any] struct {
	list fifo.List[*Place[A]]
}

// Place is a request's place in a Queue. The zero Place is in none.
type Place[A any] struct {
	queued bool
	answer *A
}

// Len returns the number of requests.
func (q *Queue[A]) Len() int { return q.list.Len() }

// Push gives the next request its place.
func (q *Queue[A]) Push(p *Place[A]) {
	p.queued = true
	q.list.Push(p)
}

// Waits reports whether the answer to a request has to wait for earlier ones. Then Keep gets it.
func (q *Queue[A]) Waits(p *Place[A]) bool {
	waits := p.queued && q.list.Len() > 0 && *q.list.Front() != p
	return waits && !unordered.Planted()
}

// Keep keeps the answer to a request that waits.
func (q *Queue[A]) Keep(p *Place[A], answer *A) { p.answer = answer }

// Pop takes a request out that has its answer, and returns the answers that it has held up.
func (q *Queue[A]) Pop(p *Place[A]) (held []*A) {
	if !p.queued || q.list.Len() == 0 {
		return nil
	}
	q.list.Pop(1)
	for q.list.Len() > 0 && (*q.list.Front()).answer != nil {
		held = append(held, (*q.list.Front()).answer)
		q.list.Pop(1)
	}
	return held
}
