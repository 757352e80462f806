package clients

import (
	"github.com/zkd-project/zkd/jute"
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
	if r.c.watcher.Load() == 0 {
		return jute.ErrNoWatcher
	}
	w := r.c.watcherID()
	found := false
	if r.req.op == jute.OpCheckWatches {
		found = r.state.Watches.Check(w, p.Path, p.Type)
	} else {
		found = r.state.Watches.Remove(w, p.Path, p.Type)
	}
	if !found {
		return jute.ErrNoWatcher
	}
	r.reply(r.req.xid, r.zxid, 0)
	return nil
}

// setWatches restores a reconnected client's watches. A change that it missed is sent as
// an event at once, before the reply, unless the client may not read the node: then the watch
// is restored. Comparing and registering happen under one tree lock, so no change is lost
// between them.
func (r *read) setWatches() error {
	var p jute.SetWatchesRequest
	d := r.body()
	if r.req.op == jute.OpSetWatches2 {
		p.Decode2(&d)
	} else {
		p.Decode(&d)
	}
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	r.state.Watches.Restore(r.c.watcherID(), &p, func(path string) watch.Seen {
		node, ok := r.state.Tree.Get(path)
		hidden := ok && !r.schemes.Allowed(node.ACL, jute.PermRead, r.req.auth)
		return watch.Seen{Exists: ok, Mzxid: node.Mzxid, Pzxid: node.Pzxid, Hidden: hidden}
	}, func(event jute.EventType, path string) {
		r.c.end(appendEvent(r.c.begin(jute.XidNotification, -1, 0), event, path))
	})
	r.reply(r.req.xid, r.zxid, 0)
	return nil
}

// appendEvent appends the body of a notification.
func appendEvent(b []byte, typ jute.EventType, path string) []byte {
	e := jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: path}
	return e.Append(b)
}
