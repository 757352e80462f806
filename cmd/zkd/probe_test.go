package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/certs"
)

// TestProbes checks the exit codes and the line of ready and live, by the word srvr and by
// the admin pages.
func TestProbes(t *testing.T) {
	pages := func(status int, text string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" && r.URL.Path != "/livez" {
				t.Errorf("asked for %s", r.URL)
			}
			w.WriteHeader(status)
			io.WriteString(w, text)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	nobody := answering(t, "")
	for _, tt := range []struct {
		name, at    string
		ready, live string // a part of the line; "" if it is not so
		reason      string // in the error
	}{
		{"a follower", answering(t, srvr("follower")), "is ready", "is live", ""},
		{"without a quorum", answering(t, notServing), "", "is live", "finds no quorum"},
		{"read-only", answering(t, srvr("read-only")), "", "is live", "only read-only clients"},
		{"another program", nobody, "", "", "not as a server"},
		{"a page that is content", pages(200, "[+] disk: ok, but full: the server refuses writes\nok\n"), "is ready, but full: the server", "is live, but full", ""},
		{"a page that is not", pages(503, "[-] disk: it hangs\n[+] loop: ok\n[-] loop: so does it\nnot ok\n"), "", "", "disk: it hangs; loop: so does it"},
		{"another page", pages(404, "what?"), "", "", "404"},
	} {
		for command, want := range map[string]string{"ready": tt.ready, "live": tt.live} {
			var out bytes.Buffer
			err := run(t.Context(), []string{command, tt.at}, &out, io.Discard)
			switch {
			case want != "" && (err != nil || !strings.Contains(out.String(), want) || strings.Count(out.String(), "\n") != 1):
				t.Errorf("%s of %s: %v, %q", command, tt.name, err, &out)
			case want == "" && (err == nil || exitCode(err) != exitFailure || !strings.Contains(err.Error(), tt.reason) || strings.Contains(err.Error(), "\n") || out.Len() > 0):
				t.Errorf("%s of %s: %v, %q", command, tt.name, err, &out)
			}
		}
	}
	for _, args := range [][]string{{"ready", "--config", filepath.Join(t.TempDir(), "none")}, {"live", "a:1,b:2"}, {"live", "a:1", "b:2"}, {"ready", "a:x"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil || exitCode(err) != exitUsage {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestProbeOfALocalServer checks that without an argument the AdminServer of the
// configuration is asked, and else its client port.
func TestProbeOfALocalServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") }))
	defer s.Close()
	_, adminPort, _ := net.SplitHostPort(s.Listener.Addr().String())
	_, port, _ := net.SplitHostPort(answering(t, srvr("standalone")))
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	ca := certs.New(t, "CA")
	forced := "admin.forceHttps=true\nssl.quorum.keyStore.location=" + certs.Write(t, dir, "key.pem", ca.Issue("zk1").PEM(t)) +
		"\nssl.quorum.trustStore.location=" + certs.Write(t, dir, "trust.pem", ca.CertPEM())
	for lines, want := range map[string]string{
		"admin.serverPort=" + adminPort + "\n" + forced: "127.0.0.1:" + port + " is ready\n",
		"admin.serverPort=" + adminPort:                 "http://127.0.0.1:" + adminPort + " is ready\n",
		"":                                              "127.0.0.1:" + port + " is ready\n",
	} {
		write(t, file, fmt.Sprintf("dataDir=%s\nclientPortAddress=127.0.0.1\nclientPort=%s\n%s\n", dir, port, lines))
		var out bytes.Buffer
		if err := run(t.Context(), []string{"ready", "--config", file}, &out, io.Discard); err != nil || out.String() != want {
			t.Errorf("%v, %q, want %q", err, &out, want)
		}
	}
}

func TestStatusAsJSON(t *testing.T) {
	a, b := answering(t, srvr("leader")+"mntr:zk_version\t3\nzk_synced_followers\t1\nzk_quorum_size\t3\n"), answering(t, notServing)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"status", "-o", "json", a, b}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Serves  bool
		Servers []struct {
			Server, Mode, Problem string
			Serves                bool
			Voters, Counted       int
			Srvr                  map[string]string
		}
		Notes []string
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || !got.Serves || len(got.Servers) != 2 || len(got.Notes) != 2 {
		t.Fatalf("%v: %s", err, &out)
	}
	if s := got.Servers[0]; s.Server != a || s.Mode != "leader" || !s.Serves || s.Voters != 3 || s.Counted != 2 || s.Srvr["Zxid"] != "0x100000016" {
		t.Errorf("the leader is %+v", s)
	}
	if s := got.Servers[1]; s.Server != b || s.Serves || !strings.Contains(s.Problem, "no quorum") {
		t.Errorf("the other one is %+v", s)
	}
	if err := run(t.Context(), []string{"status", "-o", "yaml", a}, io.Discard, io.Discard); err == nil || exitCode(err) != exitUsage {
		t.Errorf("another form: %v", err)
	}
}

// TestStatusWatches checks that pictures follow each other until the context ends.
func TestStatusWatches(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := &until{text: "follower", found: cancel}
	if err := run(ctx, []string{"status", "--watch=1ms", answering(t, notServing, srvr("follower"))}, out, io.Discard); err != nil {
		t.Error(err)
	}
	if before, _, ok := strings.Cut(out.String(), "follower"); !ok || !strings.Contains(before, "0 of 1 servers serve") {
		t.Errorf("the pictures are\n%s", out)
	}
}

// until calls found when a text was written.
type until struct {
	bytes.Buffer
	text  string
	found func()
}

func (u *until) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if bytes.Contains(p, []byte(u.text)) {
		u.found()
	}
	return n, err
}
