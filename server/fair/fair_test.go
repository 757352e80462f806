package fair

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const mib = 1 << 20

func holder(key string, amount int64, groups ...string) Holder[string] {
	return Holder[string]{key, groups, amount}
}

// several returns holders of one address, each with the same amount.
func several(n int, name string, amount int64, groups ...string) (list []Holder[string]) {
	for i := range n {
		list = append(list, holder(fmt.Sprint(name, i), amount, groups...))
	}
	return list
}

func TestRelease(t *testing.T) {
	for _, tt := range []struct {
		name    string
		holders []Holder[string]
		want    string
	}{
		{"nobody", nil, ""},
		{"one", several(1, "a", 5, "x"), "a0"},
		{"the first of equals", several(3, "a", 5, "x"), "a0"},
		{"the heaviest connection of an address", []Holder[string]{holder("small", 3, "x"), holder("large", 4, "x"), holder("none", 0, "x")}, "large"},
		{"those who do not read, among watchers of the same address",
			slices.Concat(several(4, "watcher", 400_000, "ip:1"), several(5, "silent", 62*mib, "ip:1")), "silent0"},
		{"a silent one, with many watchers behind one address",
			slices.Concat(several(1000, "watcher", 100_000, "ip:nat"), several(1, "silent", 62*mib, "ip:2")), "silent0"},
		{"one of many that hold little each, with a watcher that holds more than each",
			slices.Concat(several(1, "watcher", 400_000, "ip:1"), several(2000, "swarm", 65_536, "ip:2")), "swarm0"},
		{"many at different addresses with one identity",
			slices.Concat([]Holder[string]{holder("watcher", 400_000, "ip:1", "digest:w")}, []Holder[string]{
				holder("s1", 300_000, "ip:2", "digest:s"), holder("s2", 300_000, "ip:3", "digest:s"), holder("s3", 300_000, "ip:4", "digest:s")}), "s1"},
		{"many identities at one address",
			[]Holder[string]{holder("watcher", 400_000, "ip:1", "digest:w"),
				holder("s1", 300_000, "ip:2", "digest:a"), holder("s2", 300_000, "ip:2", "digest:b"), holder("s3", 300_000, "ip:2", "digest:c")}, "s1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if over := Release(tt.holders, 1); len(over) > 0 {
				got = tt.holders[over[0]].Key
			}
			if got != tt.want {
				t.Errorf("%s gives way, want %s", got, tt.want)
			}
		})
	}
}

// As many give way as have held what is too much, each the heaviest of those that are left.
func TestReleaseUntilEnough(t *testing.T) {
	holders := []Holder[string]{holder("a", 10, "x"), holder("b", 8, "y"), holder("c", 8, "y"), holder("d", 0, "z"), holder("e", 11)}
	for _, tt := range []struct {
		tooMuch int64
		want    string
	}{
		{-1, ""}, {0, ""}, {1, "b"}, {8, "b"},
		{9, "b e"}, // c's group holds less now
		{20, "b e a"}, {30, "b e a c"}, {1000, "b e a c d"},
	} {
		var got []string
		for _, i := range Release(holders, tt.tooMuch) {
			got = append(got, holders[i].Key)
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%d too much: %q give way, want %q", tt.tooMuch, got, tt.want)
		}
	}
}

func TestDisplace(t *testing.T) {
	two := []Holder[string]{holder("a", 2, "ip:1"), holder("b", 2, "ip:1")}
	for _, tt := range []struct {
		name     string
		holders  []Holder[string]
		newcomer Holder[string]
		want     string
	}{
		{"nobody holds any", nil, holder("new", 0, "ip:1"), ""},
		{"two connections hold all", two, holder("new", 0, "ip:1"), "a"},
		{"one that has as many", two, two[1], ""},
		{"one that has one", append(two[:2:2], holder("c", 1, "ip:1")), holder("c", 1, "ip:1"), ""},
		{"each holds one, at one address", several(4, "a", 1, "ip:1"), holder("new", 0, "ip:1"), ""},
		{"each holds one, at one address, and another one comes", several(4, "a", 1, "ip:1"), holder("new", 0, "ip:2"), "a0"},
		{"each holds one, at addresses of their own", []Holder[string]{holder("a", 1, "ip:1"), holder("b", 1, "ip:2")}, holder("new", 0, "ip:3"), ""},
		{"itself", several(1, "a", 4, "ip:1"), holder("a0", 4, "ip:1"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if i := Displace(tt.holders, tt.newcomer); i >= 0 {
				got = tt.holders[i].Key
			}
			if got != tt.want {
				t.Errorf("%q gives one up, want %q", got, tt.want)
			}
		})
	}
}

// However often those who were displaced come again, it ends: nobody takes the same from each other in
// turns.
func TestDisplacingEnds(t *testing.T) {
	holders := []Holder[string]{holder("a", 6, "ip:1"), holder("b", 5, "ip:1", "digest:x"), holder("c", 0, "ip:2", "digest:x"), holder("d", 0, "ip:3"), holder("e", 1, "ip:1")}
	for step := 0; ; step++ {
		if step > 100 {
			t.Fatalf("they still displace each other: %v", holders)
		}
		moved := false
		for i := range holders {
			if j := Displace(holders, holders[i]); j >= 0 {
				holders[j].Amount--
				holders[i].Amount++
				moved = true
			}
		}
		if !moved {
			return
		}
	}
}

// However many places one holder takes, some are left for later ones; of a few places, one holder may take all.
func TestEnters(t *testing.T) {
	for _, tt := range []struct {
		places int
		want   []int // what each of those gets that take all they can, one after the other
	}{
		{0, []int{0}},
		{1, []int{1, 0}},
		{16, []int{16, 0}},
		{17, []int{16, 1, 0}},
		{40, []int{38, 2, 0}},
		{1000, []int{942, 55, 3, 0}},
		{65536, []int{61681, 3629, 213, 13, 0}},
	} {
		free := tt.places
		for i, want := range tt.want {
			has := 0
			for Enters(has, free) {
				has++
				free--
			}
			if has != want {
				t.Errorf("%d places: number %d gets %d, want %d", tt.places, i, has, want)
			}
		}
	}
}
