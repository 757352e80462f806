package api

import (
	"net/http"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
)

// opCodes are the operations of a multi by their names.
var opCodes = map[string]jute.OpCode{
	"create": jute.OpCreate2, "set": jute.OpSetData, "delete": jute.OpDelete, "check": jute.OpCheck,
	"checkAbsent": jute.OpCheckAbsent, "createOrSet": jute.OpCreateOrSet, "deleteTree": jute.OpDeleteTree,
}

// encode returns the operation of the protocol.
func (o *Op) encode() (op jute.MultiOp, err error) {
	code, known := opCodes[o.Op]
	mode := slices.Index(modes, o.Mode)
	if o.Mode == "" {
		mode = 0
	}
	acl, err := acls(o.ACL)
	switch {
	case !known:
		return op, refuse(http.StatusBadRequest, "there is no operation %q", o.Op)
	case mode < 0:
		return op, refuse(http.StatusBadRequest, "there is no mode %q", o.Mode)
	case err != nil:
		return op, refuse(http.StatusBadRequest, "%v", err)
	case o.Text != nil && o.Data != nil:
		return op, refuse(http.StatusBadRequest, "an operation has data or text, and not both")
	}
	op = jute.MultiOp{Type: code, Path: o.Path, Data: o.Data, ACL: acl, Mode: jute.CreateMode(mode), TTL: o.TTL, Version: -1, Limit: o.Limit}
	if o.Text != nil {
		op.Data = []byte(*o.Text)
	}
	if o.Version != nil {
		op.Version = *o.Version
	}
	if len(acl) == 0 {
		op.ACL = openACL
	}
	if code == jute.OpCreate2 {
		op.Type = createOp(op.Mode)
	}
	return op, nil
}

// single is an operation that is a request by itself.
type single struct{ jute.MultiOp }

// Append appends the body of the request.
func (s single) Append(b []byte) []byte {
	create := jute.CreateRequest{Path: s.Path, Data: s.Data, ACL: s.ACL, Mode: s.Mode}
	if s.Type == jute.OpCreateTTL {
		return (&jute.CreateTTLRequest{CreateRequest: create, TTL: s.TTL}).Append(b)
	}
	return create.Append(b)
}

// multi does operations together, or none of them.
func (c *call) multi() error {
	var ops Ops
	if err := c.record(&ops); err != nil {
		return err
	}
	var m jute.MultiRequest
	for i := range ops.Ops {
		op, err := ops.Ops[i].encode()
		if err != nil {
			return err
		}
		m.Ops = append(m.Ops, op)
	}
	r, err := c.last([]request{{jute.OpMulti, &m}})
	if err != nil {
		return err
	}
	var got jute.MultiResponse
	if len(r.body) > 0 {
		if err := r.decode(&got); err != nil {
			return err
		}
	}
	results, failed := resultsOf(ops.Ops, got.Results)
	switch {
	case failed >= 0:
		p := problemOf(jute.Code(results[failed].Code), results[failed].Path)
		p.Results = results
		return p
	case r.Err != 0:
		return r.Err
	}
	c.zxid(r.Zxid)
	return c.answer(http.StatusOK, Results{r.Zxid.String(), results})
}

// resultsOf returns the result of each operation, and which one has failed, -1 for none.
func resultsOf(ops []Op, got []jute.MultiResult) (results []Result, failed int) {
	results, failed = []Result{}, -1
	for i := range ops {
		if len(got) == 0 {
			break
		}
		out := Result{Op: ops[i].Op, Path: ops[i].Path}
		for ops[i].Op == "deleteTree" && len(got) > 1 && got[0].Type == jute.OpDelete {
			out.Deleted++
			got = got[1:]
		}
		r := &got[0]
		got = got[1:]
		switch r.Type {
		case jute.OpCreate2:
			out.Path, out.Stat = r.Path, show.StatOf(&r.Stat)
		case jute.OpSetData:
			out.Stat = show.StatOf(&r.Stat)
		case jute.OpError:
			if r.Err != 0 {
				out.Code, out.Name = int32(r.Err), codes[r.Err].name
			}
			if r.Err != 0 && r.Err != jute.ErrRuntimeInconsistency && failed < 0 {
				failed = i
			}
		}
		results = append(results, out)
	}
	return results, failed
}
