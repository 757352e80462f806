package zab

import (
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/jute"
)

// ID is a random 128-bit name: of a cluster, or of an incarnation.
type ID [16]byte

// ClusterInit is what the first leader of an ensemble gives it.
type ClusterInit struct {
	Cluster ID         // names the history permanently
	Secret  secret.Key // of the session passwords
}

// Admission says that a server counts, as long as it has the data that it had when this
// incarnation was created.
type Admission struct {
	Server      SID
	Incarnation ID
}

const admissionSize = 1 + 16

// EpochEnd is a row of the table of epochs: where the entries of an epoch end.
type EpochEnd struct {
	Epoch uint32
	Last  uint32 // highest counter
}

// State is the state of the ensemble itself that a history contains, beside the tree of
// znodes. Like the tree it results from applying entries in order, so it is part of each
// snapshot. The zero value is the state of an empty history.
type State struct {
	Zxid   jute.Zxid   // of the last entry
	Init   ClusterInit // zero until the first marker
	Epochs []EpochEnd  // ascending
	// Members is the list of servers that decides. It is nil until a marker carries the first
	// one; until then configuration files decide.
	Members *Members
	// Admitted is sorted by server. A server whose current incarnation is not in it has no
	// weight.
	Admitted []Admission
}

// Marker is the data of an EntryMarker.
type Marker struct {
	Leader SID
	Boot   uint64 // of the leader's process
	TimeMs int64  // the leader's wall clock, ms since the Unix epoch
	// Init is set in the first marker of an ensemble, together with Admitted: the servers that
	// promised its epoch.
	Init     *ClusterInit
	Admitted []Admission
	// Members is set in the first marker of an ensemble, and in the first marker after a history
	// without a list. From then on the history's list decides. The text of the list is App.
	Members *Members
	// Alone is set in the marker of a server without an ensemble that took over a member's
	// history: from here on the history belongs to that server alone, and to no ensemble.
	Alone bool
	// App is the text of the list that decides, with the addresses in the leader's configuration
	// file. It is empty if that file has another list.
	App []byte
}

// Seeded reports whether the history is an ensemble's: it has a first marker. The history
// of a server that has always run alone has none.
func (s *State) Seeded() bool { return s.Init.Cluster != ID{} }

// Admits reports whether a server counts with the given incarnation.
func (s *State) Admits(server SID, incarnation ID) bool {
	return slices.Contains(s.Admitted, Admission{server, incarnation})
}

// Clone returns a copy that shares nothing that Apply changes.
func (s *State) Clone() State {
	c := *s
	c.Epochs = slices.Clone(s.Epochs)
	c.Admitted = slices.Clone(s.Admitted)
	return c
}

// Apply adds the next entry. If the entry can't be the next one, it returns an error and
// changes nothing.
func (s *State) Apply(e *Entry) error {
	if err := s.follows(e); err != nil {
		return err
	}
	switch e.Type {
	case EntryTxn:
	case EntryMarker:
		var m Marker
		if err := m.Decode(e.Data); err != nil {
			return fmt.Errorf("entry %v: %w", e.Zxid, err)
		}
		if m.Alone {
			s.Init, s.Admitted, s.Members = ClusterInit{}, nil, nil
		}
		if m.Init != nil && !s.Seeded() {
			s.Init = *m.Init
			for _, a := range m.Admitted {
				s.admit(a)
			}
		}
		s.setList(&m, e.Zxid)
	case EntryMembers:
		m := new(Members)
		if err := m.Decode(e.Data); err != nil {
			return fmt.Errorf("entry %v: %w", e.Zxid, err)
		}
		m.Version = e.Zxid
		m.Text = slices.Clone(m.Text)
		s.Members = m
	default:
		a, ok := e.admission()
		if !ok {
			return fmt.Errorf("entry %v of type %d: %w", e.Zxid, e.Type, ErrMalformed)
		}
		s.admit(a)
	}
	s.extend(e.Zxid)
	return nil
}

