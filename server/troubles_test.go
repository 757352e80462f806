package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/replica"
)

// TestTroubles brings servers into trouble and checks what mntr says of it. zkcli why makes
// its findings of that.
func TestTroubles(t *testing.T) {
	says := func(t *testing.T, s *testServer, want map[string]string) {
		t.Helper()
		got := s.mntr(t)
		for key, value := range want {
			if v, ok := got[key]; v != value || ok != (value != "") {
				t.Errorf("%s is %q, want %q", key, v, value)
			}
		}
	}
	in := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
	in("none", func(t *testing.T) {
		s := startServer(t)
		s.connect(t)
		says(t, s, map[string]string{"clock_ms": strconv.FormatInt(time.Now().UnixMilli(), 10), "fsync_pending_ms": "0", "disk_full_ms": "0", "snapshots_fail_ms": "0",
			"snapshot_error": "", "sessions_expiring": "0", "voters_missing": "", "client_certificate_until_ms": ""})
	})
	in("a full disk", func(t *testing.T) {
		fs := crashfs.New(1)
		s := startOn(t, fs, "/data")
		time.Sleep(1100 * time.Millisecond) // between two looks at the disk
		leave(t, fs, roomForDeletes)
		time.Sleep(time.Minute)
		says(t, s, map[string]string{"disk_full": "1", "writes_refused": "1", "disk_full_ms": "59600"})
		leave(t, fs, lotsOfRoom)
		time.Sleep(time.Second)
		says(t, s, map[string]string{"disk_full": "0", "disk_full_ms": "0"})
	})
	in("a log that waits", func(t *testing.T) {
		fs := crashfs.New(1)
		s := startOn(t, fs, "/data")
		c := s.connect(t)
		c.create("/a", "")
		says(t, s, map[string]string{"log_waits": "0", "log_waits_for": ""})
		fs.SetHook(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpCreate {
				return syscall.EMFILE
			}
			return nil
		})
		for range 20 { // the present segment and the next one, which is ready
			c.send(jute.OpSetData, &jute.SetDataRequest{Path: "/a", Data: make([]byte, 900_000), Version: -1})
		}
		time.Sleep(12 * time.Second)
		got := s.mntr(t)
		if got["log_waits"] != "1" || !strings.Contains(got["log_waits_for"], "too many open files") || len(got["fsync_pending_ms"]) != 5 {
			t.Errorf("the log waits: %s, for %q, since %s ms", got["log_waits"], got["log_waits_for"], got["fsync_pending_ms"])
		}
		for page, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
			if status, text := s.page(page, ""); status != want {
				t.Errorf("%s: %d %s", page, status, text)
			}
		}
		fs.SetHook(nil)
		time.Sleep(2 * time.Second)
		s.connect(t).set("/a", "")
		says(t, s, map[string]string{"log_waits": "0", "log_waits_for": "", "fsync_pending_ms": "0"})
		if status, text := s.page("/readyz", ""); status != http.StatusOK {
			t.Errorf("afterwards: %d %s", status, text)
		}
	})
	in("a disk that hangs", func(t *testing.T) {
		e := startEnsemble(t, 1, "standaloneEnabled=false")
		s := e.servers[e.leader()]
		c := s.connect(t)
		release := e.stallDisks()
		c.send(jute.OpCreate, create("/a", "", 0))
		time.Sleep(3 * time.Second)
		says(t, s, map[string]string{"fsync_pending_ms": "3000"})
		release()
	})
	in("snapshots that fail", func(t *testing.T) {
		dir := t.TempDir()
		s := startOn(t, fastFS{}, dir)
		s.connect(t).create("/a", "")
		tmp := filepath.Join(dir, "tmp")
		check(t, os.RemoveAll(tmp))
		check(t, os.WriteFile(tmp, nil, 0o600)) // in place of the directory
		freeze := func() {
			s.handover.orders.Put(replica.Order{Kind: replica.OrderFreeze})
			time.Sleep(time.Second)
		}
		freeze()
		freeze()
		got := s.mntr(t)
		if got["snapshots_fail_ms"] != "2000" || !strings.Contains(got["snapshot_error"], "not a directory") {
			t.Errorf("snapshots fail for %s ms: %q", got["snapshots_fail_ms"], got["snapshot_error"])
		}
		check(t, os.Remove(tmp))
		check(t, os.Mkdir(tmp, 0o700))
		freeze()
		says(t, s, map[string]string{"snapshots_fail_ms": "0", "snapshot_error": ""})
	})
	in("a session that is silent", func(t *testing.T) {
		s := startServer(t)
		c := s.connectFor(t, 12_000)
		s.connectFor(t, 20_000)
		time.Sleep(6 * time.Second)
		says(t, s, map[string]string{"sessions_expiring": "0"})
		time.Sleep(4 * time.Second)
		says(t, s, map[string]string{"sessions_expiring": "1"})
		c.exists("/")
		says(t, s, map[string]string{"sessions_expiring": "0"})
	})
	in("a voter that is gone", func(t *testing.T) {
		e := startEnsemble(t, 3)
		leader := e.leader()
		gone := leader%3 + 1
		e.kill(gone)
		time.Sleep(30 * time.Second)
		got := e.servers[e.leader()].mntr(t)
		if ms, _ := strconv.Atoi(got["voters_missing_ms"]); got["voters_missing"] != fmt.Sprint(gone) || ms < 28_000 || ms > 30_000 {
			t.Errorf("voters missing: %q for %d ms, want %d", got["voters_missing"], ms, gone)
		}
		e.start(gone)
		time.Sleep(10 * time.Second)
		says(t, e.servers[e.leader()], map[string]string{"voters_missing": "", "voters_missing_ms": ""})
	})
	in("changed certificates that can't be used", func(t *testing.T) {
		s := startSecure(t, "secureClientPort=2281")
		file := s.cfg.ClientTLS.Key.File
		key, err := os.ReadFile(file)
		check(t, err)
		says(t, s.testServer, map[string]string{"client_certificate_reload_error": ""})
		check(t, os.WriteFile(file, []byte("not a key"), 0o600))
		time.Sleep(10 * time.Second)
		if got := s.mntr(t)["client_certificate_reload_error"]; !strings.Contains(got, file) {
			t.Errorf("why the key can't be used: %q", got)
		}
		check(t, os.WriteFile(file, key, 0o600))
		time.Sleep(10 * time.Second)
		says(t, s.testServer, map[string]string{"client_certificate_reload_error": ""})
	})
	in("a certificate that expires", func(t *testing.T) {
		s := startSecure(t, "secureClientPort=2281")
		until := s.overview.clientTLS.Expiry()
		if until.IsZero() {
			t.Fatal("no certificate")
		}
		says(t, s.testServer, map[string]string{"client_certificate_until_ms": strconv.FormatInt(until.UnixMilli(), 10)})
	})
}

// TestUnlistedSecurePort checks when a port with TLS is not in the list of members.
func TestUnlistedSecurePort(t *testing.T) {
	for line, want := range map[string]int{
		"server.1=h:2888:3888":                       2281,
		"server.1=h:2888:3888;2181":                  2281,
		"server.1=h:2888:3888:observer;2181;h:2280":  2281,
		"server.1=h:2888:3888:participant;2181;2281": 0,
		"server.1=h:2888:3888;;0.0.0.0:2281":         0,
		"server.2=h:2888:3888;2181":                  0,
	} {
		members, err := config.ParseMembers(line + "\nserver.3=g:2888:3888;2181\nserver.4=i:2888:3888;2181\n")
		check(t, err)
		if got := unlisted(members, 1, 2281); got != want {
			t.Errorf("%s: %d, want %d", line, got, want)
		}
	}
}
