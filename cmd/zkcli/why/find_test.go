package why

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const now = 1_800_000_000_000

// server returns a server that answers the same both times. metrics are key=value.
func server(name, mode string, metrics ...string) Server {
	s := Server{Name: name, Mode: mode, Version: "3.9.5-zkd"}
	s.ID = int64(name[len(name)-1] - '0')
	s.After = Sample{Zxid: 0x100000010, Metrics: map[string]string{"clock_ms": fmt.Sprint(now)}}
	for _, m := range metrics {
		key, value, _ := strings.Cut(m, "=")
		s.After.Metrics[key] = value
	}
	s.Before = s.After
	return s
}

// then changes the second answer.
func (s Server) then(zxid uint64, metrics ...string) Server {
	after := make(map[string]string)
	for key, value := range s.Before.Metrics {
		after[key] = value
	}
	for _, m := range metrics {
		key, value, _ := strings.Cut(m, "=")
		after[key] = value
	}
	s.After = Sample{Zxid: zxid, Metrics: after}
	return s
}

func (s Server) skewed(by time.Duration) Server {
	s.After.Skew, s.After.Doubt = by, time.Millisecond
	return s
}

func (s Server) conns(before, after []Conn) Server {
	s.Before.Conns, s.After.Conns = before, after
	return s
}

func away(name string) Server { return Server{Name: name, Unreachable: "connection refused"} }

func looking(name, detail string) Server { return Server{Name: name, NotServing: true, Detail: detail} }

func old(s Server) Server {
	s.Version = "3.9.4-zkd"
	return s
}

func apache(s Server, zxid uint64) Server {
	s = s.then(zxid)
	delete(s.After.Metrics, "clock_ms")
	s.Before = s.After
	return s
}

func observing(s Server) Server {
	s.Observer = true
	return s
}

func blind(s Server) Server {
	s.Unanswered = []string{"mntr", "cons"}
	return s
}

