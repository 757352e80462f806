package datatree

import "slices"

// idSet is a set of nodes. Its elements have places, so that a walk can stop and
// continue while the set changes: see walk.
type idSet struct {
	list  []nodeID
	index map[nodeID]uint32 // in list
}

func (s *idSet) len() int { return len(s.list) }

func (s *idSet) has(id nodeID) bool {
	_, ok := s.index[id]
	return ok
}

func (s *idSet) add(id nodeID) {
	if s.index == nil {
		s.index = make(map[nodeID]uint32)
	}
	s.index[id] = uint32(len(s.list))
	s.list = append(s.list, id)
}

// remove removes id, which is in the set. The last element takes its place.
func (s *idSet) remove(id nodeID) {
	last := len(s.list) - 1
	if moved := s.list[last]; moved != id {
		at := s.index[id]
		s.list[at] = moved
		s.index[moved] = at
	}
	delete(s.index, id)
	s.list = s.list[:last]
	if last == 0 {
		*s = idSet{} // releases the memory
	}
}

// leaveInOrder has the next removes be of these elements, which are all, in this order, and then needs no index. Until the
// set is empty nothing may be added or looked up.
func (s *idSet) leaveInOrder(ids []nodeID) {
	*s = idSet{list: slices.Clone(ids)}
	slices.Reverse(s.list)
}

// walk calls visit for up to n elements, downwards from the place before left, and
// returns the place to continue at, 0 at the end. A walk begins at len. Elements that are
// in the set for the whole walk are visited: until an element is visited it only moves to
// lower places. Elements added or removed meanwhile may be visited or not, and elements
// that moved may be visited twice.
func (s *idSet) walk(left, n int, visit func(nodeID)) int {
	for left = min(left, len(s.list)); left > 0 && n > 0; n-- {
		left--
		visit(s.list[left])
	}
	return left
}
