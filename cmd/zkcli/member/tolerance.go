package member

import (
	"fmt"
	"slices"
)

// Tolerance is what an ensemble can lose.
type Tolerance struct {
	Voters int `json:"voters"`
	Up     int `json:"up"` // of the voters
	// Spare is how many more voters may fail, whichever these are. It is -1 if those that are
	// up are no quorum.
	Spare int `json:"spare"`
}

// Tolerance returns what the ensemble can lose if the voters for which up returns true are up.
//
// A quorum is more than half of the groups, each with more than half of its votes. Majority
// quorums are those of a single group in which each voter has one vote.
func (l *List) Tolerance(up func(id int64) bool) Tolerance {
	var t Tolerance
	for _, s := range l.Voters() {
		t.Voters++
		if up(s.ID) {
			t.Up++
		}
	}
	groups := 0
	var costs []int // of each group with a majority: how many failures end it
	for _, votes := range l.votes() {
		total, present := int64(0), int64(0)
		var weights []int64 // of those that are up
		for id, w := range votes {
			total += w
			if up(id) {
				present += w
				weights = append(weights, w)
			}
		}
		if total == 0 {
			continue
		}
		groups++
		if present*2 > total {
			costs = append(costs, failures(weights, present, total))
		}
	}
	slices.Sort(costs)
	t.Spare = -1
	for _, cost := range costs[:max(len(costs)-groups/2, 0)] {
		t.Spare += cost
	}
	return t
}

// failures returns how many of a group must fail to leave no majority of its votes.
func failures(weights []int64, present, total int64) (n int) {
	slices.Sort(weights)
	for _, w := range slices.Backward(weights) {
		if present*2 <= total {
			break
		}
		present -= w
		n++
	}
	return n
}

// votes returns the votes of the voters of each group.
func (l *List) votes() (groups []map[int64]int64) {
	if !l.hierarchical() {
		one := make(map[int64]int64)
		for _, s := range l.Voters() {
			one[s.ID] = 1
		}
		return append(groups, one)
	}
	for _, ids := range l.Groups {
		group := make(map[int64]int64)
		for _, id := range ids {
			if s, ok := l.Server(id); ok && !s.Observer {
				group[id] = l.weight(id)
			}
		}
		groups = append(groups, group)
	}
	return groups
}

func (l *List) weight(id int64) int64 {
	if w, ok := l.Weights[id]; ok {
		return w
	}
	return 1
}

// String says it in words: "3 of 5 voters up: one more failure loses the quorum".
func (t Tolerance) String() string {
	voters := "voters"
	if t.Voters == 1 {
		voters = "voter"
	}
	text := fmt.Sprintf("%d of %d %s up: ", t.Up, t.Voters, voters)
	switch t.Spare {
	case -1:
		return text + "no quorum"
	case 0:
		return text + "one more failure loses the quorum"
	case 1:
		return text + "one failure is tolerated"
	}
	return text + fmt.Sprintf("%d failures are tolerated", t.Spare)
}
