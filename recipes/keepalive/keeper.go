package keepalive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// keeper is the goroutine of a Node. It compares what there is with what is wanted and
// does the next step towards that, one request at a time. When it doesn't know what
// there is, because a connection broke, it looks, and only then does the next step.
// So nothing is ever repeated that has been done, nor anything done that is not wanted
// any more.
type keeper struct {
	n   *Node
	ctx context.Context // of all requests: they end with the client
	c   *client.Client  // for the session at hand; made by live

	path    string // "" until the servers have given it its number
	session client.SessionID
	// tried are the sessions of ours that may have made a node at path.
	tried []client.SessionID

	// What there is, unless unsure:
	unsure  bool
	there   bool        // the node is there, of this session
	stat    client.Stat // as of when it was last seen or changed
	data    []byte      // what the node was last seen with
	had     bool        // data is set: there was a node once
	written uint64      // the Node.asked that data counts as; 0 is none
	refused uint64      // the Node.asked that the servers did not take
	doubt   bool        // a create in this session may have been done
	// watch is told when what is at path goes: the node, or that of somebody else
	// which is in the way.
	watch *client.Watch
	// trouble is why the node is not there.
	trouble  error
	failures int // since something went well

	left error // why the node could not be deleted
}

func newKeeper(n *Node) *keeper {
	k := &keeper{n: n, ctx: context.Background(), path: n.path}
	if n.o.Protected || n.o.Sequential {
		i := strings.LastIndexByte(n.path, '/') + 1
		k.path = n.path[:i] + "_c_" + line.NewID() + "-" + n.path[i:]
	}
	if n.o.Sequential {
		k.path = ""
	}
	return k
}

// errDone ends the keeper after Close.
var errDone = errors.New("the node is gone")

// run returns why it has ended: nil after Close.
func (k *keeper) run() error {
	for {
		if err := k.n.c.WaitConnected(k.n.open); err != nil {
			if k.n.open.Err() != nil {
				return nil
			}
			return fmt.Errorf("%w: %s: %w", recipes.ErrLost, k.name(), err)
		}
		switch err := k.live(); {
		case errors.Is(err, errDone):
			return nil
		case err != nil && !sessionOver(err):
			return err
		}
	}
}

// sessionOver reports whether something failed because the session is over.
func sessionOver(err error) bool {
	if e, ok := errors.AsType[*client.Error](err); ok {
		err = e.Err // what lies behind it may be another one's end
	}
	return errors.Is(err, client.ErrSessionExpired) || errors.Is(err, client.ErrClosed) || errors.Is(err, client.ErrAuthFailed)
}

// name is the node's path for errors.
func (k *keeper) name() string {
	if k.path == "" {
		return k.n.path
	}
	return k.path
}

// live keeps the node during one session. It returns why it doesn't any more.
func (k *keeper) live() error {
	if !k.begin() {
		return nil // it has ended since
	}
	for {
		err := k.step()
		switch {
		case err == nil:
			k.failures = 0
		case sessionOver(err):
			k.there, k.trouble = false, err
			k.tell()
			return err
		case transient(err):
			k.unsure, k.trouble = true, err
			k.tell()
			k.pause()
		default:
			if !errors.Is(err, errDone) {
				k.abandon()
			}
			return err
		}
	}
}

// begin makes the client's session that of the keeper, in which there is nothing yet. It
// reports whether there is one.
func (k *keeper) begin() bool {
	k.session, _ = k.n.c.Session()
	k.c = k.n.c.InSession(k.session)
	k.there, k.unsure, k.doubt, k.watch, k.written = false, false, false, nil, 0
	return k.session != 0
}

// transient reports whether err is about the moment: what failed may have been done,
// or may be done later.
func transient(err error) bool {
	return client.IsAmbiguous(err) || client.IsRetryable(err) || errors.Is(err, client.ErrNotReadOnly)
}

// step does the next thing there is to do.
func (k *keeper) step() error {
	data, asked, closing := k.n.order()
	switch {
	case k.unsure:
		return k.look(data, asked)
	case closing && k.there:
		return k.remove()
	case closing:
		k.dropWatch()
		return errDone
	case !k.there && k.watch == nil:
		return k.create(data, asked)
	case k.there && k.watch == nil:
		return k.setWatch()
	case k.there && asked != k.written && asked != k.refused:
		return k.write(data, asked)
	}
	return k.wait()
}

