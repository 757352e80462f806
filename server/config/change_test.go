package config

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	three = "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nserver.3=c:2888:3888;2181\n"
	// grouped has two groups, and an observer.
	grouped = "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nserver.3=c:2888:3888:observer;2181\n" +
		"group.1=1\ngroup.2=2\nweight.1=2\nweight.2=1\n"
)

func membersOf(t *testing.T, text string) Members {
	t.Helper()
	m, err := ParseMembers(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestChange(t *testing.T) {
	strict := ChangeOptions{StandaloneEnabled: true, ExtendedTypes: true}
	for _, test := range []struct {
		name   string
		now    string
		change Change
		o      ChangeOptions
		want   string // the members
	}{
		{"nothing", three, Change{}, strict, three},
		{"join", three, Change{Joining: " server.4 = d:2888:3888;2181 ,, server.5=e:2888:3888:observer;2181;2281,"}, strict,
			three + "server.4=d:2888:3888;2181\nserver.5=e:2888:3888:observer;2181;2281"},
		{"leave", three, Change{Leaving: "3"}, strict, "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181"},
		{"leave nobody", three, Change{Leaving: "9, -1,300,"}, strict, three},
		{"leave to one", three, Change{Leaving: "2,3"}, ChangeOptions{}, "server.1=a:2888:3888;2181"},
		{"leave, then join", three, Change{Leaving: "3,4", Joining: "server.4=c:2888:3888;2181"}, strict,
			"server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nserver.4=c:2888:3888;2181"},
		{"leave and join again", three, Change{Leaving: "3", Joining: "server.3=d:2888:3888;2181"}, strict,
			"server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nserver.3=d:2888:3888;2181"},
		{"role", three, Change{Joining: "server.3=c:2888:3888:observer;2181"}, strict, strings.Replace(three, "c:2888:3888", "c:2888:3888:observer", 1)},
		{"address", three, Change{Joining: "server.3=[::3]:2888:3888;[::3]:2182"}, strict,
			"server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nserver.3=[::3]:2888:3888;[::3]:2182"},
		{"exchanged addresses", three, Change{Joining: "server.2=c:2888:3888;2181,server.3=b:2888:3888;2181"}, strict,
			"server.1=a:2888:3888;2181\nserver.2=c:2888:3888;2181\nserver.3=b:2888:3888;2181"},
		{"two addresses on one host", three, Change{Joining: "server.4=d:2888:3888|d:2889:3889;2181"}, ChangeOptions{MultiAddress: true},
			three + "server.4=d:2888:3888|d:2889:3889;2181"},
		{"two addresses on one host, one election port", three, Change{Joining: "server.4=d:2888:3888|d:2889:3888;d:2181;2281"}, ChangeOptions{MultiAddress: true},
			three + "server.4=d:2888:3888|d:2889:3888;d:2181;2281"},
		{"one address, twice", three, Change{Joining: "server.4=d:2888:3888|d:2888:3889;2181"}, ChangeOptions{MultiAddress: true},
			three + "server.4=d:2888:3888|d:2888:3889;2181"},
		{"an election port that is in use", three, Change{Joining: "server.4=a:2889:2888;2182"}, strict, three + "server.4=a:2889:2888;2182"},
		{"one host, other ports", three, Change{Joining: "server.4=a:2889:3889;2182"}, strict, three + "server.4=a:2889:3889;2182"},
		{"each its own loopback", three, Change{Joining: "server.4=d:2888:3888;127.0.0.1:2181,server.5=e:2888:3888;127.0.0.1:2181"}, strict,
			three + "server.4=d:2888:3888;127.0.0.1:2181\nserver.5=e:2888:3888;127.0.0.1:2181"},
		{"old conflict", three + "server.4=a:2889:3889;2181\n", Change{Leaving: "2"}, strict,
			"server.1=a:2888:3888;2181\nserver.3=c:2888:3888;2181\nserver.4=a:2889:3889;2181"},
		{"several addresses", three, Change{Joining: "server.4=d:2888:3888|e:2888:3888;2181"}, ChangeOptions{MultiAddress: true},
			three + "server.4=d:2888:3888|e:2888:3888;2181"},
		{"server 0", three, Change{Joining: "server.0=d:2888:3888;2181"}, strict, "server.0=d:2888:3888;2181\n" + three},
		{"255", three, Change{Joining: "server.255=d:2888:3888;2181"}, ChangeOptions{}, three + "server.255=d:2888:3888;2181"},
		{"whole, without ports for clients", three, Change{Whole: "server.1=a:2888:3888,server.2=e:2888:3888:observer,server.4=d:2888:3888"}, ChangeOptions{},
			"server.1=a:2888:3888;2181\nserver.2=e:2888:3888:observer;2181\nserver.4=d:2888:3888"},
		{"whole", three, Change{Whole: "version=1000\nserver.7=a:2888:3888;2181,server.8=b:2888:3888", Joining: "?", Leaving: "?"}, strict,
			"server.7=a:2888:3888;2181\nserver.8=b:2888:3888"},
		{"to groups", three, Change{Whole: grouped}, strict, grouped},
		{"weight of an observer", three, Change{Whole: grouped + "weight.3=7"}, strict, grouped},
		{"other weights", grouped, Change{Whole: strings.Replace(grouped, "weight.1=2", "weight.1=0", 1)}, strict,
			strings.Replace(grouped, "weight.1=2", "weight.1=0", 1)},
		{"to majorities", grouped, Change{Whole: three}, strict, three},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, warnings, err := test.change.Apply(membersOf(t, test.now), test.o)
			if want := membersOf(t, test.want); err != nil || got.Text() != want.Text() || got.Version != 0 || len(warnings) > 0 {
				t.Errorf("got %v, version %x, %v\n%swant\n%s", err, got.Version, warnings, got.Text(), want.Text())
			}
		})
	}
}

func TestChangeRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		now    string
		change Change
		want   string
	}{
		{"no server line", three, Change{Joining: "4=d:2888:3888;2181"},
			`joining: 4: "d:2888:3888;2181": is not a server line: write server.<id>=<host>:<quorumPort>:<electionPort>[:participant|:observer][;[<clientHost>:]<clientPort>][;[<secureHost>:]<securePort>]`},
		{"a group joins", three, Change{Joining: "group.1=1:2:3"},
			`joining: group.1: "1:2:3": is not a server line: write server.<id>=<host>:<quorumPort>:<electionPort>[:participant|:observer][;[<clientHost>:]<clientPort>][;[<secureHost>:]<securePort>]`},
		{"no election port", three, Change{Joining: "server.4=d:2888;2181"},
			`joining: server.4: "d:2888;2181": write <host>:<quorumPort>:<electionPort>[:participant|:observer][;[<clientHost>:]<clientPort>][;[<secureHost>:]<securePort>], IPv6 addresses in brackets`},
		{"no client port", three, Change{Joining: "server.4=d:2888:3888;;2281"},
			`joining: server.4: a joining server needs a port for clients: write it after a semicolon, as in ;2181 or ;zk4:2181`},
		{"twice", three, Change{Joining: "server.4=d:2888:3888;2181,server.4=e:2888:3888;2181"},
			`joining: server.4: "e:2888:3888;2181": is the same as server.4 (joining)`},
		{"id that is no number", three, Change{Joining: "server.x=d:2888:3888;2181"},
			`joining: "x" is no id of a server: write a number, such as 3`},
		{"negative id", three, Change{Joining: "server.-1=d:2888:3888;2181"},
			`joining: server.-1: "d:2888:3888;2181": what follows "server." in the key must be a number from 0`},
		{"id 255", three, Change{Joining: "server.255=d:2888:3888;2181"},
			`no id of a server here: joining: server.255: TTL nodes do not allow an id above 254: set extendedTypesEnabled=false or take another id`},
		{"id 256", three, Change{Whole: three + "server.256=d:2888:3888;2181"},
			`no id of a server here: members:4: server.256: an id is a number from 0 to 255: it is the top byte of the ids of the server's sessions`},
		{"several addresses", three, Change{Joining: "server.4=d:2888:3888|e:2888:3888;2181"},
			`joining: server.4: "d:2888:3888|e:2888:3888;2181": several addresses need multiAddress.enabled=true`},
		{"quorum port in use", three, Change{Joining: "server.4=A:2888:3889;2182"},
			`joining: server.4: its quorum port, a:2888, is the quorum port of server.1: every server needs its own ports on a host`},
		{"quorum port is a client port", three, Change{Joining: "server.4=A:2181:3889;2182"},
			`joining: server.4: its quorum port, a:2181, is the client port of server.1: every server needs its own ports on a host`},
		{"client port is a quorum port", three, Change{Joining: "server.4=d:2888:3888;a:2888"},
			`joining: server.4: its client port, a:2888, is the quorum port of server.1: every server needs its own ports on a host`},
		{"client port is its own quorum port", three, Change{Joining: "server.4=d:2888:3888;2888"},
			`joining: server.4: its client port, d:2888, is the quorum port of server.4: every server needs its own ports on a host`},
		{"one port for two things", three, Change{Joining: "server.4=d:2888:3888;2181;2181"},
			`joining: server.4: its secure client port, d:2181, is the client port of server.4: every server needs its own ports on a host`},
		{"one IPv6 address, two spellings", three, Change{Joining: "server.4=[::4]:2888:3888;2181,server.5=[0:0::4]:2888:3889;2182"},
			`joining: server.5: its quorum port, [::4]:2888, is the quorum port of server.4: every server needs its own ports on a host`},
		{"whole, in use", three, Change{Whole: three + "server.4=c:2888:3889;2182"},
			`members:4: server.4: its quorum port, c:2888, is the quorum port of server.3: every server needs its own ports on a host`},
		{"one participant", three, Change{Leaving: "3", Joining: "server.2=b:2888:3888:observer;2181"},
			`the change would leave 1 participant, and standaloneEnabled=true needs 2: keep another one, or set standaloneEnabled=false on every server`},
		{"everybody leaves", three, Change{Leaving: "1,2,3"},
			`the change would leave 0 participants, and standaloneEnabled=true needs 2: keep another one, or set standaloneEnabled=false on every server`},
		{"incremental with groups", grouped, Change{Leaving: "3"}, ErrHierarchical.Error()},
		{"leaving id that is no number", three, Change{Leaving: "3,server.2"},
			`leaving: "server.2" is no id of a server: write a number, such as 3`},
		{"whole, other keys", three, Change{Whole: three + "tickTime=2000"},
			`members:4: tickTime: "2000": is not a server, group or weight line`},
		{"in no group", three, Change{Whole: three + "group.1=1:2"},
			`members:3: server.3: is in no group: with group or weight lines, every participant must be in one`},
		{"in two groups", three, Change{Whole: grouped + "group.3=2"},
			`members:8: group.3: server 2 is in group.2 and in group.3`},
		{"weight", three, Change{Whole: three + "group.1=1:2:3\nweight.1=-1"},
			`members:5: weight.1: "-1": must be a number from 0 to 2147483647`},
		{"no votes", three, Change{Whole: three + "group.1=1:2:3\nweight.1=0\nweight.2=0\nweight.3=0"},
			`no group has a participant with a weight above 0, so there could be no quorum: give at least one a weight line above 0`},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, _, err := test.change.Apply(membersOf(t, test.now), ChangeOptions{StandaloneEnabled: true, ExtendedTypes: true})
			if err == nil || err.Error() != test.want || !reflect.DeepEqual(m, Members{}) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			if got, want := errors.Is(err, ErrNoNumber), strings.HasSuffix(test.name, "no number"); got != want {
				t.Errorf("%v is ErrNoNumber: %v", err, got)
			}
		})
	}
	if _, _, err := (Change{Leaving: "1,2,3"}).Apply(membersOf(t, three), ChangeOptions{}); err == nil ||
		err.Error() != "the change would leave no participant: keep at least one server that is not an observer" {
		t.Error(err)
	}
}

