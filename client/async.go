package client

import (
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Async has the operations of a Client in the form that doesn't wait: each issues
// its request and returns. Many requests are then under way at once, which is
// what makes a client fast.
//
// The result comes to the Future, and to the functions that the call was given.
// All callbacks of a session, and Options.Watcher, run in one goroutine, one after
// the other in the order of the replies and events: one that blocks keeps the
// others waiting and is named in the log. Callbacks may issue operations; they may
// wait for them, too, at that price.
//
// An operation that can't be issued, say for a bad path, fails in the same way.
// Operations that wait for a connection stay queued until there is one, the
// session ends, or the connection breaks again. Retry policies don't apply. When
// 16 MiB wait to be written, a call blocks until there is room.
type Async struct{ c *Client }

// Async returns the view of c whose operations don't wait.
func (c *Client) Async() Async { return Async{c} }

// Create is Client.Create.
func (a Async) Create(path string, data []byte, mode CreateMode, acl []ACL, then ...func(Created, error)) *Future[Created] {
	f := newFuture(a.c, then)
	a.c.startCreate(f, createOp(mode, false), path, data, mode, acl, 0)
	return f
}

// CreateStat is Client.CreateStat.
func (a Async) CreateStat(path string, data []byte, mode CreateMode, acl []ACL, then ...func(Created, error)) *Future[Created] {
	f := newFuture(a.c, then)
	a.c.startCreate(f, createOp(mode, true), path, data, mode, acl, 0)
	return f
}

// CreateTTL is Client.CreateTTL.
func (a Async) CreateTTL(path string, data []byte, mode CreateMode, acl []ACL, ttl time.Duration, then ...func(Created, error)) *Future[Created] {
	f := newFuture(a.c, then)
	a.c.startCreate(f, jute.OpCreateTTL, path, data, mode, acl, ttl)
	return f
}

// Delete is Client.Delete.
func (a Async) Delete(path string, version int32, then ...func(None, error)) *Future[None] {
	f := newFuture(a.c, then)
	a.c.startDelete(f, path, version)
	return f
}

// Exists is Client.Exists.
func (a Async) Exists(path string, then ...func(Presence, error)) *Future[Presence] {
	f := newFuture(a.c, then)
	a.c.startExists(f, path, nil)
	return f
}

// ExistsW is Client.ExistsW.
func (a Async) ExistsW(path string, then ...func(Presence, error)) *Future[Presence] {
	f := newFuture(a.c, then)
	a.c.startExists(f, path, a.c.newWatch(path, watchExist))
	return f
}

// Get is Client.Get.
func (a Async) Get(path string, then ...func(Node, error)) *Future[Node] {
	f := newFuture(a.c, then)
	a.c.startGet(f, path, nil)
	return f
}

// GetW is Client.GetW.
func (a Async) GetW(path string, then ...func(Node, error)) *Future[Node] {
	f := newFuture(a.c, then)
	a.c.startGet(f, path, a.c.newWatch(path, watchData))
	return f
}

// Set is Client.Set.
func (a Async) Set(path string, data []byte, version int32, then ...func(Stat, error)) *Future[Stat] {
	f := newFuture(a.c, then)
	a.c.startSet(f, path, data, version)
	return f
}

// Children is Client.Children.
func (a Async) Children(path string, then ...func(Listing, error)) *Future[Listing] {
	f := newFuture(a.c, then)
	a.c.startChildren(f, path, nil)
	return f
}

// ChildrenW is Client.ChildrenW.
func (a Async) ChildrenW(path string, then ...func(Listing, error)) *Future[Listing] {
	f := newFuture(a.c, then)
	a.c.startChildren(f, path, a.c.newWatch(path, watchChildren))
	return f
}

// GetACL is Client.GetACL.
func (a Async) GetACL(path string, then ...func(Access, error)) *Future[Access] {
	f := newFuture(a.c, then)
	a.c.startGetACL(f, path)
	return f
}

// SetACL is Client.SetACL.
func (a Async) SetACL(path string, acl []ACL, version int32, then ...func(Stat, error)) *Future[Stat] {
	f := newFuture(a.c, then)
	a.c.startSetACL(f, path, acl, version)
	return f
}

// Sync is Client.Sync.
func (a Async) Sync(path string, then ...func(None, error)) *Future[None] {
	f := newFuture(a.c, then)
	a.c.startSync(f, path)
	return f
}

// Multi is Client.Multi.
func (a Async) Multi(ops []Op, then ...func([]OpResult, error)) *Future[[]OpResult] {
	f := newFuture(a.c, then)
	a.c.startMulti(f, jute.OpMulti, ops)
	return f
}

// MultiRead is Client.MultiRead.
func (a Async) MultiRead(ops []Op, then ...func([]OpResult, error)) *Future[[]OpResult] {
	f := newFuture(a.c, then)
	a.c.startMulti(f, jute.OpMultiRead, ops)
	return f
}

// AddWatch is Client.AddWatch.
func (a Async) AddWatch(path string, mode WatchMode, then ...func(*Watch, error)) *Future[*Watch] {
	f := newFuture(a.c, then)
	a.c.startAddWatch(f, path, mode, a.c.newWatch(path, watchKindOf(mode)))
	return f
}

// CheckWatches is Client.CheckWatches.
func (a Async) CheckWatches(path string, t WatchType, then ...func(None, error)) *Future[None] {
	f := newFuture(a.c, then)
	a.c.startWatchOp(f, jute.OpCheckWatches, path, t)
	return f
}

// RemoveWatches is Client.RemoveWatches.
func (a Async) RemoveWatches(path string, t WatchType, then ...func(None, error)) *Future[None] {
	f := newFuture(a.c, then)
	a.c.startRemoveWatches(f, path, t)
	return f
}

// Ephemerals is Client.Ephemerals.
func (a Async) Ephemerals(prefix string, then ...func([]string, error)) *Future[[]string] {
	f := newFuture(a.c, then)
	a.c.startEphemerals(f, prefix)
	return f
}

// CountDescendants is Client.CountDescendants.
func (a Async) CountDescendants(path string, then ...func(int, error)) *Future[int] {
	f := newFuture(a.c, then)
	a.c.startCountDescendants(f, path)
	return f
}

// WhoAmI is Client.WhoAmI.
func (a Async) WhoAmI(then ...func([]Identity, error)) *Future[[]Identity] {
	f := newFuture(a.c, then)
	a.c.startWhoAmI(f)
	return f
}

// GetConfig is Client.GetConfig.
func (a Async) GetConfig(then ...func(Node, error)) *Future[Node] {
	f := newFuture(a.c, then)
	a.c.startGetConfig(f, nil)
	return f
}

// GetConfigW is Client.GetConfigW.
func (a Async) GetConfigW(then ...func(Node, error)) *Future[Node] {
	f := newFuture(a.c, then)
	a.c.startGetConfig(f, a.c.newWatch(configPath, watchData))
	return f
}

// Reconfig is Client.Reconfig.
func (a Async) Reconfig(joining, leaving string, version int64, then ...func(Node, error)) *Future[Node] {
	f := newFuture(a.c, then)
	a.c.startReconfig(f, joining, leaving, "", version)
	return f
}

// ReconfigMembers is Client.ReconfigMembers.
func (a Async) ReconfigMembers(members string, version int64, then ...func(Node, error)) *Future[Node] {
	f := newFuture(a.c, then)
	a.c.startReconfig(f, "", "", members, version)
	return f
}

// AddAuth is Client.AddAuth.
func (a Async) AddAuth(scheme string, auth []byte, then ...func(None, error)) *Future[None] {
	f := newFuture(a.c, then)
	a.c.startAuth(f, scheme, auth)
	return f
}
