package line

import (
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/watch"
)

// Read is the outcome of a request that was answered from the tree.
type Read struct {
	Zxid  jute.Zxid // in the reply
	Path  string    // of the node that was read, "" for none; valid as long as the request
	Bytes int       // of the path and what was read
	More  bool      // the request is not answered yet: it has to be served again
}

// read is one request that is answered from the current tree. The tree lock is held, for
// reading or writing, from the look-up until the reply and the watch are in place, so no
// change can come between them.
type read struct {
	*Lines
	l    *Line
	req  *Request
	zxid jute.Zxid
	now  time.Duration
	out  *Read

	looked *int // children, to find holders; nil for none
	lists  auth.Memory
}

// begin starts the reply.
func (r *read) begin() []byte { return r.l.Reply(r.req.Xid, r.zxid, 0) }

func (r *read) end(b []byte) {
	r.out.Zxid = r.zxid
	r.l.Outbox.Finish(b)
}

func (r *read) reply(xid int32, zxid jute.Zxid, code jute.Code) {
	r.end(r.l.Reply(xid, zxid, code))
}

// statBytes is what ZooKeeper counts for a Stat.
const statBytes = 68

// listBytes returns the length of a list of the children's names. names is their total length.
func listBytes(node *datatree.Node, names int) int { return 4 + 4*int(node.NumChildren) + names }

// replyHeader is the length of a reply's header.
const replyHeader = 4 + 8 + 4

// maxMultiRead bounds the reply to a multiRead, in bytes: a short request can ask for the same data
// any number of times.
const maxMultiRead = UnreadLimit

// mayReply returns an error if a reply to a request about path, with a body of that many bytes, is
// longer than limit. It reports a reply that is longer than Java's clients accept.
func (r *read) mayReply(path string, body, limit int) error {
	size := replyHeader + body
	if size > limit {
		r.Server.LongReply(r.l, r.req, path, size, true)
		return jute.ErrMarshalling
	}
	r.noteLong(path, size)
	return nil
}

// noteLong reports a reply of that size if Java's clients do not accept it.
func (r *read) noteLong(path string, size int) {
	if size > r.Server.Limits().LongReply {
		r.Server.LongReply(r.l, r.req, path, size, false)
	}
}

// counted notes that a node was read. bytes is the length of its data or of its children's names.
func (r *read) counted(path string, bytes int) {
	r.out.Path, r.out.Bytes = path, len(path)+bytes+statBytes
}

func (r *read) body() jute.Decoder { return jute.NewAliasDecoder(r.req.Body) }

func (r *read) allowed(acl []jute.ACL, perms jute.Perms) error {
	if allowed, _ := r.Schemes.AllowedOnce(&r.lists, acl, perms, r.req.Auth); allowed {
		return nil
	}
	if r.looked == nil {
		r.looked = new(int)
	}
	if r.Schemes.AllowedHolder(acl, perms, r.l.SessionID(), present{r.State.Tree.NewReader()}, r.looked) {
		return nil
	}
	return jute.ErrNoAuth
}

// present is this server's tree, in which holders are looked up.
type present struct{ *datatree.Reader }

func (p present) Owner(path string) (jute.Owner, bool) {
	n, ok := p.Get(path)
	return n.Owner, ok
}

func (r *read) watch(path string, mode watch.Mode) {
	r.State.Watches.Add(r.l.watcherID(), path, mode)
}

// readable looks up a node that the client may read.
func (r *read) readable(path string) (datatree.Node, error) {
	node, ok := r.State.Tree.Get(path)
	if !ok {
		return node, jute.ErrNoNode
	}
	return node, r.allowed(node.ACL, jute.PermRead)
}

// path decodes a request that consists of a path.
func (r *read) path() (string, error) {
	var p jute.PathRequest
	d := r.body()
	p.Decode(&d)
	if d.Err() != nil {
		return "", jute.ErrMarshalling
	}
	return p.Path, nil
}