// setList takes the list, or a new text for it, from the marker at z. Clones of the state
// may share the old list, so it is not changed.
func (s *State) setList(m *Marker, z jute.Zxid) {
	var list Members
	switch {
	case m.Members != nil && s.Members == nil, markerReplacesList.Planted() && m.Members != nil:
		list = *m.Members
		list.Version, list.Text = z, nil
	case s.Members != nil && len(m.App) > 0:
		list = *s.Members
	default:
		return
	}
	list.Text = slices.Clone(m.App)
	s.Members = &list
}

// follows checks that e can follow the last entry: it names that entry, and its zxid is the
// next one of the epoch or begins a later epoch. Only in a history without an ensemble does
// an epoch begin without a marker, when the counter of the previous one is used up. For
// tests, the first counter of an epoch may be any.
func (s *State) follows(e *Entry) error {
	z, last := e.Zxid, s.Zxid
	if e.Prev != last {
		return fmt.Errorf("entry %v names %v as the one before it, which is %v", z, e.Prev, last)
	}
	ok := z > last
	switch {
	case e.Type == EntryMarker:
		ok = ok && z.Counter() == 0 && z.Epoch() > last.Epoch()
	case z.Epoch() == last.Epoch():
		ok = ok && (z == last+1 || last.Counter() == 0)
	default:
		ok = ok && last.Counter() == ^uint32(0) && z == jute.MakeZxid(last.Epoch()+1, 1)
	}
	ok = ok || counterWraps.Planted()
	ok = ok || appendWithoutPrev.Planted()
	if !ok {
		return fmt.Errorf("entry %v of type %d can't follow %v", z, e.Type, last)
	}
	return nil
}

// extend moves the end of the history to z, over transactions only.
func (s *State) extend(z jute.Zxid) {
	s.Zxid = z
	if z == 0 {
		return
	}
	n := len(s.Epochs)
	if n > 0 && s.Epochs[n-1].Epoch == z.Epoch() {
		s.Epochs[n-1].Last = z.Counter()
		return
	}
	s.Epochs = append(s.Epochs, EpochEnd{z.Epoch(), z.Counter()})
}

// skipTo moves the end of the history to z, if that is ahead, over entries that are not
// available; none of them is a control entry. So an epoch that begins in between began
// where the counter of the previous one was used up.
func (s *State) skipTo(z jute.Zxid) {
	if z <= s.Zxid {
		return
	}
	for s.Zxid.Epoch() < z.Epoch() {
		s.extend(jute.MakeZxid(s.Zxid.Epoch(), ^uint32(0)))
		s.Zxid = jute.MakeZxid(s.Zxid.Epoch()+1, 0)
	}
	s.extend(z)
}

// Contains reports whether the entry z is in the history that s summarizes.
func (s *State) Contains(z jute.Zxid) bool { return s.contains(z) }

// contains reports whether an entry is in the history, or is the place before its first
// one.
func (s *State) contains(z jute.Zxid) bool {
	if z == 0 {
		return true
	}
	for _, e := range s.Epochs {
		if e.Epoch == z.Epoch() {
			return z.Counter() <= e.Last
		}
	}
	return false
}

// admit sets the incarnation with which a server counts.
func (s *State) admit(a Admission) {
	i, found := slices.BinarySearchFunc(s.Admitted, a.Server, func(a Admission, id SID) int { return int(a.Server) - int(id) })
	s.Admitted = slices.Clone(s.Admitted) // others may hold the old slice
	if found {
		s.Admitted[i] = a
		return
	}
	s.Admitted = slices.Insert(s.Admitted, i, a)
}

// commonPoint returns the last entry that two histories have in common, given the tables of
// their epochs. It follows from log matching: a server that has an entry has all entries
// before it, and the entries of an epoch are those of its one leader, in order.
func commonPoint(a, b []EpochEnd) jute.Zxid {
	i, j := len(a)-1, len(b)-1
	for i >= 0 && j >= 0 {
		switch {
		case a[i].Epoch > b[j].Epoch:
			i--
		case a[i].Epoch < b[j].Epoch:
			j--
		default:
			return jute.MakeZxid(a[i].Epoch, min(a[i].Last, b[j].Last))
		}
	}
	return 0
}
