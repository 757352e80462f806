package client

import (
	"context"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Create creates a node and returns its path, which for a sequential mode is not
// path. A nil data is null, which a get tells apart from empty. A nil acl is
// OpenACL. The parent must exist: ErrNoNode otherwise (see EnsurePath and
// CreateAll). ErrNodeExists if there is such a node.
func (c *Client) Create(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, error) {
	v, err := do(ctx, c, &c.s.pools.created, func(f *Future[Created]) {
		c.startCreate(f, createOp(mode, false), path, data, mode, acl, 0)
	})
	return v.Path, err
}

// CreateStat is Create that returns the new node's Stat, too.
func (c *Client) CreateStat(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, Stat, error) {
	v, err := do(ctx, c, &c.s.pools.created, func(f *Future[Created]) {
		c.startCreate(f, createOp(mode, true), path, data, mode, acl, 0)
	})
	return v.Path, v.Stat, err
}

// CreateTTL creates a node that goes when it has had no children and has not been
// changed for ttl: milliseconds, 1 to 2^40-1. The mode is PersistentTTL or
// PersistentSequentialTTL. ErrUnimplemented if the servers have TTL nodes
// switched off, as Apache's have by default.
func (c *Client) CreateTTL(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL, ttl time.Duration) (string, Stat, error) {
	v, err := do(ctx, c, &c.s.pools.created, func(f *Future[Created]) {
		c.startCreate(f, jute.OpCreateTTL, path, data, mode, acl, ttl)
	})
	return v.Path, v.Stat, err
}

// Delete deletes a node that has no children (ErrNotEmpty) if its version is
// version (ErrBadVersion), or any if that is AnyVersion.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	_, err := do(ctx, c, &c.s.pools.none, func(f *Future[None]) { c.startDelete(f, path, version) })
	return err
}

// Exists tells whether there is a node, and returns its Stat.
func (c *Client) Exists(ctx context.Context, path string) (Stat, bool, error) {
	v, err := do(ctx, c, &c.s.pools.presence, func(f *Future[Presence]) { c.startExists(f, path, nil) })
	return v.Stat, v.Exists, err
}

// ExistsW is Exists that sets a one-shot watch: it is told when the node is
// created, or if it exists when it is changed or deleted.
func (c *Client) ExistsW(ctx context.Context, path string) (Stat, bool, *Watch, error) {
	v, err := do(ctx, c, &c.s.pools.presence, func(f *Future[Presence]) {
		c.startExists(f, path, c.newWatch(path, watchExist))
	})
	return v.Stat, v.Exists, v.Watch, err
}

// Get returns a node's data, and its Stat. Data that is null is nil.
func (c *Client) Get(ctx context.Context, path string) ([]byte, Stat, error) {
	v, err := do(ctx, c, &c.s.pools.node, func(f *Future[Node]) { c.startGet(f, path, nil) })
	return v.Data, v.Stat, err
}

// GetW is Get that sets a one-shot watch: it is told when the node is changed or
// deleted. It is nil if there is an error.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, Stat, *Watch, error) {
	v, err := do(ctx, c, &c.s.pools.node, func(f *Future[Node]) { c.startGet(f, path, c.newWatch(path, watchData)) })
	return v.Data, v.Stat, v.Watch, err
}

// Set replaces a node's data if its version is version (ErrBadVersion), or any if
// that is AnyVersion.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (Stat, error) {
	return do(ctx, c, &c.s.pools.stat, func(f *Future[Stat]) { c.startSet(f, path, data, version) })
}

// Children returns the names of a node's children, in no particular order, and
// the node's own Stat.
func (c *Client) Children(ctx context.Context, path string) ([]string, Stat, error) {
	v, err := do(ctx, c, &c.s.pools.listing, func(f *Future[Listing]) { c.startChildren(f, path, nil) })
	return v.Names, v.Stat, err
}

// ChildrenW is Children that sets a one-shot watch: it is told when a child comes
// or goes, and when the node is deleted. It is nil if there is an error.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, Stat, *Watch, error) {
	v, err := do(ctx, c, &c.s.pools.listing, func(f *Future[Listing]) {
		c.startChildren(f, path, c.newWatch(path, watchChildren))
	})
	return v.Names, v.Stat, v.Watch, err
}

// GetACL returns a node's ACL, and its Stat.
func (c *Client) GetACL(ctx context.Context, path string) ([]ACL, Stat, error) {
	v, err := do(ctx, c, &c.s.pools.access, func(f *Future[Access]) { c.startGetACL(f, path) })
	return v.ACL, v.Stat, err
}

// SetACL replaces a node's ACL if its aversion is version (ErrBadVersion), or any
// if that is AnyVersion. A nil acl is none, unlike with Create: ErrInvalidACL.
func (c *Client) SetACL(ctx context.Context, path string, acl []ACL, version int32) (Stat, error) {
	return do(ctx, c, &c.s.pools.stat, func(f *Future[Stat]) { c.startSetACL(f, path, acl, version) })
}

