package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/ask"
)

// likeness answers words as a real server did, with changes.
type likeness struct {
	texts map[string]string // by word
	mu    sync.Mutex
	grown int
}

// with returns a likeness in which keys of srvr or mntr have other values. A key that real servers
// have only in trouble begins with "+"; any other must be there.
func (l *likeness) with(t *testing.T, changes ...string) *likeness {
	t.Helper()
	texts := make(map[string]string)
	for word, text := range l.texts {
		texts[word] = text
	}
	for _, change := range changes {
		key, value, _ := strings.Cut(change, "=")
		if name, ok := strings.CutPrefix(key, "+"); ok {
			texts["mntr"] += "zk_" + name + "\t" + value + "\n"
			continue
		}
		word, line := "mntr", regexp.MustCompile(`(?m)^(zk_`+key+`\t).*$`)
		if key[0] < 'a' {
			word, line = "srvr", regexp.MustCompile(`(?m)^(`+key+`: ).*$`)
		}
		if !line.MatchString(texts[word]) {
			t.Errorf("a real server's %s has no %s", word, key)
		}
		texts[word] = line.ReplaceAllString(texts[word], "${1}"+value)
	}
	return &likeness{texts: texts}
}

// saying returns a likeness with one answer to some words.
func saying(text string, l *likeness, words ...string) *likeness {
	texts := make(map[string]string)
	for word, usual := range l.texts {
		texts[word] = usual
	}
	for _, word := range words {
		texts[word] = text
	}
	return &likeness{texts: texts}
}

// answer returns the text of a word. GROWS is a number that is higher each time, TICKS the time in ms.
func (l *likeness) answer(word string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grown += 1_000_000
	return strings.NewReplacer("GROWS", fmt.Sprint(l.grown), "TICKS", fmt.Sprint(time.Now().UnixMilli())).Replace(l.texts[word])
}

// serve answers on a free port until the test ends.
func (l *likeness) serve(t *testing.T) (addr string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { listener.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				word := make([]byte, 4)
				if _, err := io.ReadFull(conn, word); err == nil {
					io.WriteString(conn, l.answer(string(word)))
				}
			})
		}
	})
	return listener.Addr().String()
}

