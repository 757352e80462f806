package coordination

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Wait is a step of a cycle: a session waits at an object for another one.
type Wait struct {
	Session string `json:"session"`
	For     string `json:"for" doc:"the session that has to let go first"`
	Path    string `json:"path" doc:"of the object"`
}

// Cycles returns the sessions that wait for each other across objects: a deadlock, unless one of them gives up. Each
// session is in one cycle at most.
func Cycles(objects []Object) [][]Wait {
	waits := make(map[jute.SessionID][]edge)
	var order []jute.SessionID
	for i := range objects {
		o := &objects[i]
		owners := make(map[string]jute.SessionID)
		for _, m := range o.Places {
			owners[m.Name] = m.session
		}
		for _, m := range o.Places {
			for _, name := range m.WaitsFor {
				if to := owners[name]; to != 0 && m.session != 0 && to != m.session {
					if waits[m.session] == nil {
						order = append(order, m.session)
					}
					waits[m.session] = append(waits[m.session], edge{to, o.Path})
				}
			}
		}
	}
	s := search{waits: waits, state: make(map[jute.SessionID]int)}
	for _, from := range order {
		s.visit(from)
	}
	return s.found
}

// edge is what a session waits for.
type edge struct {
	to   jute.SessionID
	path string
}

// search is a depth-first search for cycles.
type search struct {
	waits map[jute.SessionID][]edge
	state map[jute.SessionID]int // 1: on the way, 2: done
	way   []jute.SessionID
	found [][]Wait
}

func (s *search) visit(from jute.SessionID) {
	if s.state[from] != 0 {
		return
	}
	s.state[from] = 1
	s.way = append(s.way, from)
	for _, e := range s.waits[from] {
		if s.state[e.to] == 1 {
			s.add(s.way[slices.Index(s.way, e.to):])
		}
		s.visit(e.to)
	}
	s.way = s.way[:len(s.way)-1]
	s.state[from] = 2
}

// add notes a cycle, unless one of its sessions is in another one.
func (s *search) add(way []jute.SessionID) {
	var cycle []Wait
	for i, from := range way {
		to := way[(i+1)%len(way)]
		for _, known := range s.found {
			if slices.ContainsFunc(known, func(w Wait) bool { return w.Session == from.String() }) {
				return
			}
		}
		at := slices.IndexFunc(s.waits[from], func(e edge) bool { return e.to == to })
		cycle = append(cycle, Wait{from.String(), to.String(), s.waits[from][at].path})
	}
	s.found = append(s.found, cycle)
}
