package client

import (
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Op is one operation of a Multi or a MultiRead.
type Op struct{ op jute.MultiOp }

// OpResult is the result of one operation of a multi. Which fields count depends
// on the operation; none but Err if that is not nil.
type OpResult struct {
	Path     string // of a create: with the sequence number
	Stat     Stat   // of a set and a get; of a create only if the server says it
	Data     []byte
	Children []string
	// Err is the operation's error. In a Multi that failed it is nil before the
	// operation that failed, and ErrRuntimeInconsistency after it.
	Err error
}

// CreateOp creates a node: see Client.Create.
func CreateOp(path string, data []byte, mode CreateMode, acl []ACL) Op {
	return Op{jute.MultiOp{Type: createOp(mode, true), Path: path, Data: data, Mode: mode, ACL: acl}}
}

// CreateTTLOp creates a node with a time to live: see Client.CreateTTL.
func CreateTTLOp(path string, data []byte, mode CreateMode, acl []ACL, ttl time.Duration) Op {
	return Op{jute.MultiOp{Type: jute.OpCreateTTL, Path: path, Data: data, Mode: mode, ACL: acl, TTL: ttl.Milliseconds()}}
}

// DeleteOp deletes a node: see Client.Delete.
func DeleteOp(path string, version int32) Op {
	return Op{jute.MultiOp{Type: jute.OpDelete, Path: path, Version: version}}
}

// SetOp replaces a node's data: see Client.Set.
func SetOp(path string, data []byte, version int32) Op {
	return Op{jute.MultiOp{Type: jute.OpSetData, Path: path, Data: data, Version: version}}
}

// CheckOp fails the whole multi unless the node exists and has the version, or
// any if that is AnyVersion.
func CheckOp(path string, version int32) Op {
	return Op{jute.MultiOp{Type: jute.OpCheck, Path: path, Version: version}}
}

// GetOp reads a node, in a MultiRead.
func GetOp(path string) Op { return Op{jute.MultiOp{Type: jute.OpGetData, Path: path}} }

// ChildrenOp lists a node's children, in a MultiRead.
func ChildrenOp(path string) Op { return Op{jute.MultiOp{Type: jute.OpGetChildren, Path: path}} }

func (c *Client) startMulti(f *Future[[]OpResult], code jute.OpCode, ops []Op) {
	r := jute.MultiRequest{Ops: make([]jute.MultiOp, len(ops))}
	for i, op := range ops {
		o := op.op
		full, err := c.full(o.Path, o.Mode.Sequential() && isCreate(o.Type))
		if err != nil {
			c.s.refuse(&f.call, code, o.Path, err)
			return
		}
		if o.ACL == nil && isCreate(o.Type) {
			o.ACL = openACL
		}
		o.Path = full
		r.Ops[i] = o
	}
	var path string
	if len(ops) > 0 {
		path = ops[0].op.Path
	}
	if !c.beginFree(&f.call, code, path) {
		return
	}
	f.decode = decodeMultiRead
	if code == jute.OpMulti {
		f.decode = func(f *Future[[]OpResult], d *jute.Decoder) { decodeMulti(f, d, r.Ops) }
	}
	c.s.end(&f.call, r.Append(c.s.enc))
}

func isCreate(op jute.OpCode) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return true
	}
	return false
}

func decodeMultiRead(f *Future[[]OpResult], d *jute.Decoder) {
	var r jute.MultiResponse
	r.Decode(d)
	f.val = make([]OpResult, len(r.Results))
	for i, res := range r.Results {
		f.val[i] = OpResult{Path: f.c.strip(res.Path), Stat: res.Stat, Data: res.Data, Children: res.Children}
		if res.Type == jute.OpError && res.Err != 0 {
			f.val[i].Err = res.Err
		}
	}
}

// decodeMulti reads the results, and fails with the first error that is not the
// consequence of another.
func decodeMulti(f *Future[[]OpResult], d *jute.Decoder, ops []jute.MultiOp) {
	decodeMultiRead(f, d)
	if d.Err() != nil {
		return
	}
	for i, res := range f.val {
		if res.Err == nil || res.Err == ErrRuntimeInconsistency || i >= len(ops) {
			continue
		}
		d.Fail(&MultiError{Index: i, Op: ops[i].Type, Path: f.c.strip(ops[i].Path), Err: res.Err})
		return
	}
}
