package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/zab"
)

// ask sends bytes on a new connection and returns the whole answer.
func (s *testServer) ask(t *testing.T, text string, halfClose bool) string {
	t.Helper()
	c := s.dial(t, dialOptions{})
	if _, err := c.nc.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if halfClose {
		c.nc.CloseWrite()
	}
	c.nc.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(c.nc)
	if err != nil {
		t.Errorf("%q: %v after %q", text, err, b)
	}
	return string(b)
}

func TestFourLetterWordsOverThePort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		c.ephemeral("/e")
		c.ok(jute.OpGetData, get("/e", true))
		session := fmt.Sprintf("0x%x", int64(c.session))
		for _, test := range []struct {
			send string
			want []string
		}{
			{"ruok", []string{"imok"}},
			{"ruok\n", []string{"imok"}},
			{"ruok\r\n", []string{"imok"}},
			{"stat\r\n", []string{"Zookeeper version: ", "Clients:\n", "Latency min/avg/max: ", "Mode: standalone\n", "Node count: 6\n"}},
			{"srvr", []string{"Mode: standalone\n", "Zxid: " + c.zxidText() + "\n"}},
			{"cons", []string{" /10.0.0.2:", "sid=" + session}},
			{"dump", []string{"SessionTracker dump:", session, "/e"}},
			{"wchs", []string{"1 connections watching 1 paths", "Total watches:1"}},
			{"wchc", []string{session, "\t/e"}},
			{"wchp", []string{"/e", "\t" + session}},
			{"mntr", []string{"zk_server_state\tstandalone\n", "zk_znode_count\t6\n", "zk_ephemerals_count\t1\n", "zk_watch_count\t1\n", "zk_global_sessions\t1\n"}},
			{"conf", []string{"clientPort=2181\n", "tickTime=1000\n", "dataDir=/data"}},
			{"envi", []string{"Environment:\n", "zookeeper.version="}},
			{"isro", []string{"rw"}},
			{"dirs", []string{"datadir_size: "}},
			{"gtmk", []string{"306"}},
			{"stmk\x00\x00\x00\x00\x00\x00\x00\x07", []string{"7"}},
			{"gtmk", []string{"7"}},
			{"hash", []string{""}},
			{"crst", []string{"Connection stats reset.\n"}},
			{"srst", []string{"Server stats reset.\n"}},
		} {
			for _, half := range []bool{false, true} {
				got := s.ask(t, test.send, half)
				for _, want := range test.want {
					if !strings.Contains(got, want) {
						t.Errorf("%q (half closed %v): no %q in\n%s", test.send, half, want, got)
					}
				}
			}
		}
		c.ping()
		if s.connections() != 1 {
			t.Errorf("%d connections are left", s.connections())
		}
		s.noErrors(t)
	})
}

// TestWordsInPieces checks that the answer to a word does not depend on how its bytes come, on what follows
// them, and on whether the client has closed its side.
func TestWordsInPieces(t *testing.T) {
	const mask = "\x00\x00\x00\x00\x00\x00\x01\x32"
	for allowed, want := range map[string]map[string]string{
		"*": {"ruok": "imok", "isro": "rw", "gtmk": "306", "srst": "Server stats reset.\n", "stmk" + mask: "306"},
		"srvr": {"ruok": "ruok is not executed because it is not in the whitelist.\n", "stmk": "stmk is not executed because it is not in the whitelist.\n",
			"stmk" + mask: "stmk is not executed because it is not in the whitelist.\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := startServer(t, "4lw.commands.whitelist="+allowed)
			for word, answer := range want {
				for cut := range len(word) {
					for _, after := range []string{"", "\n", "\r\n", "more than that"} {
						for _, half := range []bool{false, true} {
							c, began := s.dial(t, dialOptions{}), time.Now()
							for _, piece := range []string{word[:cut], word[cut:] + after} {
								c.nc.Write([]byte(piece))
								time.Sleep(time.Second)
							}
							if half {
								c.nc.CloseWrite()
							}
							c.nc.SetReadDeadline(time.Now().Add(time.Minute))
							got, err := io.ReadAll(c.nc)
							if took := time.Since(began); string(got) != answer || err != nil || took > 5*time.Second {
								t.Errorf("%q in pieces of %d, then %q, half closed %v: %q, %v, after %v, want %q", word, cut, after, half, got, err, took, answer)
							}
						}
					}
				}
			}
		})
	}
}