// create makes the node.
func (k *keeper) create(data []byte, asked uint64) error {
	if !slices.Contains(k.tried, k.session) {
		k.tried = append(k.tried, k.session)
	}
	path, stat, err := k.put(data)
	switch {
	case errors.Is(err, client.ErrNoNode):
		return settle.Ensure(k.ctx, k.c, k.dir(), client.CreateOptions{Mode: client.Container, ACL: k.n.o.ACL})
	case errors.Is(err, client.ErrNodeExists):
		k.unsure = true
		return nil
	case err != nil && k.had && !bytes.Equal(data, k.data) && !transient(err) && !sessionOver(err):
		k.refuse(asked, err) // it may do with the data before
		return nil
	case err != nil:
		k.doubt = k.doubt || client.IsAmbiguous(err)
		return err
	}
	k.path = path
	k.found(stat, data, asked)
	return nil
}

// found notes that the node is there.
func (k *keeper) found(stat client.Stat, data []byte, written uint64) {
	k.tried = []client.SessionID{k.session}
	k.there, k.doubt, k.stat, k.trouble = true, false, stat, nil
	k.data, k.had, k.written = data, true, written
	k.tell()
}

// mine reports whether that is the Node's own node. Another Node of the same client has
// its nodes in the same session.
func (k *keeper) mine(stat client.Stat) bool {
	return stat.EphemeralOwner == k.session && (k.doubt || k.there && stat.Czxid == k.stat.Czxid)
}

// refuse notes that the servers don't take the data: those before stay.
func (k *keeper) refuse(asked uint64, err error) {
	k.refused = asked
	k.n.refuse(asked, k.data, err)
}

// put is the create itself.
func (k *keeper) put(data []byte) (string, client.Stat, error) {
	if k.path != "" {
		made, err := k.c.WithRetry(nil).Create(k.ctx, k.path, data, client.CreateOptions{Mode: client.Ephemeral, ACL: k.n.o.ACL, Stat: true})
		return made.Path, made.Stat, err
	}
	i := strings.LastIndexByte(k.n.path, '/') + 1
	unique := k.n.path[:i] + "_c_" + line.NewID() + "-" + k.n.path[i:]
	made, err := settle.Create(k.ctx, k.c, unique, data, settle.CreateOptions{Mode: client.EphemeralSequential, ACL: k.n.o.ACL, By: settle.ByPath})
	return made.Path, made.Stat, err
}

// dir is where the node is.
func (k *keeper) dir() string { return k.n.path[:max(strings.LastIndexByte(k.n.path, '/'), 1)] }

// look finds out what there is after a connection broke, or when something was not as
// it should be.
func (k *keeper) look(want []byte, asked uint64) error {
	if k.path == "" { // settle.Create has looked, or does so in the background
		k.unsure = false
		return nil
	}
	c := k.c.Steady()
	if err := c.Sync(k.ctx, k.path); err != nil {
		return err
	}
	node, err := c.Get(k.ctx, k.path)
	if errors.Is(err, client.ErrNoNode) {
		k.unsure = false
		return k.gone()
	}
	if err != nil {
		return err
	}
	k.unsure = false
	if !k.mine(node.Stat) {
		return k.blocked(node.Stat)
	}
	if !bytes.Equal(node.Data, want) {
		asked = 0
	}
	k.found(node.Stat, node.Data, asked)
	return nil
}

// blocked is called when there is a node at the path that is not the own one.
func (k *keeper) blocked(stat client.Stat) error {
	if k.there && k.n.o.EndIfDeleted {
		return k.gone()
	}
	ours := stat.EphemeralOwner != k.session && slices.Contains(k.tried, stat.EphemeralOwner)
	theirs := fmt.Errorf("%w: %s belongs to session %v, not to this client", client.ErrNodeExists, k.path, stat.EphemeralOwner)
	if stat.EphemeralOwner == k.session {
		theirs = fmt.Errorf("%w: %s is something else's of this client", client.ErrNodeExists, k.path)
	}
	switch {
	case stat.EphemeralOwner == 0:
		return fmt.Errorf("%w: keepalive: %s is not ephemeral; delete it, or use another path", recipes.ErrLayout, k.path)
	case !ours && !k.n.o.Patient:
		return fmt.Errorf("keepalive: %w", theirs)
	case ours:
		k.trouble = fmt.Errorf("%s is still that of session %v, which was this client's", k.path, stat.EphemeralOwner)
	default:
		k.trouble = theirs
	}
	k.there = false
	k.tell()
	if k.watch == nil {
		return k.setWatch()
	}
	return nil
}

