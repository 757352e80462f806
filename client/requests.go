package client

import (
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// What the asynchronous operations result in. The synchronous ones return the
// same, field by field.
type (
	// None is the result of operations of which only success is of interest.
	None struct{}
	// Created is the result of a create: the path with the sequence number, if
	// the mode is sequential.
	Created struct {
		Path string
		Stat Stat // only of CreateStat and CreateTTL, and of containers
	}
	// Node is the result of a get.
	Node struct {
		Data  []byte // nil if the node's data is null
		Stat  Stat
		Watch *Watch // only of GetW
	}
	// Presence is the result of an exists.
	Presence struct {
		Exists bool
		Stat   Stat   // zero if the node does not exist
		Watch  *Watch // only of ExistsW
	}
	// Listing is the result of a children: names in no particular order.
	Listing struct {
		Names []string
		Stat  Stat   // of the parent
		Watch *Watch // only of ChildrenW
	}
	// Access is the result of a get of an ACL.
	Access struct {
		ACL  []ACL
		Stat Stat
	}
)

// Each start function issues one operation: it checks the arguments, encodes the
// request at the end of the session's out buffer, and returns. The result comes
// to f, also if an argument is bad.

func (c *Client) startCreate(f *Future[Created], op jute.OpCode, path string, data []byte, mode CreateMode, acl []ACL, ttl time.Duration) {
	full, ok := c.begin(&f.call, op, path, mode.Sequential())
	if !ok {
		return
	}
	if acl == nil {
		acl = openACL
	}
	r := jute.CreateTTLRequest{CreateRequest: jute.CreateRequest{Path: full, Data: data, ACL: acl, Mode: mode}, TTL: ttl.Milliseconds()}
	switch op {
	case jute.OpCreate:
		f.decode = decodeCreated
	default:
		f.decode = decodeCreatedStat
	}
	if op == jute.OpCreateTTL {
		c.s.end(&f.call, r.Append(c.s.enc))
		return
	}
	c.s.end(&f.call, r.CreateRequest.Append(c.s.enc))
}

// openACL is OpenACL without an allocation; nobody changes it.
var openACL = OpenACL()

// createOp picks the operation for a mode that has no time to live.
func createOp(mode CreateMode, stat bool) jute.OpCode {
	switch {
	case mode == Container:
		return jute.OpCreateContainer
	case stat:
		return jute.OpCreate2
	}
	return jute.OpCreate
}

func decodeCreated(f *Future[Created], d *jute.Decoder) {
	f.val.Path = f.c.strip(d.String())
}

func decodeCreatedStat(f *Future[Created], d *jute.Decoder) {
	f.val.Path = f.c.strip(d.String())
	f.val.Stat.Decode(d)
}

func (c *Client) startDelete(f *Future[None], path string, version int32) {
	full, ok := c.begin(&f.call, jute.OpDelete, path, false)
	if !ok {
		return
	}
	r := jute.DeleteRequest{Path: full, Version: version}
	c.s.end(&f.call, r.Append(c.s.enc))
}

// startRead issues one of the reads that can set a watch.
func (c *Client) startRead(k *call, op jute.OpCode, path string, w *Watch) bool {
	full, ok := c.begin(k, op, path, false)
	if !ok {
		return false
	}
	r := jute.PathWatchRequest{Path: full, Watch: w != nil && c.s.watches.arm(k, w, full)}
	c.s.end(k, r.Append(c.s.enc))
	return true
}

func (c *Client) startExists(f *Future[Presence], path string, w *Watch) {
	f.decode, f.refuse = decodePresence, refusePresence
	c.startRead(&f.call, jute.OpExists, path, w)
}

func decodePresence(f *Future[Presence], d *jute.Decoder) {
	f.val.Stat.Decode(d)
	f.val.Exists, f.val.Watch = true, f.watchSet(d)
}

func refusePresence(f *Future[Presence], code jute.Code) bool {
	if code != ErrNoNode {
		return false
	}
	f.val.Watch = f.watch
	return true
}

func (c *Client) startGet(f *Future[Node], path string, w *Watch) {
	f.decode = decodeNode
	c.startRead(&f.call, jute.OpGetData, path, w)
}

func decodeNode(f *Future[Node], d *jute.Decoder) {
	f.val.Data = d.Buffer()
	f.val.Stat.Decode(d)
	f.val.Watch = f.watchSet(d)
}

func (c *Client) startChildren(f *Future[Listing], path string, w *Watch) {
	f.decode = decodeListing
	c.startRead(&f.call, jute.OpGetChildren2, path, w)
}

// watchSet returns the watch that a reply has set, if the reply makes sense.
func (k *call) watchSet(d *jute.Decoder) *Watch {
	if d.Err() != nil {
		return nil
	}
	return k.watch
}

func decodeListing(f *Future[Listing], d *jute.Decoder) {
	f.val.Names = d.Strings()
	f.val.Stat.Decode(d)
	f.val.Watch = f.watchSet(d)
}

func (c *Client) startSet(f *Future[Stat], path string, data []byte, version int32) {
	full, ok := c.begin(&f.call, jute.OpSetData, path, false)
	if !ok {
		return
	}
	f.decode = decodeStat
	r := jute.SetDataRequest{Path: full, Data: data, Version: version}
	c.s.end(&f.call, r.Append(c.s.enc))
}

func decodeStat(f *Future[Stat], d *jute.Decoder) { f.val.Decode(d) }

func (c *Client) startGetACL(f *Future[Access], path string) {
	full, ok := c.begin(&f.call, jute.OpGetACL, path, false)
	if !ok {
		return
	}
	f.decode = func(f *Future[Access], d *jute.Decoder) {
		f.val.ACL = d.ACLs()
		f.val.Stat.Decode(d)
	}
	r := jute.PathRequest{Path: full}
	c.s.end(&f.call, r.Append(c.s.enc))
}

func (c *Client) startSetACL(f *Future[Stat], path string, acl []ACL, version int32) {
	full, ok := c.begin(&f.call, jute.OpSetACL, path, false)
	if !ok {
		return
	}
	f.decode = decodeStat
	r := jute.SetACLRequest{Path: full, ACL: acl, Version: version}
	c.s.end(&f.call, r.Append(c.s.enc))
}

func (c *Client) startSync(f *Future[None], path string) {
	full, ok := c.begin(&f.call, jute.OpSync, path, false)
	if !ok {
		return
	}
	r := jute.SyncRequest{Path: full}
	c.s.end(&f.call, r.Append(c.s.enc))
}

// startAddWatch sets a persistent watch, unless one of the mode is set already.
func (c *Client) startAddWatch(f *Future[*Watch], path string, mode WatchMode, w *Watch) {
	full, ok := c.begin(&f.call, jute.OpAddWatch, path, false)
	if !ok {
		return
	}
	f.decode = func(f *Future[*Watch], d *jute.Decoder) { f.val = f.watchSet(d) }
	if !c.s.watches.arm(&f.call, w, full) {
		mode = WatchRecursive // as it is: a narrower one would take its place
	}
	r := jute.AddWatchRequest{Path: full, Mode: mode}
	c.s.end(&f.call, r.Append(c.s.enc))
}

// startWatchOp issues checkWatches or removeWatches.
func (c *Client) startWatchOp(f *Future[None], op jute.OpCode, path string, t WatchType) {
	full, ok := c.begin(&f.call, op, path, false)
	if !ok {
		return
	}
	r := jute.RemoveWatchesRequest{Path: full, Type: jute.WatchType(t)}
	c.s.end(&f.call, r.Append(c.s.enc))
}

// startForget removes a watch at the server that is not in the table any more,
// unless another one needs it. That is decided as the request takes its place: a
// watch set before it is in the table, one set later comes behind it.
func (c *Client) startForget(f *Future[None], w *Watch) {
	if !c.beginFree(&f.call, jute.OpRemoveWatches, w.full) {
		return
	}
	t, ok := c.s.watches.unneeded(w.full, w.kind)
	if !ok || c.s.conn == nil {
		c.s.undo()
		c.s.finish(&f.call, 0, nil)
		return
	}
	r := jute.RemoveWatchesRequest{Path: w.full, Type: jute.WatchType(t)}
	c.s.end(&f.call, r.Append(c.s.enc))
}

func (c *Client) startEphemerals(f *Future[[]string], prefix string) {
	if !c.beginFree(&f.call, jute.OpGetEphemerals, prefix) {
		return
	}
	f.decode = decodeEphemerals
	full := c.root + prefix
	if prefix == "/" && c.root != "" {
		full = c.root // the view's root may be an ephemeral itself
	}
	r := jute.GetEphemeralsRequest{Prefix: full}
	c.s.end(&f.call, r.Append(c.s.enc))
}

// decodeEphemerals leaves out what begins like the view's root but is not below it.
func decodeEphemerals(f *Future[[]string], d *jute.Decoder) {
	for _, p := range d.Strings() {
		if rest, ok := strings.CutPrefix(p, f.c.root); ok && (rest == "" || rest[0] == '/') {
			f.val = append(f.val, f.c.strip(p))
		}
	}
}

func (c *Client) startCountDescendants(f *Future[int], path string) {
	full, ok := c.begin(&f.call, jute.OpGetAllChildrenNumber, path, false)
	if !ok {
		return
	}
	f.decode = func(f *Future[int], d *jute.Decoder) { f.val = int(d.Int32()) }
	r := jute.PathRequest{Path: full}
	c.s.end(&f.call, r.Append(c.s.enc))
}

func (c *Client) startWhoAmI(f *Future[[]Identity]) {
	if !c.beginFree(&f.call, jute.OpWhoAmI, "") {
		return
	}
	f.decode = func(f *Future[[]Identity], d *jute.Decoder) {
		var r jute.WhoAmIResponse
		r.Decode(d)
		f.val = r.Clients
	}
	c.s.end(&f.call, c.s.enc)
}

// configPath is where the servers keep their configuration; no namespace hides it.
const configPath = "/zookeeper/config"

func (c *Client) startGetConfig(f *Future[Node], w *Watch) {
	f.decode = decodeNode
	if !c.beginFree(&f.call, jute.OpGetData, configPath) {
		return
	}
	r := jute.PathWatchRequest{Path: configPath, Watch: w != nil && c.s.watches.arm(&f.call, w, configPath)}
	c.s.end(&f.call, r.Append(c.s.enc))
}

func (c *Client) startReconfig(f *Future[Node], joining, leaving, members string, version int64) {
	if !c.beginFree(&f.call, jute.OpReconfig, "") {
		return
	}
	f.decode = decodeNode
	// Apache tells an incremental change from a whole one by which strings are
	// null, which jute.ReconfigRequest does not keep apart from empty.
	b := appendNullable(c.s.enc, joining)
	b = appendNullable(b, leaving)
	b = appendNullable(b, members)
	c.s.end(&f.call, jute.AppendInt64(b, version))
}

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return jute.AppendInt32(b, int32(-1))
	}
	return jute.AppendString(b, s)
}

// startRemoveWatches closes all watches of the type at a path. The server keeps
// what others there live on.
func (c *Client) startRemoveWatches(f *Future[None], path string, t WatchType) {
	full, ok := c.begin(&f.call, jute.OpRemoveWatches, path, false)
	if !ok {
		return
	}
	taken := c.s.watches.take(full, t)
	for _, w := range taken {
		w.end(ErrWatchClosed)
	}
	if c.s.watches.shared(full, t) {
		c.s.undo()
		var err error
		if len(taken) == 0 {
			err = &Error{Op: f.op, Path: path, Err: ErrNoWatcher}
		}
		c.s.finish(&f.call, 0, err)
		return
	}
	if t == AnyWatches || t == RecursiveWatches {
		delete(c.s.watches.recursive, full)
	}
	if len(taken) > 0 { // those that have fired meanwhile are gone at the server
		f.refuse = func(_ *Future[None], code jute.Code) bool { return code == ErrNoWatcher }
	}
	r := jute.RemoveWatchesRequest{Path: full, Type: jute.WatchType(t)}
	c.s.end(&f.call, r.Append(c.s.enc))
}
