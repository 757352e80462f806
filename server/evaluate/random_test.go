package evaluate_test

import (
	"math/rand/v2"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
)

// generator generates requests that conflict: few paths, few sessions, few versions.
type generator struct {
	*rand.Rand
}

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 1))} }

func pick[T any](g generator, list ...T) T { return list[g.IntN(len(list))] }

func (g generator) path() string {
	p := "/" + pick(g, "a", "b", "c")
	for g.IntN(3) == 0 && len(p) < 6 {
		p += "/" + pick(g, "a", "b", "c")
	}
	switch g.IntN(40) {
	case 0:
		return p + "/"
	case 1:
		return pick(g, "/", "", "a", "/zookeeper", "/zookeeper/x", "/a//b", "/a/.", "/a\x00")
	}
	return p
}

func (g generator) version() int32 { return pick[int32](g, -1, -1, -1, 0, 0, 1, 2) }

func (g generator) data() []byte {
	return pick(g, nil, []byte{}, []byte("x"), []byte("some data"))
}

func (g generator) acl() []jute.ACL {
	return acl(pick(g,
		"31=world:anyone", "31=world:anyone", "31=world:anyone", "31=world:anyone", "31=world:anyone",
		"31=digest:ann:x", "31=auth:", "23=world:anyone", "1=world:anyone,31=ip:10.0.0.0/8",
		"27=world:anyone,4=digest:ann:x", "31=nis:x", "",
		"1=world:anyone,30=holder:/a", "31=holder:/b", "31=holder:/a/*", "15=holder:/b/*a*", "31=holder:/c/x"))
}

func (g generator) identities() []jute.ID {
	return pick(g,
		[]jute.ID{{Scheme: "ip", ID: "10.0.0.1"}},
		[]jute.ID{{Scheme: "ip", ID: "1.1.1.1"}},
		[]jute.ID{{Scheme: "ip", ID: "1.1.1.1"}, {Scheme: "digest", ID: "ann:x"}},
		[]jute.ID{{Scheme: "super"}}, []jute.ID{{Scheme: "super"}}, []jute.ID{{Scheme: "super"}})
}

func (g generator) session() jute.SessionID { return jute.SessionID(1 + g.IntN(4)) }

// op generates an operation that can be part of a multi.
func (g generator) op() jute.MultiOp {
	op := jute.MultiOp{
		Type: pick(g, jute.OpCreate, jute.OpCreate, jute.OpCreate2, jute.OpCreate2, jute.OpCreateContainer,
			jute.OpCreateTTL, jute.OpDelete, jute.OpDelete, jute.OpSetData, jute.OpSetData),
		Path:    g.path(),
		Data:    g.data(),
		Version: g.version(),
		ACL:     g.acl(),
	}
	switch op.Type {
	case jute.OpCreate, jute.OpCreate2:
		op.Mode = pick(g, jute.ModePersistent, jute.ModeEphemeral, jute.ModeEphemeral,
			jute.ModePersistentSequential, jute.ModeEphemeralSequential)
	case jute.OpCreateTTL:
		op.Mode = pick(g, jute.ModePersistentTTL, jute.ModePersistentSequentialTTL)
		op.TTL = pick[int64](g, 5, 5, 5, 0)
	}
	return op
}

// inMulti generates an operation of a multi.
func (g generator) inMulti() jute.MultiOp {
	op := g.op()
	switch g.IntN(9) {
	case 0, 1:
		op.Type, op.Mode = jute.OpCheck, 0
	case 2:
		op.Type = jute.OpCheckAbsent
	case 3:
		op.Type = jute.OpCreateOrSet
		op.Mode = pick(g, jute.ModePersistent, jute.ModePersistent, jute.ModeEphemeral, jute.ModeContainer, jute.ModeEphemeralSequential)
	case 4:
		op.Type = jute.OpDeleteTree
		op.Limit = pick[int32](g, 0, 0, 1, 2, 3)
	}
	return op
}

// request generates any request; the server searches tree for nodes that are due.
func (g generator) request(tree *datatree.Tree) evaluate.Request {
	req := evaluate.Request{
		Session: g.session(),
		Cxid:    int32(g.IntN(1000)),
		Origin:  g.Uint64(),
		Auth:    g.identities(),
		Local:   g.IntN(30) == 0,
	}
	switch n := g.IntN(100); {
	case n < 8:
		req.Op, req.TimeoutMs = jute.OpCreateSession, 4000
	case n < 10:
		req.Op = jute.OpCloseSession
	case n < 17:
		req.Op, req.Body = jute.OpSetACL, setACLBody(g.path(), g.acl(), g.version())
	case n < 22:
		req.Op, req.Session, req.Removal = jute.OpDeleteContainer, 0, g.removal(tree)
	case n < 45:
		var ops []jute.MultiOp
		for range g.IntN(6) {
			ops = append(ops, g.inMulti())
		}
		req.Op, req.Body = jute.OpMulti, multiBody(ops...)
	default:
		op := g.op()
		req.Op, req.Body = op.Type, body(op)
	}
	if len(req.Body) > 0 && g.IntN(50) == 0 {
		req.Body = req.Body[:g.IntN(len(req.Body))]
	}
	return req
}

func (g generator) removal(tree *datatree.Tree) evaluate.Removal {
	path := g.path()
	n, _ := tree.Get(path)
	return evaluate.Removal{Path: path, Cversion: n.Cversion, Mtime: n.Mtime}
}