// pathWatch decodes the record that most reads use.
func (r *read) pathWatch() (p jute.PathWatchRequest, err error) {
	d := r.body()
	p.Decode(&d)
	if d.Err() != nil {
		err = jute.ErrMarshalling
	}
	return p, err
}

func (r *read) getData() error {
	p, err := r.pathWatch()
	if err != nil {
		return err
	}
	data, node, ok := r.State.Tree.GetData(p.Path)
	if !ok {
		return jute.ErrNoNode
	}
	if err := r.allowed(node.ACL, jute.PermRead); err != nil {
		return err
	}
	if p.Watch {
		r.watch(p.Path, watch.Data)
	}
	stat := node.Stat()
	r.end(stat.Append(jute.AppendBuffer(r.begin(), data)))
	r.counted(p.Path, len(data))
	return nil
}

func (r *read) exists() error {
	p, err := r.pathWatch()
	if err != nil {
		return err
	}
	if strings.IndexByte(p.Path, 0) >= 0 {
		return jute.ErrBadArguments
	}
	node, ok := r.State.Tree.Get(p.Path)
	if ok {
		// Checked since ZOOKEEPER-4799; before that, everyone could test existence.
		if err := r.allowed(node.ACL, jute.PermRead); err != nil {
			return err
		}
	}
	if p.Watch {
		r.watch(p.Path, watch.Data)
	}
	if !ok {
		return jute.ErrNoNode
	}
	stat := node.Stat()
	r.end(stat.Append(r.begin()))
	r.counted(p.Path, 0)
	return nil
}

func (r *read) getChildren(withStat bool) error {
	p, err := r.pathWatch()
	if err != nil {
		return err
	}
	node, err := r.readable(p.Path)
	if err != nil {
		return err
	}
	names := r.State.Tree.ChildNameBytes(p.Path)
	size := listBytes(&node, names) + statBytes
	if err := r.mayReply(p.Path, size, r.Server.Limits().Reply); err != nil {
		return err
	}
	if p.Watch {
		r.watch(p.Path, watch.Child)
	}
	b := jute.AppendInt32(slices.Grow(r.begin(), size), node.NumChildren)
	for name := range r.State.Tree.Children(p.Path) {
		b = jute.AppendString(b, name)
	}
	if withStat {
		stat := node.Stat()
		b = stat.Append(b)
	}
	r.end(b)
	r.counted(p.Path, names)
	return nil
}

func (r *read) getACL() error {
	path, err := r.path()
	if err != nil {
		return err
	}
	node, ok := r.State.Tree.Get(path)
	if !ok {
		return jute.ErrNoNode
	}
	if err := r.allowed(node.ACL, jute.PermRead|jute.PermAdmin); err != nil {
		return err
	}
	stat := node.Stat()
	r.end(stat.Append(jute.AppendACLs(r.begin(), r.shownACL(node.ACL))))
	return nil
}

// shownACL returns the ACL of a node as the client may see it.
func (r *read) shownACL(acl []jute.ACL) []jute.ACL {
	if r.allowed(acl, jute.PermAdmin) != nil {
		return auth.Redact(acl)
	}
	return acl
}

func (r *read) getAllChildrenNumber() error {
	path, err := r.path()
	if err != nil {
		return err
	}
	if _, err := r.readable(path); err != nil {
		return err
	}
	n := r.State.Tree.CountDescendants(path)
	if path == "" { // another name of the root, which Apache's server counts as a node below it
		n++
	}
	r.end(jute.AppendInt32(r.begin(), int32(n)))
	return nil
}