// TestEachFindingOfRealTexts gives the command what real servers answer, with the values that each trouble changes, and
// wants the finding of that trouble. TestTroubles in package server brings real servers into the troubles.
func TestEachFindingOfRealTexts(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Patient(), zktest.Config("4lw.commands.whitelist=*"))
	if err := e.WaitAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	copyOf := func(id int) *likeness {
		l := &likeness{texts: make(map[string]string)}
		for _, word := range []string{"srvr", "mntr", "conf", "cons"} {
			text, err := ask.Word(t.Context(), e.At(id-1).ConnectString(), word)
			if err != nil {
				t.Fatal(err)
			}
			l.texts[word] = regexp.MustCompile(`(?m)^server\..*\n`).ReplaceAllString(text, "") // only those that are named
		}
		return l.with(t, "clock_ms=TICKS", "cnt_fsynctime=0", "fsync_pending_ms=0", "Zxid=0x100000010")
	}
	leader, follower := copyOf(e.Leader()), copyOf(e.Followers()[0])
	const silent = "This ZooKeeper instance is not currently serving requests\n"
	days := func(n int) string { return fmt.Sprint(time.Now().AddDate(0, 0, n).UnixMilli()) }
	rows := []struct {
		finding string
		servers []*likeness
	}{
		{"", []*likeness{leader, follower}},
		{"no-quorum", []*likeness{saying(silent, leader, "srvr"), saying(silent, follower, "srvr")}},
		{"not-serving", []*likeness{leader, saying(silent, follower, "srvr")}},
		{"unreachable", []*likeness{leader, nil}},
		{"two-leaders", []*likeness{leader, follower.with(t, "Mode=leader")}},
		{"retired", []*likeness{leader.with(t, "+retired_since=0x100000010")}},
		{"voter-missing", []*likeness{leader.with(t, "synced_followers=1", "+voters_missing=3", "+voters_missing_ms=65000"), follower}},
		{"peers-cant-connect", []*likeness{leader.with(t, "+peer_listen_error=zk1:2888: address already in use")}},
		{"log-waits", []*likeness{leader.with(t, "log_waits=1", "+log_waits_for=no space left on device", "fsync_pending_ms=4000")}},
		{"full-disk", []*likeness{leader.with(t, "disk_full=1", "writes_refused=1", "disk_full_ms=9000")}},
		{"audit-waits", []*likeness{leader.with(t, "+audit_waits_for=no space left on device")}},
		{"full-disk", []*likeness{leader.with(t, "disk_full=1", "+disk_lacks=inodes")}},
		{"slow-disk", []*likeness{leader.with(t, "fsync_pending_ms=4000")}},
		{"slow-disk", []*likeness{leader.with(t, "cnt_fsynctime=100", "sum_fsynctime=9000")}},
		{"short-past", []*likeness{leader.with(t, "past_cut=1")}},
		{"snapshot-fails", []*likeness{leader.with(t, "snapshots_fail_ms=9000", "+snapshot_error=not a directory")}},
		{"slow-follower", []*likeness{leader.with(t, "Zxid=0x100000500"), follower}},
		{"clock-skew", []*likeness{leader, follower.with(t, "clock_ms="+days(1)), follower}},
		{"clock-skew", []*likeness{leader.with(t, "+clock_jump_ms=-60000", "+clock_jump_ago_ms=5000"), follower}},
		{"zxid-end", []*likeness{leader.with(t, "Zxid=0x1ffff9000")}},
		{"certificate", []*likeness{leader.with(t, "+client_certificate_until_ms="+days(20))}},
		{"certificate", []*likeness{leader.with(t, "+quorum_certificate_until_ms="+days(-1))}},
		{"certificate", []*likeness{leader.with(t, "+quorum_revocation_list_until_ms="+days(0))}},
		{"certificate", []*likeness{leader.with(t, "+peer_certificates_until_ms=9="+days(20))}},
		{"certificate", []*likeness{leader.with(t, "+peer_certificate_errors=9=x509: certificate has expired")}},
		{"certificate-reload", []*likeness{leader.with(t, "+quorum_certificate_reload_error=no key")}},
		{"secure-port", []*likeness{leader.with(t, "+secure_port_unlisted=2281")}},
		{"memory", []*likeness{leader.with(t, "memory_used_percent=90", "memory_limit_bytes=1000")}},
		{"broken-request", []*likeness{leader.with(t, "requests_broken=2", "+broken_request=setData /a")}},
		{"sessions-expiring", []*likeness{leader.with(t, "sessions_expiring=5")}},
		{"open-files", []*likeness{leader.with(t, "open_file_descriptor_count=990", "max_file_descriptor_count=1000")}},
		{"open-files", []*likeness{leader.with(t, "+accept_error=too many open files")}},
		{"version-skew", []*likeness{leader.with(t, "Zookeeper version=3.9.5-1, built today"), follower.with(t, "Zookeeper version=3.9.5-2, built today")}},
		{"edge", []*likeness{leader.with(t, "+edge_clients_most=10", "+edge_waiting=2")}},
		{"standby", []*likeness{leader.with(t, "Mode=standby", "+standby_of=http://zk1:8080", "+standby_problem=connection refused")}},
		{"member-list", []*likeness{leader.with(t, "member_list_differs=1", "+members_of_file=1, 2")}},
		{"looping-client", []*likeness{leader.with(t, "connection_request_count=GROWS")}},
		{"many-watches", []*likeness{leader.with(t, "watch_count=2500000")}},
		{"long-list", []*likeness{leader.with(t, "replies_long=3", "+long_reply_ago_ms=5000")}},
		{"open-root", []*likeness{leader.with(t, "open_root=1")}},
		{"blind", []*likeness{saying("mntr is not executed because it is not in the whitelist.\n", leader, "mntr")}},
	}
	var shown []string
	for i, row := range rows {
		t.Run(fmt.Sprint(i, row.finding), func(t *testing.T) {
			var addrs []string
			for _, l := range row.servers {
				if l == nil {
					addrs = append(addrs, "127.0.0.1:1")
					continue
				}
				addrs = append(addrs, l.serve(t))
			}
			out, errOut, code := run(t, t.Context(), nil, "-server", strings.Join(addrs, ","), "-o", "json", "why", "-i", "1", "--within", "1m")
			var doc struct{ Findings []struct{ ID string } }
			if err := json.Unmarshal([]byte(out), &doc); err != nil {
				t.Fatalf("exit %d, %v: %s%s", code, err, out, errOut)
			}
			var ids []string
			for _, f := range doc.Findings {
				ids = append(ids, f.ID)
			}
			if row.finding == "" && len(ids) > 0 || row.finding != "" && !slices.Contains(ids, row.finding) {
				t.Errorf("found %q, want %q: %s", ids, row.finding, out)
			}
		})
		shown = append(shown, row.finding)
	}
	page, err := os.ReadFile("../../../docs/why.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^## ([a-z-]+)$`).FindAllSubmatch(page, -1) {
		if id := string(m[1]); !slices.Contains(shown, id) {
			t.Errorf("no row makes %s happen", id)
		}
	}
}
