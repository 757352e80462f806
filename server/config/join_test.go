package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const joinable = "server.1=a:2888:3888:participant;2181\nserver.3=b:2888:3888:participant;2181\n"

// save saves the configuration of a server that joins, and loads it.
func (j *Join) save(t *testing.T, now string, settings ...Setting) (*Config, error) {
	t.Helper()
	members, err := ParseMembers(now)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Save(members, settings); err != nil {
		return nil, err
	}
	c, warnings, err := Load(j.File())
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %v", err, warnings)
	}
	return c, nil
}

// The configuration has the members, the settings, and this server as an observer with the
// lowest free id.
func TestJoin(t *testing.T) {
	j := Join{Dir: filepath.Join(t.TempDir(), "new"), Advertise: "c"}
	if joined, err := j.Joined(); joined || err != nil {
		t.Errorf("joined already: %v, %v", joined, err)
	}
	c, err := j.save(t, joinable, Override("tickTime", "500"), Override("zookeeper.initLimit", "20"), Override("zkd.logLevel", "debug"), Override("zkd.logLevel", "warn"))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(j.File())
	want := "# Written by zkd --join.\nsyncLimit=5\nreconfigEnabled=true\nstandaloneEnabled=false\ntickTime=500\nzookeeper.initLimit=20\nzkd.logLevel=warn\ndataDir=" + j.Dir +
		"\nserver.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=c:2888:3888:observer;0.0.0.0:2181\nserver.3=b:2888:3888:participant;0.0.0.0:2181\n"
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if c.MyID != 2 || !c.Observer || c.ClientPort != 2181 || !c.Replicated() {
		t.Errorf("server %d, observer %t, port %d, replicated %t", c.MyID, c.Observer, c.ClientPort, c.Replicated())
	}
	if joined, err := j.Joined(); !joined || err != nil {
		t.Errorf("not joined: %v, %v", joined, err)
	}
}

// The id is the one asked for, that of the file myid, or that of the member with the
// address.
func TestJoinID(t *testing.T) {
	for _, tc := range []struct {
		name string
		Join
		file string // myid
		id   int64
		line string
		err  string
	}{
		{name: "asked for", Join: Join{Advertise: "c:1:2;3", ID: 9}, id: 9, line: "c:1:2:observer;0.0.0.0:3"},
		{name: "from the file", Join: Join{Advertise: "c", ClientPort: 77}, file: "8", id: 8, line: "c:2888:3888:observer;0.0.0.0:77"},
		{name: "file and flag differ", Join: Join{Advertise: "c", ID: 9}, file: "8", err: "belongs to server 8, says its file myid, and --myid is 9"},
		{name: "a bad file", Join: Join{Advertise: "c"}, file: "x", err: "must be the id of this server"},
		{name: "of a voter without its data", Join: Join{Advertise: "B:2888:3888"}, id: 3, line: "b:2888:3888:participant;0.0.0.0:2181"},
		{name: "the same, asked for", Join: Join{Advertise: "b", ID: 3}, id: 3, line: "b:2888:3888:participant;0.0.0.0:2181"},
		{name: "IPv6", Join: Join{Advertise: "[::1]"}, id: 2, line: "[::1]:2888:3888:observer;0.0.0.0:2181"},
		{name: "id in use", Join: Join{Advertise: "c", ID: 3}, err: "id 3 is in use: server.3 of the ensemble is at b:2888"},
		{name: "address in use", Join: Join{Advertise: "b", ID: 9}, err: "server.3 of the ensemble has the address b:2888"},
		{name: "port in use", Join: Join{Advertise: "b:2181:3889;5"}, err: "is the client port of server.3"},
		{name: "id too high", Join: Join{Advertise: "c", ID: 300}, err: "an id is a number from 0 to 255"},
		{name: "no address for others", Join: Join{Advertise: "0.0.0.0"}, err: "other servers can't connect to that address"},
		{name: "several addresses", Join: Join{Advertise: "c:1:2|d:1:2"}, err: "it must be one address"},
		{name: "no port", Join: Join{Advertise: "c:1"}, err: "write it as HOST:QUORUMPORT:ELECTIONPORT;CLIENTPORT"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := tc.Join
			j.Dir = t.TempDir()
			if tc.file != "" {
				if err := os.WriteFile(filepath.Join(j.Dir, "myid"), []byte(tc.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c, err := j.save(t, joinable)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				if joined, _ := j.Joined(); joined {
					t.Error("there is a configuration file")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if self := c.Self(); self.ID != tc.id || self.String() != tc.line {
				t.Errorf("server.%d=%s, want server.%d=%s", self.ID, &self, tc.id, tc.line)
			}
		})
	}
}

// A member whose line has no port for clients gets one in the file.
func TestJoinWithoutAClientPart(t *testing.T) {
	j := Join{Dir: t.TempDir(), Advertise: "b;2191"}
	c, err := j.save(t, "server.1=a:2888:3888\nserver.2=b:2888:3888\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.MyID != 2 || c.ClientPort != 2191 {
		t.Errorf("server %d, port %d", c.MyID, c.ClientPort)
	}
}

// With a setting that no server could start with, nothing is written.
func TestJoinWithABadSetting(t *testing.T) {
	j := Join{Dir: t.TempDir(), Advertise: "c"}
	_, err := j.save(t, joinable, Override("tickTime", "x"))
	if list, _ := os.ReadDir(j.Dir); err == nil || len(list) > 0 {
		t.Errorf("%v, and there are %v", err, list)
	}
}

// An ensemble with groups can't be extended by a single line.
func TestJoinGroups(t *testing.T) {
	j := Join{Dir: t.TempDir(), Advertise: "c"}
	_, err := j.save(t, joinable+"group.1=1:3\nweight.1=1\nweight.3=1\n")
	if err == nil || !strings.Contains(err.Error(), "groups and weights") {
		t.Errorf("got %v", err)
	}
}
