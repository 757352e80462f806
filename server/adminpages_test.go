package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/pages"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// page requests an admin page. authorization is a header, or "".
func (s *testServer) page(path, authorization string) (status int, body string) {
	w := request(s.AdminPages("/commands", "clientPort=2181\n"), http.MethodGet, path, authorization, "")
	return w.Code, w.Body.String()
}

func request(pages http.Handler, method, path, authorization, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, r)
	return w
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
			"top":                   `"address" : "10.0.0.2",`,
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
			switch name {
			case "connection_stat_reset", "stat_reset": // see TestAdminChangesNeedAnIdentity
				continue
			case "snapshot", "restore", "shed_connections": // see TestAdminOperations
				continue
			case "log": // see TestFollowLogRefuses
				continue
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

// TestAdminAliases requests the commands by the other names that ZooKeeper has for them.
func TestAdminAliases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		for alias, name := range map[string]string{
			"conf": "configuration", "config": "configuration", "crst": "connection_stat_reset", "cons": "connections",
			"env": "environment", "envi": "environment", "gtmk": "get_trace_mask", "icfg": "initial_configuration",
			"isro": "is_read_only", "lsnp": "last_snapshot", "lead": "leader", "mntr": "monitor",
			"orst": "observer_connection_stat_reset", "obsr": "observers", "srvr": "server_stats", "stmk": "set_trace_mask",
			"srst": "stat_reset", "stat": "stats", "wchc": "watches", "wchp": "watches_by_path", "wchs": "watch_summary",
		} {
			if _, body := s.page("/commands/"+alias, ""); !strings.Contains(body, `"command" : "`+name+`"`) {
				t.Errorf("%s: %s", alias, body)
			}
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
			for _, command := range []string{"stat_reset", "crst", "set_trace_mask?traceMask=7", "snapshot?streaming=false"} {
				if command == "snapshot?streaming=false" && tt.status == http.StatusOK {
					continue // see TestAdminOperations
				}
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

// A server that can't listen for the others says so. The one with the largest id dials all others, and works;
// the one with the least waits for them.
func TestHealthOfADeafServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, 3)
		deaf := func(id int) *testServer {
			t.Helper()
			e.stop(id)
			s, err := e.tryStart(id, func(o *Options) {
				o.ListenPeers = func(string, string) (net.Listener, error) { return nil, errors.New("no such address") }
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		const want = "this server can't listen for the other servers: "
		s := deaf(3)
		e.settled()
		if status, body := s.page("/readyz", ""); status != http.StatusOK || !strings.Contains(body, "[+] peers: ok, but "+want) || !strings.Contains(body, "no such address") {
			t.Errorf("readyz is %d %q", status, body)
		}
		if words := s.ask(t, "mntr", false); !strings.Contains(words, "zk_peer_listen_error\t") {
			t.Errorf("mntr: %s", words)
		}
		e.stop(3)
		s = deaf(1)
		time.Sleep(time.Minute)
		if status, body := s.page("/readyz", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "[-] peers: "+want) {
			t.Errorf("readyz without a leader is %d %q", status, body)
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
		check("/healthz?verbose", http.StatusOK, "[+] loop: ok\n[+] applier: ok\n[+] disk: ok\n[+] log: ok\n[+] clients: ok\n[+] peers: ok\nok\n")
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
		time.Sleep(pages.StuckAfter + time.Second)
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
		s.events.Put(peerEvent{kind: evReceived, peer: 99, received: &received{}, taken: taken})
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
		s.handover.orders.Put(replica.Order{Kind: replica.OrderReplay, Entry: zab.Entry{Zxid: s.state.Applied()}})
		time.Sleep(pages.StuckAfter + time.Second)
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

// A snapshot is that of now, and is sent as it is on the disk. Data are not replaced. Clients
// are moved.
func TestAdminOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := startOn(t, fastFS{}, dir)
		c := s.connect(t)
		c.create("/a", "x")
		pages := s.AdminPages("/commands", "")
		const ann = "digest ann:pw"
		do := func(method, path, body string, status int, wants ...string) *httptest.ResponseRecorder {
			t.Helper()
			w := request(pages, method, path, ann, body)
			for _, want := range wants {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("%s %s lacks %s:\n%s", method, path, want, w.Body)
				}
			}
			if w.Code != status {
				t.Errorf("%s %s: status %d, want %d\n%.500s", method, path, w.Code, status, w.Body)
			}
			return w
		}

		zxid := fmt.Sprintf("0x%x", int64(s.state.Applied()))
		w := do("GET", "/commands/snapshot", "", http.StatusOK)
		ref, _ := s.snapshots.Last()
		onDisk, err := os.ReadFile(s.snapshots.store.Path(ref.Name))
		check(t, err)
		if !bytes.Equal(w.Body.Bytes(), onDisk) || w.Header().Get("last_zxid") != zxid || w.Header().Get("snapshot_size") != fmt.Sprint(len(onDisk)) {
			t.Errorf("the snapshot has %d bytes, and %v; want %d, %s", w.Body.Len(), w.Header(), len(onDisk), zxid)
		}
		do("GET", "/commands/snap", "", http.StatusTooManyRequests, "rate limited")
		time.Sleep(time.Second)
		w = do("GET", "/commands/snap?streaming=false", "", http.StatusOK, `"command" : "snapshot",`, `"error" : null`)
		if w.Header().Get("last_zxid") != zxid {
			t.Errorf("the headers are %v", w.Header())
		}
		do("POST", "/commands/snapshot", "", http.StatusMethodNotAllowed)

		do("POST", "/commands/restore", "data", http.StatusServiceUnavailable, "a running server does not replace its data", "docs/backup.md")

		for body, want := range map[string]string{
			"": "such as", "{}": "such as", `{"percentage": "x"}`: "such as", `{"percentage": 101}`: "is 101", `{"percentage": -1}`: "is -1",
		} {
			do("POST", "/commands/shed_connections", body, http.StatusBadRequest, want)
		}
		do("POST", "/commands/shed", `{"percentage": 0}`, http.StatusOK, `"connections_shed" : 0,`)
		do("POST", "/commands/shed_connections", `{"percentage": 50}`, http.StatusOK, `"connections_shed" : 1,`, `"percentage_requested" : 50,`)
		time.Sleep(10 * time.Second)
		if n := len(s.clients.Facts(0).Connections()); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		for _, path := range []string{"restore", "shed"} {
			if w := request(pages, "POST", "/commands/"+path, "", "{}"); w.Code != http.StatusUnauthorized {
				t.Errorf("%s without an identity: %d", path, w.Code)
			}
		}
	})
}

func TestAdminSnapshotsCanBeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "admin.snapshot.enabled=false")
		if status, body := s.page("/commands/snapshot", "digest a:b"); status != http.StatusServiceUnavailable || !strings.Contains(body, "disabled") {
			t.Errorf("got %d %s", status, body)
		}
	})
}