// setWatch sets the watch for the end of what is at the path. A watch of children does
// that without being fired by the data.
func (k *keeper) setWatch() error {
	list, err := k.c.Steady().ChildrenW(k.ctx, k.path)
	switch {
	case errors.Is(err, client.ErrNoNode):
		return k.gone()
	case err != nil:
		return err
	}
	k.watch = list.Watch
	if k.mine(list.Stat) != k.there || list.Stat.EphemeralOwner == 0 {
		k.unsure = true // another node than the one that was there
	}
	return nil
}

// gone is called when there is no node at the path.
func (k *keeper) gone() error {
	k.dropWatch()
	was := k.there
	k.there, k.doubt, k.trouble = false, false, nil
	k.tell()
	_, _, closing := k.n.order()
	if was && k.n.o.EndIfDeleted && !closing {
		return fmt.Errorf("%w: %s was deleted", recipes.ErrLost, k.path)
	}
	return nil
}

// write sets the data.
func (k *keeper) write(data []byte, asked uint64) error {
	stat, err := k.c.WithRetry(nil).Set(k.ctx, k.path, data, k.stat.Version)
	switch {
	case errors.Is(err, client.ErrBadVersion), errors.Is(err, client.ErrNoNode):
		k.unsure = true
		return nil
	case err != nil && (transient(err) || sessionOver(err)):
		return err
	case err != nil:
		k.refuse(asked, err)
		return nil
	}
	k.stat, k.data, k.written = stat, data, asked
	k.tell()
	return nil
}

// wait waits until there is something to do.
func (k *keeper) wait() error {
	select {
	case e, ok := <-k.watch.Events():
		err := k.watch.Err()
		k.watch = nil
		switch {
		case !ok && err != nil:
			return err
		case ok && e.Type == client.EventDeleted && k.there && k.n.o.EndIfDeleted:
			k.unsure = true // it may have gone with the session, of which a look will tell
		case ok && e.Type == client.EventDeleted:
			return k.gone()
		}
		return nil // children of somebody else's node: the next step looks again
	case <-k.n.wake:
		return nil
	}
}

// remove deletes the node.
func (k *keeper) remove() error {
	err := k.c.WithRetry(nil).Delete(k.ctx, k.path, k.stat.Version)
	switch {
	case errors.Is(err, client.ErrBadVersion):
		k.unsure = true
		return nil
	case errors.Is(err, client.ErrNoNode):
		err = nil
	case err != nil && (transient(err) || sessionOver(err)):
		return err
	case err != nil:
		k.left = err
	}
	k.there = false
	return nil
}

// abandon deletes the node, if it is there, because something else has failed for good.
func (k *keeper) abandon() {
	defer k.dropWatch()
	for {
		found, err := k.c.Steady().Exists(k.ctx, k.name())
		switch {
		case err == nil && (!found.Exists || !k.mine(found.Stat)):
			return
		case err == nil:
			k.stat, k.unsure = found.Stat, false
			err = k.remove()
		case k.there && errors.Is(err, client.ErrNoAuth): // to be deleted, but not to be seen
			err = k.remove()
		}
		switch {
		case err == nil && !k.unsure, sessionOver(err):
			return
		case err != nil && !transient(err):
			k.left = err
			return
		}
		if err != nil {
			k.pause()
		}
	}
}

// dropWatch ends the watch. If it has fired that costs nothing.
func (k *keeper) dropWatch() {
	if k.watch != nil {
		_ = k.watch.Close(k.ctx) // else the server sends an event that nobody hears
		k.watch = nil
	}
}

// tell makes known how the Node stands.
func (k *keeper) tell() {
	s := State{Path: k.path, There: k.there, Err: k.trouble}
	if k.there {
		s.Zxid, s.Err = k.stat.Czxid, nil
		k.n.tell(s, k.written)
		return
	}
	k.n.tell(s, 0)
}

// pause waits a little when one thing after another fails, up to two seconds.
func (k *keeper) pause() {
	d := time.Millisecond << min(k.failures, 11)
	k.failures++
	<-time.After(d/2 + rand.N(d/2+1))
}
