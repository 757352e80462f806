package election

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Master is the simplest election, that of the ZooKeeper book: the candidate that creates
// the node is master as long as it exists. All others watch it and are all woken when it is
// deleted, and the quickest is the next. So it is for few candidates, and where order does
// not matter. Its methods may be called from any goroutine.
type Master struct {
	c    *client.Client
	path string
	o    hold.Options
}

// NewMaster returns the election whose master has the node at that path. Its data are those
// of the Options, a space and a GUID. It does not contact the servers. The error is that of
// a bad argument.
func NewMaster(c *client.Client, path string, o hold.Options) (*Master, error) {
	if c == nil {
		return nil, fmt.Errorf("master: %w: the client is nil", client.ErrBadArguments)
	}
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("master: path %q: %w", path, err)
	}
	if err := o.Complete(); err != nil {
		return nil, fmt.Errorf("master: %w", err)
	}
	return &Master{c, path, o}, nil
}

// Path returns the path of the master's node.
func (m *Master) Path() string { return m.path }

// Current returns the master, and false if there is none. Its Data are without the GUID.
// There may be another one by the time that it returns.
func (m *Master) Current(ctx context.Context) (hold.Contender, bool, error) {
	node, err := m.c.Steady().Get(ctx, m.path)
	if errors.Is(err, client.ErrNoNode) {
		return hold.Contender{}, false, nil
	}
	if err != nil {
		return hold.Contender{}, false, m.failed(ctx, "find", err)
	}
	node.Data = withoutGUID(node.Data)
	return hold.Contender{Path: m.path, Holds: true}.With(node), true, nil
}

// Run waits until it is master, calls fn, and releases when fn has returned. The context of
// fn is that of the mastership, which also ends with ctx. Run waits for fn in any case.
//
// It returns the error of fn, joined with one that wraps recipes.ErrLost if mastership was
// lost before fn returned.
func (m *Master) Run(ctx context.Context, fn func(ctx context.Context, ms *Mastership) error) error {
	said, err := m.runOnce(ctx, fn)
	return errors.Join(said, err)
}

// RunAgain repeats Run whenever fn has returned nil or mastership was lost. fn is never
// called before it has returned. RunAgain ends when ctx does, when fn returns an error and
// mastership was not lost, and if trying again cannot help: if the servers refuse, or the
// session ends without client.Options.RenewSession.
func (m *Master) RunAgain(ctx context.Context, fn func(ctx context.Context, ms *Mastership) error) error {
	return serveAgain(ctx, m.c, func() (said, err error) { return m.runOnce(ctx, fn) })
}

func (m *Master) runOnce(ctx context.Context, fn func(ctx context.Context, ms *Mastership) error) (said, err error) {
	mastership, err := m.elect(ctx, func(State) {})
	if err != nil {
		return nil, m.failed(ctx, "become", err)
	}
	said, err = mastership.tenure.serve(ctx, func(ctx context.Context) error { return fn(ctx, mastership) })
	if err != nil {
		err = m.failed(ctx, "be", err)
	}
	return said, err
}

func (m *Master) failed(ctx context.Context, verb string, err error) error {
	return fmt.Errorf("%s master %s: %w", verb, m.path, line.Why(ctx, err))
}

// elect waits until it is master, and reports its progress until then. If it fails, its node
// is deleted, if need be in the background.
func (m *Master) elect(ctx context.Context, progress func(State)) (*Mastership, error) {
	for {
		if err := m.c.WaitConnected(ctx); err != nil {
			return nil, err // there is no session to run in
		}
		r := m.newRun()
		progress(Joining)
		stat, won, err := r.runForMaster(ctx)
		switch {
		case err != nil:
			r.withdraw(ctx)
			return nil, err
		case won:
			return r.won(ctx, stat), nil
		}
		progress(Standing)
		if err := r.masterGone(ctx); err != nil {
			return nil, err
		}
	}
}

// run is one attempt to become master, in one session. It creates at most one node.
type run struct {
	m       *Master
	c       *client.Client
	session client.SessionID
	data    []byte // that no other node has
	// unknown means that a create or delete was not answered. The node is looked for before
	// anything else is done, so there cannot be two.
	unknown bool
	czxid   client.Zxid // of the node, once that is known
}

func (m *Master) newRun() *run {
	r := &run{m: m, data: withGUID(m.o.Data)}
	r.session = m.c.Session().ID()
	r.c = m.c.Steady().InSession(r.session)
	return r
}

// withGUID returns data, a space and a new GUID.
func withGUID(data []byte) []byte {
	if len(data) == 0 {
		return []byte(line.NewID())
	}
	return []byte(string(data) + " " + line.NewID())
}

// withoutGUID returns the data of a master's node without the GUID, which those of other
// programs do not have.
func withoutGUID(data []byte) []byte {
	s := string(data)
	const guid = len("00000000-0000-4000-8000-000000000000")
	i := len(s) - guid
	if i < 0 || strings.Count(s[i:], "-") != 4 {
		return data
	}
	return bytes.TrimSuffix(data[:i], []byte(" "))
}

// runForMaster creates the node, and reports whether that made it master. If the connection
// was lost, checkMaster determines the outcome.
func (r *run) runForMaster(ctx context.Context) (client.Stat, bool, error) {
	for {
		made, err := r.c.Create(ctx, r.m.path, r.data, client.CreateOptions{Mode: client.Ephemeral, ACL: r.m.o.ACL, Stat: true})
		switch {
		case err == nil:
			return made.Stat, true, nil
		case errors.Is(err, client.ErrNodeExists):
			return client.Stat{}, false, nil
		case errors.Is(err, client.ErrNoNode):
			if err := settle.Ensure(ctx, r.c, line.Parent(r.m.path), client.CreateOptions{Mode: client.Container, ACL: r.m.o.ACL}); err != nil {
				return client.Stat{}, false, err
			}
			continue
		case !client.IsAmbiguous(err):
			return client.Stat{}, false, err
		}
		r.unknown = true
		stat, there, err := r.checkMaster(ctx)
		if err != nil {
			return client.Stat{}, false, err
		}
		r.unknown = false
		if there {
			return stat, r.mine(stat), nil
		}
	}
}

// checkMaster returns the Stat of the master's node, and false if there is none. There will
// be none of this run either: the servers refuse what the session sent on earlier
// connections.
func (r *run) checkMaster(ctx context.Context) (client.Stat, bool, error) {
	if r.unknown { // and this server may lag behind the one that received the request
		if err := r.c.Sync(ctx, r.m.path); err != nil {
			return client.Stat{}, false, err
		}
	}
	node, err := r.c.Get(ctx, r.m.path)
	if errors.Is(err, client.ErrNoNode) {
		return client.Stat{}, false, nil
	}
	if err == nil {
		r.recognise(node.Data, node.Stat)
	}
	return node.Stat, err == nil, err
}

// recognise records the node as the run's own if it is.
func (r *run) recognise(data []byte, stat client.Stat) {
	if r.czxid == 0 && stat.EphemeralOwner == r.session && bytes.Equal(data, r.data) {
		r.czxid = stat.Czxid
	}
}

func (r *run) mine(stat client.Stat) bool { return r.czxid != 0 && stat.Czxid == r.czxid }

// masterGone waits until the master's node is deleted.
func (r *run) masterGone(ctx context.Context) error {
	for {
		node, err := r.c.GetW(ctx, r.m.path)
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		event, err := line.Next(ctx, node.Watch)
		if err != nil || event.Type == client.EventDeleted {
			return err
		}
	}
}
