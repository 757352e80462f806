package jute

import (
	"encoding/binary"
	"fmt"
	"math"
)

// MultiHeader precedes each operation of a multi and each result, and ends both lists.
type MultiHeader struct {
	Type OpCode // of the operation or result; OpError for a failed one
	Done bool   // the end of the list
	Err  Code   // of the result; -1 in requests and at the end
}

// multiEnd ends the list of operations and of results.
var multiEnd = MultiHeader{Type: OpError, Done: true, Err: -1}

func (h *MultiHeader) Append(b []byte) []byte {
	b = AppendInt32(b, h.Type)
	b = AppendBool(b, h.Done)
	return AppendInt32(b, h.Err)
}

func (h *MultiHeader) Decode(d *Decoder) {
	h.Type = OpCode(d.Int32())
	h.Done = d.Bool()
	h.Err = Code(d.Int32())
}

// MultiOp is one operation: in a multi a create, create2, createContainer, createTTL,
// delete, setData or check, or one of FeatureOperations; in a multiRead a getData or
// getChildren. Type determines which fields count.
type MultiOp struct {
	Type    OpCode
	Path    string
	Data    []byte     // create*, setData; nil is null
	ACL     []ACL      // create*
	Mode    CreateMode // create*
	TTL     int64      // createTTL, milliseconds
	Version int32      // delete*, setData, createOrSet, check
	Limit   int32      // deleteTree: the largest number of nodes; 0 leaves it to the server
	Watch   bool       // getData, getChildren; without effect in a multi
	// NullPath means that the path is null on the wire; Path is then "". Apache's server
	// notices that only when it uses the path.
	NullPath bool
}

// reads reports whether op is an operation of a multiRead, not of a multi.
func reads(op OpCode) bool { return op == OpGetData || op == OpGetChildren }

// Append appends the operation's own record, without a header. The type must be allowed
// in a multi.
func (o *MultiOp) Append(b []byte) []byte {
	start := len(b)
	b = o.append(b)
	if o.NullPath { // each record begins with the path: the length of ""
		binary.BigEndian.PutUint32(b[start:], math.MaxUint32)
	}
	return b
}

func (o *MultiOp) append(b []byte) []byte {
	switch o.Type {
	case OpCreate, OpCreate2, OpCreateContainer:
		return o.create().Append(b)
	case OpCreateTTL:
		r := CreateTTLRequest{*o.create(), o.TTL}
		return r.Append(b)
	case OpDelete:
		r := DeleteRequest{o.Path, o.Version}
		return r.Append(b)
	case OpSetData:
		r := SetDataRequest{o.Path, o.Data, o.Version}
		return r.Append(b)
	case OpCheck:
		r := CheckVersionRequest{o.Path, o.Version}
		return r.Append(b)
	case OpCheckAbsent:
		return AppendString(b, o.Path)
	case OpCreateOrSet:
		return AppendInt32(o.create().Append(b), o.Version)
	case OpDeleteTree:
		return AppendInt32(AppendInt32(AppendString(b, o.Path), o.Version), o.Limit)
	case OpGetData, OpGetChildren:
		r := PathWatchRequest{o.Path, o.Watch}
		return r.Append(b)
	}
	panic(fmt.Sprintf("jute: %v is no operation of a multi", o.Type))
}

func (o *MultiOp) create() *CreateRequest {
	return &CreateRequest{Path: o.Path, Data: o.Data, ACL: o.ACL, Mode: o.Mode}
}

// Decode reads the record of o.Type as encoded in a single request. A type that can't be
// in a multi is an error.
func (o *MultiOp) Decode(d *Decoder) { o.decode(d, false) }

// decode reads the record of o.Type. In a multi there are more errors.
func (o *MultiOp) decode(d *Decoder, inMulti bool) {
	if !o.possible() {
		d.failValue("operation of a multi", int32(o.Type))
		return
	}
	path, ok := d.NullString()
	o.Path, o.NullPath = path, !ok
	switch o.Type {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateOrSet:
		nullACL := o.decodeCreate(d)
		if inMulti {
			o.checkCreate(d, nullACL)
		}
		if o.Type == OpCreateOrSet {
			o.Version = d.Int32()
		}
	case OpCreateTTL:
		o.decodeCreate(d)
		o.TTL = d.Int64()
	case OpSetData:
		o.Data = d.Buffer()
		o.Version = d.Int32()
	case OpDelete, OpCheck:
		o.Version = d.Int32()
	case OpDeleteTree:
		o.Version, o.Limit = d.Int32(), d.Int32()
	case OpGetData, OpGetChildren:
		o.Watch = d.Bool()
	}
}

func (o *MultiOp) decodeCreate(d *Decoder) (nullACL bool) {
	o.Data = d.Buffer()
	nullACL = d.nextIsNull()
	o.ACL = d.ACLs()
	o.Mode = CreateMode(d.Int32())
	return nullACL
}

