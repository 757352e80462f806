package client

import "context"

// Create creates a node. Its parent must exist (ErrNoNode), and the node must not
// (ErrNodeExists). Nil data is null, which a get distinguishes from empty data.
//
// If the connection of a plain session breaks before the reply, the node may or may not have been
// created, and the error IsAmbiguous. settle.Create repeats the create until it knows. settle.CreateAll
// also creates missing parents.
func (c *Client) Create(ctx context.Context, path string, data []byte, o CreateOptions) (Created, error) {
	return do(ctx, c, &c.s.table().create, args{path: path, data: data, create: o})
}

// Delete deletes a node that has no children (ErrNotEmpty) if its version is version
// (ErrBadVersion). AnyVersion means any version. settle.Delete repeats that until it knows
// that the node is gone; tree.Delete also deletes the nodes below it.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	_, err := do(ctx, c, &c.s.table().delete, args{path: path, version: int64(version)})
	return err
}

// Exists reports whether a node exists, and returns its Stat.
func (c *Client) Exists(ctx context.Context, path string) (Presence, error) {
	return do(ctx, c, &c.s.table().exists, args{path: path})
}

// ExistsW is Exists and sets a one-shot watch. If the node does not exist, the watch fires
// when it is created, otherwise when it is changed or deleted.
func (c *Client) ExistsW(ctx context.Context, path string) (Presence, error) {
	return do(ctx, c, &c.s.table().exists, args{path: path, watched: true, kind: watchExist})
}

// Get returns a node's data, and its Stat. Data that is null is nil.
func (c *Client) Get(ctx context.Context, path string) (Node, error) {
	return do(ctx, c, &c.s.table().get, args{path: path})
}

// GetW is Get and sets a one-shot watch, which fires when the node is changed or deleted. If
// GetW fails, it sets no watch.
func (c *Client) GetW(ctx context.Context, path string) (Node, error) {
	return do(ctx, c, &c.s.table().get, args{path: path, watched: true, kind: watchData})
}

// Set replaces a node's data if its version is version (ErrBadVersion). AnyVersion means any
// version.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (Stat, error) {
	return do(ctx, c, &c.s.table().set, args{path: path, data: data, version: int64(version)})
}

// Children returns the names of a node's children, and the node's own Stat.
func (c *Client) Children(ctx context.Context, path string) (Listing, error) {
	return do(ctx, c, &c.s.table().children, args{path: path})
}

// ChildrenW is Children and sets a one-shot watch, which fires when a child is created or
// deleted, and when the node is deleted. If ChildrenW fails, it sets no watch.
func (c *Client) ChildrenW(ctx context.Context, path string) (Listing, error) {
	return do(ctx, c, &c.s.table().children, args{path: path, watched: true, kind: watchChildren})
}

// ChildrenPage returns some of a node's children, in the order of their names. So a node with
// any number of children can be listed: Children fails with ErrMarshalling where the reply would
// be longer than the server's zkd.maxReply. tree.Children lists all of them.
//
// Servers that do not offer it, such as Apache's, answer ErrUnimplemented: see Status.Features.
func (c *Client) ChildrenPage(ctx context.Context, path string, o PageOptions) (Page, error) {
	return do(ctx, c, &c.s.table().childrenPage, args{path: path, page: o})
}

// SubtreePage returns some of a node and all nodes below it. All pages show the state at one
// zxid: the first page opens a view of that state, which the next ones name. A view ends with its connection, after
// a minute (zkd.viewSeconds) without a request, or when very many nodes have changed since; then the error is ErrOperationTimeout. A
// server has few views at a time: if there are too many, the error is ErrThrottled.
// tree.Frozen reads all pages.
//
// Servers that do not offer it, such as Apache's, answer ErrUnimplemented: see Status.Features.
func (c *Client) SubtreePage(ctx context.Context, path string, o SubtreePageOptions) (SubtreePage, error) {
	return do(ctx, c, &c.s.table().subtreePage, args{path: path, subtree: o})
}

// Past returns a part of what a server knows of the past of a subtree: a former state, or changes of nodes. The first call begins a look,
// which the server may need some time for: the pages are empty until then. A page with Look set is not the last one.
// A server has one look at a time for all its clients: PastPage.Err is ErrThrottled then. A look ends with its connection, or if its client
// does not ask for a while: it is ErrOperationTimeout. tree.Former and tree.History read all pages.
//
// Servers that do not offer it, such as Apache's, answer ErrUnimplemented: see Status.Features.
func (c *Client) Past(ctx context.Context, path string, o PastOptions) (PastPage, error) {
	return do(ctx, c, &c.s.table().past, args{path: path, past: o})
}

// GetACL returns a node's ACL, and its Stat.
func (c *Client) GetACL(ctx context.Context, path string) (Access, error) {
	return do(ctx, c, &c.s.table().getACL, args{path: path})
}

// SetACL replaces a node's ACL if its aversion is version (ErrBadVersion). AnyVersion means
// any version. Unlike with Create, a nil acl means an empty one: ErrInvalidACL.
func (c *Client) SetACL(ctx context.Context, path string, acl []ACL, version int32) (Stat, error) {
	return do(ctx, c, &c.s.table().setACL, args{path: path, acl: acl, version: int64(version)})
}

// Sync waits until the server has applied everything that was committed when the leader
// received the sync. A read that follows is at least as recent.
func (c *Client) Sync(ctx context.Context, path string) error {
	_, err := do(ctx, c, &c.s.table().sync, args{path: path})
	return err
}

// Multi does all of the operations or none, as one change. If one fails, Multi returns that
// operation's error, with a *MultiError as its Cause, and each result has its Err.
func (c *Client) Multi(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return do(ctx, c, &c.s.table().multi, args{ops: ops})
}

// MultiRead does reads, GetOp and ChildrenOp, at one point in time. Each result has the Err
// of its read; the other results are valid if one fails.
func (c *Client) MultiRead(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return do(ctx, c, &c.s.table().multiRead, args{ops: ops})
}

// AddWatch sets a persistent watch. The node need not exist. The watch stays until it is
// closed or the session ends.
func (c *Client) AddWatch(ctx context.Context, path string, mode WatchMode) (*Watch, error) {
	return do(ctx, c, &c.s.table().addWatch, args{path: path, mode: mode, kind: watchKindOf(mode)})
}

// CountDescendants returns the number of nodes below a node (getAllChildrenNumber).
func (c *Client) CountDescendants(ctx context.Context, path string) (int, error) {
	return do(ctx, c, &c.s.table().countDescendants, args{path: path})
}
