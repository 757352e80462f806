package shadow

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// request is a request of a client.
type request struct {
	xid   int32
	op    jute.OpCode
	frame []byte

	path string // the first one that it names

	// reads and writes are the znodes that its answer depends on, and that it changes.
	reads, writes []string
	// barrier means that it reads or writes more than these: it runs alone.
	barrier bool
	// unsent is why the shadow must not get it, or "".
	unsent string

	make []made // creates of znodes that go by themselves: ephemerals, containers, those with a TTL
}

// made is an operation that creates a znode.
type made struct {
	part int // of the answer that has its name
	op   jute.OpCode
	mode jute.CreateMode
}

// configPath is the znode with the members of an ensemble, quotaPath the parent of those that
// servers count in.
const (
	configPath = "/zookeeper/config"
	quotaPath  = "/zookeeper/quota"
)

// decodeRequest reads a request. It fails only if the frame has no header: bytes after it
// that make no sense are for the servers to judge. The result shares the frame's memory.
func decodeRequest(frame []byte) (*request, error) {
	d := jute.NewAliasDecoder(frame)
	var h jute.RequestHeader
	h.Decode(&d)
	if d.Err() != nil {
		return nil, d.Err()
	}
	r := &request{xid: h.Xid, op: h.Type, frame: frame}
	switch h.Type {
	case jute.OpMulti, jute.OpMultiRead:
		var m jute.MultiRequest
		if m.Decode(&d); d.Err() == nil {
			for i := range m.Ops {
				r.add(i, &m.Ops[i])
			}
		}
	case jute.OpExists, jute.OpGetChildren2, jute.OpGetACL, jute.OpRemoveWatches, jute.OpCheckWatches:
		r.read(d.String())
	case jute.OpSetACL:
		r.write(d.String())
	case jute.OpAddWatch:
		var w jute.AddWatchRequest
		w.Decode(&d)
		r.read(w.Path)
		r.barrier = w.Mode == jute.AddPersistentRecursive
	case jute.OpSetWatches, jute.OpSetWatches2:
		r.setWatches(&d)
	case jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpCloseSession:
		r.barrier = true
		if h.Type != jute.OpCloseSession {
			r.path = d.String()
		}
	case jute.OpSync:
		r.path = d.String()
	case jute.OpReconfig:
		r.unsent = "reconfig: the members of the shadow are its own"
	case jute.OpTransferLeader, jute.OpDrain:
		r.unsent = h.Type.String() + ": Apache's servers do not have it"
	default:
		one := jute.MultiOp{Type: h.Type}
		if one.Decode(&d); d.Err() == nil {
			r.add(0, &one)
		}
	}
	return r, nil
}

// add adds the znodes of an operation that may stand in a multi, at place i.
func (r *request) add(i int, o *jute.MultiOp) {
	switch o.Type {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		r.write(o.Path)
		r.write(jute.Parent(o.Path))
		if o.Type == jute.OpCreateContainer || o.Mode == jute.ModeContainer || o.Mode.TTL() || o.Mode.Ephemeral() {
			r.make = append(r.make, made{i, o.Type, o.Mode})
		}
	case jute.OpDelete:
		r.write(o.Path)
		r.write(jute.Parent(o.Path))
	case jute.OpSetData:
		r.write(o.Path)
	default: // getData, getChildren, check
		r.read(o.Path)
	}
}

func (r *request) name(path string) {
	if r.path == "" {
		r.path = path
	}
	if path == quotaPath || strings.HasPrefix(path, quotaPath+"/") {
		r.barrier = true // the servers write it with each change below the quota
	}
}

func (r *request) read(path string) {
	r.name(path)
	r.reads = append(r.reads, path)
}

func (r *request) write(path string) {
	r.name(path)
	r.writes = append(r.writes, path)
}

// setWatches reads the body of setWatches or setWatches2.
func (r *request) setWatches(d *jute.Decoder) {
	w := r.watches(d)
	for _, list := range [][]string{w.Data, w.Exist, w.Child, w.Persistent} {
		for _, path := range list {
			r.read(path)
		}
	}
	r.barrier = len(w.PersistentRecursive) > 0
}

