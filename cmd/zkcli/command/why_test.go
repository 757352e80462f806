package command

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/certs"
)

// TestWhy asks servers that are well, one of which is then stopped, and at last all.
func TestWhy(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Patient(), zktest.Config("4lw.commands.whitelist=*"))
	if err := e.WaitAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	// awaits asks until a finding is there, or until nothing is wrong if it is "".
	awaits := func(finding string, exit int) {
		t.Helper()
		for {
			out, errOut, code := run(t, t.Context(), nil, "-server", e.At(0).ConnectString(), "-o", "json", "why", "-i", "1", "--ignore", "open-root,slow-disk")
			var doc struct {
				Servers, Answered int
				Findings          []struct{ ID, Severity, What, Do string }
			}
			if err := json.Unmarshal([]byte(out), &doc); err != nil {
				t.Fatalf("exit %d, %v: %s%s", code, err, out, errOut)
			}
			found := finding == "" && len(doc.Findings) == 0
			for _, f := range doc.Findings {
				found = found || f.ID == finding
				if f.What == "" || f.Do == "" || f.Severity == "" {
					t.Errorf("got %+v", f)
				}
			}
			if found && code == exit {
				return
			}
			if err := t.Context().Err(); err != nil {
				t.Fatalf("waiting for %q: exit %d: %s", finding, code, out)
			}
		}
	}
	awaits("", 0)
	e.Stop(3)
	awaits("voter-missing", exitError)
	e.Restart(3)
	awaits("", 0)
	e.Stop(3)
	e.Stop(2)
	awaits("no-quorum", exitError)
	e.Stop(1)
	awaits("no-quorum", exitNotAsked)
}

// TestWordsOverTLS asks a server that has only a port with TLS.
func TestWordsOverTLS(t *testing.T) {
	ca := certs.New(t, "CA")
	file := certs.Write(t, t.TempDir(), "ca.pem", ca.CertPEM())
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{ca.Issue("127.0.0.1").TLS()}})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer l.Close()
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				word := make([]byte, 4)
				if _, err := io.ReadFull(conn, word); err == nil && string(word) == "srvr" {
					io.WriteString(conn, "Zookeeper version: 3.9.5\nMode: standalone\nZxid: 0x1\n")
				}
			})
		}
	})
	for _, command := range [][]string{{"why", "-i", "1"}, {"ensemble"}} {
		for _, c := range []struct {
			flags    []string
			answered bool
		}{{nil, false}, {[]string{"--tls-ca", file}, true}} {
			args := slices.Concat([]string{"-server", l.Addr().String(), "-o", "json"}, c.flags, command)
			out, errOut, code := run(t, t.Context(), nil, args...)
			if got := strings.Contains(out, `"answered":1`) || strings.Contains(out, `"mode":"standalone"`); got != c.answered {
				t.Errorf("%s: exit %d: %s%s", args, code, out, errOut)
			}
		}
	}
}
