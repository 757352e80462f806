package presence

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// keeper is the goroutine of a Node. It compares what there is with what is wanted and takes
// the next step, one request at a time. When it does not know what there is, because a
// connection broke, it looks first. So it never repeats what was done, nor does what is no
// longer wanted.
type keeper struct {
	n   *Node
	ctx context.Context // of all requests: they end with the client
	c   *client.Client  // bound to the session; made by begin

	path    string // "" until a sequential node has its number
	session client.SessionID
	// tried are the sessions in which this keeper may have created a node at path.
	tried []client.SessionID

	// What there is, unless unsure:
	unsure  bool
	there   bool        // the node exists, in this session
	stat    client.Stat // of the node when it was last seen or changed
	data    []byte      // of the node when it was last seen
	had     bool        // data is set: the node has existed
	written uint64      // the Node.asked of data; 0 if it has none
	refused uint64      // the Node.asked that the servers refused
	doubt   bool        // a create in this session may have been done
	// watch reports the deletion of the node at path, which may be another one that is in
	// the way.
	watch *client.Watch
	// trouble is why the node is not there.
	trouble  error
	failures int // since the last success

	left error // why the node was not deleted
}

func newKeeper(n *Node) *keeper {
	k := &keeper{n: n, ctx: context.Background(), path: n.path}
	switch {
	case n.o.Sequential:
		k.path = ""
	case n.o.Protected:
		k.path = k.unique()
	}
	return k
}

// unique returns the path with a name that no other node has.
func (k *keeper) unique() string {
	return line.Join(line.Parent(k.n.path), "_c_"+line.NewID()+"-"+line.Base(k.n.path))
}

// errDone ends the keeper after Close.
var errDone = errors.New("the node is gone")

// run keeps the node, and returns why it has ended: nil after Close.
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
		err = e.Err // its cause may be the end of another session
	}
	return errors.Is(err, client.ErrSessionExpired) || errors.Is(err, client.ErrClosed) || errors.Is(err, client.ErrAuthFailed)
}

// name returns the path for errors.
func (k *keeper) name() string { return cmp.Or(k.path, k.n.path) }

// live keeps the node during one session, and returns why it has ended.
func (k *keeper) live() error {
	if !k.begin() {
		return nil // the session has ended
	}
	for {
		err := k.step()
		switch {
		case err == nil:
			k.failures = 0
		case sessionOver(err):
			k.there, k.trouble = false, err
			k.publish()
			return err
		case transient(err):
			k.unsure, k.trouble = true, err
			k.publish()
			k.pause()
		default:
			if !errors.Is(err, errDone) {
				k.abandon()
			}
			return err
		}
	}
}

// begin binds to the current session and reports whether there is one. It has no node there yet.
func (k *keeper) begin() bool {
	k.session = k.n.c.Session().ID()
	k.c = k.n.c.InSession(k.session)
	k.there, k.unsure, k.doubt, k.watch, k.written = false, false, false, nil, 0
	return k.session != 0
}

// transient reports whether what failed with err may have been done, or may succeed later.
func transient(err error) bool {
	return client.IsAmbiguous(err) || client.IsRetryable(err) || errors.Is(err, client.ErrNotReadOnly)
}

