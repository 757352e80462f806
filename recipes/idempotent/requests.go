package idempotent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Options are what Requests can be told. The zero value is good for most.
type Options struct {
	// TTL is after how long a marker goes by itself: milliseconds. The servers must
	// have such nodes switched on: Do fails with client.ErrUnimplemented if not, as
	// Apache's by default. 0 is for markers that stay until Prune or Forget.
	TTL time.Duration
	// ACL is that of new nodes; nil is client.OpenACL.
	ACL []client.ACL
}

// Requests are changes that are made once. All methods may be called from any goroutine.
type Requests struct {
	c    *client.Client
	path string
	o    Options
}

// New returns the requests with markers below path. It does not talk to the servers.
func New(c *client.Client, path string, o Options) (*Requests, error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("idempotent: %w", err)
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < time.Millisecond {
		return nil, fmt.Errorf("idempotent: Options.TTL is %v: it should be 0, or 1ms or more: %w", o.TTL, client.ErrBadArguments)
	}
	return &Requests{c: c.Steady(), path: path, o: o}, nil
}

// Path returns the path that the markers are below.
func (r *Requests) Path() string { return r.path }

// prefix begins the names of markers.
const prefix = "done-"

func (r *Requests) marker(id string) (string, error) {
	if id == "" {
		return "", fmt.Errorf("idempotent: id is empty: %w", client.ErrBadArguments)
	}
	return r.path + "/" + prefix + line.Escape(id), nil
}

// Outcome is what has become of a request that is done.
type Outcome struct {
	// Before is whether it was done before this call.
	Before bool
	// Results are those of the operations. They are nil if Before, and if the reply
	// was lost.
	Results []client.OpResult
	// Zxid and At are when it was done, At by the leader's clock. They are zero if the
	// marker has gone since, and in the reply of servers that don't tell.
	Zxid client.Zxid
	At   time.Time
}

func outcome(before bool, marker client.Stat) Outcome {
	o := Outcome{Before: before, Zxid: marker.Czxid}
	if marker.Ctime != 0 {
		o.At = time.UnixMilli(marker.Ctime)
	}
	return o
}

// Do does the operations as one, unless that has been done under that id. Paths are
// those of the client that New was given; any text is an id, but "". An operation's
// error is that of Client.Multi. If an error is ambiguous it may have been done; for all
// others it has not. Either way it may be asked for again.
func (r *Requests) Do(ctx context.Context, id string, ops ...client.Op) (Outcome, error) {
	marker, err := r.marker(id)
	if err != nil {
		return Outcome{}, err
	}
	d := &doing{r: r, marker: marker, tag: line.NewID()}
	d.ops = append([]client.Op{r.create(marker, d.tag)}, ops...)
	return d.settle(ctx)
}

func (r *Requests) create(marker, tag string) client.Op {
	if r.o.TTL > 0 {
		return client.CreateOp(marker, []byte(tag), client.CreateOptions{Mode: client.PersistentTTL, ACL: r.o.ACL, TTL: r.o.TTL})
	}
	return client.CreateOp(marker, []byte(tag), client.CreateOptions{ACL: r.o.ACL})
}

// Done reports whether a request has been done, as the server knows it, which may lag
// behind: a client.Client.Sync before makes it now.
func (r *Requests) Done(ctx context.Context, id string) (Outcome, bool, error) {
	marker, err := r.marker(id)
	if err != nil {
		return Outcome{}, false, err
	}
	found, err := r.c.Exists(ctx, marker)
	return outcome(found.Exists, found.Stat), found.Exists, err
}

// Forget removes a request's marker: nobody will ask for it again. There is no error if
// there is none.
func (r *Requests) Forget(ctx context.Context, id string) error {
	marker, err := r.marker(id)
	if err != nil {
		return err
	}
	err = settle.Delete(ctx, r.c, marker, client.AnyVersion, settle.DeleteOptions{})
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	return err
}

// Prune removes the markers of requests that were done that long ago, by the leader's
// clock, and returns how many. It reads each marker's Stat. What can't be removed is
// left for the next time, and the error says why. recipes.ErrLayout if there is a child
// that is no marker: nothing is removed then.
func (r *Requests) Prune(ctx context.Context, age time.Duration) (removed int, err error) {
	// The change tells what time it is for the leader.
	now, err := r.c.Set(ctx, r.path, nil, client.AnyVersion)
	if errors.Is(err, client.ErrNoNode) {
		return 0, nil
	}
	if err != nil {
		return 0, line.Settled(err, nil)
	}
	old, err := r.before(ctx, now.Mtime-age.Milliseconds())
	if err != nil {
		return 0, err
	}
	var deletes []*client.Future[client.None]
	for _, marker := range old {
		deletes = append(deletes, r.c.Async().Delete(marker, client.AnyVersion))
	}
	var errs error
	for _, f := range deletes {
		switch _, err := f.Wait(ctx); {
		case err == nil:
			removed++
		case !errors.Is(err, client.ErrNoNode) && errs == nil: // the first says it all
			errs = err
		}
	}
	return removed, errs
}

// before returns the markers made before that time, in milliseconds.
func (r *Requests) before(ctx context.Context, time int64) (markers []string, err error) {
	for e, err := range tree.Walk(ctx, r.c, r.path, tree.WalkOptions{Depth: 1}) {
		if errors.Is(err, client.ErrNoNode) {
			return nil, nil // it was empty, and has just gone
		}
		if err != nil {
			return nil, err
		}
		if e.Depth == 0 {
			continue
		}
		name, found := strings.CutPrefix(line.Base(e.Path), prefix)
		if _, err := line.Unescape(name); !found || err != nil {
			return nil, fmt.Errorf("%w: %s is not a marker; delete it, or use another path", recipes.ErrLayout, e.Path)
		}
		if e.Stat.Ctime <= time {
			markers = append(markers, e.Path)
		}
	}
	return markers, nil
}
