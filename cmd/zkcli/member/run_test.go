package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an ensemble whose members change as the answers say.
type fake struct {
	text string
	// states are what a server is, at one look after the other; the last state stays. A
	// server without states is a follower at zxid 9.
	states map[string][]string
	// answers are those of the requests, one after the other.
	answers []answer
	asked   []string // the requests
	may     error    // of MayChange
}

// answer is what becomes of a request.
type answer struct {
	err  error
	text string // the members afterwards, if they change
}

func (f *fake) Members(ctx context.Context) (string, error) { return f.text, ctx.Err() }

func (f *fake) MayChange(context.Context) error { return f.may }

func (f *fake) Reconfig(ctx context.Context, m client.Members, version int64) (string, error) {
	f.asked = append(f.asked, fmt.Sprintf("%x +%s -%s", version, m.Joining, m.Leaving))
	if len(f.answers) == 0 {
		return "", errors.New("an unexpected request")
	}
	a := f.answers[0]
	if len(f.answers) > 1 {
		f.answers = f.answers[1:]
	}
	if a.text != "" {
		f.text = a.text
	}
	return f.text, a.err
}

func (f *fake) Address(s Server) string { return s.Address(servers.Asker{}) }

func (f *fake) Look(_ context.Context, addrs []string) (views []servers.View) {
	for _, addr := range addrs {
		host, _, _ := strings.Cut(addr, ":")
		state := "follower 9"
		if list := f.states[host]; len(list) > 0 {
			if state = list[0]; len(list) > 1 {
				f.states[host] = list[1:]
			}
		}
		v := servers.View{Server: addr, Reachable: true}
		switch mode, zxid, _ := strings.Cut(state, " "); mode {
		case "dead":
			v.Reachable, v.Problem = false, "connection refused"
		case "silent":
			v.Reachable, v.Silent, v.Problem = false, true, "srvr is not in the whitelist"
		case "starting":
			v.Problem = "not serving: no quorum"
		case "moves": // its clients, of which so many are left
			v.Mode, v.Version, v.Drain = "follower", "3.9.5-zkd.1", zxid+" connections left, keeps clients away: it is no member"
		case "sending": // the leader, with the percentage that server 4 has
			var sent int64
			fmt.Sscan(zxid, &sent)
			v.Mode, v.Zxid, v.Joiners = "leader", "0x9", map[int64]servers.Joiner{4: {Snapshot: true, Sent: sent << 20, Size: 100 << 20}}
		default:
			v.Mode, v.Zxid = mode, "0x"+zxid
		}
		views = append(views, v)
	}
	return views
}

// failed is the error of a reconfig.
func failed(code error) error {
	return &client.Error{Err: code, Ambiguous: code == client.ErrConnectionLoss}
}

// later returns members of another version.
func later(members string, version int) string {
	return strings.Replace(members, "version=100000000", fmt.Sprintf("version=1%08x", version), 1)
}