// step takes the next step.
func (k *keeper) step() error {
	data, asked, closing := k.n.wanted()
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

// create creates the node.
func (k *keeper) create(data []byte, asked uint64) error {
	if !slices.Contains(k.tried, k.session) {
		k.tried = append(k.tried, k.session)
	}
	path, stat, err := k.put(data)
	switch {
	case errors.Is(err, client.ErrNoNode):
		return settle.Ensure(k.ctx, k.c, line.Parent(k.n.path), client.CreateOptions{Mode: client.Container, ACL: k.n.o.ACL})
	case errors.Is(err, client.ErrNodeExists):
		k.unsure = true
		return nil
	case err != nil && k.had && !bytes.Equal(data, k.data) && !transient(err) && !sessionOver(err):
		k.refuse(asked, err) // the data before may do
		return nil
	case err != nil:
		k.doubt = k.doubt || client.IsAmbiguous(err)
		return err
	}
	k.path = path
	k.found(stat, data, asked)
	return nil
}

// found records that the node is there.
func (k *keeper) found(stat client.Stat, data []byte, written uint64) {
	k.tried = []client.SessionID{k.session}
	k.there, k.doubt, k.stat, k.trouble = true, false, stat, nil
	k.data, k.had, k.written = data, true, written
	k.publish()
}

// mine reports whether the node with that Stat is this keeper's. Other nodes may be of the
// same session.
func (k *keeper) mine(stat client.Stat) bool {
	return stat.EphemeralOwner == k.session && (k.doubt || k.there && stat.Czxid == k.stat.Czxid)
}

// refuse records that the servers refuse the data. The node keeps the data before.
func (k *keeper) refuse(asked uint64, err error) {
	k.refused = asked
	k.n.refuse(asked, k.data, err)
}

// put sends the create.
func (k *keeper) put(data []byte) (string, client.Stat, error) {
	if k.path != "" {
		made, err := k.c.WithRetry(nil).Create(k.ctx, k.path, data, client.CreateOptions{Mode: client.Ephemeral, ACL: k.n.o.ACL, Stat: true})
		return made.Path, made.Stat, err
	}
	made, err := settle.Create(k.ctx, k.c, k.unique(), data, settle.CreateOptions{Mode: client.EphemeralSequential, ACL: k.n.o.ACL, By: settle.ByPath})
	return made.Path, made.Stat, err
}

// look finds out what there is, after a connection broke or something was unexpected.
func (k *keeper) look(want []byte, asked uint64) error {
	if k.path == "" { // settle.Create has looked, or looks in the background
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

// blocked is called when another node is at the path.
func (k *keeper) blocked(stat client.Stat) error {
	if k.there && k.n.o.EndIfDeleted {
		return k.gone()
	}
	ours := stat.EphemeralOwner != k.session && slices.Contains(k.tried, stat.EphemeralOwner)
	theirs := fmt.Errorf("%w: %s belongs to session %v, not to this client", client.ErrNodeExists, k.path, stat.EphemeralOwner)
	if stat.EphemeralOwner == k.session {
		theirs = fmt.Errorf("%w: %s is another recipe's of this client", client.ErrNodeExists, k.path)
	}
	switch {
	case stat.EphemeralOwner == 0:
		return fmt.Errorf("%w: keep alive: %s is not ephemeral; delete it, or use another path", recipes.ErrLayout, k.path)
	case !ours && !k.n.o.Patient:
		return fmt.Errorf("keep alive: %w", theirs)
	case ours:
		k.trouble = fmt.Errorf("%s is still that of session %v, an earlier one of this client", k.path, stat.EphemeralOwner)
	default:
		k.trouble = theirs
	}
	k.there = false
	k.publish()
	if k.watch == nil {
		return k.setWatch()
	}
	return nil
}

// setWatch watches for the deletion of what is at the path. A watch of children does that,
// and data does not fire it.
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
		k.unsure = true // it is another node
	}
	return nil
}

// gone is called when there is no node at the path.
func (k *keeper) gone() error {
	k.dropWatch()
	was := k.there
	k.there, k.doubt, k.trouble = false, false, nil
	k.publish()
	_, _, closing := k.n.wanted()
	if was && k.n.o.EndIfDeleted && !closing {
		return fmt.Errorf("%w: %s was deleted", recipes.ErrLost, k.path)
	}
	return nil
}

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
	k.publish()
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
			k.unsure = true // it may have gone with the session: a look tells
		case ok && e.Type == client.EventDeleted:
			return k.gone()
		}
		return nil // children of another node: the next step sets the watch again
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

// abandon deletes the node, if it exists, because something else has failed for good.
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
		case k.there && errors.Is(err, client.ErrNoAuth): // it may be deleted, but not read
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

// dropWatch closes the watch, if there is one.
func (k *keeper) dropWatch() {
	if k.watch != nil {
		_ = k.watch.Close(k.ctx)
		k.watch = nil
	}
}

// publish sets the state of the Node.
func (k *keeper) publish() {
	s := NodeState{Path: k.path, There: k.there, Err: k.trouble}
	if k.there {
		s.Zxid, s.Err = k.stat.Czxid, nil
		k.n.setState(s, k.written)
		return
	}
	k.n.setState(s, 0)
}

// pause waits after a failure, for up to two seconds if there were many.
func (k *keeper) pause() {
	d := time.Millisecond << min(k.failures, 11)
	k.failures++
	<-time.After(d/2 + rand.N(d/2+1))
}
