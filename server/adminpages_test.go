package server

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// page requests an admin page. authorization is a header, or "".
func (s *testServer) page(path, authorization string) (status int, body string) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	s.AdminPages("/commands", "clientPort=2181\n").ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestAdminCommands requests each command of the index, and compares some fields with
// what a client has done.
func TestAdminCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		c.ephemeral("/e")
		c.ok(jute.OpGetData, get("/e", true))
		wants := map[string]string{
			"configuration":         `"client_port" : `,
			"connections":           `"last_operation" : "GETD"`,
			"dump":                  `: [ "/e" ]`,
			"initial_configuration": `"initial_configuration" : "clientPort=2181\n"`,
			"is_read_only":          `"read_only" : false`,
			"leader":                `"error" : "server is not initialized"`,
			"monitor":               `"ephemerals_count" : 1,`,
			"server_stats":          `"node_count" : 6,`,
			"stats":                 `"packets_received" : `,
			"watch_summary":         `"num_total_watches" : 1,`,
			"watches_by_path":       `"/e" : [ `,
			"zabstate":              `"voting" : false,`,
		}
		status, index := s.page("/commands", "")
		if status != http.StatusOK {
			t.Fatalf("the index has status %d", status)
		}
		n := 0
		for line := range strings.Lines(index) {
			_, rest, ok := strings.Cut(line, `<a href="/commands/`)
			if !ok {
				continue
			}
			name, _, _ := strings.Cut(rest, `"`)
			n++
			if strings.HasSuffix(name, "_reset") {
				continue // see TestAdminChangesNeedAnIdentity
			}
			status, body := s.page("/commands/"+name, "digest admin:secret")
			var fields map[string]any
			if err := json.Unmarshal([]byte(body), &fields); err != nil || status != http.StatusOK || fields["command"] != name {
				t.Errorf("%s has status %d, %v:\n%s", name, status, err, body)
			}
			if !strings.Contains(body, wants[name]) {
				t.Errorf("%s lacks %s:\n%s", name, wants[name], body)
			}
		}
		if n < len(wants) {
			t.Errorf("the index has %d commands", n)
		}
		if status, body := s.page("/commands/nosuch", ""); status != http.StatusOK || !strings.Contains(body, `"Unknown command: nosuch"`) {
			t.Errorf("an unknown command: %d %s", status, body)
		}
	})
}

// Only an identity that may do everything with the root changes anything.
func TestAdminChangesNeedAnIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connect(t)
		c.auth("bob:pw")
		bob := jute.ACL{Perms: jute.PermAll &^ jute.PermAdmin, ID: s.digestID(t, "bob:pw")}
		ann := jute.ACL{Perms: jute.PermAll, ID: s.digestID(t, "ann:pw")}
		root := jute.SetACLRequest{Path: "/", ACL: []jute.ACL{bob, ann}, Version: -1}
		c.ok(jute.OpSetACL, &root)
		for _, tt := range []struct {
			authorization string
			status        int
		}{
			{"", http.StatusUnauthorized},
			{"digest", http.StatusForbidden}, // an identity of nobody
			{"world anyone", http.StatusUnauthorized},
			{"super x", http.StatusUnauthorized},
			{"digest bob:wrong", http.StatusForbidden},
			{"digest bob:pw", http.StatusForbidden},
			{"digest ann:pw", http.StatusOK},
		} {
			for _, command := range []string{"stat_reset", "crst", "set_trace_mask?traceMask=7"} {
				if status, body := s.page("/commands/"+command, tt.authorization); status != tt.status {
					t.Errorf("%s with %q: status %d, want %d\n%s", command, tt.authorization, status, tt.status, body)
				}
			}
		}
		if _, body := s.page("/commands/gtmk", ""); !strings.Contains(body, `"tracemask" : 7`) {
			t.Errorf("the mask was not set: %s", body)
		}
	})
}

