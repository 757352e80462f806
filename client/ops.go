package client

import "context"

// Create creates a node. Its parent must exist: ErrNoNode otherwise. ErrNodeExists if
// there is such a node. Nil data is null, which a get tells apart from empty data.
//
// If the connection breaks before the reply, the node may or may not have been created,
// and the error IsAmbiguous. settle.Create repeats the create until it knows.
// settle.CreateAll also creates missing parents.
func (c *Client) Create(ctx context.Context, path string, data []byte, o CreateOptions) (Created, error) {
	return do(ctx, c, &c.s.ops.create, args{path: path, data: data, create: o})
}

// Delete deletes a node that has no children (ErrNotEmpty) if its version is version
// (ErrBadVersion), or any if that is AnyVersion. settle.Delete repeats that until it
// knows that the node is gone; tree.Delete deletes what is below a node, too.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	_, err := do(ctx, c, &c.s.ops.delete, args{path: path, version: int64(version)})
	return err
}

// Exists reports whether a node exists, and returns its Stat.
func (c *Client) Exists(ctx context.Context, path string) (Presence, error) {
	return do(ctx, c, &c.s.ops.exists, args{path: path})
}

// ExistsW is Exists and sets a one-shot watch. The watch fires when the node is
// created, or if it exists when it is changed or deleted.
func (c *Client) ExistsW(ctx context.Context, path string) (Presence, error) {
	return do(ctx, c, &c.s.ops.exists, args{path: path, watched: true, kind: watchExist})
}

// Get returns a node's data, and its Stat. Data that is null is nil.
func (c *Client) Get(ctx context.Context, path string) (Node, error) {
	return do(ctx, c, &c.s.ops.get, args{path: path})
}

// GetW is Get and sets a one-shot watch, which fires when the node is changed or
// deleted. An error sets no watch.
func (c *Client) GetW(ctx context.Context, path string) (Node, error) {
	return do(ctx, c, &c.s.ops.get, args{path: path, watched: true, kind: watchData})
}

// Set replaces a node's data if its version is version (ErrBadVersion), or any if
// that is AnyVersion.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (Stat, error) {
	return do(ctx, c, &c.s.ops.set, args{path: path, data: data, version: int64(version)})
}

// Children returns the names of a node's children, and the node's own Stat.
func (c *Client) Children(ctx context.Context, path string) (Listing, error) {
	return do(ctx, c, &c.s.ops.children, args{path: path})
}

// ChildrenW is Children and sets a one-shot watch, which fires when a child is created
// or deleted, and when the node is deleted. An error sets no watch.
func (c *Client) ChildrenW(ctx context.Context, path string) (Listing, error) {
	return do(ctx, c, &c.s.ops.children, args{path: path, watched: true, kind: watchChildren})
}

// GetACL returns a node's ACL, and its Stat.
func (c *Client) GetACL(ctx context.Context, path string) (Access, error) {
	return do(ctx, c, &c.s.ops.getACL, args{path: path})
}

// SetACL replaces a node's ACL if its aversion is version (ErrBadVersion), or any
// if that is AnyVersion. A nil acl is none, unlike with Create: ErrInvalidACL.
func (c *Client) SetACL(ctx context.Context, path string, acl []ACL, version int32) (Stat, error) {
	return do(ctx, c, &c.s.ops.setACL, args{path: path, acl: acl, version: int64(version)})
}

// Sync waits until the server has applied all that was committed when the leader
// saw the sync: a read that follows is not older than that.
func (c *Client) Sync(ctx context.Context, path string) error {
	_, err := do(ctx, c, &c.s.ops.sync, args{path: path})
	return err
}

// Multi does all of the operations or none, as one change. If one fails, the error is
// that operation's, its Cause is a *MultiError, and each result has its Err.
func (c *Client) Multi(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return do(ctx, c, &c.s.ops.multi, args{ops: ops})
}

// MultiRead does reads, GetOp and ChildrenOp, at one point in time. The result of a
// read that fails has its Err; the results of the others are valid.
func (c *Client) MultiRead(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return do(ctx, c, &c.s.ops.multiRead, args{ops: ops})
}

// AddWatch sets a persistent watch. The node need not exist. It stays until it is
// closed or the session ends.
func (c *Client) AddWatch(ctx context.Context, path string, mode WatchMode) (*Watch, error) {
	return do(ctx, c, &c.s.ops.addWatch, args{path: path, mode: mode, kind: watchKindOf(mode)})
}

// CheckWatches asks the server whether this connection has a watch of the type at
// the path: ErrNoWatcher if not. Several watches of the client count as one.
func (c *Client) CheckWatches(ctx context.Context, path string, t WatchType) error {
	_, err := do(ctx, c, &c.s.ops.checkWatches, args{path: path, typ: t})
	return err
}

// RemoveWatches closes all of the client's watches of the type at the path, here
// and at the server. ErrNoWatcher if there are none. To close one, see
// Watch.Close.
func (c *Client) RemoveWatches(ctx context.Context, path string, t WatchType) error {
	_, err := do(ctx, c, &c.s.ops.removeWatches, args{path: path, typ: t})
	return err
}

// Ephemerals returns the paths of the session's own ephemeral nodes that begin
// with the prefix. The prefix is one of text, not of path components; "/" is all.
func (c *Client) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	return do(ctx, c, &c.s.ops.ephemerals, args{path: prefix})
}

// CountDescendants returns how many nodes there are below a node:
// getAllChildrenNumber.
func (c *Client) CountDescendants(ctx context.Context, path string) (int, error) {
	return do(ctx, c, &c.s.ops.countDescendants, args{path: path})
}

// WhoAmI returns the identities that the connection has.
func (c *Client) WhoAmI(ctx context.Context) ([]Identity, error) {
	return do(ctx, c, &c.s.ops.whoAmI, args{})
}

// GetConfig returns the ensemble's configuration: lines "server.1=…" and
// "version=…" in hex. It is the node /zookeeper/config, whatever the namespace.
func (c *Client) GetConfig(ctx context.Context) (Node, error) {
	return do(ctx, c, &c.s.ops.getConfig, args{path: configPath, full: configPath})
}

// GetConfigW is GetConfig that sets a one-shot watch.
func (c *Client) GetConfigW(ctx context.Context) (Node, error) {
	return do(ctx, c, &c.s.ops.getConfig, args{path: configPath, full: configPath, watched: true, kind: watchData})
}

// Reconfig changes the members of the ensemble and returns the new configuration.
// version is that of the configuration to change (the "version=" of GetConfig), or -1
// for any.
func (c *Client) Reconfig(ctx context.Context, m Members, version int64) (Node, error) {
	return do(ctx, c, &c.s.ops.reconfig, args{members: m, version: version})
}

// AddAuth authenticates the client as a further identity, on this connection and all
// later ones. ErrAuthFailed ends the session.
func (c *Client) AddAuth(ctx context.Context, scheme string, auth []byte) error {
	_, err := do(ctx, c, &c.s.ops.addAuth, args{auth: Auth{Scheme: scheme, Data: auth}})
	return err
}
