package client_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// Each operation of Client is one of Async, with the same arguments but for the
// context, and a future of what the other returns.
func TestEverySyncCallHasItsAsyncTwin(t *testing.T) {
	async := reflect.TypeFor[client.Async]()
	twins := make(map[string]bool)
	for _, sync := range []struct {
		of     reflect.Type
		others string // what is not one operation of the protocol, or has no twin
	}{
		{reflect.TypeFor[*client.Client](), "Async Close Ensemble Feed Follow InSession Namespace Options Root Session State Status Steady Unrooted WaitConnected WithInbox WithRetry"},
		{reflect.TypeFor[client.Session](), "Background ID Key States"},
		{reflect.TypeFor[client.Ensemble](), "Configuration Configure Drain KeepAway TransferLeader Unconfigure"},
	} {
		for i := range sync.of.NumMethod() {
			m := sync.of.Method(i)
			if slices.Contains(strings.Fields(sync.others), m.Name) {
				continue
			}
			twins[m.Name] = true
			twin, ok := async.MethodByName(m.Name)
			if !ok {
				t.Errorf("Async has no %s", m.Name)
				continue
			}
			want := arguments(m.Type, 2) // the receiver and the context
			if got := arguments(twin.Type, 1); !slices.Equal(got[:len(got)-1], want) {
				t.Errorf("Async.%s takes %v, and %v takes %v", m.Name, got, sync.of, want)
			}
		}
	}
	for i := range async.NumMethod() {
		if name := async.Method(i).Name; !twins[name] {
			t.Errorf("there is no %s that waits", name)
		}
	}
}

// arguments lists the types of a method's arguments from the n-th; a variadic one
// counts as a slice.
func arguments(m reflect.Type, n int) (types []string) {
	for i := n; i < m.NumIn(); i++ {
		types = append(types, m.In(i).String())
	}
	return types
}

