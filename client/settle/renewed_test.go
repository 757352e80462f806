package settle

import (
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// TestCreateDoesNotTakeTheNodeOfAnEarlierSession has a create in doubt whose node another session made, as the one
// before a renewal does if its end takes longer than the renewal.
func TestCreateDoesNotTakeTheNodeOfAnEarlierSession(t *testing.T) {
	srv := zktest.Start(t)
	c, earlier := srv.Client(t), srv.Client(t)
	for mode, want := range map[client.CreateMode]error{client.Ephemeral: client.ErrSessionExpired, client.Persistent: nil} {
		path := "/_c_" + NewGUID() + "-x"
		if _, err := earlier.Create(t.Context(), path, nil, client.CreateOptions{Mode: mode}); err != nil {
			t.Fatal(err)
		}
		p := &creation{c: c, dir: "/", path: path, o: client.CreateOptions{Mode: mode}, unknown: true}
		made, err := p.attempt(t.Context(), nil)
		if !errors.Is(err, want) || (made.Path == path) != (want == nil) || !p.unknown {
			t.Errorf("%v: got %q, %v, in doubt %v; want %v, and it stays in doubt", mode, made.Path, err, p.unknown, want)
		}
	}
}