func (r *request) watches(d *jute.Decoder) (w jute.SetWatchesRequest) {
	if r.op == jute.OpSetWatches2 {
		w.Decode2(d)
	} else {
		w.Decode(d)
	}
	return w
}

// relativeTo returns the request with another relative zxid, if it is a setWatches.
func (r *request) relativeTo(translate func(jute.Zxid) jute.Zxid) []byte {
	if r.op != jute.OpSetWatches && r.op != jute.OpSetWatches2 || len(r.frame) < 16 {
		return r.frame
	}
	d := jute.NewAliasDecoder(r.frame[8:])
	b := append(make([]byte, 0, len(r.frame)), r.frame[:8]...)
	b = jute.AppendInt64(b, translate(jute.Zxid(d.Int64())))
	return append(b, r.frame[16:]...)
}

// String describes the request, without the bytes of an auth request.
func (r *request) String() string {
	d := jute.NewAliasDecoder(r.frame[8:])
	switch r.op {
	case jute.OpAuth:
		d.Int32()
		return fmt.Sprintf("auth %s", d.String())
	case jute.OpMulti, jute.OpMultiRead:
		var m jute.MultiRequest
		if m.Decode(&d); d.Err() != nil {
			return r.op.String() + " (malformed)"
		}
		var parts []string
		for i := range m.Ops {
			parts = append(parts, describe(&m.Ops[i]))
		}
		return fmt.Sprintf("%v [%s]", r.op, strings.Join(parts, "; "))
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData,
		jute.OpGetData, jute.OpGetChildren, jute.OpCheck:
		o := jute.MultiOp{Type: r.op}
		if o.Decode(&d); d.Err() != nil {
			return r.op.String() + " (malformed)"
		}
		return describe(&o)
	case jute.OpExists, jute.OpGetChildren2:
		return fmt.Sprintf("%v %q%s", r.op, d.String(), watching(d.Bool()))
	case jute.OpSetACL:
		path, list := d.String(), d.ACLs()
		return fmt.Sprintf("setACL %q %s version=%d", path, aclText(list), d.Int32())
	case jute.OpAddWatch, jute.OpRemoveWatches, jute.OpCheckWatches:
		path := d.String()
		return fmt.Sprintf("%v %q %d", r.op, path, d.Int32())
	case jute.OpSetWatches, jute.OpSetWatches2:
		w := r.watches(&d)
		return fmt.Sprintf("%v data=%q exist=%q child=%q persistent=%q recursive=%q", r.op, w.Data, w.Exist, w.Child, w.Persistent, w.PersistentRecursive)
	}
	if r.path != "" {
		return fmt.Sprintf("%v %q", r.op, r.path)
	}
	return r.op.String()
}

func describe(o *jute.MultiOp) string {
	switch o.Type {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		text := fmt.Sprintf("%v %q data=%s mode=%d acl=%s", o.Type, o.Path, dataText(o.Data), o.Mode, aclText(o.ACL))
		if o.Type == jute.OpCreateTTL {
			text += fmt.Sprintf(" ttl=%d", o.TTL)
		}
		return text
	case jute.OpSetData:
		return fmt.Sprintf("setData %q data=%s version=%d", o.Path, dataText(o.Data), o.Version)
	case jute.OpDelete, jute.OpCheck:
		return fmt.Sprintf("%v %q version=%d", o.Type, o.Path, o.Version)
	}
	return fmt.Sprintf("%v %q%s", o.Type, o.Path, watching(o.Watch))
}

func watching(watch bool) string {
	if watch {
		return " watch"
	}
	return ""
}

func aclText(list []jute.ACL) string {
	var parts []string
	for _, a := range list {
		parts = append(parts, fmt.Sprintf("%s:%s:%d", a.ID.Scheme, a.ID.ID, a.Perms))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// shownData is how much of a znode's data a report shows.
const shownData = 64

func dataText(data []byte) string {
	switch {
	case data == nil:
		return "null"
	case len(data) > shownData:
		return fmt.Sprintf("%q... (%d bytes)", data[:shownData], len(data))
	}
	return fmt.Sprintf("%q", data)
}
