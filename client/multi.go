package client

import (
	"math"

	"github.com/zkd-project/zkd/jute"
)

// Op is one operation of a Multi or a MultiRead.
type Op struct{ op jute.MultiOp }

// OpResult is the result of one operation of a multi. Which fields are set depends on the
// operation; if Err is not nil, only Err is.
type OpResult struct {
	Path     string // of a create: the path with the sequence number
	Stat     Stat   // of a set and a get; of a create only if the server returns it
	Data     []byte
	Children []string
	Deleted  int // of a DeleteTreeOp: how many nodes
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

// CheckAbsentOp fails the whole multi with ErrNodeExists if the node exists.
//
// It is an extension, as CreateOrSetOp and DeleteTreeOp are: on servers that do not offer
// jute.FeatureOperations, such as Apache's, the multi fails with ErrUnimplemented.
func CheckAbsentOp(path string) Op {
	return Op{jute.MultiOp{Type: jute.OpCheckAbsent, Path: path}}
}

// CreateOrSetOp creates the node if it does not exist, and otherwise replaces its data if it
// has the version; AnyVersion means any version. The result has a Path if the node was
// created, and the Stat. The node may be persistent, ephemeral or a container.
//
// An ephemeral that another session owns is ErrNodeExists, and so is an ephemeral where
// another kind is asked for, and the reverse.
func CreateOrSetOp(path string, data []byte, version int32, o CreateOptions) Op {
	return Op{jute.MultiOp{Type: jute.OpCreateOrSet, Path: path, Data: data, Mode: o.Mode, ACL: o.acl(), Version: version}}
}

// MaxDeleteTree is the largest number of nodes that a DeleteTreeOp deletes.
const MaxDeleteTree = jute.MaxDeleteTree

// DeleteTreeOp deletes the node, if it has the version, and all nodes below it. The result has
// Deleted. If there are more than limit nodes, the multi fails with ErrNotEmpty; 0 means
// MaxDeleteTree. It also does if their paths have more than 4 MiB together. It needs the permissions that listing and deleting each
// of them need. A multi can have one DeleteTreeOp. Package tree deletes larger trees, in many steps.
func DeleteTreeOp(path string, version int32, limit int) Op {
	return Op{jute.MultiOp{Type: jute.OpDeleteTree, Path: path, Version: version, Limit: int32(min(limit, math.MaxInt32))}}
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

func decodeMultiRead(p *pending, val *[]OpResult, d *jute.Decoder) {
	var r jute.MultiResponse
	r.Decode(d)
	*val = make([]OpResult, 0, len(p.multi))
	for len(r.Results) > 0 {
		deleted := 0
		if i := len(*val); i < len(p.multi) && p.multi[i].Type == jute.OpDeleteTree {
			for deleted < len(r.Results)-1 && r.Results[deleted].Type == jute.OpDelete {
				deleted++
			}
		}
		res := r.Results[deleted]
		r.Results = r.Results[deleted+1:]
		one := OpResult{Path: p.c.strip(res.Path), Stat: res.Stat, Data: res.Data, Children: res.Children, Deleted: deleted}
		if res.Type == jute.OpError && res.Err != 0 {
			one.Err = res.Err
		}
		*val = append(*val, one)
	}
}

// decodeMulti reads the results, and returns the first error that is not a consequence of
// another one.
func decodeMulti(p *pending, val *[]OpResult, d *jute.Decoder) {
	decodeMultiRead(p, val, d)
	ops := p.multi
	if d.Err() != nil {
		return
	}
	for i, res := range *val {
		if res.Err == nil || res.Err == ErrRuntimeInconsistency || i >= len(ops) {
			continue
		}
		d.Fail(&MultiError{Index: i, Op: ops[i].Type, Path: p.c.strip(ops[i].Path), Err: res.Err})
		return
	}
}
