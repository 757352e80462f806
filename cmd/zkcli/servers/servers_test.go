package servers

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLookGivesUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	v := LookAll(t.Context(), []string{l.Addr().String()}, time.Millisecond, Asker{}.Look)[0]
	if v.Mode != "" || v.Problem == "" {
		t.Errorf("%+v", v)
	}
}

func TestAddresses(t *testing.T) {
	const config = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888|zk2b:2888:3888:observer;2182\n" +
		"server.3=[::1]:2888:3888;[::]:2183\nserver.4=zk4:2888:3888:participant;10.0.0.4:2184;2284\nserver.5=zk5:2888:3888\nserver.6=zk6:2888:3888;;2286\nversion=100000000"
	want := []string{"10.0.0.4:2184", "[::1]:2183", "zk1:2181", "zk2:2182", "zk6:2286"}
	if got := (Asker{}).Addresses(config); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	secure := Asker{TLS: func(string) (*tls.Config, error) { return nil, nil }}
	want[0] = "zk4:2284"
	slices.Sort(want)
	if got := secure.Addresses(config); !slices.Equal(got, want) {
		t.Errorf("with TLS got %q, want %q", got, want)
	}
}

// answering returns the address of a server that answers each word with a text.
func answering(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.ReadFull(conn, make([]byte, 4))
			io.WriteString(conn, text)
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// A server that does not tell its state differs from one that has none, and from one that is
// not there.
func TestLookTellsSilentServers(t *testing.T) {
	for text, want := range map[string]View{
		"HTTP/1.1 400 Bad Request\r\n\r\n":                           {},
		"srvr is not executed because it is not in the whitelist.\n": {Silent: true},
		"": {Silent: true},
		"This ZooKeeper instance is not currently serving requests\n":   {Reachable: true},
		"Zxid: 0x1f\nMode: leader\nzk_synced_non_voting_followers\t2\n": {Reachable: true, Mode: "leader"},
	} {
		v := Asker{}.Look(t.Context(), answering(t, text))
		if v.Silent != want.Silent || v.Reachable != want.Reachable || v.Mode != want.Mode {
			t.Errorf("%q: %+v", text, v)
		}
		if v.Mode != "" && (v.LastZxid() != 0x1f || v.NonVoting == nil || *v.NonVoting != 2) {
			t.Errorf("%q: %+v", text, v)
		}
	}
}

// TestLook has answers with each figure that a View has.
func TestLook(t *testing.T) {
	v := Asker{}.Look(t.Context(), answering(t, "Zookeeper version: 3.9.5-zkd.1, built on x\nLatency min/avg/max: 1/2.5/30\n"+
		"Received: 4\nSent: 5\nConnections: 6\nOutstanding: 7\nZxid: 0x8\nMode: leader\nNode count: 9\nDisk: full\nDrain: 10 connections left\n"+
		"zk_watch_count\t11\nzk_global_sessions\t12\nzk_quorum_size\t3\nzk_synced_followers\t1\nzk_synced_non_voting_followers\t13\n"+
		"zk_member_list_differs\t1\nzk_members\t1, 2, 3\nzk_members_of_file\t1, 2\n"))
	v.Server = "s"
	const want = `{"server":"s","reachable":true,"mode":"leader","version":"3.9.5-zkd.1","zxid":"0x8","lag":null,"latencyMinMs":1,"latencyAvgMs":2.5,"latencyMaxMs":30,` +
		`"connections":6,"sessions":12,"watches":11,"nodes":9,"outstanding":7,"received":4,"sent":5}`
	if got, err := json.Marshal(v); string(got) != want || err != nil {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	counted, voters := v.Counted()
	rest := fmt.Sprint(counted, voters, *v.NonVoting, v.ListDiffers, v.Members, "/", v.FileMembers, "/", v.Disk, "/", v.Drain)
	if want := "2 3 13 11, 2, 3/1, 2/full/10 connections left"; rest != want {
		t.Errorf("got  %s\nwant %s", rest, want)
	}
	var cells []string
	for _, heading := range []string{"SERVER", "MODE", "VERSION", "ZXID", "LAG", "LATENCY", "CONNS", "SESSIONS", "WATCHES", "NODES", "OUTSTANDING"} {
		cells = append(cells, v.Cell(heading))
	}
	if got, want := strings.Join(cells, " "), "s leader 3.9.5 0x8 ? 1/2.5/30 6 12 11 9 7"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestLag compares the zxids of servers that answered at different moments, one of them in an earlier epoch.
func TestLag(t *testing.T) {
	views := []View{{Zxid: "0x100000009", Mode: "follower"}, {Zxid: "0x200000005", Mode: "leader"}, {Zxid: "0x200000003", Mode: "follower"}, {Zxid: "0x200000007", Mode: "follower"}, {}}
	measureLag(views)
	var got []string
	for i := range views {
		got = append(got, views[i].Cell("LAG"))
	}
	if want := "? 0 2 0 ?"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestSkew has a clock that is 250 ms ahead of the middle between the question and the answer.
func TestSkew(t *testing.T) {
	asked := time.UnixMilli(1000)
	var v View
	v.read("mntr", "zk_clock_ms\t1350\n", asked, 200*time.Millisecond)
	if v.Skew != 250*time.Millisecond || v.Doubt != 100*time.Millisecond {
		t.Errorf("skew %v, doubt %v", v.Skew, v.Doubt)
	}
}

func TestReadJoiners(t *testing.T) {
	v := Asker{}.Look(t.Context(), answering(t, "Mode: leader\nJoiner 4: snapshot 1572864/4194304\nJoiner 5: log 3145728 left\n"+
		"Joiner 6: snapshot 0/0\nJoiner 7: x\nJoiner x: log 1 left\n"))
	want := map[int64]string{4: "receives a snapshot: 1.5 of 4.0 MiB, 37 %", 5: "receives the log: 3.0 MiB to go", 6: "waits for a snapshot"}
	got := make(map[int64]string)
	for id, j := range v.Joiners {
		got[id] = j.String()
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReadCons(t *testing.T) {
	const cons = " /127.0.0.1:42318[1](queued=2,recved=26,sent=16,sid=0x1,lop=SETD,est=7,to=10000,minlat=1,avglat=2,maxlat=3)\n" +
		" /[::1]:5[1](queued=0,recved=4,sent=5,sid=0x2,lop=PING)\n /127.0.0.1:4[0](queued=0,recved=1,sent=0)\n\n"
	want := []Conn{
		{Client: "127.0.0.1:42318", Session: "0x1", LastOp: "SETD", Queued: 2, Received: 26, Sent: 16, Established: 7, TimeoutMs: 10000, MinLatencyMs: 1, AvgLatencyMs: 2, MaxLatencyMs: 3},
		{Client: "[::1]:5", Session: "0x2", LastOp: "PING", Received: 4, Sent: 5},
		{Client: "127.0.0.1:4", Received: 1},
	}
	if got := readCons(cons); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestExamineEnds has a server that tells of another member, or of many, each time it is asked.
func TestExamineEnds(t *testing.T) {
	for _, tt := range []struct{ each, want int }{{1, rounds}, {1000, mostMembers}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			id := 0
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				word := make([]byte, 4)
				io.ReadFull(conn, word)
				answer := []byte("Mode: follower\n")
				if string(word) == "conf" {
					for range min(tt.each, 2000-id) { // a caller without an end fails
						id++
						host := []byte("localhost") // two servers with one address would be one
						for i := range host {
							host[i] -= byte(id>>i&1) * ('a' - 'A')
						}
						answer = fmt.Appendf(answer, "server.%d=%s:1:2;%s\n", id, host, port)
					}
				}
				conn.Write(answer)
				conn.Close()
			}
		}()
		facts := Examination{Limit: time.Hour}.Examine(t.Context(), []string{l.Addr().String()})
		l.Close()
		<-done
		if len(facts.Servers) != tt.want || facts.Complete {
			t.Errorf("%d members each time: %d servers were asked, all known: %v", tt.each, len(facts.Servers), facts.Complete)
		}
	}
	var config strings.Builder
	for id := range 1000 {
		fmt.Fprintf(&config, "server.%d=zk%d:1:2;3\n", id, id)
	}
	if list := (Asker{}).Addresses(config.String()); len(list) != mostMembers {
		t.Errorf("%d addresses of a list", len(list))
	}
}

func TestReadDump(t *testing.T) {
	const dump = "SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at Thu Jan 01 03:00:06 UTC 1970:\n\t0x1\nephemeral nodes dump:\n" +
		"Sessions with Ephemerals (2):\n0x1:\n\t/a\n\t/b c:\n0x10000a:\n\t/0x3:\nConnections dump:\nConnections Sets (1)/(1):\n1 expire at x:\n"
	got := readDump(dump)
	if len(got) != 2 || !slices.Equal(got["0x1"], []string{"/a", "/b c:"}) || !slices.Equal(got["0x10000a"], []string{"/0x3:"}) {
		t.Errorf("got %q", got)
	}
	if got := readDump(""); len(got) != 0 {
		t.Errorf("of nothing: %q", got)
	}
}
