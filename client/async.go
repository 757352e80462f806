package client

// Async has the operations of a Client in the form that does not wait: each issues its
// request and returns. A client is fast when it has many requests under way.
//
// The result is in the Future, and is passed to the functions that the call was given.
// All callbacks of a session, and Options.Watcher, run in one goroutine, one after the
// other in the order of the replies and events. A callback that blocks delays all
// others, and is named in the log. Callbacks may issue operations, and may wait for
// them at that price.
//
// An operation that cannot be issued, for example because of an invalid path, fails in
// the same way. Operations that wait for a connection stay queued until there is one,
// the session ends, or the connection breaks again. Retry policies do not apply. While
// 16 MiB wait to be written, calls block.
type Async struct{ c *Client }

// Async returns a view of c whose operations do not wait.
func (c *Client) Async() Async { return Async{c} }

// Create is Client.Create.
func (a Async) Create(path string, data []byte, o CreateOptions, then ...func(Created, error)) *Future[Created] {
	return start(a.c, &a.c.s.table().create, args{path: path, data: data, create: o}, then)
}

// Delete is Client.Delete.
func (a Async) Delete(path string, version int32, then ...func(None, error)) *Future[None] {
	return start(a.c, &a.c.s.table().delete, args{path: path, version: int64(version)}, then)
}

// Exists is Client.Exists.
func (a Async) Exists(path string, then ...func(Presence, error)) *Future[Presence] {
	return start(a.c, &a.c.s.table().exists, args{path: path}, then)
}

// ExistsW is Client.ExistsW.
func (a Async) ExistsW(path string, then ...func(Presence, error)) *Future[Presence] {
	return start(a.c, &a.c.s.table().exists, args{path: path, watched: true, kind: watchExist}, then)
}

// Get is Client.Get.
func (a Async) Get(path string, then ...func(Node, error)) *Future[Node] {
	return start(a.c, &a.c.s.table().get, args{path: path}, then)
}

// GetW is Client.GetW.
func (a Async) GetW(path string, then ...func(Node, error)) *Future[Node] {
	return start(a.c, &a.c.s.table().get, args{path: path, watched: true, kind: watchData}, then)
}

// Set is Client.Set.
func (a Async) Set(path string, data []byte, version int32, then ...func(Stat, error)) *Future[Stat] {
	return start(a.c, &a.c.s.table().set, args{path: path, data: data, version: int64(version)}, then)
}

// SubtreePage is Client.SubtreePage.
func (a Async) SubtreePage(path string, o SubtreePageOptions, then ...func(SubtreePage, error)) *Future[SubtreePage] {
	return start(a.c, &a.c.s.table().subtreePage, args{path: path, subtree: o}, then)
}

// Past is Client.Past.
func (a Async) Past(path string, o PastOptions, then ...func(PastPage, error)) *Future[PastPage] {
	return start(a.c, &a.c.s.table().past, args{path: path, past: o}, then)
}

// ChildrenPage is Client.ChildrenPage.
func (a Async) ChildrenPage(path string, o PageOptions, then ...func(Page, error)) *Future[Page] {
	return start(a.c, &a.c.s.table().childrenPage, args{path: path, page: o}, then)
}

// Children is Client.Children.
func (a Async) Children(path string, then ...func(Listing, error)) *Future[Listing] {
	return start(a.c, &a.c.s.table().children, args{path: path}, then)
}

// ChildrenW is Client.ChildrenW.
func (a Async) ChildrenW(path string, then ...func(Listing, error)) *Future[Listing] {
	return start(a.c, &a.c.s.table().children, args{path: path, watched: true, kind: watchChildren}, then)
}

// GetACL is Client.GetACL.
func (a Async) GetACL(path string, then ...func(Access, error)) *Future[Access] {
	return start(a.c, &a.c.s.table().getACL, args{path: path}, then)
}

// SetACL is Client.SetACL.
func (a Async) SetACL(path string, acl []ACL, version int32, then ...func(Stat, error)) *Future[Stat] {
	return start(a.c, &a.c.s.table().setACL, args{path: path, acl: acl, version: int64(version)}, then)
}

// Sync is Client.Sync.
func (a Async) Sync(path string, then ...func(None, error)) *Future[None] {
	return start(a.c, &a.c.s.table().sync, args{path: path}, then)
}

// Multi is Client.Multi.
func (a Async) Multi(ops []Op, then ...func([]OpResult, error)) *Future[[]OpResult] {
	return start(a.c, &a.c.s.table().multi, args{ops: ops}, then)
}

// MultiRead is Client.MultiRead.
func (a Async) MultiRead(ops []Op, then ...func([]OpResult, error)) *Future[[]OpResult] {
	return start(a.c, &a.c.s.table().multiRead, args{ops: ops}, then)
}

// AddWatch is Client.AddWatch.
func (a Async) AddWatch(path string, mode WatchMode, then ...func(*Watch, error)) *Future[*Watch] {
	return start(a.c, &a.c.s.table().addWatch, args{path: path, mode: mode, kind: watchKindOf(mode)}, then)
}

// CheckWatches is Session.CheckWatches.
func (a Async) CheckWatches(path string, t WatchType, then ...func(None, error)) *Future[None] {
	return start(a.c, &a.c.s.table().checkWatches, args{path: path, typ: t}, then)
}

// RemoveWatches is Session.RemoveWatches.
func (a Async) RemoveWatches(path string, t WatchType, then ...func(None, error)) *Future[None] {
	return start(a.c, &a.c.s.table().removeWatches, args{path: path, typ: t}, then)
}

// Ephemerals is Session.Ephemerals.
func (a Async) Ephemerals(prefix string, then ...func([]string, error)) *Future[[]string] {
	return start(a.c, &a.c.s.table().ephemerals, args{path: prefix}, then)
}

// CountDescendants is Client.CountDescendants.
func (a Async) CountDescendants(path string, then ...func(int, error)) *Future[int] {
	return start(a.c, &a.c.s.table().countDescendants, args{path: path}, then)
}

// WhoAmI is Session.WhoAmI.
func (a Async) WhoAmI(then ...func([]Identity, error)) *Future[[]Identity] {
	return start(a.c, &a.c.s.table().whoAmI, args{}, then)
}

// Reconfig is Ensemble.Reconfig.
func (a Async) Reconfig(m Members, version int64, then ...func(Node, error)) *Future[Node] {
	return start(a.c, &a.c.s.table().reconfig, args{members: m, version: version}, then)
}

// AddAuth is Session.AddAuth.
func (a Async) AddAuth(scheme string, auth []byte, then ...func(None, error)) *Future[None] {
	return start(a.c, &a.c.s.table().addAuth, args{auth: Auth{Scheme: scheme, Data: auth}}, then)
}

// RenewAuth is Session.RenewAuth.
func (a Async) RenewAuth(scheme string, auth []byte, then ...func(None, error)) *Future[None] {
	return start(a.c, &a.c.s.table().addAuth, args{auth: Auth{Scheme: scheme, Data: auth}, renews: true}, then)
}
