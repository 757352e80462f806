package config

import (
	"reflect"
	"strings"
	"testing"
)

// TestMembersText compares with the output of Apache's server, and parses it.
func TestMembersText(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"majority", "server.10=zk10:2888:3888:observer\nserver.2=[::1]:2888:3888;2181\nserver.1=zk1:2888:3888;[::1]:2181;2281\n",
			"server.1=zk1:2888:3888:participant;[::1]:2181;0.0.0.0:2281\n" +
				"server.2=[::1]:2888:3888:participant;0.0.0.0:2181\n" +
				"server.10=zk10:2888:3888:observer\n"},
		{"hierarchical", "server.1=127.0.0.1:31281:31381\nserver.2=127.0.0.1:31282:31382\nserver.3=127.0.0.1:31283:31383\n" +
			"server.4=127.0.0.1:31284:31384:observer\ngroup.2=3\ngroup.1=2:1:2\nweight.1=2\n",
			"server.1=127.0.0.1:31281:31381:participant\nserver.2=127.0.0.1:31282:31382:participant\n" +
				"server.3=127.0.0.1:31283:31383:participant\nserver.4=127.0.0.1:31284:31384:observer\n" +
				"group.1=1:2\ngroup.2=3\nweight.1=2\nweight.2=1\nweight.3=1\n"},
	} {
		m, err := ParseMembers(test.file)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Text(); got != test.want {
			t.Errorf("%s: got\n%swant\n%s", test.name, got, test.want)
		}
		again, err := ParseMembers(m.Text() + "version=10000000a")
		if err != nil || again.Version != 0x10000000a || again.Text() != test.want {
			t.Errorf("%s: read back: %v %+v", test.name, err, again)
		}
	}
	for _, bad := range []string{"server.1=zk1", "version=x", "tickTime=3", "group.x=1"} {
		if m, err := ParseMembers(bad); err == nil || !reflect.DeepEqual(m, Members{}) {
			t.Errorf("%q: got %+v, %v", bad, m, err)
		}
	}
	var m Members
	if m.Text() != "" {
		t.Errorf("no members: %q", m.Text())
	}
}

func TestMembersGroup(t *testing.T) {
	m, err := ParseMembers("server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2:observer\ngroup.7=1:2\n")
	if err != nil {
		t.Fatal(err)
	}
	if g, ok := m.Group(2); g != 7 || !ok {
		t.Errorf("group of 2: %d %v", g, ok)
	}
	if g, ok := m.Group(3); ok {
		t.Errorf("group of the observer: %d", g)
	}
	if m.Voters() != 2 || !strings.Contains(m.Servers[1].Addrs[0].String(), "b:1") {
		t.Errorf("%d voters, %s", m.Voters(), m.Servers[1].Addrs[0])
	}
}
