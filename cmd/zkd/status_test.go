package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answering answers each srvr with one of the texts: each of the first ones once, then
// always the last one. The part of a text after "mntr:" answers mntr. It returns its
// address.
func answering(t *testing.T, texts ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var asked atomic.Int64
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			word := make([]byte, 4)
			if _, err := io.ReadFull(c, word); err != nil {
				t.Errorf("asked for %q, %v", word, err)
			}
			if string(word) == "srvr" {
				asked.Add(1)
			}
			i := min(int(asked.Load()), len(texts))
			srvr, mntr, enabled := strings.Cut(texts[i-1], "mntr:")
			if !enabled {
				mntr = "mntr is not executed because it is not in the whitelist.\n"
			}
			io.WriteString(c, map[string]string{"srvr": srvr, "mntr": mntr}[string(word)])
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func srvr(mode string) string {
	return "Zookeeper version: 3.8.0-abc, built on 2024-12-29 17:54 UTC\nLatency min/avg/max: 0/1.25/22\nReceived: 22\n" +
		"Sent: 20\nConnections: 4\nOutstanding: 0\nZxid: 0x100000016\nMode: " + mode + "\nNode count: 11\n"
}

const notServing = "This ZooKeeper instance is not currently serving requests\n"

func TestStatus(t *testing.T) {
	const oneMissing = "mntr:zk_version\t3\nzk_synced_followers\t1\nzk_quorum_size\t3\n"
	full := srvr("standalone") + "Disk: full: the server refuses writes\n"
	for _, test := range []struct {
		name    string
		servers []string // the answer of each
		want    []string // patterns of the lines of the table, and of those below it
		err     string
		strict  string // the error with --strict, if it differs
	}{
		{"an ensemble", []string{srvr("leader"), srvr("follower"), srvr("observer")},
			[]string{`leader +0x100000016 +3 +11 +1.25/22 +3.8.0-abc$`, `follower +0x1`, `observer +0x1`}, "", ""},
		{"all voters count", []string{srvr("leader") + "mntr:zk_version\t3\nzk_synced_followers\t2\nzk_quorum_size\t3\n"},
			[]string{`leader +3/3 +0x`}, "", ""},
		{"one voter does not", []string{srvr("leader") + oneMissing},
			[]string{`leader +2/3 +0x`, `: 2 of 3 voters count: another failure may cost`}, "", "2 of 3 voters"},
		{"a file differs", []string{srvr("leader"), srvr("follower") + "mntr:zk_version\t3\nzk_quorum_size\t3\nzk_member_list_differs\t1\nzk_members\t1, 2, 3\nzk_members_of_file\t1, 2\n"},
			[]string{`leader`, `follower`, `its configuration file has the members 1, 2; those of the ensemble are 1, 2, 3$`}, "", "has the members 1, 2"},
		{"one alone", []string{srvr("standalone")}, []string{`standalone`}, "", ""},
		{"its disk is full", []string{full}, []string{`standalone`, `: the disk is full: the server refuses writes$`}, "", "the disk is full"},
		{"an edge", []string{srvr("edge") + "Upstream: zk1:2181 2\nResumed: 1\nLost: 0\n"}, []string{`edge +0x1`, `: sessions upstream: zk1:2181 2; resumed: 1; lost: 0$`}, "", ""},
		{"an edge without servers", []string{srvr("edge") + "Upstream: no session\nResumed: 0\nLost: 0\nTrouble: clients that wait for a server: 1; the last error: zk1:2181: refused\n"},
			[]string{`edge +0x1`, `: sessions upstream: no session; resumed: 0; lost: 0$`, `: clients that wait for a server: 1; the last error: zk1:2181: refused$`}, "", "clients that wait"},
		{"one does not serve", []string{srvr("leader"), notServing}, []string{`leader`, `- .*quorum`, `: no service; 1 of 2 servers serve clients$`}, "", "1 of 2"},
		{"no quorum", []string{notServing, notServing}, []string{`- .*quorum`, `- .*quorum`}, "0 of 2", ""},
		{"read-only", []string{notServing, srvr("read-only")}, []string{`- .*quorum`, `read-only`, `: finds no quorum, and serves only reads`}, "0 of 2", ""},
		{"two leaders", []string{srvr("leader"), srvr("leader")}, []string{`leader`, `leader`}, "2 servers say", ""},
		{"somebody else", []string{"HTTP/1.1 400 Bad Request\r\n\r\n", ""}, []string{`not as a server`, `not as a server`}, "0 of 2", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, strict := range []bool{false, true} {
				args, want, wantErr := []string{"status", fmt.Sprintf("--strict=%v", strict)}, test.want, test.err
				if strict && test.strict != "" {
					want, wantErr = want[:len(want)-1], test.strict // the remark is the error
				}
				addrs := make([]string, len(test.servers))
				for i, text := range test.servers {
					addrs[i] = answering(t, text)
				}
				var out bytes.Buffer
				err := run(t.Context(), append(args, addrs...), &out, io.Discard)
				if wantErr == "" && err != nil || wantErr != "" && (err == nil || exitCode(err) != exitFailure || !strings.Contains(err.Error(), wantErr)) {
					t.Errorf("strict %v: error %v, want %q", strict, err, wantErr)
				}
				lines := strings.Split(strings.TrimSpace(out.String()), "\n")
				if len(lines) != 1+len(want) {
					t.Fatalf("strict %v: got\n%s", strict, &out)
				}
				for i, pattern := range want {
					if !regexp.MustCompile(`^` + addrs[min(i, len(addrs)-1)] + `.*` + pattern).MatchString(lines[1+i]) {
						t.Errorf("line %q does not match %q", lines[1+i], pattern)
					}
				}
			}
		})
	}
}

