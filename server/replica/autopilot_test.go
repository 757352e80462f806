package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/server/zab"
)

// memberSpecs reads servers such as "1 2- 3-- 4o 4m": o is an observer, m one with a mark. A server
// with - is gone, with -- for long; with + it is there, and not up to date.
func memberSpecs(text string) (list zab.Members, of func(zab.SID) condition) {
	conditions := make(map[zab.SID]condition)
	for i, word := range strings.Fields(text) {
		m := zab.Member{ID: zab.SID(i + 1), Demoted: strings.Contains(word, "m")}
		m.Observer = m.Demoted || strings.Contains(word, "o")
		list.List = append(list.List, m)
		gone := strings.Count(word, "-")
		conditions[m.ID] = condition{silent: time.Duration(gone) * time.Minute, ready: gone == 0 && !strings.Contains(word, "+")}
	}
	return list, func(id zab.SID) condition { return conditions[id] }
}

func TestNextRoles(t *testing.T) {
	for _, tt := range []struct {
		name, now       string
		demote, promote []zab.SID
	}{
		{"all are there", "1 2 3 4 5", nil, nil},
		{"one of five", "1 2-- 3 4 5", []zab.SID{2}, nil},
		{"one of five, not for long", "1 2- 3 4 5", nil, nil},
		{"one of five, and one has just gone", "1 2-- 3- 4 5", nil, nil},
		{"two of five", "1 2-- 3--- 4 5", []zab.SID{3, 2}, nil},
		{"three of five", "1-- 2-- 3-- 4 5", nil, nil},
		{"one of four", "1 2 3 4--", []zab.SID{4}, nil},
		{"one of three", "1 2 3--", nil, nil},
		{"two of six", "1 2 3 4 5-- 6--", []zab.SID{5, 6}, nil},
		{"three of seven", "1-- 2--- 3---- 4 5 6 7", []zab.SID{3, 2, 1}, nil},
		{"three of seven, and one lags", "1-- 2--- 3---- 4 5 6 7+", nil, nil},
		{"two of seven, and one lags", "1-- 2--- 3 4 5 6 7+", []zab.SID{2, 1}, nil},
		{"of three voters left", "1 2 3-- 4m-- 5m--", nil, nil},
		{"an observer", "1 2 3 4 5o--", nil, nil},
		{"back", "1 2 3 4 5m", nil, []zab.SID{5}},
		{"two are back", "1 2 3 4m 5m", nil, []zab.SID{4, 5}},
		{"back, and not up to date", "1 2 3 4 5m+", nil, nil},
		{"back, while another one goes", "1 2-- 3 4 5 6m", nil, []zab.SID{6}},
		{"an operator's observer", "1 2 3 4 5o", nil, nil},
		{"there, and not up to date", "1 2+ 3 4 5", nil, nil},
	} {
		list, of := memberSpecs(tt.now)
		demote, promote := nextRoles(&list, 2*time.Minute, of)
		if !slices.Equal(demote, tt.demote) || !slices.Equal(promote, tt.promote) {
			t.Errorf("%s (%s): demotes %v, promotes %v; want %v, %v", tt.name, tt.now, demote, promote, tt.demote, tt.promote)
		}
		list.Hierarchical = true
		if demote, promote = nextRoles(&list, 2*time.Minute, of); len(demote)+len(promote) > 0 {
			t.Errorf("%s, with groups: demotes %v, promotes %v", tt.name, demote, promote)
		}
	}
}

// Whatever the members are, as many can fail afterwards as before; after a demotion one at
// least, of at least three voters.
func TestNextRolesKeepTolerance(t *testing.T) {
	rng := rand.New(rand.NewPCG(seeds.First(t), 0))
	for range 20_000 {
		var words []string
		for i := range 1 + rng.IntN(9) {
			words = append(words, fmt.Sprint(i+1, []string{"", "", "o", "m"}[rng.IntN(4)], []string{"", "", "", "-", "--", "---", "+"}[rng.IntN(7)]))
		}
		text := strings.Join(words, " ")
		list, of := memberSpecs(text)
		demote, promote := nextRoles(&list, 2*time.Minute, of)
		next := withRoles(&list, demote, promote)
		before, after := spareVoters(&list, of), spareVoters(&next, of)
		if list.NumVoters() == 0 {
			continue
		}
		if after < before || len(demote) > 0 && (after < 1 || next.NumVoters() < 3) || len(demote) > 0 && len(promote) > 0 {
			t.Fatalf("%s: demotes %v, promotes %v; %d could fail before, and %d after", text, demote, promote, before, after)
		}
	}
}
