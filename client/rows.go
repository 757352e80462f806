package client

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// The columns of the table: check, encode, decode and refused of each operation.

func checkPath(c *Client, _ *call, a *args) (err error) {
	a.full, err = c.full(a.path, false)
	return err
}

func encodePath(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	r := jute.PathRequest{Path: a.full}
	return r.Append(b), nil
}

func encodeNothing(_ *Client, _ *call, a *args, b []byte) ([]byte, error) { return b, nil }

// openACL is OpenACL without an allocation. It must not be changed.
var openACL = OpenACL()

// acl returns the ACL to create the node with.
func (o *CreateOptions) acl() []ACL {
	if o.ACL == nil {
		return openACL
	}
	return o.ACL
}

// code returns the operation that creates such a node.
func (o *CreateOptions) code() jute.OpCode {
	switch {
	case o.TTL != 0 || o.Mode.TTL():
		return jute.OpCreateTTL
	case o.Mode == Container:
		return jute.OpCreateContainer
	case o.Stat:
		return jute.OpCreate2
	}
	return jute.OpCreate
}

func checkCreate(c *Client, k *call, a *args) (err error) {
	k.op = a.create.code()
	a.full, err = c.full(a.path, a.create.Mode.Sequential())
	return err
}

func encodeCreate(_ *Client, k *call, a *args, b []byte) ([]byte, error) {
	o := &a.create
	r := jute.CreateTTLRequest{
		CreateRequest: jute.CreateRequest{Path: a.full, Data: a.data, ACL: o.acl(), Mode: o.Mode},
		TTL:           o.TTL.Milliseconds(),
	}
	if k.op == jute.OpCreateTTL {
		return r.Append(b), nil
	}
	return r.CreateRequest.Append(b), nil
}

func decodeCreated(p *pending, val *Created, d *jute.Decoder) {
	val.Path = p.c.strip(d.String())
	if p.op != jute.OpCreate {
		val.Stat.Decode(d)
	}
}

func encodeDelete(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	r := jute.DeleteRequest{Path: a.full, Version: int32(a.version)}
	return r.Append(b), nil
}

func encodeSync(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	r := jute.SyncRequest{Path: a.full}
	return r.Append(b), nil
}

// encodeRead is for the reads that can set a watch.
func encodeRead(c *Client, k *call, a *args, b []byte) ([]byte, error) {
	r := jute.PathWatchRequest{Path: a.full}
	if a.watched {
		r.Watch = c.s.watches.arm(k, c.newWatch(k.path, a.kind), a.full)
	}
	return r.Append(b), nil
}

// watchSet returns the watch that a reply has set, if the reply is valid.
func (k *call) watchSet(d *jute.Decoder) *Watch {
	if d.Err() != nil {
		return nil
	}
	return k.watch
}

func decodePresence(p *pending, val *Presence, d *jute.Decoder) {
	val.Stat.Decode(d)
	val.Exists, val.Watch = true, p.watchSet(d)
}

func isAbsent(p *pending, val *Presence, code jute.Code) bool {
	if code != ErrNoNode {
		return false
	}
	val.Watch = p.watch
	return true
}

func decodeNode(p *pending, val *Node, d *jute.Decoder) {
	val.Data = d.Buffer()
	val.Stat.Decode(d)
	val.Watch = p.watchSet(d)
}

func decodeListing(p *pending, val *Listing, d *jute.Decoder) {
	val.Names = d.Strings()
	val.Stat.Decode(d)
	val.Watch = p.watchSet(d)
}

func checkPage(c *Client, k *call, a *args) error {
	if o := &a.page; o.Limit < 0 || o.Limit > math.MaxInt32 {
		return fmt.Errorf("PageOptions.Limit is %d: it should be positive, or 0", o.Limit)
	}
	return checkPath(c, k, a)
}

func encodePage(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	r := jute.ChildrenPageRequest{Path: a.full, After: a.page.After, Limit: int32(a.page.Limit)}
	switch {
	case a.page.Data:
		r.Show = jute.ShowData
	case a.page.Stats:
		r.Show = jute.ShowStats
	}
	return r.Append(b), nil
}

