package line

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// outcomes returns the outcomes of writes that a session keeps: those of now, when it is resumed.
func (s *Lines) outcomes(l *Line, id jute.SessionID) []datatree.Outcome {
	if replayOfAnother.Planted() {
		for other := range s.State.Tree.Sessions() {
			if len(s.State.Tree.Outcomes(other)) > 0 && other != id {
				id = other
				break
			}
		}
	}
	list := s.State.Tree.Outcomes(id)
	if doneEarly.Planted() {
		list = slices.DeleteFunc(slices.Clone(list), func(o datatree.Outcome) bool { return o.Zxid > l.seen })
	}
	return list
}
