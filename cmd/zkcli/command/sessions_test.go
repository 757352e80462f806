package command

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSessionsEnd ends a session at the server that knows it: it says what goes, wants --yes, and passes refusals on.
func TestSessionsEnd(t *testing.T) {
	ended := false
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "digest super:secret" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintln(w, `{"detail":"only those may do this","code":-102}`)
			return
		}
		if r.Method != http.MethodDelete || r.URL.Path != "/v1/sessions/0x2a" {
			http.NotFound(w, r)
			return
		}
		dry := r.URL.Query().Get("dry-run") == "true"
		ended = ended || !dry
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"0x2a","dryRun":%v,"address":"10.0.0.7:1","identity":"digest:bob","ephemerals":2,"paths":["/a","/b"]}`, dry)
	})
	knows := httptest.NewServer(handler)
	defer knows.Close()
	secure := httptest.NewUnstartedServer(handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintln(w, `{"detail":"there is no such session"}`)
	}))
	defer other.Close()
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	super, both := "--auth=digest:super:secret", other.URL+","+knows.URL
	for _, x := range []struct {
		args        []string
		code        int
		out, errOut string
		ends        bool
	}{
		{[]string{super, "sessions", "end", "--admin", both, "--dry-run", "0x2a"}, 0, "session 0x2a would end, of 10.0.0.7:1 digest:bob, with 2 ephemeral nodes\n/a", "", false},
		{[]string{super, "sessions", "end", "--admin", both, "0x2a"}, exitUsage, "", "say --yes", false},
		{[]string{super, "sessions", "end", "--admin", both, "--yes", "0x2a"}, 0, "session 0x2a has ended", "", true},
		{[]string{super, "-o", "json", "sessions", "end", "--admin", both, "--yes", "0x2a"}, 0, `"dryRun":false`, "", true},
		{[]string{super, "--tls-ca", ca, "sessions", "end", "--admin", secure.URL, "--yes", "0x2a"}, 0, "session 0x2a has ended", "", true},
		{[]string{super, "sessions", "end", "--admin", secure.URL, "--yes", "0x2a"}, exitConnection, "", "unknown authority", false},
		{[]string{"sessions", "end", "--admin", knows.URL, "--yes", "0x2a"}, exitAuth, "", "only those may do this", false},
		{[]string{super, "sessions", "end", "--admin", other.URL, "--yes", "0x2a"}, exitError, "", "there is no such session", false},
		{[]string{super, "sessions", "end", "--admin", none.URL, "--yes", "0x2a"}, exitError, "", "no HTTP API", false},
		{[]string{super, "sessions", "end", "--admin", "http://127.0.0.1:1", "--yes", "0x2a"}, exitConnection, "", "refused", false},
		{[]string{super, "sessions", "list", "--admin", knows.URL, "0x2a"}, exitUsage, "", `there is no "list"`, false},
		{[]string{super, "sessions", "end", "0x2a"}, exitUsage, "", "--admin is missing", false},
	} {
		ended = false
		out, errOut, code := run(t, t.Context(), map[string]string{}, x.args...)
		if code != x.code || !strings.Contains(out, x.out) || !strings.Contains(errOut, x.errOut) || ended != x.ends {
			t.Errorf("%q: exit %d, ended %v\n%s%s", x.args, code, ended, out, errOut)
		}
	}
}