func decodePage(_ *pending, val *Page, d *jute.Decoder) {
	var r jute.ChildrenPageResponse
	r.Decode(d)
	*val = Page{More: r.More, Stat: r.Stat, Zxid: r.Zxid, Children: make([]Child, 0, len(r.Names)+len(r.Children))}
	for _, name := range r.Names {
		val.Children = append(val.Children, Child{Name: name})
	}
	for i := range r.Children {
		val.Children = append(val.Children, childOf(&r.Children[i]))
	}
}

func childOf(c *jute.PageChild) Child {
	child := Child{Name: c.Name, Stat: c.Stat, Data: c.Data}
	if c.Err != 0 {
		child.Err = c.Err
	}
	return child
}

func encodeSubtreePage(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	r := jute.SubtreePageRequest{Path: a.full, View: a.subtree.View, Show: jute.ShowStats}
	switch {
	case a.subtree.End:
		r.Show = jute.ShowNames
	case a.subtree.ACLs:
		r.Show = jute.ShowACLs
	case a.subtree.Data:
		r.Show = jute.ShowData
	}
	return r.Append(b), nil
}

func decodeSubtreePage(_ *pending, val *SubtreePage, d *jute.Decoder) {
	var r jute.SubtreePageResponse
	r.Decode(d)
	*val = SubtreePage{Nodes: make([]Child, len(r.Nodes)), View: r.View, Zxid: r.Zxid}
	for i := range r.Nodes {
		val.Nodes[i] = childOf(&r.Nodes[i].PageChild)
		val.Nodes[i].ACL = r.Nodes[i].ACL
	}
}

func encodePast(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	o := &a.past
	r := jute.PastRequest{Path: a.full, Look: o.Look, Show: jute.ShowStats, Below: o.Below, Zxid: o.At.Zxid, Limit: int32(min(o.Limit, math.MaxInt32))}
	switch {
	case o.End:
		r.Show = jute.ShowNames
	case o.Changes && o.Data:
		r.Show = jute.ShowChangedData
	case o.Changes:
		r.Show = jute.ShowChanges
	case o.Data:
		r.Show = jute.ShowACLs
	}
	switch {
	case !o.At.Time.IsZero():
		r.Time = max(1, o.At.Time.UnixMilli())
	case o.At.Ago > 0:
		r.Time = min(-1, -o.At.Ago.Milliseconds())
	}
	return r.Append(b), nil
}

func decodePast(_ *pending, val *PastPage, d *jute.Decoder) {
	var r jute.PastResponse
	r.Decode(d)
	*val = PastPage{Changes: r.Changes, Look: r.Look, Zxid: r.Zxid, From: r.From, More: r.More, Nodes: make([]Child, len(r.Nodes))}
	if r.Code != 0 {
		val.Err = &Error{Op: jute.OpPast, Err: r.Code, Cause: errors.New(r.Text)}
	}
	if r.Time != 0 {
		val.Time = time.UnixMilli(r.Time)
	}
	for i := range r.Nodes {
		val.Nodes[i] = childOf(&r.Nodes[i].PageChild)
		val.Nodes[i].ACL = r.Nodes[i].ACL
	}
}

func encodeSet(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	r := jute.SetDataRequest{Path: a.full, Data: a.data, Version: int32(a.version)}
	return r.Append(b), nil
}

func decodeStat(_ *pending, val *Stat, d *jute.Decoder) { val.Decode(d) }

func decodeAccess(_ *pending, val *Access, d *jute.Decoder) {
	val.ACL = d.ACLs()
	val.Stat.Decode(d)
}

func encodeSetACL(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	r := jute.SetACLRequest{Path: a.full, ACL: a.acl, Version: int32(a.version)}
	return r.Append(b), nil
}

// encodeAddWatch sets a persistent watch, unless there is one of that mode already.
func encodeAddWatch(c *Client, k *call, a *args, b []byte) ([]byte, error) {
	mode := a.mode
	if !c.s.watches.arm(k, c.newWatch(k.path, a.kind), a.full) {
		mode = WatchRecursive // a persistent watch would replace the recursive one
	}
	r := jute.AddWatchRequest{Path: a.full, Mode: mode}
	return r.Append(b), nil
}

func decodeWatch(p *pending, val **Watch, d *jute.Decoder) { *val = p.watchSet(d) }

