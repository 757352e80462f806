package shares

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// Period is the time between two reports of a server, and between two answers of the leader.
	Period = 500 * time.Millisecond
	// Word is for how long a share holds without a newer one.
	Word = 5 * time.Second
	// Kept is for how long a limit stays divided after it was last used up.
	Kept = 10 * time.Second

	MostUses    = 256
	MostDivided = 1024

	// floor is the part of a limit that the floors of all servers make together.
	floor = 8
	// room is the part of what a server uses that it gets in addition, so that it can use more.
	room = 4
	// Scale is the unit of a Share: limits are small numbers, of which there are many parts.
	Scale = 1000
)

// Key tells a resource of a subject from others. It is the same on all servers that have the same rule.
type Key [16]byte

// Use is what the clients of a server use of a limit.
type Use struct {
	Key   Key
	Limit int64 // per second
	Used  int64 // per second
	// Short means that requests had to wait: the clients would use more.
	Short bool
}

// wants returns how much of a limit the server would use, in thousandths.
func (u *Use) wants(least int64) int64 {
	switch {
	case waitsIgnored.Planted() && u.Short:
		return Scale * u.Used
	case u.Short:
		return math.MaxInt64
	case u.Used == 0:
		return 0
	}
	return Scale*u.Used + Scale/room*u.Used + least
}

// Share is what the clients of a server may use of a limit.
type Share struct {
	Key  Key
	Rate int64 // thousandths per second
}

// Sums is what a leader knows of what is used. The zero Sums knows nothing.
type Sums struct {
	reports map[uint8]map[Key]Use // the last one of each server
	divided map[Key]division
}

// division is a limit that is divided.
type division struct {
	limit int64
	until time.Duration
	used  float64 // part of the limit, when it was last used up
}

// Hear receives the report of a server. It holds until the next one.
func (s *Sums) Hear(server uint8, uses []Use) {
	if s.reports == nil {
		s.reports = make(map[uint8]map[Key]Use)
	}
	report := make(map[Key]Use, len(uses))
	for _, u := range uses {
		if 0 < u.Limit && u.Limit <= mostLimit {
			u.Used = min(max(u.Used, 0), mostLimit)
			report[u.Key] = u
		}
	}
	s.reports[server] = report
}

// mostLimit bounds limits and uses, so that sums of them don't overflow.
const mostLimit = 1_000_000_000_000

// Divide returns the shares of each of the servers, which are all that there are.
func (s *Sums) Divide(now time.Duration, servers []uint8) [][]Share {
	maps.DeleteFunc(s.reports, func(server uint8, _ map[Key]Use) bool { return !slices.Contains(servers, server) })
	s.renew(now, int64(len(servers)))
	all := make([][]Share, len(servers))
	for _, key := range slices.SortedFunc(maps.Keys(s.divided), func(a, b Key) int { return bytes.Compare(a[:], b[:]) }) {
		s.divide(key, servers, all)
	}
	return all
}

// renew finds out which limits are divided.
func (s *Sums) renew(now time.Duration, servers int64) {
	type sum struct{ limit, used, wants int64 }
	sums := make(map[Key]*sum)
	for _, report := range s.reports {
		for key, u := range report {
			x := sums[key]
			if x == nil {
				x = &sum{limit: u.Limit}
				sums[key] = x
			}
			x.used += u.Used
			x.wants += min(u.wants(leastOf(u.Limit, servers)), 2*Scale*mostLimit)
		}
	}
	if s.divided == nil {
		s.divided = make(map[Key]division)
	}
	for key, x := range sums {
		if x.wants > Scale*x.limit {
			s.divided[key] = division{x.limit, now + Kept, float64(x.used) / float64(x.limit)}
		}
	}
	maps.DeleteFunc(s.divided, func(_ Key, d division) bool {
		over := d.until <= now
		over = over || divisionForgotten.Planted() && d.until < now+Kept
		return over
	})
	if len(s.divided) <= MostDivided {
		return
	}
	most := slices.SortedFunc(maps.Keys(s.divided), func(a, b Key) int {
		return cmp.Or(cmp.Compare(s.divided[b].used, s.divided[a].used), bytes.Compare(a[:], b[:]))
	})
	for _, key := range most[MostDivided:] {
		delete(s.divided, key)
	}
}

// leastOf returns the floor of a server, in thousandths.
func leastOf(limit, servers int64) int64 { return max(Scale*limit/(floor*max(servers, 1)), 1) }

// divide appends the shares of a limit.
func (s *Sums) divide(key Key, servers []uint8, all [][]Share) {
	limit, least := s.divided[key].limit, leastOf(s.divided[key].limit, int64(len(servers)))
	wants := make([]int64, len(servers))
	for i, server := range servers {
		u := s.reports[server][key]
		wants[i] = u.wants(least)
	}
	most, rest := level(wants, Scale*limit)
	for i := range servers {
		rate := max(min(wants[i], most)+rest/int64(len(servers)), least)
		if wholeForEach.Planted() {
			rate = Scale * limit
		}
		all[i] = append(all[i], Share{key, rate})
	}
}

// level returns the most that each one gets who wants more, so that all together get what there is, and what is left if all
// get what they want.
func level(wants []int64, have int64) (most, rest int64) {
	sorted := slices.Sorted(slices.Values(wants))
	for i, want := range sorted {
		part := have / int64(len(sorted)-i)
		if want >= part {
			return part, 0
		}
		have -= want
	}
	return math.MaxInt64, have
}
