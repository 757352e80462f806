package line

import (
	"math"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/watch"
)

func (r *read) addWatch() error {
	var p jute.AddWatchRequest
	d := r.body()
	p.Decode(&d)
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	mode, ok := watch.ModeOf(p.Mode)
	if !ok {
		return jute.ErrMarshalling
	}
	r.watch(p.Path, mode)
	r.end(jute.AppendInt32(r.begin(), jute.Code(0)))
	return nil
}

func (r *read) checkOrRemoveWatches() error {
	var p jute.RemoveWatchesRequest
	d := r.body()
	p.Decode(&d)
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	if r.l.watcher.Load() == 0 {
		return jute.ErrNoWatcher
	}
	w := r.l.watcherID()
	found := false
	if r.req.Op == jute.OpCheckWatches {
		found = r.State.Watches.Check(w, p.Path, p.Type)
	} else {
		found = r.State.Watches.Remove(w, p.Path, p.Type)
	}
	if !found {
		return jute.ErrNoWatcher
	}
	r.reply(r.req.Xid, r.zxid, 0)
	return nil
}

// setWatches restores a reconnected client's watches. A change that it missed is sent as
// an event at once, before the reply, unless the client may not read the node: then the watch
// is restored. Comparing and registering a path happen under one tree lock, so no change is lost
// between them. A long list is restored in parts: the tree may change between two of them, and the
// reply shows the state in which the last part is restored.
func (r *read) setWatches() error {
	if r.l.restoring == nil {
		p, err := r.restored()
		if err != nil {
			return err
		}
		r.l.restoring = &restoring{Restoration: watch.NewRestoration(p)}
	}
	rest := r.l.restoring
	r.lists, r.looked = rest.lists, rest.looked
	more := r.State.Watches.Restore(r.l.watcherID(), rest.Restoration, r.Server.Limits().Part, func(path string) watch.Seen {
		node, ok := r.State.Tree.Get(path)
		hidden := ok && r.allowed(node.ACL, jute.PermRead) != nil
		return watch.Seen{Exists: ok, Mzxid: node.Mzxid, Pzxid: node.Pzxid, Hidden: hidden}
	}, func(event jute.EventType, path string) {
		r.l.Outbox.Finish(appendEvent(r.l.Reply(jute.XidNotification, -1, 0), event, path))
	})
	if more {
		rest.lists, rest.looked, r.out.More = r.lists, r.looked, true
		return nil
	}
	r.l.restoring = nil
	r.reply(r.req.Xid, r.zxid, 0)
	return nil
}

// restoring is a setWatches of which a part is served.
type restoring struct {
	*watch.Restoration
	lists  auth.Memory // as those of read: what the request has found out counts for all of it
	looked *int
}

// restored decodes the request.
func (r *read) restored() (*jute.SetWatchesRequest, error) {
	var p jute.SetWatchesRequest
	d := r.body()
	if r.req.Op == jute.OpSetWatches2 {
		p.Decode2(&d)
	} else {
		p.Decode(&d)
	}
	if d.Err() != nil {
		return nil, jute.ErrMarshalling
	}
	if relativeIgnored.Planted() {
		p.RelativeZxid = math.MaxInt64
	}
	if persistentNotRestored.Planted() {
		p.Persistent, p.PersistentRecursive = nil, nil
	}
	return &p, nil
}