func encodeCheckWatches(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	r := jute.RemoveWatchesRequest{Path: a.full, Type: jute.WatchType(a.typ)}
	return r.Append(b), nil
}

// encodeRemoveWatches closes all watches of the type at a path. The server keeps those that
// other watches at the path need.
func encodeRemoveWatches(c *Client, k *call, a *args, b []byte) ([]byte, error) {
	t, full, typ := &c.s.watches, a.full, a.typ
	taken := t.byPath.Take(full, jute.WatchType(typ))
	for _, w := range taken {
		w.end(ErrWatchClosed)
	}
	k.removed = len(taken) > 0
	switch shared := t.shared(full, typ); {
	case shared && k.removed:
		return nil, errDone{}
	case shared:
		return nil, ErrNoWatcher
	}
	if typ == AnyWatches || typ == RecursiveWatches {
		delete(t.recursive, full)
	}
	r := jute.RemoveWatchesRequest{Path: full, Type: jute.WatchType(typ)}
	return r.Append(b), nil
}

// hadWatches handles an error of the server as success if watches were closed here: they may
// have fired meanwhile, so that the server no longer has them.
func hadWatches(p *pending, _ *None, code jute.Code) bool { return p.removed && code == ErrNoWatcher }

// encodeForget removes a watch at the server that is no longer in the table, unless another
// watch needs it. That is decided when the request gets its place in the order: a watch set
// earlier is in the table, and one set later follows the request.
func encodeForget(c *Client, _ *call, a *args, b []byte) ([]byte, error) {
	w := a.target
	typ, ok := c.s.watches.unneeded(w.full, w.kind)
	if !ok || c.s.conn == nil {
		return nil, errDone{}
	}
	r := jute.RemoveWatchesRequest{Path: w.full, Type: jute.WatchType(typ)}
	return r.Append(b), nil
}

func encodeEphemerals(c *Client, k *call, _ *args, b []byte) ([]byte, error) {
	r := jute.GetEphemeralsRequest{Prefix: c.root + k.path}
	if k.path == "/" && c.root != "" {
		r.Prefix = c.root // the view's root may itself be an ephemeral node
	}
	return r.Append(b), nil
}

// decodeEphemerals omits paths that begin with the text of the view's root but are not below
// it.
func decodeEphemerals(p *pending, val *[]string, d *jute.Decoder) {
	for _, path := range d.Strings() {
		if rest, ok := strings.CutPrefix(path, p.c.root); ok && (rest == "" || rest[0] == '/') {
			*val = append(*val, p.c.strip(path))
		}
	}
}

func decodeCount(_ *pending, val *int, d *jute.Decoder) { *val = int(d.Int32()) }

func decodeIdentities(_ *pending, val *[]Identity, d *jute.Decoder) {
	var r jute.WhoAmIResponse
	r.Decode(d)
	*val = r.Clients
}

// encodeReconfig encodes by hand: Apache's servers distinguish an incremental change from a
// whole list by which strings are null, and jute.ReconfigRequest does not distinguish null
// from empty.
func encodeReconfig(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	for _, s := range []string{a.members.Joining, a.members.Leaving, a.members.All} {
		if s == "" {
			b = jute.AppendInt32(b, int32(-1))
		} else {
			b = jute.AppendString(b, s)
		}
	}
	return jute.AppendInt64(b, a.version), nil
}

func encodeNumber(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	return jute.AppendInt32(b, int32(a.version)), nil
}

func encodeKeepAway(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	return (&jute.DrainRequest{HasKeepAway: true, KeepAwayMs: a.version}).Append(b), nil
}

// encodeConfigure takes the key from path, and the value from data.
func encodeConfigure(_ *Client, _ *call, a *args, b []byte) ([]byte, error) {
	return (&jute.ConfigureRequest{Action: int32(a.version), Key: a.path, Value: string(a.data)}).Append(b), nil
}

func decodeConfigured(_ *pending, val *jute.ConfigureResponse, d *jute.Decoder) { val.Decode(d) }

func checkAuth(_ *Client, _ *call, a *args) error {
	if a.auth.Scheme == "" {
		return errors.New("no scheme, such as \"digest\"")
	}
	return nil
}
