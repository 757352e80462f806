package election

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// MasterOptions are what a Master can be told. The zero value is good for most.
type MasterOptions struct {
	// ID says who the master is. It is in the node's data, with a GUID behind it.
	ID string
	// Reserve is how long before the session may have ended mastership counts as lost
	// while there is no connection. It is time for the master to stop what it does.
	Reserve time.Duration
	// ACL is that of new nodes. Nil is client.OpenACL.
	ACL []client.ACL
}

// Master is the simplest election, that of the ZooKeeper book: whoever makes the node is
// master as long as it is there. All others watch it and are woken at once when it goes, and
// whoever is quickest is the next: so it is for few, and where order does not matter. Its
// methods may be called from any goroutine.
type Master struct {
	c    *client.Client
	path string
	o    MasterOptions
}

// NewMaster returns the mastership that the node at that path stands for. It does not talk
// to the servers. The error is that of a bad argument.
func NewMaster(c *client.Client, path string, o MasterOptions) (*Master, error) {
	if c == nil {
		return nil, fmt.Errorf("master: %w: the client is nil", client.ErrBadArguments)
	}
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("master: path %q: %w", path, err)
	}
	if o.Reserve < 0 {
		return nil, fmt.Errorf("master: %w: MasterOptions.Reserve is %v, but must not be negative", client.ErrBadArguments, o.Reserve)
	}
	return &Master{c, path, o}, nil
}

// Path returns the path of the master's node.
func (m *Master) Path() string { return m.path }

// Current returns who is master, and false if nobody is. It may be somebody else by the
// time that it returns.
func (m *Master) Current(ctx context.Context) (Candidate, bool, error) {
	node, err := m.c.Steady().Get(ctx, m.path)
	if errors.Is(err, client.ErrNoNode) {
		return Candidate{}, false, nil
	}
	if err != nil {
		return Candidate{}, false, m.failed(ctx, "find", err)
	}
	return Candidate{ID: masterID(node.Data), Path: m.path, Token: node.Stat.Czxid, Session: node.Stat.EphemeralOwner}, true, nil
}

// Run waits until it is master, calls fn then, and resigns when fn has returned. fn's
// context is the mastership's: it ends when that is lost, and with ctx. Run waits for fn
// in any case.
//
// It returns what fn does; and an error that wraps recipes.ErrLost as well if mastership was
// lost before fn had returned: then what fn did may have been done beside somebody else.
func (m *Master) Run(ctx context.Context, fn func(ctx context.Context, ms *Mastership) error) error {
	said, err := m.runOnce(ctx, fn)
	return errors.Join(said, err)
}

// RunAgain is Run again and again, whenever fn has returned nil or mastership is lost. fn is
// never called before it has returned. It goes on until ctx ends, or fn returns an error
// and mastership is not lost, or for what can't be mended by trying again: servers that
// refuse, the end of a session without client.Options.RenewSession.
func (m *Master) RunAgain(ctx context.Context, fn func(ctx context.Context, ms *Mastership) error) error {
	return serveAgain(ctx, m.c, func() (said, err error) { return m.runOnce(ctx, fn) })
}

func (m *Master) runOnce(ctx context.Context, fn func(ctx context.Context, ms *Mastership) error) (said, err error) {
	mastership, err := m.elect(ctx)
	if err != nil {
		return nil, m.failed(ctx, "become", err)
	}
	if said, err = serve(ctx, mastership, fn); err != nil {
		err = m.failed(ctx, "be", err)
	}
	return said, err
}

func (m *Master) failed(ctx context.Context, verb string, err error) error {
	return fmt.Errorf("%s master %s: %w", verb, m.path, line.Why(ctx, err))
}

// elect waits until it is master. If it fails there is no node left, or none soon.
func (m *Master) elect(ctx context.Context) (*Mastership, error) {
	for {
		if err := m.c.WaitConnected(ctx); err != nil {
			return nil, err // else there is no session to run in
		}
		r := m.newRun()
		stat, won, err := r.runForMaster(ctx)
		switch {
		case err != nil:
			r.withdraw(ctx)
			return nil, err
		case won:
			return r.won(ctx, stat), nil
		}
		if err := r.masterGone(ctx); err != nil {
			return nil, err
		}
	}
}

// run is one attempt to become master, in one session, of which one node comes at most.
type run struct {
	m       *Master
	c       *client.Client
	session client.SessionID
	data    []byte // that no other node has
	// unknown: the node was created or deleted, and no reply said so. It is looked for
	// before anything else is done, so there can't be two.
	unknown bool
	czxid   client.Zxid // of the node, once that is known
}

func (m *Master) newRun() *run {
	r := &run{m: m, data: masterData(m.o.ID)}
	r.session, _ = m.c.Session()
	r.c = m.c.Steady().InSession(r.session)
	return r
}

// masterData returns the ID and a GUID behind it.
func masterData(id string) []byte {
	if id != "" {
		id += " "
	}
	return []byte(id + line.NewID())
}

// masterID returns the ID in the data of a master's node; also of one that is not ours,
// and has no GUID.
func masterID(data []byte) string {
	s := string(data)
	const guid = len("00000000-0000-4000-8000-000000000000")
	i := len(s) - guid
	if i < 0 || strings.Count(s[i:], "-") != 4 {
		return s
	}
	return strings.TrimSuffix(s[:i], " ")
}

// runForMaster creates the node, and reports whether it has become master. What the loss
// of a connection leaves open checkMaster settles.
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

// checkMaster returns the Stat of the master's node, and false if there is none, and won't
// be one of this run: the servers refuse what the session sent on connections before.
func (r *run) checkMaster(ctx context.Context) (client.Stat, bool, error) {
	if r.unknown { // and the server may be behind the one that was asked to
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

// recognise notes which node is the run's own, if this is it.
func (r *run) recognise(data []byte, stat client.Stat) {
	if r.czxid == 0 && stat.EphemeralOwner == r.session && bytes.Equal(data, r.data) {
		r.czxid = stat.Czxid
	}
}

func (r *run) mine(stat client.Stat) bool { return r.czxid != 0 && stat.Czxid == r.czxid }

// masterGone waits until the master's node is gone.
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

// won makes the mastership of a run whose node has that Stat.
func (r *run) won(ctx context.Context, stat client.Stat) *Mastership {
	r.czxid = stat.Czxid
	o := line.HoldOptions{Reserve: r.m.o.Reserve, Session: r.session, Czxid: r.czxid}
	ctx, quit := context.WithCancel(ctx)
	return &Mastership{run: r, quit: quit, hold: line.NewHold(ctx, r.m.c, r.m.path, o)}
}
