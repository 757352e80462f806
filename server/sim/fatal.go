package sim

import (
	"bytes"

	"github.com/zkd-project/zkd/jute"
)

// Some writes can't be evaluated: a leader panics in the middle of one, where the quota of /fatal is exceeded. See broken.go
// in package replica.

// fatal is in the body of these writes.
var fatal = []byte("fatal data")

// chooseFatal draws such a write, or one that makes it possible.
func (s *Sim) chooseFatal(req *request) {
	create := jute.MultiOp{Type: jute.OpCreate, ACL: openACL}
	switch s.rng.IntN(8) {
	case 0:
		create.Path = "/zookeeper/quota/fatal"
	case 1:
		create.Path, create.Data = "/zookeeper/quota/fatal/zookeeper_limits", []byte("count=-1,bytes=-1=;byteHardLimit=1;countHardLimit=-1")
	case 2:
		create.Path, create.Data = "/zookeeper/quota/fatal/zookeeper_stats", []byte("count=1,bytes=0")
	case 3:
		create.Path = "/fatal"
	default: // the overlay has a part of it when the leader panics
		create.Path, create.Type = s.paths[s.rng.IntN(len(s.paths))], pick(s.rng, jute.OpCreate, jute.OpDelete, jute.OpSetData)
		create.Version = -1
		m := jute.MultiRequest{Ops: []jute.MultiOp{create, {Type: jute.OpCreate, Path: "/fatal/", Data: fatal, ACL: openACL, Mode: jute.ModePersistentSequential}}}
		req.op, req.body = jute.OpMulti, m.Append(nil)
		return
	}
	req.op, req.body = create.Type, create.Append(nil)
}

// isFatal reports whether a leader may panic at a write.
func isFatal(body []byte) bool { return bytes.Contains(body, fatal) }

// exceeded panics while a node evaluates a fatal write.
func (n *node) exceeded(string) {
	if n.s.phase == phaseChaos {
		n.s.stats.Fatal++
		n.fatal++
		panic("fatal write")
	}
}

// checkBroken checks that a node has not panicked for another reason.
func (s *Sim) checkBroken(n *node) {
	if n.rep.Stats().Broken != n.fatal {
		s.fail("panic", "server %d: %v", n.id, n.out.Events)
	}
}
