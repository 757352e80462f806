package past

import (
	"iter"

	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/state"
)

// Reader is somebody who looks at the past, by whichever door. It has the rule of what that one may see: what he could read then,
// if he may read what there is now: the node, or the nearest one above it. So nobody sees more of the past than those who
// have read all the time, and what is closed now is closed.
type Reader struct {
	State *state.State
	// Allowed reports whether a list gives somebody a permission, at present.
	Allowed func(acl []jute.ACL, perm jute.Perms) bool
}

// reads reports whether a node may be read that had a list.
func (r *Reader) reads(path string, then []jute.ACL) bool {
	if !r.Allowed(then, jute.PermRead) {
		return false
	}
	r.State.RLock()
	node, ok := r.State.Tree.Get(path)
	for ; !ok; node, ok = r.State.Tree.Get(path) {
		path = treediff.Parent(path)
	}
	now := node.ACL
	r.State.RUnlock()
	return r.Allowed(now, jute.PermRead)
}

// Sees reports whether a change may be seen.
func (r *Reader) Sees(s *history.Step) bool {
	return r.reads(s.Path, s.ACL) && (s.Op != "setACL" || r.Allowed(s.Was, jute.PermRead))
}

// Nodes yields the nodes of a former state. Those that may not be read are hidden.
func (r *Reader) Nodes(f *history.Former) iter.Seq2[treediff.Node, error] {
	return func(yield func(treediff.Node, error) bool) {
		for n, err := range f.Nodes() {
			if err == nil && !r.reads(treediff.Join(f.Root, n.Path), n.ACL) {
				n = treediff.Node{Path: n.Path, Hidden: true}
			}
			if !yield(n, err) {
				return
			}
		}
	}
}

// Visible yields what Nodes does, without what is below a hidden node: as in a subtreePage, that does not even have a name.
func (r *Reader) Visible(f *history.Former) iter.Seq2[treediff.Node, error] {
	return func(yield func(treediff.Node, error) bool) {
		veil := ""
		for n, err := range r.Nodes(f) {
			if veil != "" && treediff.Below(n.Path, veil) {
				continue
			}
			if n.Hidden {
				veil = n.Path
			}
			if !yield(n, err) {
				return
			}
		}
	}
}

// Shown returns a list as it is shown: the hashes of passwords are for those who may change it.
func (r *Reader) Shown(acl []jute.ACL) []jute.ACL {
	if r.Allowed(acl, jute.PermAdmin) {
		return acl
	}
	return auth.Redact(acl)
}
