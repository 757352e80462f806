package command

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
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

// TestWhyAsksWhomTheyKnow names some members, of which others tell only one by one, and wants all asked before
// it says what is wrong; an id that there is not is refused before anybody is asked.
func TestWhyAsksWhomTheyKnow(t *testing.T) {
	const srvr = "Zookeeper version: 3.9.5-zkd, built\nZxid: 0x100000001\nMode: "
	texts := func(id int, mode string) *likeness {
		return &likeness{texts: map[string]string{"srvr": srvr + mode + "\n", "mntr": "zk_quorum_size\t3\n", "conf": fmt.Sprintf("serverId=%d\n", id)}}
	}
	first, second, third, observer := texts(1, "follower"), texts(2, "follower"), texts(3, "leader"), texts(4, "observer")
	at := []string{first.serve(t), second.serve(t), third.serve(t), observer.serve(t)}
	line := func(id int, kind string) string {
		return fmt.Sprintf("server.%d=h:2888:3888:%s;%s\n", id, kind, at[id-1])
	}
	first.texts["conf"] += line(2, "participant")
	second.texts["conf"] += line(3, "participant")
	third.texts["conf"] += line(4, "observer")
	out, errOut, code := run(t, t.Context(), nil, "-server", at[0], "-o", "json", "why", "-i", "1", "--within", "1m")
	if !strings.Contains(out, `"answered":4`) || strings.Contains(out, "no-quorum") {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
	if out, errOut, code := run(t, t.Context(), nil, "-server", at[0], "why", "-i", "1", "--ignore", "open-root,typo"); code != exitUsage || out != "" || !strings.Contains(errOut, `there is no finding "typo"`) {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
}

// TestOneWithoutAQuorum names one server of three, which finds no quorum. It tells who the others are, and
// one of them runs.
func TestOneWithoutAQuorum(t *testing.T) {
	const refusal = "This ZooKeeper instance is not currently serving requests\n"
	first, second := &likeness{texts: map[string]string{"srvr": refusal}}, &likeness{texts: map[string]string{"srvr": refusal}}
	at := []string{first.serve(t), second.serve(t), "127.0.0.1:1"}
	conf := "serverId=1\nmembership: \n"
	for i, addr := range at {
		conf += fmt.Sprintf("server.%d=h:2888:3888:participant;%s\n", i+1, addr)
	}
	first.texts["conf"], second.texts["conf"] = conf, refusal
	for command, want := range map[string][]string{
		"why -i 1 --within 1m":    {`"servers":3`, `"answered":2`, "no-quorum", at[1] + " runs"},
		"ensemble -a --within 1m": {at[0], at[1], at[2]},
	} {
		out, errOut, code := run(t, t.Context(), nil, slices.Concat([]string{"-server", at[0], "-o", "json"}, strings.Fields(command))...)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: exit %d, no %s: %s%s", command, code, w, out, errOut)
			}
		}
	}
}

// TestWordsOverTLS asks a server that has only a port with TLS and one that has TLS and plain text on
// one port. The first of them does not serve, and its admin pages, with TLS as well, say why.
func TestWordsOverTLS(t *testing.T) {
	ca, dir := certs.New(t, "CA"), t.TempDir()
	trust := certs.Write(t, dir, "ca.pem", ca.CertPEM())
	key := certs.Write(t, dir, "key.pem", ca.Issue("127.0.0.1").PEM(t))
	unified := zktest.Start(t, zktest.Config("client.portUnification=true", "ssl.clientAuth=none",
		"ssl.keyStore.location="+key, "ssl.trustStore.location="+trust))
	keys := &tls.Config{Certificates: []tls.Certificate{ca.Issue("127.0.0.1").TLS()}}
	l, err := tls.Listen("tcp", "127.0.0.1:0", keys)
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
					io.WriteString(conn, "This ZooKeeper instance is not currently serving requests\n")
				}
			})
		}
	})
	pages := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "[-] quorum: it looks for a leader\nnot ok\n")
	}))
	pages.TLS = keys
	pages.Config.ErrorLog = log.New(io.Discard, "", 0)
	pages.StartTLS()
	defer pages.Close()
	_, adminPort, _ := net.SplitHostPort(pages.Listener.Addr().String())

	withTLS := []string{"--tls-ca", trust}
	for _, tt := range []struct {
		at      string
		flags   []string
		command string
		want    string
	}{
		{unified.ConnectString(), nil, "why -i 1", `"answered":1`},
		{unified.ConnectString(), withTLS, "why -i 1", `"answered":1`},
		{unified.ConnectString(), nil, "ensemble", `"mode":"standalone"`},
		{unified.ConnectString(), withTLS, "ensemble", `"mode":"standalone"`},
		{l.Addr().String(), nil, "why -i 1", `"answered":0`},
		{l.Addr().String(), withTLS, "why -i 1", `runs, and finds no quorum.`},
		{l.Addr().String(), withTLS, "why -i 1 --admin-port " + adminPort, `runs, and finds no quorum: it looks for a leader`},
		{l.Addr().String(), withTLS, "ensemble", `not serving: no quorum`},
	} {
		args := slices.Concat([]string{"-server", tt.at, "-o", "json"}, tt.flags, strings.Fields(tt.command))
		if out, errOut, code := run(t, t.Context(), nil, args...); !strings.Contains(out, tt.want) {
			t.Errorf("%s: exit %d, want %s: %s%s", args, code, tt.want, out, errOut)
		}
	}
}
