package client

import "github.com/zkd-project/zkd/jute"

// Op is one operation of a Multi or a MultiRead.
type Op struct{ op jute.MultiOp }

// OpResult is the result of one operation of a multi. Which fields are set depends on the
// operation; if Err is not nil, only Err is.
type OpResult struct {
	Path     string // of a create: the path with the sequence number
	Stat     Stat   // of a set and a get; of a create only if the server returns it
	Data     []byte
	Children []string
	// Err is the operation's error. In a Multi that failed it is nil before the
	// operation that failed, and ErrRuntimeInconsistency after it.
	Err error
}

// CreateOp creates a node: see Client.Create. The result always has the path, and the
// Stat if the server returns it, whatever o.Stat is.
func CreateOp(path string, data []byte, o CreateOptions) Op {
	o.Stat = true
	return Op{jute.MultiOp{Type: o.code(), Path: path, Data: data, Mode: o.Mode, ACL: o.acl(), TTL: o.TTL.Milliseconds()}}
}

// DeleteOp deletes a node: see Client.Delete.
func DeleteOp(path string, version int32) Op {
	return Op{jute.MultiOp{Type: jute.OpDelete, Path: path, Version: version}}
}

// SetOp replaces a node's data: see Client.Set.
func SetOp(path string, data []byte, version int32) Op {
	return Op{jute.MultiOp{Type: jute.OpSetData, Path: path, Data: data, Version: version}}
}

// CheckOp fails the whole multi unless the node exists and has the version. AnyVersion means
// any version.
func CheckOp(path string, version int32) Op {
	return Op{jute.MultiOp{Type: jute.OpCheck, Path: path, Version: version}}
}

// GetOp reads a node, in a MultiRead.
func GetOp(path string) Op { return Op{jute.MultiOp{Type: jute.OpGetData, Path: path}} }

// ChildrenOp lists a node's children, in a MultiRead.
func ChildrenOp(path string) Op { return Op{jute.MultiOp{Type: jute.OpGetChildren, Path: path}} }

func checkMulti(c *Client, k *call, a *args) error {
	k.path = ""
	if len(a.ops) > 0 {
		k.path = a.ops[0].op.Path
	}
	k.multi = make([]jute.MultiOp, len(a.ops))
	for i, op := range a.ops {
		full, err := c.full(op.op.Path, op.op.Mode.Sequential() && isCreate(op.op.Type))
		if err != nil {
			k.path = op.op.Path
			return err
		}
		k.multi[i] = op.op
		k.multi[i].Path = full
	}
	return nil
}

func encodeMulti(_ *Client, k *call, _ *args, b []byte) ([]byte, error) {
	r := jute.MultiRequest{Ops: k.multi}
	return r.Append(b), nil
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

// decodeMulti reads the results, and returns the first error that is not a consequence of
// another one.
func decodeMulti(f *Future[[]OpResult], d *jute.Decoder) {
	decodeMultiRead(f, d)
	ops := f.multi
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