// Each finding, by what the servers say.
func TestFind(t *testing.T) {
	leader := server("zk1", "leader", "quorum_size=3", "synced_followers=2")
	follower := server("zk2", "follower")
	many := func(received int64) (list []Conn) {
		for i := range 3 {
			list = append(list, Conn{Client: fmt.Sprintf("10.0.0.9:%d", i), Session: "0x1", Received: received, LastOp: "GETD"})
		}
		return append(list, Conn{Client: "10.0.0.8:1", Session: "0x2", Received: received / 100})
	}
	for _, tt := range []struct {
		name    string
		servers []Server
		want    []string // severity, id, a pattern of the sentence
	}{
		{"all is well", []Server{leader, follower, server("zk3", "follower")}, nil},
		{"nothing runs", []Server{away("zk1"), away("zk2")}, []string{`broken no-quorum .*zk1 can't be reached \(connection refused\); zk2`}},
		{"too few run", []Server{looking("zk1", ""), away("zk2"), away("zk3")}, []string{`broken no-quorum No server.*zk1 runs.*zk2 can't.*Only 1 of 3 voters run`}},
		{"they are apart", []Server{looking("zk1", "looking for a leader, for 3s"), looking("zk2", ""), away("zk3")}, []string{`broken no-quorum .*no quorum: looking for a leader, for 3s;.*do not find each other`}},
		{"observers do not make a majority", []Server{looking("zk1", ""), away("zk2"), away("zk3"), observing(looking("zk4", "")), observing(looking("zk5", ""))},
			[]string{`broken no-quorum .*zk4 runs.*Only 1 of 3 voters run`}},
		{"observers do not count as missing", []Server{looking("zk1", ""), looking("zk2", ""), away("zk3"), observing(away("zk4")), observing(away("zk5"))}, []string{`broken no-quorum .*do not find each other`}},
		{"read-only", []Server{server("zk1", "read-only")}, []string{`broken no-quorum`}},
		{"two leaders", []Server{leader, server("zk2", "leader")}, []string{`broken two-leaders zk1 and zk2`}},
		{"a voter is missing", []Server{server("zk1", "leader", "quorum_size=3", "synced_followers=1", "voters_missing=3", "voters_missing_ms=65000"), follower, away("zk3")},
			[]string{`danger voter-missing .*misses 1 of 3 voters; server 3\..*1m5s.*no further failure`, `danger unreachable zk3`}},
		{"a voter of five is missing", []Server{server("zk1", "leader", "quorum_size=5", "synced_followers=3", "voters_missing=2"), server("zk2", "follower")},
			[]string{`danger voter-missing .*server 2 \(zk2\).*1 further failures are tolerated`}},
		{"Apache's leader misses one", []Server{apache(server("zk1", "leader", "quorum_size=3", "synced_followers=1"), 5)}, []string{`danger voter-missing .*misses 1 of 3 voters\.`}},
		{"an observer can't be reached", []Server{leader, away("zk4")}, []string{`danger unreachable zk4 can't be reached`}},
		{"one is starting", []Server{leader, looking("zk2", "")}, []string{`danger not-serving zk2 runs, and finds no quorum, while others serve`}},
		{"a port that is taken", []Server{leader, server("zk2", "follower", "peer_listen_error=zk2:2888: address already in use")},
			[]string{`danger peers-cant-connect zk2 can't listen for the other servers \(zk2:2888: address already in use\)`}},
		{"a log that waits", []Server{server("zk1", "standalone", "log_waits=1", "log_waits_for=make segment: too many open files", "fsync_pending_ms=90000")},
			[]string{`broken log-waits The log of zk1 waits, .*\(make segment: too many open files\).*1m30s`}},
		{"a follower's log that waits", []Server{leader, server("zk2", "follower", "log_waits=1")}, []string{`danger log-waits .*zk2 waits`}},
		{"a full disk", []Server{server("zk1", "standalone", "disk_full=1", "writes_refused=1", "disk_full_ms=90000")}, []string{`broken full-disk The disk of the log of zk1 is full, and .* refuses writes\..*1m30s`}},
		{"a clock that was set", []Server{server("zk1", "standalone", "clock_jump_ms=-3600000", "clock_jump_ago_ms=300000")}, []string{`notice clock-skew The clock of zk1 was set back by 1h0m0s, 5m0s ago`}},
		{"a clock that was set long ago", []Server{server("zk1", "standalone", "clock_jump_ms=3600000", "clock_jump_ago_ms=3700000")}, nil},
		{"a disk without inodes", []Server{server("zk1", "standalone", "disk_full=1", "writes_refused=1", "disk_lacks=inodes")}, []string{`broken full-disk The disk of the log of zk1 has too few inodes left, and .* refuses writes\.`}},
		{"an audit log that waits", []Server{server("zk1", "standalone", "audit_waits_for=no space left on device")}, []string{`broken audit-waits The audit log of zk1 can't be written \(no space`}},
		{"a follower's full disk", []Server{leader, server("zk2", "follower", "disk_full=1")}, []string{`danger full-disk .*zk2 is full`}},
		{"full disks of others", []Server{server("zk1", "leader", "quorum_size=1", "synced_followers=0", "writes_refused=1")}, []string{`broken full-disk zk1 refuses writes, because the voters`}},
		{"a disk that hangs", []Server{server("zk1", "standalone", "fsync_pending_ms=4000")}, []string{`danger slow-disk The disk of zk1 has not ended a write to the log for 4.0s`}},
		{"a disk that is slow now", []Server{server("zk1", "standalone", "cnt_fsynctime=100", "sum_fsynctime=100", "max_fsynctime=1200").then(0x100000010, "cnt_fsynctime=110", "sum_fsynctime=1300")},
			[]string{`danger slow-disk .*zk1 is slow: a sync of the log takes 120ms now, and took 1.2s at most`}},
		{"a disk that was slow", []Server{server("zk1", "standalone", "cnt_fsynctime=100", "sum_fsynctime=9000")}, []string{`danger slow-disk .*takes 90ms on average since`}},
		{"a disk that is slow for other reasons", []Server{server("zk1", "standalone", "cnt_fsynctime=5", "sum_fsynctime=9000")}, nil},
		{"snapshots fail", []Server{server("zk1", "standalone", "snapshots_fail_ms=3600000", "snapshot_error=no space left on device")}, []string{`danger snapshot-fails zk1 can't write snapshots: no space left on device\. .*1h0m0s`}},
		{"a slow follower", []Server{leader.then(0x100000500), follower.then(0x10000000f)}, []string{`danger slow-follower zk2 is 1265 transactions behind the leader`}},
		{"a follower of an earlier epoch", []Server{leader.then(0x100000500), follower.then(0x5)}, []string{`danger slow-follower zk2 is in an earlier epoch than the leader`}},
		{"a follower that follows", []Server{leader.then(0x100000500), follower.then(0x100000010)}, nil},
		{"a clock", []Server{leader, follower.skewed(-3 * time.Second), server("zk3", "follower")}, []string{`notice clock-skew The clock of zk2 is 3.0s behind that of zk`}},
		{"clocks that differ little", []Server{leader, follower.skewed(400 * time.Millisecond)}, nil},
		{"the counter", []Server{leader.then(0x1ffff9000)}, []string{`danger zxid-end .*0xffff9000 of 0xffffffff.*should have begun`}},
		{"the counter before zkd renews it", []Server{leader.then(0x1ffff0000)}, nil},
		{"Apache's counter", []Server{apache(leader, 0x1f0000000)}, []string{`danger zxid-end .*elects a leader again`}},
		{"a certificate", []Server{server("zk1", "standalone", fmt.Sprint("client_certificate_until_ms=", now+20*86400_000))}, []string{`notice certificate .*zk1 for its client port expires in 20 days`}},
		{"a certificate that ends", []Server{server("zk1", "standalone", fmt.Sprint("quorum_certificate_until_ms=", now+3_600_000))}, []string{`danger certificate .*quorum port expires in 1h`}},
		{"a certificate that has ended", []Server{server("zk1", "standalone", fmt.Sprint("quorum_certificate_until_ms=", now-60_000))}, []string{`broken certificate .*has expired\..*1m0s`}},
		{"a certificate of a server that is not asked", []Server{server("zk1", "leader", fmt.Sprintf("peer_certificates_until_ms=2=%d; 3=%d", now+90*86400_000, now+20*86400_000)), server("zk2", "follower", fmt.Sprintf("peer_certificates_until_ms=1=%d; 3=%d", now+90*86400_000, now+20*86400_000))},
			[]string{`danger certificate The certificate that server 3 has shown to zk1 expires in 20 days`}},
		{"a certificate of another server that has ended", []Server{server("zk1", "leader", fmt.Sprint("peer_certificates_until_ms=3=", now-60_000))}, []string{`broken certificate .*server 3 has shown to zk1 has expired\..*1m0s`}},
		{"no link because of a certificate", []Server{server("zk1", "leader", "peer_certificate_errors=3=tls: failed to verify certificate: x509: certificate has expired, or is not yet valid"), server("zk2", "follower", "peer_certificate_errors=3=tls: expired")},
			[]string{`danger certificate zk1 has no link with server 3 because of a certificate: tls: failed to verify certificate: x509: certificate has expired, or is not yet valid\.`}},
		{"a certificate that is good", []Server{server("zk1", "standalone", fmt.Sprint("quorum_certificate_until_ms=", now+90*86400_000))}, nil},
		{"a certificate that was changed and can't be used", []Server{server("zk1", "standalone", "client_certificate_reload_error=read /etc/zkd/key.pem: no key in it")},
			[]string{`danger certificate-reload The changed TLS files of zk1 for its client port can't be used: read /etc/zkd/key.pem: no key in it\.`}},
		{"a port with TLS that is not in the list", []Server{server("zk1", "leader", "secure_port_unlisted=2281")}, []string{`notice secure-port zk1 takes clients with TLS at port 2281, and its line`}},
		{"less of the past than is wanted", []Server{server("zk1", "standalone", "past_cut=1", "past_seconds=3600", "past_bytes=1048576", "past_wanted_seconds=172800")},
			[]string{`notice short-past The past of zk1 goes back 1h0m0s, and zkd.historyHours wants 2 days: zkd.historyKb has no room for more\. Raise zkd.historyKb to about 49152 \(it needs 1024 for what there is\)`}},
		{"a retired ensemble", []Server{server("zk1", "leader", "retired_since=0x10"), server("zk2", "follower", "retired_since=0x10")}, []string{`broken retired An operator has retired the ensemble, at zxid 0x10: `}},
		{"the past that there is", []Server{server("zk1", "standalone", "past_cut=0", "past_seconds=60", "past_bytes=1048576", "past_wanted_seconds=172800")}, nil},
		{"a standby that follows", []Server{server("zk4", "standby", "standby_of=http://a", "standby_from=http://a", "standby_lag_seconds=0.5")}, nil},
		{"a standby whose log waits", []Server{server("zk4", "standby", "standby_of=http://a", "standby_from=http://a", "standby_lag_seconds=0.5", "log_waits_for=no space left on device")},
			[]string{`danger log-waits The log of zk4 waits, .*no space left on device\): nothing more of the copy gets onto the disk\.`}},
		{"a standby that reaches nobody", []Server{server("zk4", "standby", "standby_of=http://a", "standby_lag_seconds=61", "standby_since_ms=60000", "standby_problem=refused.")},
			[]string{`danger standby zk4 is a standby of http://a, and follows none of them, what it has is of 1m1s ago: refused\..*See whether these servers run`}},
		{"a standby without room", []Server{server("zk4", "standby", "standby_of=http://a", "standby_problem=write x: no space left on device")}, []string{`danger standby .*Make room on the disk`}},
		{"a standby that is refused", []Server{server("zk4", "standby", "standby_of=http://a", "standby_refused=1", "standby_problem=no")}, []string{`danger standby .*Mend what they say`}},
		{"a standby that gets a state", []Server{server("zk4", "standby", "standby_of=http://a", "standby_fetches=3 of 9 bytes so far")}, []string{`notice standby zk4 .*gets a whole state, 3 of 9 bytes so far.*No server has the log`}},
		{"a standby that gets its first state", []Server{server("zk4", "standby").then(0, "standby_of=http://a", "standby_fetches=3 of 9 bytes so far")}, []string{`notice standby zk4 .*3 of 9 bytes so far: it has no copy yet\.`}},
		{"a standby without a copy", []Server{server("zk4", "standby").then(0, "standby_of=http://a", "standby_problem=refused")}, []string{`danger standby zk4 .*follows none of them, it has no copy yet: refused\.`}},
		{"a standby that hears nothing", []Server{server("zk4", "standby", "standby_of=http://a", "standby_from=http://a", "standby_lag_seconds=7", "standby_silent_ms=6000")}, []string{`danger standby zk4 .*has heard nothing of http://a`}},
		{"a standby that is behind", []Server{server("zk4", "standby", "standby_of=http://a", "standby_from=http://a", "standby_lag_seconds=11", "standby_lag_entries=70", "standby_lag_bytes=8000")}, []string{`danger standby zk4 .*is behind: what it has is of 11s ago, and it lacks 70 entries, 8000 bytes\.`}},
		{"a standby of one that is behind", []Server{server("zk4", "standby", "standby_of=http://b", "standby_from=http://b", "standby_lag_seconds=30", "standby_behind_ms=29000")}, []string{`danger standby zk4 .*a standby itself and does not have more.*Ask that one`}},
		{"little memory", []Server{server("zk1", "standalone", "memory_used_percent=86", "memory_limit_bytes=134217728")}, []string{`danger memory zk1 uses 86 % of what its data may take of 128 MiB`}},
		{"no memory", []Server{server("zk1", "leader", "memory_used_percent=99", "tree_full=1"), server("zk2", "follower", "memory_used_percent=100", "memory_short=1", "memory_short_ms=90000")},
			[]string{`broken memory zk1 refuses writes that need more memory`, `danger memory zk2 is short of memory.*1m30s`}},
		{"enough memory", []Server{server("zk1", "standalone", "memory_used_percent=84", "memory_limit_bytes=100"), server("zk2", "standalone", "memory_used_percent=0", "memory_limit_bytes=0")}, nil},
		{"a request that can't be evaluated", []Server{server("zk1", "leader", "requests_broken=2", "broken_request=create /a")},
			[]string{`danger broken-request zk1 could not evaluate 2 requests.* The last one was create /a\.`}},
		{"a session", []Server{server("zk1", "standalone", "sessions_expiring=1", "global_sessions=5")}, []string{`notice sessions-expiring 1 of 5 sessions`}},
		{"a rack", []Server{server("zk1", "standalone", "sessions_expiring=100", "global_sessions=500")}, []string{`danger sessions-expiring 100 of 500`}},
		{"open files", []Server{server("zk1", "standalone", "open_file_descriptor_count=950", "max_file_descriptor_count=1000")}, []string{`danger open-files zk1 has 950 of the 1000`}},
		{"no open files left", []Server{server("zk1", "standalone", "accept_error=accept4: too many open files")}, []string{`broken open-files zk1 can't accept connections: accept4: too many open files`}},
		{"an edge", []Server{server("edge1", "edge", "edge_clients=3", "edge_clients_most=3", "edge_waiting=1", "edge_plain=2", "upstream_certificate_until_ms=1800000000000")},
			[]string{`broken certificate .*edge1 for its upstream port has expired`, `broken edge .*1 clients of the edge edge1 wait`, `broken edge .*as many clients as it may have, 3,`, `notice edge .*2 clients`}},
		{"an edge of ease", []Server{server("edge1", "edge", "edge_clients=3", "edge_clients_most=100", "edge_waiting=0").then(1, "edge_waiting=5")}, nil},
		{"an edge without servers", []Server{server("edge1", "edge", "edge_clients=0", "edge_clients_most=100", "edge_away=1", "edge_stale_age_ms=12345")},
			[]string{`broken edge The edge edge1 reaches no server, and shows read-only sessions what it knew 12 s ago`}},
		{"versions", []Server{leader, old(follower)}, []string{`notice version-skew .*3.9.4-zkd on zk2; 3.9.5-zkd on zk1`}},
		{"a file that can't be written", []Server{server("zk1", "standalone", "member_list_differs=1", "members_error=open /etc/zkd/zoo.cfg: permission denied")},
			[]string{`danger member-list zk1 can't follow the last change of the members: open /etc/zkd/zoo.cfg: permission denied`}},
		{"lists", []Server{server("zk1", "standalone", "member_list_differs=1", "members=1, 2, 3", "members_of_file=1, 2")}, []string{`danger member-list .*zk1 has the members 1, 2; those of the ensemble are 1, 2, 3`}},
		{"a loop", []Server{server("zk1", "standalone").conns(many(0), many(2000))}, []string{`notice looping-client Clients at 10.0.0.9 send 3000 of the 3010 requests per second .* GETD`}},
		{"busy, and alone", []Server{server("zk1", "standalone").conns(many(0)[:3], many(2000)[:3])}, nil},
		{"connections", []Server{server("zk1", "standalone", "connection_request_count=5").then(0x100000010, "connection_request_count=105").conns(nil, many(0))},
			[]string{`notice looping-client Clients open 50 connections per second at zk1, many of them from 10.0.0.9`}},
		{"watches", []Server{server("zk1", "standalone", "watch_count=2500000")}, []string{`notice many-watches zk1 keeps 2.5 million`}},
		{"a long list", []Server{server("zk1", "standalone", "replies_long=3", "long_reply_ago_ms=90000")}, []string{`notice long-list zk1 has sent 3 replies that are longer than jute.maxbuffer, the last one 1m30s ago`}},
		{"a long list that is refused", []Server{server("zk1", "standalone", "replies_long=1", "replies_refused=28279", "long_reply_ago_ms=0")}, []string{`danger long-list zk1 has refused 28279 replies .* has sent 1 that .*zkd.maxReply`}},
		{"a list that was long", []Server{server("zk1", "standalone", "replies_long=3", "replies_refused=3", "long_reply_ago_ms=3600001")}, nil},
		{"the root", []Server{server("zk1", "leader", "open_root=1"), server("zk2", "follower", "open_root=1")}, []string{`notice open-root .*zk1, zk2`}},
		{"words", []Server{blind(leader)}, []string{`notice blind zk1 does not answer mntr, cons`}},
		{"the worst comes first", []Server{server("zk1", "standalone", "open_root=1", "watch_count=2500000", "disk_full=1", "writes_refused=1", "snapshots_fail_ms=5")},
			[]string{`broken full-disk`, `danger snapshot-fails`, `notice many-watches`, `notice open-root`}},
		{"nobody was asked", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.servers {
				if s := &tt.servers[i]; s.Name == "zk3" && s.Unreachable != "" {
					s.ID = 0 // as of a server that could not say it
				}
			}
			found := Find(Facts{Servers: tt.servers, Complete: true, Interval: 2 * time.Second, Now: now})
			for i := range max(len(found), len(tt.want)) {
				switch {
				case i >= len(found):
					t.Errorf("missing: %s", tt.want[i])
				case i >= len(tt.want):
					t.Errorf("too much: %+v", found[i])
				default:
					f := &found[i]
					_, text, _ := strings.Cut(Text(found[i:i+1]), ": ")
					got := fmt.Sprintf("%v %s %s", f.Severity, f.ID, strings.Join(strings.Fields(text), " "))
					if !regexp.MustCompile("^" + tt.want[i]).MatchString(got) {
						t.Errorf("got  %s\nwant %s", got, tt.want[i])
					}
				}
			}
		})
	}
}