func TestRun(t *testing.T) {
	const four = "4=zk4:2888:3888;2181"
	const addsFour = "100000000 +server.4=zk4:2888:3888:participant;0.0.0.0:2181 -"
	leader := []string{"leader 9"}
	for _, x := range []struct {
		name   string
		change Change
		fake   fake
		want   string // what is announced, waited for and asked, in order; and the result
		is     error
	}{
		{
			name: "add", change: must(Add([]string{four}, "")),
			fake: fake{text: voters(3), answers: []answer{{nil, later(voters(4), 5)}},
				states: map[string][]string{"zk1": leader, "zk4": slices.Concat([]string{"dead", "dead", "starting"}, slices.Repeat([]string{"follower 3"}, 10), []string{"follower 5", "follower 6", "follower 9"})}},
			want: "3 of 3 voters up: one failure is tolerated -> 4 of 4 voters up: one failure is tolerated\n" +
				"waits: server 4, at zk4:2181, is not reachable: connection refused\n" +
				"waits: server 4, at zk4:2181, does not serve yet: it looks for the leader, or receives a snapshot\n" +
				"waits: server 4, at zk4:2181, is 6 transactions behind\n" +
				"waits: server 4, at zk4:2181, is 4 transactions behind\n" +
				addsFour + "\nchanged to 1, 2, 3, 4",
		},
		{
			name: "no right to it, and nothing is waited for", change: must(Add([]string{four}, "")),
			fake: fake{text: voters(3), may: failed(client.ErrNoAuth), states: map[string][]string{"zk1": leader, "zk4": {"dead"}}},
			want: "3 of 3 voters up: one failure is tolerated -> 4 of 4 voters up: one failure is tolerated\n" +
				"error: only the super user may change the members: say --auth digest:super:PASSWORD (DigestAuthenticationProvider.superDigest on the servers)",
			is: client.ErrNoAuth,
		},
		{
			name: "a server that receives a snapshot", change: must(Add([]string{four}, "")),
			fake: fake{text: voters(3), answers: []answer{{nil, later(voters(4), 5)}},
				states: map[string][]string{
					"zk1": slices.Concat([]string{"leader 9", "sending 7"}, slices.Repeat([]string{"sending 50"}, 12), []string{"sending 93"}),
					"zk4": slices.Concat(slices.Repeat([]string{"starting"}, 20), []string{"follower 9"})}},
			want: "3 of 3 voters up: one failure is tolerated -> 4 of 4 voters up: one failure is tolerated\n" +
				"waits: server 4, at zk4:2181, receives a snapshot: 7.0 of 100.0 MiB, 7 %\n" +
				"waits: server 4, at zk4:2181, receives a snapshot: 93.0 of 100.0 MiB, 93 %\n" +
				addsFour + "\nchanged to 1, 2, 3, 4",
		},
		{
			name: "a server that does not tell its state", change: must(Add([]string{four}, "")),
			fake: fake{text: voters(3), answers: []answer{{failed(client.ErrNewConfigNoQuorum), ""}, {nil, later(voters(4), 5)}},
				states: map[string][]string{"zk1": leader, "zk4": {"silent"}}},
			want: "3 of 3 voters up: one failure is tolerated -> 4 of 4 voters up: one failure is tolerated\n" + addsFour +
				"\nwaits: the new voters are up to date, and the leader has not admitted them yet\n" + addsFour + "\nchanged to 1, 2, 3, 4",
		},
		{
			name: "an observer need not run", change: must(Add([]string{"4=zk4:2888:3888:observer;2181"}, "")),
			fake: fake{text: voters(3), answers: []answer{{nil, later(voters(4, 4), 5)}}, states: map[string][]string{"zk1": leader, "zk4": {"dead"}}},
			want: "3 of 3 voters up: one failure is tolerated -> 3 of 3 voters up: one failure is tolerated\n" +
				"100000000 +server.4=zk4:2888:3888:observer;0.0.0.0:2181 -\nchanged to 1, 2, 3, 4",
		},
		{
			name: "never ready", change: must(Add([]string{four}, "")),
			fake: fake{text: voters(3), states: map[string][]string{"zk1": leader, "zk4": {"dead"}}},
			want: "3 of 3 voters up: one failure is tolerated -> 4 of 4 voters up: one failure is tolerated\n" +
				"waits: server 4, at zk4:2181, is not reachable: connection refused\n" +
				"error: the members were not changed (--timeout 1m0s): server 4, at zk4:2181, is not reachable: connection refused",
			is: ErrTimeout,
		},
		{
			name: "a server of its own", change: must(Add([]string{four}, "")),
			fake: fake{text: voters(3), states: map[string][]string{"zk1": leader, "zk4": {"standalone 5"}}},
			want: "3 of 3 voters up: one failure is tolerated -> 4 of 4 voters up: one failure is tolerated\n" +
				"error: server 4, at zk4:2181, runs as a single server: its configuration needs the lines of the members and its own",
		},
		{
			name: "a leader of others", change: must(Add([]string{four}, "")),
			fake: fake{text: voters(3), states: map[string][]string{"zk1": leader, "zk4": {"leader 5"}}},
			want: "3 of 3 voters up: one failure is tolerated -> 4 of 4 voters up: one failure is tolerated\n" +
				"error: server 4, at zk4:2181, leads an ensemble: its configuration needs the lines of all members, or the address is another server's",
		},
		{
			name: "a removed server moves its clients", change: must(Remove([]string{"3"})),
			fake: fake{text: voters(3), answers: []answer{{nil, later(voters(2), 7)}},
				states: map[string][]string{"zk1": leader, "zk3": {"follower 9", "moves 12", "moves 8", "moves 0"}}},
			want: "ask: 3 of 3 voters up: one failure is tolerated -> 2 of 2 voters up: one more failure loses the quorum\n100000000 + -3\n" +
				"waits: server 3 moves its clients to others: 12 connections left\nchanged to 1, 2",
		},
		{
			name: "a removed server does not finish", change: must(Remove([]string{"3"})),
			fake: fake{text: voters(3), answers: []answer{{nil, later(voters(2), 7)}},
				states: map[string][]string{"zk1": leader, "zk3": {"follower 9", "moves 12"}}},
			want: "ask: 3 of 3 voters up: one failure is tolerated -> 2 of 2 voters up: one more failure loses the quorum\n100000000 + -3\n" +
				"waits: server 3 moves its clients to others: 12 connections left\nchanged to 1, 2",
		},
		{
			name: "another change meanwhile", change: must(Remove([]string{"2"})),
			fake: fake{text: voters(5), states: map[string][]string{"zk1": leader},
				answers: []answer{{failed(client.ErrBadVersion), later(voters(3), 7)}, {nil, later(strings.Replace(voters(3), "server.2=", "#", 1), 9)}}},
			want: "ask: 5 of 5 voters up: 2 failures are tolerated -> 4 of 4 voters up: one failure is tolerated\n100000000 + -2\n" +
				"waits: the members have changed meanwhile\n" +
				"ask: 3 of 3 voters up: one failure is tolerated -> 2 of 2 voters up: one more failure loses the quorum\n" +
				"100000007 + -2\nchanged to 1, 3",
		},
		{
			name: "done by somebody else meanwhile", change: must(Remove([]string{"3"})),
			fake: fake{text: voters(3), states: map[string][]string{"zk1": leader}, answers: []answer{{failed(client.ErrBadVersion), later(voters(2), 7)}}},
			want: "ask: 3 of 3 voters up: one failure is tolerated -> 2 of 2 voters up: one more failure loses the quorum\n100000000 + -3\n" +
				"waits: the members have changed meanwhile\nunchanged 1, 2",
		},
		{
			name: "the reply is lost, the change is made", change: must(Remove([]string{"3"})),
			fake: fake{text: voters(3), states: map[string][]string{"zk3": leader}, answers: []answer{{failed(client.ErrConnectionLoss), later(voters(2), 7)}}},
			want: "ask: 3 of 3 voters up: one failure is tolerated -> 2 of 2 voters up: one more failure loses the quorum\n100000000 + -3\n" +
				"waits: the connection was lost: looking whether the change was made\nchanged to 1, 2",
		},
		{
			name: "the request is lost", change: must(Remove([]string{"3"})),
			fake: fake{text: voters(3), states: map[string][]string{"zk1": leader}, answers: []answer{{failed(client.ErrConnectionLoss), ""}, {nil, later(voters(2), 7)}}},
			want: "ask: 3 of 3 voters up: one failure is tolerated -> 2 of 2 voters up: one more failure loses the quorum\n100000000 + -3\n" +
				"waits: the connection was lost: looking whether the change was made\n100000000 + -3\nchanged to 1, 2",
		},
		{
			name: "all requests are lost", change: must(Remove([]string{"3"})),
			fake: fake{text: voters(3), states: map[string][]string{"zk1": leader}, answers: []answer{{failed(client.ErrConnectionLoss), ""}}},
			want: "ask: 3 of 3 voters up: one failure is tolerated -> 2 of 2 voters up: one more failure loses the quorum\n100000000 + -3\n" +
				"waits: the connection was lost: looking whether the change was made\n100000000 + -3\n" +
				"error: the members are not changed yet, and a request may be under way, so look at member list (--timeout 1m0s): the connection was lost: looking whether the change was made",
			is: ErrTimeout,
		},
		{
			name: "another change is under way", change: must(Promote([]string{"3"})),
			fake: fake{text: voters(3, 3), states: map[string][]string{"zk1": leader, "zk3": {"observer 9"}},
				answers: []answer{{failed(client.ErrReconfigInProgress), ""}, {nil, later(voters(3), 7)}}},
			want: "2 of 2 voters up: one more failure loses the quorum -> 3 of 3 voters up: one failure is tolerated\n" +
				"100000000 +server.3=zk3:2888:3888:participant;0.0.0.0:2181 -\nwaits: another change of the members is not finished\n" +
				"100000000 +server.3=zk3:2888:3888:participant;0.0.0.0:2181 -\nchanged to 1, 2, 3",
		},
		{
			name: "those who stay are no quorum", change: must(Remove([]string{"5"})),
			fake: fake{text: voters(5), states: map[string][]string{"zk1": leader, "zk3": {"dead"}, "zk4": {"starting"}},
				answers: []answer{{failed(client.ErrNewConfigNoQuorum), ""}}},
			want: "ask: 3 of 5 voters up: one more failure loses the quorum -> 2 of 4 voters up: no quorum\n100000000 + -5\n" +
				"waits: server 3, at zk3:2181, is not reachable: connection refused; server 4, at zk4:2181, does not serve yet: it looks for the leader, or receives a snapshot\n100000000 + -5\n" +
				"error: the members were not changed (--timeout 1m0s): server 3, at zk3:2181, is not reachable: connection refused; server 4, at zk4:2181, does not serve yet: it looks for the leader, or receives a snapshot",
			is: ErrTimeout,
		},
		{
			name: "replace a dead server", change: must(Replace("3", four)),
			fake: fake{text: voters(3), states: map[string][]string{"zk1": leader, "zk3": {"dead"}},
				answers: []answer{{nil, later(strings.Replace(voters(4), "server.3=", "#", 1), 7)}}},
			want: "ask: 2 of 3 voters up: one more failure loses the quorum -> 3 of 3 voters up: one failure is tolerated\n" +
				"100000000 +server.4=zk4:2888:3888:participant;0.0.0.0:2181 -3\nchanged to 1, 2, 4",
		},
		{
			name: "nothing to do", change: must(Remove([]string{"7"})),
			fake: fake{text: voters(3)}, want: "unchanged 1, 2, 3",
		},
		{
			name: "not enabled", change: must(Demote([]string{"3"})),
			fake: fake{text: voters(3), states: map[string][]string{"zk1": leader}, answers: []answer{{failed(client.ErrReconfigDisabled), ""}}},
			want: "ask: 3 of 3 voters up: one failure is tolerated -> 2 of 2 voters up: one more failure loses the quorum\n" +
				"100000000 +server.3=zk3:2888:3888:observer;0.0.0.0:2181 -\n" +
				"error: the servers do not allow changes of the members: set reconfigEnabled=true on all of them, and restart them one by one",
			is: client.ErrReconfigDisabled,
		},
		{
			name: "a single server", change: must(Add([]string{four}, "")), fake: fake{}, want: "error: " + singleServer, is: client.ErrUnimplemented,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := x.fake.run(t, x.change)
				if got != x.want {
					t.Errorf("got\n%s\nwant\n%s", got, x.want)
				}
				if x.is != nil && !errors.Is(err, x.is) {
					t.Errorf("%v is no %v", err, x.is)
				}
			})
		})
	}
}

