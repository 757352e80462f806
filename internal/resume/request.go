package resume

import (
	"strings"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
)

// Request is what a Session knows of a request of its client.
type Request struct {
	op jute.OpCode

	// What it reads, or changes: neither, if both are zero.
	nodes []string
	wide  bool // nodes below those, too, or some that are not known

	watch    *watch   // that it sets
	restores []*watch // by a setWatches
	removes  *jute.RemoveWatchesRequest
}

// Of makes q what is known of a request by itself: its operation, and what follows the header.
func (q *Request) Of(op jute.OpCode, body []byte) {
	*q = Request{op: op}
	d := jute.NewDecoder(body)
	switch op {
	case jute.OpExists, jute.OpGetData, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2,
		jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData, jute.OpSetACL:
		q.nodes = []string{strings.Clone(d.String())} // each begins with its path
	case jute.OpMulti:
		var m jute.MultiRequest
		m.Decode(&d)
		for i := range m.Ops {
			q.nodes = append(q.nodes, m.Ops[i].Path)
			q.wide = q.wide || m.Ops[i].Type == jute.OpDeleteTree
		}
	case jute.OpAddWatch, jute.OpSetWatches, jute.OpSetWatches2, jute.OpRemoveWatches: // a later write has the event, or has it not
		q.wide = true
	case jute.OpMultiRead, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpChildrenPage:
		q.wide = true
	}
	q.wide = q.wide || d.Err() != nil
}

// Asks notes the watches that a request sets or removes. Replied or Dropped ends that.
func (s *Session) Asks(q *Request, body []byte) {
	d := jute.NewDecoder(body)
	switch q.op {
	case jute.OpExists:
		s.asksRead(q, &d, Exist)
	case jute.OpGetData:
		s.asksRead(q, &d, Data)
	case jute.OpGetChildren, jute.OpGetChildren2:
		s.asksRead(q, &d, Children)
	case jute.OpAddWatch:
		var a jute.AddWatchRequest
		if a.Decode(&d); d.Err() == nil {
			q.watch = s.Watches.ask(kindOf(a.Mode), a.Path)
		}
	case jute.OpSetWatches, jute.OpSetWatches2:
		s.asksRestore(q, &d)
	case jute.OpRemoveWatches:
		var r jute.RemoveWatchesRequest
		if r.Decode(&d); d.Err() == nil {
			q.removes = &jute.RemoveWatchesRequest{Path: strings.Clone(r.Path), Type: r.Type}
		}
	}
}

func (s *Session) asksRead(q *Request, d *jute.Decoder, kind Kind) {
	var r jute.PathWatchRequest
	if r.Decode(d); d.Err() == nil && r.Watch {
		q.watch = s.Watches.ask(kind, r.Path)
	}
}

func (s *Session) asksRestore(q *Request, d *jute.Decoder) {
	var r jute.SetWatchesRequest
	if q.op == jute.OpSetWatches {
		r.Decode(d)
	} else {
		r.Decode2(d)
	}
	if d.Err() != nil {
		return
	}
	for kind, paths := range [Kinds][]string{r.Data, r.Exist, r.Child, r.Persistent, r.PersistentRecursive} {
		for _, path := range paths {
			w := s.Watches.ask(Kind(kind), path)
			w.restored = true
			q.restores = append(q.restores, w)
		}
	}
}

// Answered notes what the reply to a request does to watches.
func (s *Session) Answered(q *Request, code jute.Code) {
	if q.removes != nil && code == 0 {
		s.Watches.byPath.Take(q.removes.Path, q.removes.Type)
	}
	for _, w := range q.restores {
		s.Watches.restored(w, code == 0)
	}
	if q.watch != nil {
		s.Watches.settle(q.watch, code)
	}
	q.watch, q.restores, q.removes = nil, nil, nil
}

// Dropped is called for a request that has no reply and is not sent again.
func (s *Session) Dropped(q *Request) {
	if q.watch != nil {
		s.Watches.drop(q.watch)
	}
	q.watch, q.restores, q.removes = nil, nil, nil
}

// reads are the nodes that requests under way read.
type reads struct {
	nodes map[string]int
	wide  int
}

// Sent is called when a request is sent on a connection, and Done when that has its reply.
func (s *Session) Sent(q *Request) { s.count(q, 1) }
func (s *Session) Done(q *Request) { s.count(q, -1) }

func (s *Session) count(q *Request, by int) {
	if exact.Covers(q.op) {
		return
	}
	if q.wide {
		s.reads.wide += by
	}
	for _, node := range q.nodes {
		if s.reads.nodes == nil {
			s.reads.nodes = map[string]int{}
		}
		if s.reads.nodes[node] += by; s.reads.nodes[node] == 0 {
			delete(s.reads.nodes, node)
		}
	}
}

// Overtakes reports whether a request is a write that would change what a read under way shows, if that had to be asked again. A node that
// is created or deleted changes its parent.
func (s *Session) Overtakes(q *Request) bool {
	if !s.exact || !exact.Covers(q.op) || s.reads.wide == 0 && len(s.reads.nodes) == 0 {
		return false
	}
	if q.wide || s.reads.wide > 0 {
		return true
	}
	for _, node := range q.nodes {
		over := s.reads.nodes[node] > 0 || s.reads.nodes[jute.Parent(node)] > 0
		over = over && !overtakes.Planted()
		if over {
			return true
		}
	}
	return false
}
