package shadow

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Node is a znode as a walk reads it.
type Node struct {
	Err      jute.Code // of the read, or 0
	Data     []byte
	Stat     jute.Stat
	ACL      []jute.ACL
	Children []string
}

func (n *Node) part() part {
	p := part{err: n.Err}
	if n.Err != 0 {
		return p
	}
	p.data, p.stat = &n.Data, &n.Stat
	p.acl, p.set = aclSet(n.ACL), slices.Sorted(slices.Values(n.Children))
	return p
}

// Same reports whether a znode is the same on both sides.
func (e *Engine) Same(path string, apache, zkd *Node) bool {
	return path == configPath || len(e.walk(apache, zkd)) == 0
}

func (e *Engine) walk(apache, zkd *Node) (d differences) {
	a, z := apache.part(), zkd.part()
	e.compare.parts(&d, &a, &z, false)
	return d
}

// Walked counts a znode that was compared in the end, and reports it if it differs.
func (e *Engine) Walked(path string, apache, zkd *Node) {
	e.sum.Walked++
	if e.Same(path, apache, zkd) {
		return
	}
	e.sum.WalkDiffers++
	a, z := apache.part(), zkd.part()
	r := Report{Class: Difference, Op: "walk", Path: path, What: e.walk(apache, zkd), Apache: a.String(), Zkd: z.String()}
	switch {
	case e.isOpen([]string{path}), apache.Err == jute.ErrNoNode && e.ofStranger(&answer{parts: []part{z}}),
		zkd.Err == jute.ErrNoNode && e.ofStranger(&answer{parts: []part{a}}):
		r.Class = Order
	case e.anyIn(e.openLists, []string{path}) && !slices.ContainsFunc(differences(r.What).fields(), func(f string) bool { return !slices.Contains(ofLists, f) }):
		r.Class = Order
	}
	e.report(nil, r)
}