// checkCreate fails for values that a create without a time to live can't have in a
// multi: an unknown mode, a null ACL, or a mode with a time to live. The order of the
// checks is that of MultiOperationRecord.deserialize in ZooKeeper 3.9.
func (o *MultiOp) checkCreate(d *Decoder, nullACL bool) {
	switch {
	case !o.Mode.Valid():
		d.failValue("create mode in a multi", int32(o.Mode))
	case nullACL:
		d.Fail(ErrNull)
	case o.Mode.TTL():
		d.failValue("create mode without a time to live", int32(o.Mode))
	}
}

// possible reports whether a multi or multiRead can have operations of this type.
func (o *MultiOp) possible() bool {
	switch o.Type {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck,
		OpCheckAbsent, OpCreateOrSet, OpDeleteTree:
		return true
	}
	return reads(o.Type)
}

// MultiRequest is the body of multi and multiRead.
type MultiRequest struct {
	Ops []MultiOp
}

func (r *MultiRequest) Append(b []byte) []byte {
	for i := range r.Ops {
		h := MultiHeader{Type: r.Ops[i].Type, Err: -1}
		b = r.Ops[i].Append(h.Append(b))
	}
	return multiEnd.Append(b)
}

// Decode reads the record up to the first header with Done set. It fails if an operation
// can't be in a multi, if some operations write and others read, or if a create other
// than createTTL has an invalid mode or, with ErrNull, a null ACL. The caller compares
// the kind of the operations with its opcode, see Reads. Decode reuses the memory of
// r.Ops.
func (r *MultiRequest) Decode(d *Decoder) {
	r.Ops = r.Ops[:0]
	for {
		var h MultiHeader
		h.Decode(d)
		if d.err != nil {
			r.Ops = nil
			return
		}
		if h.Done {
			return
		}
		op := MultiOp{Type: h.Type}
		op.decode(d, true)
		r.Ops = append(r.Ops, op)
		if reads(op.Type) != r.Reads() {
			d.Fail(fmt.Errorf("multi that both reads and writes: %w", ErrMarshalling))
		}
	}
}

// Reads reports whether the operations are those of a multiRead. It returns false if
// there are none.
func (r *MultiRequest) Reads() bool { return len(r.Ops) > 0 && reads(r.Ops[0].Type) }

// MultiResult is the result of one operation of a multi. Type determines which fields
// count: OpCreate (Path), OpCreate2 (Path, Stat), OpDelete and OpCheck (none), OpSetData
// (Stat), OpGetData (Data, Stat), OpGetChildren (Children), OpError (Err).
//
// The results of createContainer and createTTL have type OpCreate2, that of checkAbsent has
// OpCheck, and that of createOrSet has OpCreate2 or OpSetData. A deleteTree has a result of
// type OpDelete for each node, and one of type OpCheck after them. If a multi fails,
// each of its operations has a result of type OpError: 0 before the one that failed,
// ErrRuntimeInconsistency after it.
type MultiResult struct {
	Type     OpCode
	Path     string
	Stat     Stat
	Data     []byte // nil is null
	Children []string
	Err      Code
}

// Append appends the result with its header.
func (r *MultiResult) Append(b []byte) []byte {
	h := MultiHeader{Type: r.Type}
	if r.Type == OpError {
		h.Err = r.Err
	}
	b = h.Append(b)
	switch r.Type {
	case OpCreate:
		return AppendString(b, r.Path)
	case OpCreate2:
		return r.Stat.Append(AppendString(b, r.Path))
	case OpDelete, OpCheck:
		return b
	case OpSetData:
		return r.Stat.Append(b)
	case OpGetData:
		return r.Stat.Append(AppendBuffer(b, r.Data))
	case OpGetChildren:
		return AppendStrings(b, r.Children)
	case OpError:
		return AppendInt32(b, r.Err)
	}
	panic(fmt.Sprintf("jute: %v is no result of a multi", r.Type))
}

// decode reads the result after a header with r.Type.
func (r *MultiResult) decode(d *Decoder) {
	switch r.Type {
	case OpCreate:
		r.Path = d.String()
	case OpCreate2:
		r.Path = d.String()
		r.Stat.Decode(d)
	case OpDelete, OpCheck:
	case OpSetData:
		r.Stat.Decode(d)
	case OpGetData:
		r.Data = d.Buffer()
		r.Stat.Decode(d)
	case OpGetChildren:
		r.Children = d.Strings()
	case OpError:
		r.Err = Code(d.Int32())
	default:
		d.failValue("result of a multi", int32(r.Type))
	}
}

// AppendMultiEnd appends the end of a multi's results, for callers that append them one
// by one.
func AppendMultiEnd(b []byte) []byte { return multiEnd.Append(b) }

// MultiResponse is the response of multi and multiRead.
type MultiResponse struct {
	Results []MultiResult
}

func (r *MultiResponse) Append(b []byte) []byte {
	for i := range r.Results {
		b = r.Results[i].Append(b)
	}
	return AppendMultiEnd(b)
}

// Decode reads the record. It reuses the memory of r.Results.
func (r *MultiResponse) Decode(d *Decoder) {
	r.Results = r.Results[:0]
	for {
		var h MultiHeader
		h.Decode(d)
		if d.err != nil {
			r.Results = nil
			return
		}
		if h.Done {
			return
		}
		res := MultiResult{Type: h.Type}
		res.decode(d)
		r.Results = append(r.Results, res)
	}
}
