package zab

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/zkd-project/zkd/jute"
)

// SID identifies a server by the number in its myid file, 0 to 255. The zero value means no server,
// so server 0 has a value of its own: Zero, the largest.
type SID uint16

// Zero is server 0.
const Zero SID = 256

// SIDOf returns the SID of the server with a number in its myid file.
func SIDOf(number uint8) SID {
	if number == 0 {
		return Zero
	}
	return SID(number)
}

// Number returns the number in the server's myid file. It is 0 for no server, too.
func (s SID) Number() uint8 { return uint8(s) }

// Format is part of fmt.Formatter: each verb shows the number.
func (s SID) Format(f fmt.State, _ rune) {
	_, _ = f.Write(strconv.AppendUint(nil, uint64(s.Number()), 10)) // it is the text that is being made
}

// Member is a server of the ensemble.
type Member struct {
	ID       SID
	Observer bool
	// Demoted marks an observer that autopilot has made of a voter. Autopilot makes it a voter
	// again when it is back; a command that names the server takes the mark away.
	Demoted bool
	// Weight is its number of votes in its group; a server with weight 0 never counts.
	Weight uint32
	Group  uint32
}

// Members is a list of the ensemble's servers, with all that quorums depend on.
type Members struct {
	// Version is the zxid of the entry that made the list, 0 for the list of a
	// configuration file.
	Version jute.Zxid
	List    []Member // sorted by id
	// Hierarchical means that groups count: a quorum has a majority of the weights in a majority
	// of the groups. Otherwise each voter has one vote.
	Hierarchical bool
	// Commanded means that a command made the list. Configuration files, which do not know it,
	// then do not change it.
	Commanded bool
	// TimeMs is the wall clock of the leader that proposed the list, in ms. It is 0 for a first
	// list, which has the time of its marker.
	TimeMs int64
	// Text is additional data of the shell: addresses. Opaque.
	Text []byte
}

// Same reports whether two lists make the same quorums: they have the same
// servers with the same roles and, if groups count, the same groups and weights.
// Versions and texts may differ.
func (m *Members) Same(o *Members) bool {
	return m.Hierarchical == o.Hierarchical && slices.EqualFunc(m.List, o.List, func(a, b Member) bool {
		a.Demoted, b.Demoted = false, false
		if !m.Hierarchical {
			a.Weight, a.Group, b.Weight, b.Group = 0, 0, 0, 0
		}
		return a == b
	})
}

// String renders the list for log lines, such as "1, 2, 3, 4 (observer)".
func (m *Members) String() string {
	var b []byte
	for i := range m.List {
		if i > 0 {
			b = append(b, ", "...)
		}
		one := &m.List[i]
		b = fmt.Appendf(b, "%d", one.ID)
		switch {
		case one.Demoted:
			b = append(b, " (observer, demoted by autopilot)"...)
		case one.Observer:
			b = append(b, " (observer)"...)
		case m.Hierarchical:
			b = fmt.Appendf(b, " (group %d, weight %d)", one.Group, one.Weight)
		}
	}
	return string(b)
}

// bare returns the list without its version and text, as servers compare it.
func (m *Members) bare() Members { return Members{List: m.List, Hierarchical: m.Hierarchical} }

// Demoted returns the members that autopilot has made observers.
func (m *Members) Demoted() (list []SID) {
	for i := range m.List {
		if m.List[i].Demoted {
			list = append(list, m.List[i].ID)
		}
	}
	return list
}

// Format returns the version of format.History that a server must read to have the list in
// its history.
func (m *Members) Format() uint32 {
	if len(m.Demoted()) > 0 {
		return FormatDemoted
	}
	return 1
}

// FormatDemoted is the version of format.History with Member.Demoted.
const FormatDemoted = 3

// Find returns the member with the given id, or nil.
func (m *Members) Find(id SID) *Member {
	for i := range m.List {
		if m.List[i].ID == id {
			return &m.List[i]
		}
	}
	return nil
}

// Voter reports whether a server has a vote that can count.
func (m *Members) Voter(id SID) bool {
	one := m.Find(id)
	return one != nil && !one.Observer && (!m.Hierarchical || one.Weight > 0)
}

// NumVoters returns the number of servers with a vote that can count.
func (m *Members) NumVoters() (n int) {
	for i := range m.List {
		if m.Voter(m.List[i].ID) {
			n++
		}
	}
	return n
}

// Quorum reports whether the voters for which in is true are a quorum. Without groups a
// quorum is more than half of the voters. With groups it has more than half of the weight
// in more than half of the groups that have any weight. Two quorums always share a server.
func (m *Members) Quorum(in func(SID) bool) bool {
	if m.Hierarchical {
		return m.groupQuorum(in)
	}
	voters, n := 0, 0
	for i := range m.List {
		one := &m.List[i]
		if one.Observer {
			if observerCounted.Planted() && in(one.ID) {
				n++
			}
			continue
		}
		voters++
		if in(one.ID) {
			n++
		}
	}
	return n > voters/2
}

func (m *Members) groupQuorum(in func(SID) bool) bool {
	groups, won := 0, 0
	for i := range m.List {
		g := m.List[i].Group
		if slices.ContainsFunc(m.List[:i], func(o Member) bool { return o.Group == g }) {
			continue // counted with its first member
		}
		var all, have uint64
		for j := i; j < len(m.List); j++ {
			one := &m.List[j]
			if one.Group != g || one.Observer {
				continue
			}
			all += uint64(one.Weight)
			if in(one.ID) {
				have += uint64(one.Weight)
			}
		}
		if all > 0 {
			groups++
			if have > all/2 {
				won++
			}
		}
	}
	return won > groups/2
}