// run makes a change, and returns what happened.
func (f *fake) run(t *testing.T, c Change) (string, error) {
	var log []string
	requests := 0
	note := func(line string) {
		log = append(log, f.asked[requests:]...)
		requests = len(f.asked)
		if line != "" {
			log = append(log, line)
		}
	}
	r := Runner{Ensemble: f, Timeout: time.Minute,
		Announce: func(a Announcement) error {
			line := a.Before.String() + " -> " + a.After.String()
			if a.Ask {
				line = "ask: " + line
			}
			note(line)
			return nil
		},
		Progress: func(text string) { note("waits: " + text) },
	}
	res, err := r.Run(t.Context(), c)
	if err != nil {
		note("")
		// A request that was repeated is one line.
		log = append(slices.Compact(log), "error: "+err.Error())
		return strings.Join(log, "\n"), err
	}
	var ids []string
	for _, s := range res.List.Servers {
		ids = append(ids, fmt.Sprint(s.ID))
	}
	result := "unchanged "
	if res.Changed {
		result = "changed to "
	}
	note("")
	return strings.Join(append(log, result+strings.Join(ids, ", ")), "\n"), nil
}

// An answer "no" ends the change before anything is asked of the ensemble.
func TestRunIsRefusedByTheOperator(t *testing.T) {
	f := fake{text: voters(3)}
	no := errors.New("no")
	r := Runner{Ensemble: &f, Announce: func(Announcement) error { return no }, Timeout: time.Hour}
	if _, err := r.Run(t.Context(), must(Remove([]string{"3"}))); err != no || len(f.asked) > 0 {
		t.Errorf("%v, asked %q", err, f.asked)
	}
}