// The errors in a change are no more than the addresses in it, although each server conflicts with each
// other one; and a long change is not looked at.
func TestChangeHasABound(t *testing.T) {
	const servers, addresses = 250, 10
	var text strings.Builder
	for id := range servers {
		fmt.Fprintf(&text, "server.%d=", id)
		for i := range addresses {
			fmt.Fprintf(&text, "h%d:2888:3888|", i)
		}
		fmt.Fprintf(&text, "h:2888:3888;2181,")
	}
	o := ChangeOptions{MultiAddress: true, StandaloneEnabled: true}
	_, warnings, err := Change{Joining: text.String()}.Apply(membersOf(t, three), o)
	errs, ok := errors.AsType[Errors](err)
	if most := servers * 2 * (addresses + 1); !ok || len(errs) < servers || len(errs)+len(warnings) > most {
		t.Errorf("%d errors and %d warnings, want at most %d", len(errs), len(warnings), most)
	}
	for _, long := range []Change{{Joining: strings.Repeat(" ", maxChange+1)}, {Leaving: strings.Repeat("1,", maxChange)}, {Whole: strings.Repeat("#", maxChange+1)}} {
		if _, _, err := long.Apply(membersOf(t, three), o); err == nil || !strings.Contains(err.Error(), "at most 65536") {
			t.Errorf("a long change: %v", err)
		}
	}
}

