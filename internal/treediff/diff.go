package treediff

import (
	"iter"
)

// Difference is a path at which two subtrees differ.
type Difference struct {
	Path string
	// A and B are the node here and there, nil where it is missing. They are valid
	// until the next Difference.
	A, B *Node
	// These describe the difference if neither is missing. Only ChangedSince sets Children
	// and Replaced: a child was created or deleted; the node was deleted and created again.
	Data, ACL, Kind    bool
	Children, Replaced bool
}

// DiffOptions say what Diff compares.
type DiffOptions struct {
	IgnoreData, IgnoreACL, IgnoreKind bool
	// Shown says that the lists of b are as servers show them, perhaps without the hashes of digests.
	Shown bool
	// IgnoreEphemerals treats ephemeral nodes as missing on both sides.
	IgnoreEphemerals bool
}

// Diff compares the data, the ACLs and the kinds of nodes of two subtrees, whose streams must
// be in tree order. Versions, times and owners may differ. A hidden node counts as one that differs. An error of a stream ends it.
func Diff(a, b iter.Seq2[Node, error], o DiffOptions) iter.Seq2[Difference, error] {
	if o.IgnoreEphemerals {
		a, b = withoutEphemerals(a), withoutEphemerals(b)
	}
	return Merge(a, b, func(d *Difference) bool {
		if d.A.Hidden || d.B.Hidden {
			return true
		}
		d.Data = !o.IgnoreData && !SameData(d.A.Data, d.B.Data)
		same := SameACL
		if o.Shown {
			same = sameShown
		}
		d.ACL = !o.IgnoreACL && !same(d.A.ACL, d.B.ACL)
		d.Kind = !o.IgnoreKind && d.A.Kind() != d.B.Kind()
		return d.Data || d.ACL || d.Kind
	})
}

func withoutEphemerals(nodes iter.Seq2[Node, error]) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for n, err := range nodes {
			if err == nil && n.Kind() == Ephemeral {
				continue
			}
			if !yield(n, err) {
				return
			}
		}
	}
}

// Merge yields the nodes that only one of two streams has, and the pairs that differ reports
// as different.
func Merge(a, b iter.Seq2[Node, error], differ func(*Difference) bool) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		nextA, stopA := iter.Pull2(a)
		defer stopA()
		nextB, stopB := iter.Pull2(b)
		defer stopB()
		x, errA, okA := nextA()
		y, errB, okB := nextB()
		for okA || okB {
			if errA != nil || errB != nil {
				err := errA
				if err == nil {
					err = errB
				}
				yield(Difference{}, err)
				return
			}
			d := Difference{Path: x.Path}
			order := 0
			if okA && okB {
				order = Compare(x.Path, y.Path)
			}
			if okA && order <= 0 {
				d.A = new(x)
			}
			if okB && (!okA || order >= 0) {
				d.Path, d.B = y.Path, new(y)
			}
			if (d.A == nil || d.B == nil || differ(&d)) && !yield(d, nil) {
				return
			}
			if d.A != nil {
				x, errA, okA = nextA()
			}
			if d.B != nil {
				y, errB, okB = nextB()
			}
		}
	}
}