// Findings of several servers with one remedy say it once.
func TestTextShares(t *testing.T) {
	got := Text([]Finding{
		{ID: "memory", Severity: Notice, What: "a is full.", Do: "Add memory."},
		{ID: "memory", Severity: Notice, What: "b is full.", Do: "Add memory."},
		{ID: "memory", Severity: Notice, What: "c is nearly full.", Do: "Look."},
	})
	want := "NOTICE: a is full.\nNOTICE: b is full.\n  Add memory.\n  See docs/why.md#memory\n\nNOTICE: c is nearly full.\n  Look.\n  See docs/why.md#memory\n\n"
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// As long as no server has told of the members, nobody knows whether enough run.
func TestUnknownMembers(t *testing.T) {
	found := Find(Facts{Servers: []Server{looking("zk1", ""), looking("zk2", "")}})
	if len(found) != 1 || found[0].ID != "no-quorum" || !strings.Contains(found[0].Do, "2 of the 2 servers that were asked run.") || !strings.Contains(found[0].Do, "name all of them") {
		t.Errorf("got %+v", found)
	}
}

func TestCheckIDs(t *testing.T) {
	if err := CheckIDs([]string{"open-root", "memory"}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"open-roots", "", "Open-Root"} {
		if err := CheckIDs([]string{"open-root", name}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) || !strings.Contains(err.Error(), "open-root, blind") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A server of which the members' list tells the id is named with its voter.
func TestMissingVoterIsNamedOnce(t *testing.T) {
	gone := away("zk3")
	gone.ID = 3
	found := Find(Facts{Servers: []Server{server("zk1", "leader", "quorum_size=3", "synced_followers=1", "voters_missing=3"), server("zk2", "follower"), gone}})
	if len(found) != 1 || found[0].ID != "voter-missing" || !strings.Contains(found[0].What, "server 3: zk3 can't be reached") {
		t.Errorf("got %+v", found)
	}
}

// Each finding has a section of its id in docs/why.md, and there is no other section.
func TestEachFindingHasASection(t *testing.T) {
	source, err := os.ReadFile("find.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile("standby.go")
	if err != nil {
		t.Fatal(err)
	}
	source = append(source, more...)
	page, err := os.ReadFile("../../../docs/why.md")
	if err != nil {
		t.Fatal(err)
	}
	list := func(pattern string, text []byte) (ids []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			ids = append(ids, string(m[1]))
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	known := slices.Sorted(slices.Values(ids))
	if found, sections := list(`ID: "([a-z-]+)"`, source), list(`(?m)^## ([a-z-]+)$`, page); !slices.Equal(found, sections) || !slices.Equal(found, known) {
		t.Errorf("the findings are %q, the sections %q, and --ignore takes %q", found, sections, known)
	}
}