// getEphemerals lists the ephemerals of the calling session whose path begins with the
// prefix. A prefix of "" or "/" means all, also with spaces around it; in another prefix
// spaces count (FinalRequestProcessor.java).
func (r *read) getEphemerals() error {
	var p jute.GetEphemeralsRequest
	d := r.body()
	p.Decode(&d)
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	prefix := p.Prefix
	if trimmed := strings.TrimFunc(prefix, func(r rune) bool { return r <= ' ' }); trimmed == "" || trimmed == "/" {
		prefix = ""
	}
	var paths []string
	size, limit := 4, r.Server.Limits().Reply
	for path := range r.State.Tree.Ephemerals(r.l.SessionID(), prefix) {
		paths = append(paths, path)
		if size += 4 + len(path); size > limit {
			break
		}
	}
	if err := r.mayReply(p.Prefix, size, limit); err != nil {
		return err
	}
	b := jute.AppendInt32(slices.Grow(r.begin(), size), int32(len(paths)))
	for _, path := range paths {
		b = jute.AppendString(b, path)
	}
	r.end(b)
	return nil
}

// multiRead answers each of its reads separately. Watch flags in it have no effect, as in
// Apache's server. It fails as a whole if it can't be decoded. It also fails at an
// operation that is no read or has a null path, and then the results so far follow the
// error, as in Apache's server. Finally it fails if the reply would be too long.
func (r *read) multiRead() error {
	var m jute.MultiRequest
	d := r.body()
	m.Decode(&d)
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	understood := slices.IndexFunc(m.Ops, func(op jute.MultiOp) bool { return !m.Reads() || op.NullPath })
	code := jute.ErrMarshalling
	if understood < 0 {
		understood, code = len(m.Ops), 0
	}
	b := r.l.Reply(r.req.Xid, r.zxid, code)
	start, limit, last := len(b), min(r.Server.Limits().Reply, maxMultiRead), ""
	for i := range m.Ops[:understood] {
		op, body := &m.Ops[i], 0
		if b, body = r.appendReadResult(b, start, limit, op); replyHeader+body > limit {
			r.l.Outbox.Discard(b)
			return r.mayReply(op.Path, body, limit)
		}
		last = op.Path
	}
	b = jute.AppendMultiEnd(b)
	size := replyHeader + len(b) - start
	r.end(b)
	r.noteLong(last, size)
	return nil
}

// appendReadResult appends the result of an operation of a multiRead, unless the reply, whose body
// begins at start, gets longer than limit. It returns the size of the body with the result.
func (r *read) appendReadResult(b []byte, start, limit int, op *jute.MultiOp) (_ []byte, body int) {
	const headers = 2 * 9 // of the result and of the end
	body = len(b) - start + headers
	data, node, ok := r.State.Tree.GetData(op.Path)
	res := jute.MultiResult{Type: op.Type}
	switch {
	case !ok:
		res = jute.MultiResult{Type: jute.OpError, Err: jute.ErrNoNode}
	case r.allowed(node.ACL, jute.PermRead) != nil:
		res = jute.MultiResult{Type: jute.OpError, Err: jute.ErrNoAuth}
	case op.Type == jute.OpGetData:
		body += 4 + len(data) + statBytes
		res.Data, res.Stat = data, node.Stat()
	default:
		if body += listBytes(&node, r.State.Tree.ChildNameBytes(op.Path)); replyHeader+body > limit {
			break
		}
		res.Children = make([]string, 0, node.NumChildren)
		for name := range r.State.Tree.Children(op.Path) {
			res.Children = append(res.Children, name)
		}
	}
	if replyHeader+body > limit {
		return b, body
	}
	r.Server.ServedPart(r.l, r.req, op, res.Err)
	return res.Append(b), body
}

func (r *read) whoAmI() {
	b := jute.AppendInt32(r.begin(), int32(len(r.req.Auth)))
	for _, id := range r.req.Auth {
		b = jute.AppendString(b, id.Scheme)
		b = jute.AppendString(b, auth.User(id))
	}
	r.end(b)
}

// MayOperate reports whether the client may have this server do what a request asks for: those may who may
// change the members. The tree is locked.
func (s *Lines) MayOperate(l *Line, req *Request) bool {
	r := read{Lines: s, l: l, req: req}
	config, _ := s.State.Tree.Get(datatree.ConfigPath)
	return r.allowed(config.ACL, jute.PermWrite) == nil
}
