package cluster

import (
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkd-project/zkd/jute"
)

// undecided is how long Porcupine may think about the history of one node.
const undecided = 20 * time.Second

// register is the state of a node: it is compared with ==.
type register struct {
	exists  bool
	version int32
	data    string
}

// step is what happens to a register when an op takes effect, and whether the
// reply fits. An op without a reply may do its work or find that it can't.
func (r register) step(o *op, state outcome, err jute.Code) (bool, register) {
	next, code := r, jute.Code(0)
	switch {
	case o.create() && r.exists:
		code = jute.ErrNodeExists
	case o.create():
		next = register{exists: true, data: o.data}
	case !r.exists:
		code = jute.ErrNoNode
	case o.version >= 0 && (o.code == jute.OpSetData || o.code == jute.OpDelete) && o.version != r.version:
		code = jute.ErrBadVersion
	case o.code == jute.OpSetData:
		next = register{exists: true, version: r.version + 1, data: o.data}
	case o.code == jute.OpDelete:
		next = register{}
	}
	if code != 0 {
		next = r
	}
	switch {
	case state == unknown:
		return true, next
	case state == refused:
		return code == err, r
	case code != 0:
		return false, r
	case o.code == jute.OpSetData:
		return o.stat.Version == next.version, next
	case o.code == jute.OpGetData:
		return o.got == r.data && o.stat.Version == r.version, r
	}
	return true, next
}

// input is an op on one node; of a multi the part that concerns it.
type input struct{ whole, part *op }

func model(begin register) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return begin },
		Step: func(state, in, _ any) (bool, any) {
			i := in.(input)
			ok, next := state.(register).step(i.part, i.whole.state, i.whole.err)
			return ok, next
		},
	}
}

// checkLinearizable has Porcupine look at the nodes that are only written by
// name: at all writes, and at the reads behind a sync. It returns for how many
// ops it has decided. A refused multi says nothing of a single node, and is left out.
func checkLinearizable(h *history) (f findings, looked int) {
	begin := make(map[string]register)
	for _, o := range skeleton(h.prefix) {
		begin[o.path] = register{exists: true}
	}
	histories := make(map[string][]porcupine.Operation)
	for _, o := range h.ops {
		call := o.call
		switch {
		case o.code == jute.OpMulti && o.state == refused, o.mode.Ephemeral(), o.turnedAway():
			continue
		case o.code == jute.OpGetData && o.since() > 0 && o.state != unknown:
			call = o.since()
		case !o.write():
			continue
		}
		for _, p := range o.parts() {
			if p.path == "" || p.mode.Sequential() || p.path == h.prefix+"/lock" || len(p.path) > len(h.prefix)+4 && p.path != h.prefix+"/fenced" {
				continue
			}
			histories[p.path] = append(histories[p.path], porcupine.Operation{ClientId: o.client, Input: input{o, p}, Call: call, Return: o.ret})
		}
	}
	for path, ops := range histories {
		looked += len(ops)
		switch porcupine.CheckOperationsTimeout(model(begin[path]), ops, undecided) {
		case porcupine.Illegal:
			f.add("%s: Porcupine finds no order for its %d ops", path, len(ops))
		case porcupine.Unknown: // a slow machine, or a long round: that is no finding
			looked -= len(ops)
		}
	}
	return f, looked
}