// TestStatusWaits has a server that serves from the third request on.
func TestStatusWaits(t *testing.T) {
	addr := answering(t, notServing, "", srvr("follower"))
	var out bytes.Buffer
	if err := run(t.Context(), []string{"status", "--wait", "1m", addr}, &out, io.Discard); err != nil || !strings.Contains(out.String(), "follower") {
		t.Errorf("%v\n%s", err, &out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := status(ctx, io.Discard, []string{addr}, statusOptions{wait: time.Minute}); !errors.Is(err, context.Canceled) && err != nil {
		t.Errorf("canceled: %v", err)
	}
	refused := answering(t, notServing)
	if err := status(t.Context(), io.Discard, []string{refused}, statusOptions{wait: time.Millisecond}); err == nil {
		t.Error("a server that does not serve was waited for without end")
	}
}

func TestClientPorts(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"zk1:2181 zk2:2182", "zk1:2181 zk2:2182"},
		{"zk1:2181,zk2,[::1]:5/app", "zk1:2181 zk2:2181 [::1]:5"},
		{"::1 [::2]", "[::1]:2181 [::2]:2181"},
		{"zk1:x", ""}, {"zk1:0", ""}, {",", ""},
	} {
		got, err := clientPorts(strings.Fields(test.args))
		if strings.Join(got, " ") != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q: got %q, %v, want %q", test.args, got, err, test.want)
		}
	}
}

// TestStatusOfALocalServer checks that without arguments the server of a configuration is
// asked.
func TestStatusOfALocalServer(t *testing.T) {
	addr := answering(t, srvr("follower"))
	_, port, _ := net.SplitHostPort(addr)
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	for _, test := range []struct{ lines, err string }{
		{"clientPort=" + port + "\nclientPortAddress=127.0.0.1\n", ""},
		{"clientPort=" + port + "\nclientPortAddress=0.0.0.0\n", ""},
		{"clientPort=" + port + "\n", ""},
		{fmt.Sprintf("initLimit=5\nsyncLimit=2\nzkd.myid=2\nserver.1=a:1:2;1\nserver.2=b:1:2;127.0.0.1:%s\nserver.3=c:1:2;3\n", port), ""},
		{"clientPort=0\n", "which port"},
		{"clientPort=none\n", "must be a number"},
		{"", "there is no "},
	} {
		os.Remove(file)
		if test.lines != "" {
			write(t, file, "dataDir="+dir+"\n"+test.lines)
		}
		var out bytes.Buffer
		err := run(t.Context(), []string{"status", "--config", file}, &out, io.Discard)
		switch {
		case test.err == "" && (err != nil || !strings.Contains(out.String(), "follower")):
			t.Errorf("%q: %v\n%s", test.lines, err, &out)
		case test.err != "" && (err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%q: %v, want %s", test.lines, err, test.err)
		}
	}
}