// Ctrl-C ends the wait.
func TestRunIsInterrupted(t *testing.T) {
	f := fake{text: voters(3), states: map[string][]string{"zk4": {"dead"}}}
	ctx, cancel := context.WithCancel(t.Context())
	r := Runner{Ensemble: &f, Announce: func(Announcement) error { return nil }, Progress: func(string) { cancel() }, Timeout: time.Hour}
	if _, err := r.Run(ctx, must(Add([]string{"4=zk4:2888:3888;2181"}, ""))); !errors.Is(err, context.Canceled) || len(f.asked) > 0 {
		t.Errorf("%v, asked %q", err, f.asked)
	}
}

// An id that no member has is an error before any server is asked.
func TestLookOfAStranger(t *testing.T) {
	f := fake{text: voters(3), states: map[string][]string{"zk1": {"asked", "again"}}}
	_, err := Look(t.Context(), &f, 2, 9)
	if err == nil || err.Error() != "server 9 is not a member: the members are 1, 2, 3" || len(f.states["zk1"]) != 2 {
		t.Errorf("%v; the states left are %q", err, f.states["zk1"])
	}
}

func TestMembersState(t *testing.T) {
	f := fake{text: voters(6, 5) + "\nserver.7=zk7:2888:3888:participant",
		states: map[string][]string{"zk1": {"leader a"}, "zk3": {"dead"}, "zk4": {"starting"}, "zk5": {"observer 9"}, "zk6": {"silent"}}}
	st, err := Look(t.Context(), &f)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range st.Members() {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%d %s %s %s %s", m.ID, m.Role, m.Client, m.State, m.Zxid)))
	}
	want := []string{
		"1 participant zk1:2181 leader 0xa", "2 participant zk2:2181 follower 0x9", "3 participant zk3:2181 not reachable",
		"4 participant zk4:2181 not serving", "5 observer zk5:2181 observer 0x9", "6 participant zk6:2181 unknown", "7 participant  unknown",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := st.Tolerance().String(), "4 of 6 voters up: one more failure loses the quorum"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