// Servers on one host may have one port for clients: one of them can't be reached there, and the
// ensemble works.
func TestChangeSharesPorts(t *testing.T) {
	const local = "server.1=127.0.0.1:2888:3888;2181\nserver.2=127.0.0.1:2889:3889;2182\n"
	for _, test := range []struct {
		name, now string
		change    Change
		want      []string
	}{
		{"a client port", three, Change{Joining: "server.4=a:2889:3889;127.0.0.1:2181"},
			[]string{`joining: server.4: its client port, a:2181, is the client port of server.1: if both run on one host, only one of them can listen there`}},
		{"a secure client port", three, Change{Joining: "server.4=a:2889:3889;2182;a:2181"},
			[]string{`joining: server.4: its secure client port, a:2181, is the client port of server.1: if both run on one host, only one of them can listen there`}},
		{"on the loopback", local, Change{Joining: "server.3=127.0.0.1:2890:3890;2181"},
			[]string{`joining: server.3: its client port, 127.0.0.1:2181, is the client port of server.1: if both run on one host, only one of them can listen there`}},
		{"with two others", three, Change{Joining: "server.4=a:2889:3889;2181,server.5=a:2890:3890;2181"},
			[]string{`joining: server.4: its client port, a:2181, is the client port of server.1: if both run on one host, only one of them can listen there`,
				`joining: server.5: its client port, a:2181, is the client port of server.4: if both run on one host, only one of them can listen there`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, warnings, err := test.change.Apply(membersOf(t, test.now), ChangeOptions{StandaloneEnabled: true, ExtendedTypes: true})
			var got []string
			for _, w := range warnings {
				got = append(got, w.String())
			}
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %v, %q\nwant %q", err, got, test.want)
			}
		})
	}
}

// FuzzChange checks that what a change makes is read back as the same by the parser of
// members and by the loader of zoo.cfg.
func FuzzChange(f *testing.F) {
	f.Add("server.4=d:2888:3888;2181", "1,2", "", false)
	f.Add("server.4=[::1%eth0]:2888:3888|e:1:2:observer;;[::1]:2181", "", "", true)
	f.Add("", "", grouped, true)
	f.Add("", "", "server.1=a:1:2,server.2=b\\u003a1:2;3,version=7,#", false)
	now, err := ParseMembers(three)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, joining, leaving, whole string, relaxed bool) {
		o := ChangeOptions{StandaloneEnabled: !relaxed, ExtendedTypes: !relaxed, MultiAddress: relaxed}
		m, _, err := Change{joining, leaving, whole}.Apply(now, o)
		if err != nil {
			return
		}
		again, err := ParseMembers(m.Text())
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%v\n%+v\n%+v", err, m, again)
		}
		if m.Servers[0].SecureClient.Port != 0 {
			return // its zoo.cfg would need a key
		}
		zoo := "dataDir=/d\ninitLimit=9\nsyncLimit=9\nstandaloneEnabled=" + strconv.FormatBool(!relaxed) +
			"\nextendedTypesEnabled=" + strconv.FormatBool(!relaxed) + "\nmultiAddress.enabled=" + strconv.FormatBool(relaxed) + "\ndynamicConfigFile=/m.10\n"
		files := func(name string) ([]byte, error) {
			if name == "/m.10" {
				return []byte(m.Text()), nil
			}
			return nil, fs.ErrNotExist
		}
		c, _, err := newLoader(files).load([]byte(zoo), "zoo.cfg", []Setting{Override("zkd.myid", strconv.FormatInt(m.Servers[0].ID, 10))})
		if err != nil || c.Members.Text() != m.Text() || c.Members.Version != 0x10 {
			t.Fatalf("%v\n%s", err, m.Text())
		}
	})
}