// Sync waits until the server has applied all that was committed when the leader
// saw the sync: a read that follows is not older than that.
func (c *Client) Sync(ctx context.Context, path string) error {
	_, err := do(ctx, c, &c.s.pools.none, func(f *Future[None]) { c.startSync(f, path) })
	return err
}

// Multi does all of the operations or none, as one change. If one fails the error
// is that operation's, its Cause a *MultiError, and each result has its Err.
func (c *Client) Multi(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return do(ctx, c, &c.s.pools.results, func(f *Future[[]OpResult]) { c.startMulti(f, jute.OpMulti, ops) })
}

// MultiRead does reads, GetOp and ChildrenOp, at one point in time. One that fails
// has its Err in its result; the others are good all the same.
func (c *Client) MultiRead(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return do(ctx, c, &c.s.pools.results, func(f *Future[[]OpResult]) { c.startMulti(f, jute.OpMultiRead, ops) })
}

// AddWatch sets a persistent watch. The node need not exist. It stays until it is
// closed or the session ends.
func (c *Client) AddWatch(ctx context.Context, path string, mode WatchMode) (*Watch, error) {
	return do(ctx, c, &c.s.pools.watch, func(f *Future[*Watch]) {
		c.startAddWatch(f, path, mode, c.newWatch(path, watchKindOf(mode)))
	})
}

// CheckWatches asks the server whether this connection has a watch of the type at
// the path: ErrNoWatcher if not. Several watches of the client count as one.
func (c *Client) CheckWatches(ctx context.Context, path string, t WatchType) error {
	_, err := do(ctx, c, &c.s.pools.none, func(f *Future[None]) { c.startWatchOp(f, jute.OpCheckWatches, path, t) })
	return err
}

// RemoveWatches closes all of the client's watches of the type at the path, here
// and at the server. ErrNoWatcher if there are none. To close one, see
// Watch.Close.
func (c *Client) RemoveWatches(ctx context.Context, path string, t WatchType) error {
	_, err := do(ctx, c, &c.s.pools.none, func(f *Future[None]) { c.startRemoveWatches(f, path, t) })
	return err
}

// Ephemerals returns the paths of the session's own ephemeral nodes that begin
// with the prefix. The prefix is one of text, not of path components; "/" is all.
func (c *Client) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	return do(ctx, c, &c.s.pools.strings, func(f *Future[[]string]) { c.startEphemerals(f, prefix) })
}

// CountDescendants returns how many nodes there are below a node:
// getAllChildrenNumber.
func (c *Client) CountDescendants(ctx context.Context, path string) (int, error) {
	return do(ctx, c, &c.s.pools.count, func(f *Future[int]) { c.startCountDescendants(f, path) })
}

// WhoAmI returns the identities that the connection has.
func (c *Client) WhoAmI(ctx context.Context) ([]Identity, error) {
	return do(ctx, c, &c.s.pools.identities, func(f *Future[[]Identity]) { c.startWhoAmI(f) })
}

// GetConfig returns the ensemble's configuration: lines "server.1=…" and
// "version=…" in hex. It is the node /zookeeper/config, whatever the namespace.
func (c *Client) GetConfig(ctx context.Context) ([]byte, Stat, error) {
	v, err := do(ctx, c, &c.s.pools.node, func(f *Future[Node]) { c.startGetConfig(f, nil) })
	return v.Data, v.Stat, err
}

// GetConfigW is GetConfig that sets a one-shot watch.
func (c *Client) GetConfigW(ctx context.Context) ([]byte, Stat, *Watch, error) {
	v, err := do(ctx, c, &c.s.pools.node, func(f *Future[Node]) {
		c.startGetConfig(f, c.newWatch(configPath, watchData))
	})
	return v.Data, v.Stat, v.Watch, err
}

// Reconfig changes the members of the ensemble and returns the new configuration.
// joining lists servers to add or to change ("server.4=host:2888:3888;2181"),
// leaving ids of servers to remove; both are separated by commas. version is that
// of the configuration to change (the "version=" of GetConfig), or -1 for any.
func (c *Client) Reconfig(ctx context.Context, joining, leaving string, version int64) ([]byte, Stat, error) {
	v, err := do(ctx, c, &c.s.pools.node, func(f *Future[Node]) { c.startReconfig(f, joining, leaving, "", version) })
	return v.Data, v.Stat, err
}

// ReconfigMembers is Reconfig with the whole new list of members.
func (c *Client) ReconfigMembers(ctx context.Context, members string, version int64) ([]byte, Stat, error) {
	v, err := do(ctx, c, &c.s.pools.node, func(f *Future[Node]) { c.startReconfig(f, "", "", members, version) })
	return v.Data, v.Stat, err
}

// AddAuth authenticates the client as one more identity, on this connection and
// all that follow. ErrAuthFailed ends the session.
func (c *Client) AddAuth(ctx context.Context, scheme string, auth []byte) error {
	_, err := do(ctx, c, &c.s.pools.none, func(f *Future[None]) { c.startAuth(f, scheme, auth) })
	return err
}
