package proxy

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/shadow"
)

// record makes a record of what use does, and returns it with the password of its session.
func record(t *testing.T, secrets bool, use func(*client.Client) error) (text, password []byte) {
	t.Helper()
	server := zktest.Start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	recorder := NewRecorder(&file, secrets)
	relay := Relay{Servers: []string{server.Addr()}, Tap: recorder}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- relay.Serve(ctx, l) }()
	c, err := client.Connect(t.Context(), l.Addr().String(), client.Options{Logger: client.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	password = c.Session().Key().Password
	if err := use(c); err != nil {
		t.Error(err)
	}
	c.Close(t.Context()) // use may have closed it
	end()
	if err := errors.Join(<-served, recorder.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), password
}

// A record that is replayed does the same, through a shadow, on two other servers.
func TestReplay(t *testing.T) {
	text, _ := record(t, false, func(c *client.Client) error { return play(t.Context(), c) })
	a, z := zktest.Start(t), zktest.Start(t)
	s := newStage(t, a.Addr(), z.Addr(), nil)
	done, err := Replay(t.Context(), bytes.NewReader(text), s.addr)
	if err != nil || done.Connections != 1 || done.Requests < 14 || done.Broken != 0 {
		t.Errorf("replayed %+v, %v", done, err)
	}
	if sum := s.clean(t); sum.Compared < 13 || sum.Events < 2 || sum.Order > 0 {
		t.Errorf("summary:\n%s", sum.Text())
	}
	node, err := a.Client(t).Get(t.Context(), "/a")
	if err != nil || string(node.Data) != "x" {
		t.Errorf("after the replay /a is %q, %v", node.Data, err)
	}
}

// A session that moved to another connection does so in the replay.
func TestReplayOfASessionThatMoves(t *testing.T) {
	server := zktest.Start(t)
	var file bytes.Buffer
	recorder := NewRecorder(&file, false)
	send := func(id int, request []byte) {
		recorder.FromClient(shadow.ConnID(id), jute.AppendBuffer(nil, request))
	}
	answer := func(id int, answer []byte) { recorder.FromServer(shadow.ConnID(id), jute.AppendBuffer(nil, answer)) }
	connect := jute.ConnectRequest{TimeoutMs: 10000, Password: make([]byte, jute.PasswordLen)}
	connected := jute.ConnectResponse{TimeoutMs: 10000, SessionID: 77, Password: []byte("0123456789abcdef")}
	recorder.Open(1)
	send(1, connect.Append(nil))
	answer(1, connected.Append(nil))
	create := jute.CreateRequest{Path: "/mine", ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}, Mode: jute.ModeEphemeral}
	send(1, append([]byte{0, 0, 0, 1, 0, 0, 0, 1}, create.Append(nil)...))
	answer(1, append([]byte{0, 0, 0, 1}, make([]byte, 12)...))
	recorder.Closed(1)
	connect.SessionID, connect.Password, connect.LastZxidSeen = 77, connected.Password, 1<<40
	recorder.Open(2)
	send(2, connect.Append(nil))
	answer(2, connected.Append(nil))
	send(2, []byte{0, 0, 0, 2, 0xff, 0xff, 0xff, 0xf5}) // closeSession
	answer(2, append([]byte{0, 0, 0, 2}, make([]byte, 12)...))
	recorder.Closed(2)
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	done, err := Replay(t.Context(), &file, server.Addr())
	if err != nil || done.Connections != 2 || done.Requests != 4 || done.Broken != 0 {
		t.Errorf("replayed %+v, %v", done, err)
	}
	if p, err := server.Client(t).Exists(t.Context(), "/mine"); err != nil || p.Exists {
		t.Errorf("the ephemeral of the session that was closed: %+v, %v", p, err)
	}
}

// Secrets are in a record only if it is asked for.
func TestSecretsInRecords(t *testing.T) {
	const login = "user:very-secret"
	for _, secrets := range []bool{false, true} {
		text, password := record(t, secrets, func(c *client.Client) error {
			return c.Session().AddAuth(t.Context(), "digest", []byte(login))
		})
		var frames []byte
		if err := readSteps(bytes.NewReader(text), func(s step) error {
			frames = append(frames, s.Frame...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, secret := range [][]byte{[]byte(login), password} {
			if got := bytes.Contains(frames, secret); got != secrets {
				t.Errorf("secrets=%v: %q is in the record: %v", secrets, secret, got)
			}
		}
		server := zktest.Start(t)
		done, err := Replay(t.Context(), bytes.NewReader(text), server.Addr())
		if err != nil || done.Broken != 0 || (done.Hidden == 1) == secrets {
			t.Errorf("secrets=%v: replayed %+v, %v", secrets, done, err)
		}
	}
}

// What is no record, or a damaged one, is refused or ends early; it hangs nothing.
func TestDamagedRecords(t *testing.T) {
	server := zktest.Start(t)
	head := `{"format":"zkd-record","version":1}` + "\n"
	frame := func(b string) string { return base64.StdEncoding.EncodeToString([]byte(b)) }
	tests := []struct{ text, want string }{
		{"", "no record"},
		{"hello", "no record"},
		{`{"format":"zkd-record","version":2}`, "no record"},
		{head + `{"conn":1,"do":"open"`, "step 1"},
		{head + `{"conn":1,"do":"open"}{"conn":1,"do":"jump"}`, `"jump"`},
		{head + `{"conn":1,"do":"request","frame":"AAAA"}{"conn":1,"do":"answer"}{"conn":1,"do":"close"}`, ""},
		{head + `{"conn":1,"do":"open"}{"conn":1,"do":"request","frame":"` + frame("nonsense") + `"}{"conn":1,"do":"answer"}`, ""},
	}
	for _, tt := range tests {
		_, err := Replay(t.Context(), strings.NewReader(tt.text), server.Addr())
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: error %v, want %q", tt.text, err, tt.want)
		}
	}
}