func TestEventPrintsLikeZooKeepers(t *testing.T) {
	for want, ev := range map[string]client.Event{
		"WatchedEvent state:SyncConnected type:NodeDataChanged path:/c1":         {Type: client.EventDataChanged, State: client.StateConnected, Path: "/c1", Zxid: -1},
		"WatchedEvent state:SyncConnected type:NodeCreated path:/c1 zxid: 5":     {Type: client.EventCreated, State: client.StateConnected, Path: "/c1", Zxid: 5},
		"WatchedEvent state:SyncConnected type:NodeDeleted path:/":               {Type: client.EventDeleted, State: client.StateConnected, Path: "/"},
		"WatchedEvent state:ConnectedReadOnly type:NodeChildrenChanged path:/c1": {Type: client.EventChildrenChanged, State: client.StateReadOnly, Path: "/c1"},
		"WatchedEvent state:Disconnected type:None path:null":                    {Type: client.EventSession, State: client.StateSuspended, Zxid: -1},
		"WatchedEvent state:Expired type:None path:null":                         {Type: client.EventSession, State: client.StateExpired},
		"WatchedEvent state:AuthFailed type:None path:null":                      {Type: client.EventSession, State: client.StateAuthFailed},
		"WatchedEvent state:Closed type:None path:null":                          {Type: client.EventSession, State: client.StateClosed},
	} {
		if got := ev.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// New returns at once; what is called before there is a connection waits for one.
func TestCallsWaitForTheFirstConnection(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	s.Stop()
	c, err := client.New(s.ConnectString(), client.Options{Logger: client.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	f := c.Async().Create("/a", []byte("early"), client.CreateOptions{})
	if _, done, err := f.Result(); done || c.State() != client.StateConnecting {
		t.Fatalf("without a server: done %v, %v, in state %v", done, err, c.State())
	}
	s.Restart()
	if _, err := f.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if node, err := c.Get(t.Context(), "/a"); string(node.Data) != "early" || err != nil {
		t.Errorf("get = %q, %v", node.Data, err)
	}
}

// A session can be taken over by who knows its id and password: its ephemeral nodes
// stay.
func TestSessionIsTakenOver(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	door := zktest.NewProxy(t, s.Addr())
	first, err := client.Connect(t.Context(), door.ConnectString(), client.Options{Logger: client.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Create(t.Context(), "/mine", nil, client.CreateOptions{Mode: client.Ephemeral}); err != nil {
		t.Fatal(err)
	}
	key := first.Session().Key()
	door.Refuse() // its process is gone
	door.CutConnections()
	defer first.Close(context.Background())

	second, err := client.Connect(t.Context(), s.ConnectString(), client.Options{Session: key, Logger: client.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := second.Exists(t.Context(), "/mine"); err != nil || !found.Exists || found.Stat.EphemeralOwner != key.ID {
		t.Errorf("exists = %+v, %v, %v, want a node of session %v", found.Stat, found.Exists, err, key.ID)
	}
	if err := second.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = client.Connect(t.Context(), s.ConnectString(), client.Options{Session: key, Logger: client.NoLog})
	if !errors.Is(err, client.ErrSessionExpired) {
		t.Errorf("connect with the session that is over: %v", err)
	}
}

// A server that restarts is a short disconnection: the handle stays good, and the
// session the same.
func TestStatesWhenTheServerRestarts(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	var mu sync.Mutex
	var told []string
	c := s.Client(t, func(o *client.Options) {
		o.Watcher = func(ev client.Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, ev.String())
		}
	})
	id := c.Session().ID()
	states := c.Session().States(t.Context())
	s.Restart()
	for _, want := range []client.State{client.StateSuspended, client.StateConnected} {
		if got := <-states; got.To != want || got.Session != id {
			t.Fatalf("state %v of session %v, want %v of %v", got.To, got.Session, want, id)
		}
	}
	if _, err := c.Get(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}) // callbacks come in order
	c.Async().Exists("/", func(client.Presence, error) { close(done) })
	<-done
	mu.Lock()
	defer mu.Unlock()
	want := []string{
		"WatchedEvent state:SyncConnected type:None path:null",
		"WatchedEvent state:Disconnected type:None path:null",
		"WatchedEvent state:SyncConnected type:None path:null",
	}
	if !slices.Equal(told, want) {
		t.Errorf("the watcher was told\n%s", strings.Join(told, "\n"))
	}
}

// What a client logs of its connection: where to, which session, which timeout, and
// why it was lost.
func TestLogOfAConnection(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	out := new(lockedBuilder)
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := s.Client(t, func(o *client.Options) { o.Logger = log })
	states := c.Session().States(t.Context())
	id := c.Session().ID()
	s.CutConnections()
	for change := range states {
		if change.To == client.StateConnected {
			break
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	established := `msg="session established" server=` + s.Addr() + " address=" + s.Addr() + " session=" + id.String() + " timeout=" + c.Status().Timeout.String()
	wants := []string{"level=DEBUG " + established, `level=WARN msg="connection lost" server=` + s.Addr() + " session=" + id.String(), "level=INFO " + established}
	if len(lines) != len(wants) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(wants), out.String())
	}
	for i, want := range wants {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is\n%s\nand lacks\n%s", i+1, lines[i], want)
		}
	}
}

type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestSessionDeadlineMovesWithAnswersUntilTheSessionEnds(t *testing.T) {
	srv := zktest.Start(t)
	c := srv.Client(t)
	before := time.Now()
	if _, err := c.Exists(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	end := c.Status().Deadline
	if end.Before(before.Add(c.Status().Timeout)) || end.After(time.Now().Add(c.Status().Timeout)) {
		t.Errorf("the session is kept until %v, but was heard of between %v and %v", end, before, time.Now())
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end := c.Status().Deadline; !end.IsZero() {
		t.Errorf("a closed session is kept until %v", end)
	}
}