// TestWordWithoutItsArgument checks that an allowed word waits for its argument, and not for ever.
func TestWordWithoutItsArgument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		const answer = "stmk needs 8 bytes after it.\n"
		for _, sent := range []string{"stmk", "stmk\n", "stmk1234567"} {
			for half, took := range map[bool]time.Duration{true: 0, false: 10 * time.Second} {
				began := time.Now()
				if got := s.ask(t, sent, half); got != answer || time.Since(began).Round(time.Second) != took {
					t.Errorf("%q, half closed %v: %q after %v, want %v", sent, half, got, time.Since(began), took)
				}
			}
		}
		if got := s.ask(t, "gtmk", false); got != "306" {
			t.Errorf("the mask is %s", got)
		}
	})
}

func (c *client) zxidText() string { return "0x" + strconv.FormatInt(int64(c.zxid), 16) }

// TestFourLetterWordsThatAreOff checks that they are refused by name, and that the server
// continues.
func TestFourLetterWordsThatAreOff(t *testing.T) {
	cfg := parseConfig(t, "/data")
	cfg.FourLetterWhitelist = []string{"srvr"}
	s := startWith(t, Options{FS: crashfs.New(1), Config: cfg})
	if got, want := s.ask(t, "ruok", false), "ruok is not executed because it is not in the whitelist.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := s.ask(t, "srvr", false); !strings.Contains(got, "standalone") {
		t.Errorf("srvr: %q", got)
	}
}

// TestDumpFollowsSessions checks that the expiry of a living client moves, that of a dead
// one stays, and so does the session until then, and that a closed session is gone at
// once, with its ephemerals.
func TestDumpFollowsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		lives, dead, closed := s.connectFor(t, 10_000), s.connectFor(t, 10_000), s.connectFor(t, 10_000)
		for path, c := range map[string]*client{"/lives": lives, "/dead": dead, "/closed": closed} {
			c.ephemeral(path)
		}
		first := s.ask(t, "dump", false)
		dead.nc.Close()
		closed.ok(jute.OpCloseSession, nil)
		time.Sleep(5 * time.Second)
		lives.ping()
		second := s.ask(t, "dump", false)
		if before, after := expiry(t, first, lives), expiry(t, second, lives); !after.After(before) {
			t.Errorf("the expiry of who lives was %v and is %v", before, after)
		}
		if before, after := expiry(t, first, dead), expiry(t, second, dead); before.IsZero() || !after.Equal(before) {
			t.Errorf("the expiry of who has died was %v and is %v", before, after)
		}
		if at := expiry(t, second, closed); !at.IsZero() || !strings.Contains(first, "\t/closed") || strings.Contains(second, "/closed") {
			t.Errorf("who has closed its session is to expire at %v:\n%s", at, second)
		}
		if !strings.Contains(second, "\t/dead") {
			t.Errorf("the ephemeral of who has died is gone before the timeout:\n%s", second)
		}
		time.Sleep(7 * time.Second)
		third := s.ask(t, "dump", false)
		if at := expiry(t, third, dead); !at.IsZero() || strings.Contains(third, "/dead") || !strings.Contains(third, "\t/lives") {
			t.Errorf("after the timeout who has died is to expire at %v:\n%s", at, third)
		}
	})
}