// The page for people shows health, and escapes what it shows.
func TestAdminOverview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		s.overview.version = "1<script>"
		status, body := s.page("/", "")
		for _, want := range []string{"<td>Role<td>standalone\n", "1&lt;script&gt;", "<td>Check of disk<td>ok\n", `<a href="/commands/monitor">monitor</a>`} {
			if status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%d, and it lacks %s:\n%s", status, want, body)
			}
		}
	})
}

// The identities of a connection count only for the schemes that name them.
func TestAdminIdentitiesOfTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSecure(t, "secureClientPort=2281", "authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider")
		certificate := []*x509.Certificate{s.app.Cert}
		subject := s.app.Cert.Subject.String()
		from := netip.MustParseAddr("10.0.0.7")
		c := s.connect(t)
		for _, tt := range []struct {
			name, scheme, id string // of the ACL of the root
			claim            admin.Claim
			status           int
		}{
			{"an address", "ip", "10.0.0.7", admin.Claim{Scheme: "ip", From: from}, http.StatusOK},
			{"another address", "ip", "10.0.0.8", admin.Claim{Scheme: "ip", From: from}, http.StatusForbidden},
			{"a certificate", "x509", subject, admin.Claim{Scheme: "x509", From: from, Certificates: certificate}, http.StatusOK},
			{"another certificate", "x509", "CN=other", admin.Claim{Scheme: "x509", From: from, Certificates: certificate}, http.StatusForbidden},
			{"no certificate", "x509", subject, admin.Claim{Scheme: "x509", Data: subject, From: from}, http.StatusUnauthorized},
		} {
			id := jute.ID{Scheme: tt.scheme, ID: tt.id}
			c.ok(jute.OpSetACL, &jute.SetACLRequest{Path: "/", Version: -1, ACL: []jute.ACL{{Perms: jute.PermAll, ID: id}, {Perms: jute.PermAdmin, ID: jute.WorldAnyone}}})
			if _, status, problem := s.pages().Authorize(t.Context(), tt.claim); status != tt.status {
				t.Errorf("%s: %d %s, want %d", tt.name, status, problem, tt.status)
			}
		}
	})
}

// The commands that show members of an ensemble have the fields of Apache 3.9.5, in its order.
func TestAdminOfAnEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 4)
		for id := 1; id <= 4; id++ {
			e.disks[id], e.files[id] = crashfs.New(uint64(id)), "1 2 3 4o"
			e.start(id)
		}
		leader := e.servers[e.leader()]
		e.await("the observer serves", e.servers[4].service.serving.Load)
		e.servers[4].connect(t).create("/a", "")
		time.Sleep(2 * time.Second)
		ask := func(s *testServer, command string, v any) {
			t.Helper()
			status, body := s.page("/commands/"+command, "")
			if err := json.Unmarshal([]byte(body), v); err != nil || status != http.StatusOK {
				t.Fatalf("%s: %d, %v: %s", command, status, err, body)
			}
		}
		keys := func(v any) string {
			var names []string
			for name := range v.(map[string]any) {
				names = append(names, name)
			}
			slices.Sort(names)
			return strings.Join(names, " ")
		}
		var state map[string]any
		ask(leader, "zabstate", &state)
		const address = "all_addresses all_host_strings all_ports all_reachable_addresses all_reachable_addresses_or_all empty one reachable_address reachable_or_one wildcard_addresses"
		for _, kind := range []string{"quorum_address", "election_address"} {
			if got := keys(state[kind]); got != address {
				t.Errorf("%s has %s, want %s", kind, got, address)
			}
		}
		if got := state["client_address"]; got != "0.0.0.0:2181" {
			t.Errorf("client_address %v", got)
		}
		var all struct {
			Synced    int              `json:"synced_observers"`
			Observers []map[string]any `json:"observers"`
		}
		ask(leader, "observers", &all)
		if all.Synced != 1 || len(all.Observers) != 1 {
			t.Fatalf("observers: %+v", all)
		}
		o := all.Observers[0]
		const want = "established last_zxid packets_received packets_sent queued_packets queued_packets_size remote_socket_address requests sid"
		if got := keys(o); got != want || o["sid"] != 4.0 || o["requests"].(float64) < 2 || o["packets_sent"].(float64) < 2 || o["last_zxid"].(float64) != float64(leader.state.Applied()) {
			t.Errorf("observer: %v, want %s", o, want)
		}
	})
}