// A server without a quorum lives and is not ready. One whose disk does not answer does not
// live.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, 3)
		s := e.servers[e.leader()]
		check := func(path string, status int, want string) {
			t.Helper()
			if got, body := s.page(path, ""); got != status || !strings.Contains(body, want) {
				t.Errorf("%s: %d %q, want %d and %q", path, got, body, status, want)
			}
		}
		check("/livez", http.StatusOK, "ok\n")
		check("/readyz", http.StatusOK, "ok\n")
		check("/healthz?verbose", http.StatusOK, "[+] loop: ok\n[+] applier: ok\n[+] disk: ok\n[+] clients: ok\nok\n")
		check("/commands/zabstate", http.StatusOK, `"zabstate" : "broadcast"`)
		check("/commands/voting_view", http.StatusOK, `"server_addresses" : [ "10.0.0.3:2888" ],`)
		check("/commands/leader", http.StatusOK, `"is_leader" : true,`)

		for id := 1; id <= 3; id++ {
			if e.servers[id] != s {
				e.kill(id)
			}
		}
		time.Sleep(time.Minute)
		check("/readyz", http.StatusServiceUnavailable, "[-] clients: no leader is known")
		check("/livez", http.StatusOK, "ok\n")
		check("/commands/srvr", http.StatusOK, notServing)
		check("/commands/zabstate", http.StatusOK, `"zabstate" : "election"`)
	})
}

const notServing = "This ZooKeeper instance is not currently serving requests"

func TestHealthOfAStuckDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, 1, "standaloneEnabled=false")
		s := e.servers[e.leader()]
		c := s.connect(t)
		release := e.stallDisks()
		c.send(jute.OpCreate, create("/a", "", 0))
		time.Sleep(stuckAfter + time.Second)
		if status, body := s.page("/livez", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "[-] disk: a write to the log has not ended for 11s") {
			t.Errorf("livez: %d %q", status, body)
		}
		release()
	})
}

// Each goroutine without which nothing is done shows when it is stuck.
func TestHealthOfAStuckLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		taken := make(chan error)
		s.events.put(peerEvent{kind: evReceived, peer: 99, received: &received{}, taken: taken})
		if status, body := s.page("/livez", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "[-] loop: the loop that orders requests has not answered for 10s") {
			t.Errorf("livez: %d %q", status, body)
		}
		<-taken
		if status, body := s.page("/livez", ""); status != http.StatusOK {
			t.Errorf("livez afterwards: %d %q", status, body)
		}
	})
}

func TestHealthOfAStuckApplier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := crashfs.New(1)
		s := startOn(t, fs, "/data")
		s.connect(t).create("/a", "")
		time.Sleep(time.Second)
		well := make(chan struct{})
		fs.SetHook(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpRead || op.Kind == crashfs.OpOpen {
				<-well
			}
			return nil
		})
		s.handover.orders.put(replica.Order{Kind: replica.OrderReplay, Entry: zab.Entry{Zxid: s.state.Applied()}})
		time.Sleep(stuckAfter + time.Second)
		if status, body := s.page("/livez", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "[-] applier: ") || !strings.Contains(body, "busy with one step for 11s") {
			t.Errorf("livez: %d %q", status, body)
		}
		fs.SetHook(nil)
		close(well)
		synctest.Wait()
		if status, body := s.page("/livez", ""); status != http.StatusOK {
			t.Errorf("livez afterwards: %d %q", status, body)
		}
	})
}

// Connections with TLS have a list of their own, as in Apache's answers.
func TestAdminSecureConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSecure(t, "secureClientPort=2281")
		if err := tls.Client(s.raw(t, s.secure), s.client()).Handshake(); err != nil {
			t.Fatal(err)
		}
		s.connect(t)
		synctest.Wait()
		for _, command := range []string{"connections", "stats"} {
			var answer struct {
				Plain  []any `json:"connections"`
				Secure []any `json:"secure_connections"`
			}
			_, body := s.page("/commands/"+command, "")
			if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Plain) != 1 || len(answer.Secure) != 1 {
				t.Errorf("%s: %v\n%s", command, err, body)
			}
		}
	})
}
