package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkd/testserver"
)

// TestTestServer orders each fault, as the tests of a program do, and looks at what a client sees of it.
func TestTestServer(t *testing.T) {
	t.Parallel() // it waits for processes, most of the time
	out, ctx := newOutput(), t.Context()
	cmd := program(t, "test-server", "--json", "--servers", "3")
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	cmd.Stdout, cmd.Stderr = out, out
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := ending(t, cmd)
	var state testserver.State
	if err := json.Unmarshal([]byte(awaitOf(t, out, ended, `(?m)^(\{.*\})$`)), &state); err != nil || state.Leader == 0 {
		t.Fatalf("%+v %v", state, err)
	}
	order := func(method, path string, want int) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, state.Control+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, text, err)
		}
		if want == http.StatusOK {
			if err := json.Unmarshal(text, &state); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
	c, err := client.Connect(ctx, state.ConnectString, client.Options{KeepSession: true, Timeout: time.Hour, Logger: client.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: client.Ephemeral}); err != nil {
		t.Fatal(err)
	}
	id, since := c.Session().ID(), c.Status().Since
	changes := c.Session().States(ctx)

	order(http.MethodGet, "/", 200)
	if !strings.Contains(fmt.Sprint(state.Servers), id.String()) {
		t.Errorf("session %v is at no server: %+v", id, state)
	}
	order(http.MethodPost, "/sessions/"+id.String()+"/drop", 200)
	for s := range changes {
		if s.To == client.StateConnected && c.Status().Since != since {
			break
		}
	}
	if there, err := c.Exists(ctx, "/e"); err != nil || !there.Exists {
		t.Errorf("after the loss of its connection: %+v %v", there, err)
	}

	order(http.MethodPost, "/servers/leader/kill", 200)
	down := 0
	for _, s := range state.Servers {
		if !s.Running {
			down = s.ID
		}
	}
	if _, err := c.Set(ctx, "/e", []byte("x"), client.AnyVersion); err != nil {
		t.Errorf("after the death of a leader: %v", err)
	}
	order(http.MethodPost, fmt.Sprintf("/servers/%d/pause", down), http.StatusConflict)
	order(http.MethodPost, fmt.Sprintf("/servers/%d/start", down), 200)
	if !state.Servers[down-1].Running {
		t.Errorf("server %d does not run: %+v", down, state)
	}
	order(http.MethodPost, fmt.Sprintf("/servers/%d/pause", down), 200)
	order(http.MethodPost, fmt.Sprintf("/servers/%d/resume", down), 200)
	order(http.MethodPost, fmt.Sprintf("/servers/%d/stop", down), 200)
	// Orders do not wait for each other: the first one here needs the second.
	others := []int{down%3 + 1, (down+1)%3 + 1}
	for _, id := range others {
		order(http.MethodPost, fmt.Sprintf("/servers/%d/pause", id), 200)
	}
	started, start := make(chan error, 1), fmt.Sprintf("%s/servers/%d/start", state.Control, down)
	go func() {
		resp, err := http.Post(start, "", nil)
		if err == nil {
			resp.Body.Close()
		}
		started <- err
	}()
	for order(http.MethodGet, "/", 200); !state.Servers[down-1].Running; {
		order(http.MethodGet, "/", 200)
	}
	for _, id := range others {
		order(http.MethodPost, fmt.Sprintf("/servers/%d/resume", id), 200)
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/servers/4/kill", "/servers/1/dance", "/sessions/0x5/drop", "/sessions/0x5/expire", "/sessions/x/drop"} {
		order(http.MethodPost, path, http.StatusNotFound)
	}
	order(http.MethodPost, "/sessions/drop", 200)
	if _, err := c.Set(ctx, "/e", nil, client.AnyVersion); err != nil {
		t.Errorf("after the loss of all connections: %v", err)
	}
	order(http.MethodPost, "/sessions/"+id.String()+"/expire", 200)
	if _, err := c.Exists(ctx, "/e"); !errors.Is(err, client.ErrSessionExpired) {
		t.Errorf("after the end of the session: %v", err)
	}

	stdin.Close()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v:\n%s", err, out)
	}
	for _, s := range state.Servers {
		if nc, err := net.Dial("tcp", s.Address); err == nil {
			nc.Close()
			t.Errorf("server %d still listens", s.ID)
		}
	}
}

// TestTestServerWithoutInput starts a test server whose input has ended already, as in a background job.
func TestTestServerWithoutInput(t *testing.T) {
	t.Parallel()
	cmd := program(t, "test-server")
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	served := err == nil && strings.Contains(string(out), "They end with the standard input.") // faster than it saw the end
	if !served && (err == nil || !strings.Contains(string(out), errInputClosed.Error())) {
		t.Errorf("%v: %s", err, out)
	}
}
