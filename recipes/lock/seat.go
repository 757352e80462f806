package lock

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// seat is a contender of a Priority as one look at the children shows it.
type seat struct {
	id       string // what the names of its nodes begin with
	kind     Kind
	priority int32
	number   int32
	// place and grant are the names of its nodes, or "". A contender with a grant holds the
	// lock, or will once the readers with earlier grants have released.
	place, grant string
}

// node returns the name of the node of the seat: it ends with it.
func (s *seat) node() string {
	if s.place != "" {
		return s.place
	}
	return s.grant
}

// before reports whether s has its turn before o if neither has a grant.
func (s *seat) before(o *seat) bool {
	if s.priority != o.priority {
		return s.priority > o.priority
	}
	return s.number-o.number < 0 // as line.Entry.Before
}

// blocks reports whether o has to wait for s.
func (s *seat) blocks(o *seat) bool {
	switch {
	case s == o || s.kind == Read && o.kind == Read:
		return false
	case o.grant != "": // with which a reader holds, and a writer excludes newcomers
		return o.kind == Write && s.grant != ""
	}
	return s.grant != "" || s.before(o)
}

// blocker returns the seat that own waits for, or nil if it need not wait: the last of
// those that have their turn before. All contenders decide by this rule.
func blocker(seats []*seat, own *seat) *seat {
	var last *seat
	for _, s := range seats {
		if s.blocks(own) && (last == nil || later(s, last)) {
			last = s
		}
	}
	return last
}

// later reports whether a comes after b: those with a grant come first.
func later(a, b *seat) bool {
	if (a.grant != "") != (b.grant != "") {
		return b.grant != ""
	}
	return b.before(a)
}

// seats combines places and grants, and returns the contenders in the order of their turns.
func seats(entries []line.Entry) []*seat {
	byID := make(map[string]*seat)
	var all []*seat
	for _, e := range entries {
		parts := seatName.FindStringSubmatch(e.Name)
		priority, _ := strconv.ParseInt(parts[2], 10, 32) // the layout has checked it
		s := byID[parts[1]]
		if s == nil {
			s = &seat{id: parts[1], kind: kindOf(parts[3]), priority: int32(priority), number: e.Number}
			byID[s.id] = s
			all = append(all, s)
		}
		if parts[4] == "" {
			s.place = e.Name
		} else {
			s.grant = e.Name
		}
	}
	slices.SortStableFunc(all, func(a, b *seat) int {
		switch {
		case later(b, a):
			return -1
		case later(a, b):
			return 1
		}
		return 0
	})
	return all
}

var (
	seatStem = regexp.MustCompile(`^(_c_[0-9a-f-]{36})-p(-?[0-9]{1,10})-(read|write)(-held)?-$`)
	seatName = regexp.MustCompile(`^(_c_[0-9a-f-]{36})-p(-?[0-9]{1,10})-(read|write)(-held)?-(?:[0-9]{10}|-[0-9]{9,10})$`)
)

func kindOf(name string) Kind {
	if name == Write.String() {
		return Write
	}
	return Read
}

// seating is the layout of a Priority, with the names of new places of that priority.
func seating(priority int32) *line.Layout {
	return &line.Layout{
		Labels: []string{Read.String(), Write.String()},
		Stem: func(label, id string, _ client.SessionID) string {
			return fmt.Sprintf("_c_%s-p%d-%s-", id, priority, label)
		},
		Kind: func(stem string) (int, bool) {
			parts := seatStem.FindStringSubmatch(stem)
			if parts == nil {
				return 0, false
			}
			_, err := strconv.ParseInt(parts[2], 10, 32)
			return int(kindOf(parts[3])), err == nil
		},
	}
}

// grantOf returns the path of the grant of a place, or "" if it is one.
func grantOf(place string) string {
	i := strings.LastIndexAny(place, "abcdefghijklmnopqrstuvwxyz") + 1
	if strings.HasSuffix(place[:i], "-held") {
		return ""
	}
	return place[:i] + "-held" + place[i:]
}
