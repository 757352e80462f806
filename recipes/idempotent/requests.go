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

// Options configure Requests. The zero value is good for most.
type Options struct {
	// TTL is the time after which the servers delete a marker; they count whole
	// milliseconds. TTL nodes must be enabled on the servers: otherwise, as on Apache's
	// by default, Do fails with client.ErrUnimplemented. With 0 markers stay until Prune
	// or Forget.
	TTL time.Duration
	// ACL is the access list of new nodes; nil means client.OpenACL.
	ACL []client.ACL
}

// Requests makes each requested change once. All methods may be called from any goroutine.
type Requests struct {
	c    *client.Client
	path string
	o    Options
}

// New returns the requests whose markers are below path. It sends no request.
func New(c *client.Client, path string, o Options) (*Requests, error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("idempotent: %w", err)
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < time.Millisecond {
		return nil, fmt.Errorf("idempotent: Options.TTL is %v: it should be 0, or 1ms or more: %w", o.TTL, client.ErrBadArguments)
	}
	return &Requests{c: c.Steady(), path: path, o: o}, nil
}

// prefix is the prefix of markers' names.
const prefix = "done-"

func (r *Requests) marker(id string) (string, error) {
	if id == "" {
		return "", fmt.Errorf("idempotent: id is empty: %w", client.ErrBadArguments)
	}
	return r.path + "/" + prefix + line.Escape(id), nil
}

// Outcome describes a request that is done.
type Outcome struct {
	// Before reports whether it was done before this call.
	Before bool
	// Results are the results of the operations. They are nil if Before is true, and if
	// the reply was lost.
	Results []client.OpResult
	// Zxid and At tell when it was done, At by the leader's clock. They are zero if the
	// marker has been deleted since, or if the server's reply does not contain them.
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

// Do does the operations in one transaction, unless a request with that id has been done.
// Paths are relative to the namespace of the client that New was given. The id is any text
// except "". If an operation fails, the error is as from Client.Multi. An ambiguous error
// means that the request may have been done, any other error that it was not. In both cases
// Do may be called again.
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

// Done reports whether a request has been done. The client's server may lag behind the
// others: call client.Client.Sync before it for the newest state.
func (r *Requests) Done(ctx context.Context, id string) (Outcome, bool, error) {
	marker, err := r.marker(id)
	if err != nil {
		return Outcome{}, false, err
	}
	found, err := r.c.Exists(ctx, marker)
	return outcome(found.Exists, found.Stat), found.Exists, err
}

// Forget deletes a request's marker: a later Do with the same id makes the change again. It
// is no error if there is no marker.
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

// Prune deletes the markers of requests that were done at least age ago, by the leader's
// clock, and returns their number. It reads each marker's Stat. If markers cannot be
// deleted, the error is that of the first; the next Prune tries again. The error wraps
// recipes.ErrLayout if a child is not a marker; then nothing is deleted.
func (r *Requests) Prune(ctx context.Context, age time.Duration) (removed int, err error) {
	return line.Sweep(ctx, r.c, r.path, age, client.AnyVersion, r.before)
}

// before returns the markers that are not newer than time, in milliseconds since 1970.
func (r *Requests) before(ctx context.Context, time int64) (markers []string, err error) {
	for e, err := range tree.Walk(ctx, r.c, r.path, tree.WalkOptions{Depth: 1}) {
		if errors.Is(err, client.ErrNoNode) {
			return nil, nil // the servers have just deleted the empty container
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
