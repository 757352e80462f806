package client_test

import (
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// Options.Watcher and Trace.Event are told paths as the client names them, also if
// the connect string ends in one.
func TestWatcherPathsAreBelowTheRoot(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	ctx := t.Context()
	if _, err := s.Client(t).Create(ctx, "/app", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	told, traced := make(chan client.Event, 10), make(chan client.Event, 10)
	c, err := client.Connect(ctx, s.ConnectString()+"/app", client.Options{
		Logger: client.NoLog,
		Watcher: func(ev client.Event) {
			if ev.Type != client.EventSession {
				told <- ev
			}
		},
		Trace: client.Trace{Event: func(ev client.Event) { traced <- ev }},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.AddWatch(ctx, "/", client.WatchRecursive); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Set(ctx, "/", nil, client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(ctx, "/a", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/a"} {
		if got := (<-told).Path; got != path {
			t.Errorf("Options.Watcher was told %q of %s", got, path)
		}
		if got := (<-traced).Path; got != path {
			t.Errorf("Trace.Event was told %q of %s", got, path)
		}
	}
}