// expiry returns when a client's session expires according to a dump, the zero Time if it
// is not listed.
func expiry(t *testing.T, dump string, c *client) time.Time {
	t.Helper()
	sessions, _, _ := strings.Cut(dump, "ephemeral nodes dump:")
	head := ""
	for line := range strings.Lines(sessions) {
		if _, date, ok := strings.Cut(line, " expire at "); ok {
			head = strings.TrimSuffix(date, ":\n")
		}
		if strings.TrimSpace(line) != fmt.Sprintf("0x%x", uint64(c.session)) {
			continue
		}
		at, err := time.Parse("Mon Jan 02 15:04:05 MST 2006", head)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	return time.Time{}
}

// TestFourLetterWordsOverTCP, where a close with unread bytes would lose the
// answer.
func TestFourLetterWordsOverTCP(t *testing.T) {
	cfg := parseConfig(t, t.TempDir())
	cfg.ClientPort, cfg.ClientPortAddress = 0, "127.0.0.1"
	s, err := New(Options{Config: cfg, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 20 {
		nc, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(nc, "ruok\r\nand more that nobody reads")
		if b, err := io.ReadAll(nc); string(b) != "imok" || err != nil {
			t.Errorf("got %q, %v", b, err)
		}
		nc.Close()
	}
}

// TestMetricsHaveZooKeepersNames is for existing dashboards.
func TestMetricsHaveZooKeepersNames(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := startWith(t, Options{FS: crashfs.New(1), Config: parseConfig(t, "/data"), Registerer: reg})
	c := s.connect(t)
	c.create("/a", "x")
	c.get("/a")
	c.ping()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		values[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetSummary().GetSampleCount()) +
			float64(m.GetHistogram().GetSampleCount())
	}
	for name, least := range map[string]float64{
		"num_alive_connections": 1, "znode_count": 6, "packets_received": 3, "packets_sent": 3, "approximate_data_size": 1,
		"global_sessions": 1, "readlatency": 2, "updatelatency": 1, "fsynctime": 1, "proposal_count": 2, "commit_count": 2,
		"connection_request_count": 1, "bytes_received_count": 50, "response_bytes": 50, "watch_count": 0, "ephemerals_count": 0,
		"outstanding_requests": 0, "open_file_descriptor_count": 1, "max_file_descriptor_count": 1, "uptime": 0,
		"avg_latency": 0, "zkd_apply_seconds": 1, "zkd_build_info": 1, "zkd_role": 0, "zkd_request_seconds": 1, "zkd_stage_seconds": 1,
		"quorum_ack_latency": 2, "propagation_latency": 2, "proposal_ack_creation_latency": 2, "local_write_committed_time_ms": 1,
		"prep_processor_queue_time_ms": 2, "prep_process_time": 2, "read_per_namespace": 1, "write_per_namespace": 1,
	} {
		if got, ok := values[name]; !ok || got < least {
			t.Errorf("%s is %v (there: %v), want at least %v", name, got, ok, least)
		}
	}
	if got := s.ask(t, "mntr", false); !strings.Contains(got, "zk_outstanding_requests\t0\n") {
		t.Errorf("mntr: %s", got)
	}
}

// TestConfTellsThePortInUse covers clientPort=0, where the system chooses the port.
func TestConfTellsThePortInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := parseConfig(t, "/data")
		cfg.ClientPort = 0
		s := startWith(t, Options{FS: crashfs.New(1), Config: cfg})
		if got := s.ask(t, "conf", false); !strings.HasPrefix(got, "clientPort=2181\n") {
			t.Errorf("conf: %s", got)
		}
	})
}

// mntr returns the values of mntr without the zk_ before the names.
func (s *testServer) mntr(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for line := range strings.Lines(s.ask(t, "mntr", false)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		values[strings.TrimPrefix(name, "zk_")] = value
	}
	return values
}

