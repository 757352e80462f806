package member

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) List {
	t.Helper()
	l, err := ParseList(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestParseServer(t *testing.T) {
	for in, want := range map[string]string{
		"4=zk4:2888:3888;2181":                          "server.4=zk4:2888:3888:participant;0.0.0.0:2181",
		"server.4=zk4:2888:3888:observer;zk4:2181":      "server.4=zk4:2888:3888:observer;zk4:2181",
		"4=[::1]:2888:3888:participant;[::1]:2181;2281": "server.4=[::1]:2888:3888:participant;[::1]:2181;0.0.0.0:2281",
		"4=a:2888:3888|b:2889:3889;;2281":               "server.4=a:2888:3888|b:2889:3889:participant;;0.0.0.0:2281",
		"4=zk4:2888:3888":                               "server.4=zk4:2888:3888:participant",
		"zk4:2888:3888":                                 "",
		"4=zk4:2888":                                    "",
		"4=zk4:2888:x;2181":                             "",
		"4=:2888:3888;2181":                             "",
		"256=zk4:2888:3888;2181":                        "",
		"4=zk4:2888:3888:leader;2181":                   "",
	} {
		s, _, err := ParseServer(in)
		if want == "" {
			if err == nil {
				t.Errorf("%s: taken, as %v", in, s)
			}
		} else if err != nil || s.String() != want {
			t.Errorf("%s: got %v, %v; want %s", in, s, err, want)
		}
	}
}

const grouped = "server.1=a:1:2:participant;0.0.0.0:3,server.2=b:1:2:participant;0.0.0.0:3,server.3=c:1:2:participant;0.0.0.0:3," +
	"server.4=d:1:2:observer;0.0.0.0:3,group.1=1:2,group.2=3,weight.3=2"

func TestListText(t *testing.T) {
	l := parse(t, strings.ReplaceAll(grouped, ",", "\n")+"\nversion=1f")
	if l.text() != grouped || l.Version != 0x1f {
		t.Errorf("got %s, version %x", l.text(), l.Version)
	}
	for _, bad := range []string{"server.x=a:1:2", "group.1=1:x", "weight.1=x", "version=x"} {
		if _, err := ParseList(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A server that autopilot has demoted stays an observer if that is asked for, and becomes a
// voter if that is. A change of other servers does not name it.
func TestDemotedByAutopilot(t *testing.T) {
	now := parse(t, strings.Replace(voters(5, 4, 5), "version=", "# demoted by autopilot: 4\nversion=", 1))
	if four, _ := now.Server(4); !four.Demoted || now.Servers[4].Demoted {
		t.Errorf("got %+v", now.Servers)
	}
	for _, x := range []struct {
		change func([]string) (Change, error)
		id     string
		want   string
	}{
		{Demote, "4", "server.4=zk4:2888:3888:observer;0.0.0.0:2181"},
		{Promote, "4", "server.4=zk4:2888:3888:participant;0.0.0.0:2181"},
		{Demote, "5", ""},
		{Promote, "5", "server.5=zk5:2888:3888:participant;0.0.0.0:2181"},
	} {
		c, err := x.change([]string{x.id})
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Plan(now, 1)
		if got := p.Request.Joining; err != nil || got != x.want {
			t.Errorf("%s: %v, %q, want %q; %v", x.id, err, got, x.want, p.Does)
		}
	}
}

// voters returns the text of n voters; those that are listed are observers.
func voters(n int, observers ...int) string {
	var b strings.Builder
	for id := 1; id <= n; id++ {
		role := "participant"
		if slices.Contains(observers, id) {
			role = "observer"
		}
		fmt.Fprintf(&b, "server.%d=zk%d:2888:3888:%s;0.0.0.0:2181\n", id, id, role)
	}
	return b.String() + "version=100000000"
}

func TestTolerance(t *testing.T) {
	for _, x := range []struct {
		members string
		up      []int64
		want    string
	}{
		{voters(1), []int64{1}, "1 of 1 voter up: one more failure loses the quorum"},
		{voters(2), []int64{1, 2}, "2 of 2 voters up: one more failure loses the quorum"},
		{voters(3), []int64{1, 2, 3}, "3 of 3 voters up: one failure is tolerated"},
		{voters(4), []int64{1, 2, 3, 4}, "4 of 4 voters up: one failure is tolerated"},
		{voters(5), []int64{1, 2, 3, 4, 5}, "5 of 5 voters up: 2 failures are tolerated"},
		{voters(5), []int64{1, 2, 5}, "3 of 5 voters up: one more failure loses the quorum"},
		{voters(5), []int64{1, 2}, "2 of 5 voters up: no quorum"},
		{voters(5, 4, 5), []int64{1, 2, 4, 5}, "2 of 3 voters up: one more failure loses the quorum"},
		// Both groups are needed, and server 3 is one of them.
		{strings.ReplaceAll(grouped, ",", "\n"), []int64{1, 2, 3}, "3 of 3 voters up: one more failure loses the quorum"},
		{strings.ReplaceAll(grouped, ",", "\n"), []int64{1, 2}, "2 of 3 voters up: no quorum"},
		{voters(9) + "\ngroup.1=1:2:3\ngroup.2=4:5:6\ngroup.3=7:8:9", []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, "9 of 9 voters up: 3 failures are tolerated"},
		{voters(3) + "\ngroup.1=1:2:3\nweight.1=0", []int64{1, 2, 3}, "3 of 3 voters up: one more failure loses the quorum"},
	} {
		l := parse(t, x.members)
		if got := l.Tolerance(func(id int64) bool { return slices.Contains(x.up, id) }).String(); got != x.want {
			t.Errorf("%s\nup %v: got %s, want %s", x.members, x.up, got, x.want)
		}
	}
}

// TestToleranceTwin compares the tolerance with that which trying all failures shows.
func TestToleranceTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 1 + rng.IntN(7)
		text := voters(n)
		groups := make([][]string, 1+rng.IntN(3))
		for id := 1; id <= n; id++ {
			g := rng.IntN(len(groups))
			groups[g] = append(groups[g], fmt.Sprint(id))
			text += fmt.Sprintf("\nweight.%d=%d", id, rng.IntN(4))
		}
		for g, ids := range groups {
			if len(ids) > 0 {
				text += fmt.Sprintf("\ngroup.%d=%s", g+1, strings.Join(ids, ":"))
			}
		}
		l := parse(t, text)
		up := rng.Uint64() & (1<<n - 1)
		want := -1
		if l.quorum(up) {
			for want = 0; l.survives(up, want+1); want++ {
			}
		}
		if got := l.Tolerance(func(id int64) bool { return up>>(id-1)&1 == 1 }); got.Spare != want {
			t.Fatalf("%s\nup %b: got %d, want %d", text, up, got.Spare, want)
		}
	}
}

// quorum reports whether the servers of a set, in which server id has the bit id-1, are a quorum.
func (l *List) quorum(set uint64) bool {
	counted, have := 0, 0
	for _, ids := range l.Groups {
		total, present := int64(0), int64(0)
		for _, id := range ids {
			total += l.weight(id)
			present += l.weight(id) * int64(set>>(id-1)&1)
		}
		if total > 0 {
			counted++
		}
		if present*2 > total {
			have++
		}
	}
	return have*2 > counted
}

// survives reports whether any loss of so many of a set leaves a quorum.
func (l *List) survives(set uint64, losses int) bool {
	if losses > bits.OnesCount64(set) {
		return false
	}
	for lost := range set + 1 {
		if lost&^set == 0 && bits.OnesCount64(lost) == losses && !l.quorum(set&^lost) {
			return false
		}
	}
	return true
}

func must(c Change, err error) Change {
	if err != nil {
		panic(err)
	}
	return c
}

func TestPlan(t *testing.T) {
	hierarchy := strings.ReplaceAll(grouped, ",", "\n")
	for _, x := range []struct {
		name    string
		members string
		change  Change
		want    string // the request, a line for each thing that is done or noted; or the error
	}{
		{"add", voters(3), must(Add([]string{"5=zk5:1:2;3", "4=zk4:1:2;3"}, "")),
			"joining server.4=zk4:1:2:participant;0.0.0.0:3,server.5=zk5:1:2:participant;0.0.0.0:3\n" +
				"adds server 5 (zk5:1:2) as a voter, once it is up to date\nadds server 4 (zk4:1:2) as a voter, once it is up to date"},
		{"add one to three", voters(3), must(Add([]string{"4=zk4:1:2;3"}, "")),
			"joining server.4=zk4:1:2:participant;0.0.0.0:3\nadds server 4 (zk4:1:2) as a voter, once it is up to date\n4 voters tolerate no more failures than 3 do."},
		{"add an observer", voters(3), must(Add([]string{"4=zk4:1:2:observer;3"}, "")),
			"joining server.4=zk4:1:2:observer;0.0.0.0:3\nadds server 4 (zk4:1:2) as an observer"},
		{"add a member", voters(3), must(Add([]string{"3=zk3:2888:3888;2181"}, "")), "nothing"},
		{"add with another role", voters(3), must(Add([]string{"3=zk3:2888:3888:observer;2181"}, "")), "error: server 3 is a member already"},
		{"add with a used address", voters(3), must(Add([]string{"4=zk3:2888:3888;2182"}, "")), "error: server 3 already has the address zk3:2888:3888"},
		{"remove", voters(3), must(Remove([]string{"server.3"})), "leaving 3\nremoves server 3 (zk3:2888:3888, participant)"},
		{"remove the leader", voters(3), must(Remove([]string{"1"})),
			"leaving 1\nremoves server 1 (zk1:2888:3888, participant)\nServer 1 is the leader: another one takes over, and clients may have to connect again."},
		{"remove some", voters(5), must(Remove([]string{"4,5", "7"})), "leaving 4,5\nremoves server 4 (zk4:2888:3888, participant)\nremoves server 5 (zk5:2888:3888, participant)\nServer 7 is not a member: there is nothing to remove."},
		{"remove a stranger", voters(3), must(Remove([]string{"7"})), "nothing"},
		{"remove all", voters(2), must(Remove([]string{"1", "2"})), "error: no voter would be left"},
		{"remove the last voter", voters(2, 2), must(Remove([]string{"1"})), "error: no voter would be left"},
		{"promote", voters(3, 3), must(Promote([]string{"3"})), "joining server.3=zk3:2888:3888:participant;0.0.0.0:2181\nmakes observer 3 a voter, once it is up to date"},
		{"promote a voter", voters(3), must(Promote([]string{"3"})), "nothing"},
		{"promote a stranger", voters(3), must(Promote([]string{"4"})), "error: server 4 is not a member: the members are 1, 2, 3"},
		{"demote", voters(3), must(Demote([]string{"2"})), "joining server.2=zk2:2888:3888:observer;0.0.0.0:2181\nmakes voter 2 an observer"},
		{"replace", voters(3), must(Replace("3", "6=zk6:1:2;3")),
			"joining server.6=zk6:1:2:participant;0.0.0.0:3 leaving 3\nadds server 6 (zk6:1:2) as a voter, once it is up to date\nremoves server 3 (zk3:2888:3888, participant)"},
		{"replace on the same machine", voters(3), must(Replace("3", "6=zk3:2888:3888;2181")),
			"joining server.6=zk3:2888:3888:participant;0.0.0.0:2181 leaving 3\nadds server 6 (zk3:2888:3888) as a voter, once it is up to date\nremoves server 3 (zk3:2888:3888, participant)"},
		{"replace an observer", voters(3, 3), must(Replace("3", "6=zk6:1:2;3")),
			"joining server.6=zk6:1:2:observer;0.0.0.0:3 leaving 3\nadds server 6 (zk6:1:2) as an observer\nremoves server 3 (zk3:2888:3888, observer)"},
		{"replace by a member", voters(3), must(Replace("9", "3=zk3:2888:3888;2181")), "nothing"},
		{"replace a stranger", voters(3), must(Replace("9", "6=zk6:1:2;3")), "error: server 9 is not a member: the members are 1, 2, 3; member add adds server 6"},
		{"groups: add without a group", hierarchy, must(Add([]string{"5=e:1:2;3"}, "")), "error: the ensemble has groups: say with --group in which of 1, 2 server 5 votes"},
		{"groups: add", hierarchy, must(Add([]string{"5=e:1:2;3"}, "2")),
			"all server.1=a:1:2:participant;0.0.0.0:3,server.2=b:1:2:participant;0.0.0.0:3,server.3=c:1:2:participant;0.0.0.0:3," +
				"server.4=d:1:2:observer;0.0.0.0:3,server.5=e:1:2:participant;0.0.0.0:3,group.1=1:2,group.2=3:5,weight.3=2\n" +
				"adds server 5 (e:1:2) as a voter, once it is up to date"},
		{"groups: replace", hierarchy, must(Replace("3", "5=e:1:2;3")),
			"all server.1=a:1:2:participant;0.0.0.0:3,server.2=b:1:2:participant;0.0.0.0:3," +
				"server.4=d:1:2:observer;0.0.0.0:3,server.5=e:1:2:participant;0.0.0.0:3,group.1=1:2,group.2=5,weight.5=2\n" +
				"adds server 5 (e:1:2) as a voter, once it is up to date\nremoves server 3 (c:1:2, participant)"},
		{"groups: remove a group", hierarchy, must(Remove([]string{"3"})),
			"all server.1=a:1:2:participant;0.0.0.0:3,server.2=b:1:2:participant;0.0.0.0:3,server.4=d:1:2:observer;0.0.0.0:3,group.1=1:2\n" +
				"removes server 3 (c:1:2, participant)"},
		{"groups: promote without a group", hierarchy, must(Promote([]string{"4"})), "error: server 4 is in no group: give it one with reconfig -members"},
	} {
		now := parse(t, x.members)
		before := now.text()
		if got := planText(x.change.Plan(now, 1)); got != x.want && !(strings.HasPrefix(x.want, "error: ") && strings.HasPrefix(got, x.want)) {
			t.Errorf("%s: got\n%s\nwant\n%s", x.name, got, x.want)
		}
		if now.text() != before {
			t.Errorf("%s: the present members were changed to %s", x.name, now.text())
		}
	}
}

func planText(p Plan, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	if len(p.Does) == 0 {
		return "nothing"
	}
	var request []string
	for _, part := range [][2]string{{"joining", p.Request.Joining}, {"leaving", p.Request.Leaving}, {"all", p.Request.All}} {
		if part[1] != "" {
			request = append(request, part[0]+" "+part[1])
		}
	}
	return strings.Join(slices.Concat([]string{strings.Join(request, " ")}, p.Does, p.Notes), "\n")
}

// Arguments that no members could make sense of are refused.
func TestChangeArguments(t *testing.T) {
	for name, err := range map[string]error{
		"no client port":  second(Add([]string{"4=zk4:2888:3888"}, "")),
		"twice":           second(Add([]string{"4=zk4:2888:3888;2181", "4=zk5:2888:3888;2181"}, "")),
		"no server":       second(Add([]string{"4"}, "")),
		"no id":           second(Remove([]string{"zk4"})),
		"too large an id": second(Promote([]string{"1000"})),
		"negative":        second(Demote([]string{"-1"})),
		"same id":         second(Replace("4", "4=zk9:2888:3888;2181")),
		"no old id":       second(Replace("", "4=zk9:2888:3888;2181")),
	} {
		if err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func second(_ Change, err error) error { return err }