// TestResponseSizesInMntr checks that the sizes are those of replies and notifications
// without their length prefix. The connect response does not count, and srst resets them.
func TestResponseSizesInMntr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		want := func(when, last, least, most string) {
			t.Helper()
			v := s.mntr(t)
			got := [3]string{v["last_client_response_size"], v["min_client_response_size"], v["max_client_response_size"]}
			if got != [3]string{last, least, most} {
				t.Errorf("%s: last, min and max are %q, want %q", when, got, [3]string{last, least, most})
			}
		}
		const header, stat = 16, 68
		c := s.connect(t)
		want("after a connect", "-1", "-1", "-1")
		c.create("/abc", strings.Repeat("x", 1000))
		want("after a create", "24", "24", "24") // the header and "/abc" with its length
		c.get("/abc")
		most := strconv.Itoa(header + 4 + 1000 + stat)
		want("after a read", most, "24", most)
		c.ping()
		want("after a ping", "16", "16", most)
		if r := c.call(jute.OpGetData, get("/none", true)); r.Err != jute.ErrNoNode {
			t.Errorf("read of /none: %v", r)
		}
		c.ok(jute.OpGetChildren, get("/", true))
		s.connect(t).create("/d", "") // of 22 bytes
		want("after an event and a create", "22", "16", most)
		s.ask(t, "srst", false)
		want("after srst", "-1", "-1", "-1")
		if got := s.mntr(t)["connection_drop_probability"]; got != "0.0" {
			t.Errorf("connection_drop_probability: %q, want 0.0", got)
		}
	})
}

// TestCommitsAndDeadWatchersAreCounted checks ZooKeeper's names, in mntr as well as for
// Prometheus, which shows the same table.
func TestCommitsAndDeadWatchersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		number := func(name string) int {
			t.Helper()
			n, err := strconv.Atoi(s.mntr(t)[name])
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return n
		}
		c, d := s.connect(t), s.connect(t)
		before := number("request_commit_queued")
		c.create("/a", "")
		c.set("/a", "1")
		c.call(jute.OpDelete, del("/none")) // a transaction, too
		c.get("/a")
		if got := number("request_commit_queued") - before; got != 3 {
			t.Errorf("request_commit_queued grew by %d for 3 writes", got)
		}
		c.ok(jute.OpGetData, get("/a", true))
		c.nc.Close()
		d.nc.Close()
		synctest.Wait()
		if got := number("dead_watchers_cleared"); got != 1 {
			t.Errorf("dead_watchers_cleared is %d, want 1: one of two connections had watches", got)
		}
	})
}

// TestHashListsTransactionsOnly checks that hash has no line for the zxid that begins an
// epoch, which changes no tree. The servers nevertheless compare their trees there.
func TestHashListsTransactionsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, 3)
		c := e.servers[e.leader()].connect(t)
		for range 2 * state.DigestEvery {
			c.set("/zookeeper/quota", "")
		}
		e.settled()
		first := jute.MakeZxid(e.epoch(), 0)
		for i, s := range e.servers[1:] {
			got := s.ask(t, "hash", false)
			var zxids []string
			for line := range strings.Lines(got) {
				zxid, _, _ := strings.Cut(line, ":")
				zxids = append(zxids, zxid)
			}
			if want := fmt.Sprintf("%x %x", int64(first+state.DigestEvery), int64(first+2*state.DigestEvery)); strings.Join(zxids, " ") != want {
				t.Errorf("server %d lists the zxids %q, want %q; hash says:\n%s", i+1, zxids, want, got)
			}
			if _, ok := s.state.Digests.At(first); !ok {
				t.Errorf("server %d has no digest at %v to compare", i+1, first)
			}
		}
	})
}

// A leader shows which servers it brings up to date, and how far.
func TestSrvrShowsJoiners(t *testing.T) {
	s := startServer(t)
	s.connect(t).create("/a", "1")
	r := s.overview.read()
	r.Peers = []zab.PeerStatus{{ID: 4, Synced: true}, {ID: 5}, {ID: 6, Match: s.state.Applied()}}
	r.Sending = []show.Transfer{{Peer: 5, Done: 10, Size: 100}}
	list := s.overview.joiners(r)
	if len(list) != 2 || list[0] != (show.Joiner{ID: 5, Snapshot: true, Sent: 10, Size: 100, LogLeft: list[0].LogLeft}) ||
		list[1].ID != 6 || list[1].Snapshot || list[1].LogLeft > list[0].LogLeft {
		t.Errorf("joiners %+v", list)
	}
}
