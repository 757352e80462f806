package evaluate

import (
	"iter"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
)

// anyVersion in a request matches every version.
const anyVersion = -1

// node returns the future state of the node at path, which must not be "".
func (e *Evaluator) node(path string) (record, bool) {
	if r, ok := e.over.nodes[path]; ok {
		return r, !r.gone
	}
	n, ok := e.tree.Get(path)
	if !ok {
		return record{}, false
	}
	return record{
		mtime:       n.Mtime,
		owner:       n.Owner,
		acl:         n.ACL,
		version:     n.DataVersion(),
		cversion:    n.Cversion,
		aversion:    n.ACLVersion(),
		numChildren: n.NumChildren,
		dataLength:  n.DataLength,
	}, true
}

func (e *Evaluator) allowed(r *record, perms jute.Perms) bool {
	allowed, looked := e.schemes.AllowedOnce(&e.lists, r.acl, perms, e.req.Auth)
	e.spend(looked * len(e.req.Auth) / 256)
	return allowed || e.schemes.AllowedHolder(r.acl, perms, e.req.Session, future{e}, &e.looked)
}

// future is the tree as it will be after all accepted writes.
type future struct{ *Evaluator }

func (f future) Owner(path string) (jute.Owner, bool) {
	switch {
	case holderOfTree.Planted():
		n, ok := f.tree.Get(path)
		return n.Owner, ok
	case holderUnchecked.Planted():
		return jute.OwnerSession(f.req.Session), true
	}
	r, ok := f.node(path)
	return r.owner, ok
}

// maxPassed is the number of pending ephemerals elsewhere that are passed over for one request. An
// ACL may have thousands of entries, and each of them looks through all pending ephemerals.
const maxPassed = 1 << 18

// omits reports whether a fault leaves out a child.
func (f future) omits(prefix, name string) bool {
	if anyContender.Planted() {
		r, _ := f.node(prefix + name)
		return r.owner.Session() != f.req.Session
	}
	return false
}

// Children also yields the ephemerals that accepted writes create.
func (f future) Children(path string) iter.Seq[string] {
	prefix := strings.TrimSuffix(path, "/") + "/"
	return func(yield func(string) bool) {
		for name := range f.tree.Children(path) {
			if f.omits(prefix, name) {
				continue
			}
			if !yield(name) {
				return
			}
		}
		for _, pending := range f.over.ephemerals {
			for _, path := range pending {
				if name, ok := strings.CutPrefix(path, prefix); ok && !strings.Contains(name, "/") {
					if !yield(name) {
						return
					}
				} else if f.passed++; f.passed > maxPassed {
					f.looked = auth.MaxContenders + 1 // no entry allows anything any more
					return
				}
			}
		}
	}
}

// permitted returns the node at path if there is one and the caller has one of
// the permissions on it.
func (e *Evaluator) permitted(path string, perms jute.Perms) (record, error) {
	r, ok := e.node(path)
	if !ok {
		return r, jute.ErrNoNode
	}
	if !e.allowed(&r, perms) {
		return r, jute.ErrNoAuth
	}
	return r, nil
}

// parentOf returns the path of the parent, by the rule that create and delete share: the
// path need not be valid, but must have a '/' and no NUL. At this place Apache's server
// gets a null pointer for a null path.
func parentOf(op *jute.MultiOp) (string, error) {
	path := op.Path
	i := strings.LastIndexByte(path, '/')
	switch {
	case op.NullPath:
		return "", jute.ErrMarshalling
	case i < 0 || strings.IndexByte(path, 0) >= 0:
		return "", jute.ErrBadArguments
	case i == 0:
		return "/", nil // for "/" too: creating the root must find it there
	}
	return path[:i], nil
}

// nodePath checks the path of an operation on an existing node.
func nodePath(path string) error {
	if jute.ValidatePath(path) != nil {
		return jute.ErrBadArguments
	}
	return nil
}

// checkVersion compares the version in a request with the node's.
func checkVersion(want, have int32) error {
	if want != anyVersion && want != have {
		return jute.ErrBadVersion
	}
	return nil
}

func (e *Evaluator) setData(op *jute.MultiOp, txn *datatree.Txn) error {
	if err := e.checkSession(); err != nil {
		return err
	}
	if err := nodePath(op.Path); err != nil {
		return err
	}
	r, err := e.permitted(op.Path, jute.PermWrite)
	if err != nil {
		return err
	}
	length := int32(len(op.Data))
	if err := e.checkQuota(op.Path, 0, int64(length)-int64(r.dataLength)); err != nil {
		return err
	}
	if err := checkVersion(op.Version, r.version); err != nil {
		return err
	}
	if err := e.grow(datatree.NodeMemory(0, len(op.Data)) - datatree.NodeMemory(0, int(r.dataLength))); err != nil {
		return err
	}
	path := strings.Clone(op.Path)
	e.noteQuota(path, false)
	r.version = datatree.NextVersion(r.version)
	r.dataLength = length
	r.mtime = e.now
	e.over.put(path, r)
	txn.Ops = append(txn.Ops, datatree.Op{
		Kind:    datatree.OpSetData,
		Result:  jute.OpSetData,
		Path:    path,
		Data:    op.Data,
		Version: r.version,
	})
	return nil
}

func (e *Evaluator) setACL(txn *datatree.Txn) error {
	d := jute.NewAliasDecoder(e.req.Body)
	var req jute.SetACLRequest
	req.Decode(&d)
	if d.Err() != nil {
		return errUndecodable
	}
	if err := e.checkSession(); err != nil {
		return err
	}
	if err := nodePath(req.Path); err != nil {
		return err
	}
	acl, err := e.fixACL(req.ACL)
	if err != nil {
		return err
	}
	r, err := e.permitted(req.Path, jute.PermAdmin)
	if err != nil {
		return err
	}
	if err := checkVersion(req.Version, r.aversion); err != nil {
		return err
	}
	if err := e.grow(datatree.ACLMemory(acl) - datatree.ACLMemory(r.acl)); err != nil {
		return err
	}
	path := strings.Clone(req.Path)
	r.aversion = datatree.NextVersion(r.aversion)
	r.acl = acl
	e.over.put(path, r)
	txn.Ops = append(txn.Ops, datatree.Op{
		Kind:    datatree.OpSetACL,
		Result:  jute.OpSetACL,
		Path:    path,
		ACL:     acl,
		Version: r.aversion,
	})
	return nil
}

// check changes nothing; it occurs only in a multi.
func (e *Evaluator) check(op *jute.MultiOp, txn *datatree.Txn) error {
	if err := e.checkSession(); err != nil {
		return err
	}
	if err := nodePath(op.Path); err != nil {
		return err
	}
	r, err := e.permitted(op.Path, jute.PermRead)
	if err != nil {
		return err
	}
	if err := checkVersion(op.Version, r.version); err != nil {
		return err
	}
	txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpCheck, Result: jute.OpCheck})
	return nil
}

// checkQuota fails if the subtree's quota does not allow the growth. It uses the applied
// usage, without pending writes: a burst can exceed the limit, as in ZooKeeper.
func (e *Evaluator) checkQuota(path string, nodes, bytes int64) error {
	if !e.opts.EnforceQuota {
		return nil
	}
	q, ok := e.tree.Quota(path)
	if !ok {
		return nil
	}
	if exceeds(q.Usage.Count, nodes, q.Limits.CountHard) || exceeds(q.Usage.Bytes, bytes, q.Limits.BytesHard) {
		if e.opts.QuotaExceeded != nil {
			e.opts.QuotaExceeded(path)
		}
		return jute.ErrQuotaExceeded
	}
	return nil
}

// exceeds reports whether the usage after the growth exceeds a hard limit; a negative
// limit means none. Zero growth never exceeds it; shrinking does unless it reaches the
// limit.
func exceeds(usage, growth, limit int64) bool {
	return growth != 0 && limit >= 0 && usage+growth > limit
}

// MaxACLBytes bounds the size of the ACL lists of one transaction in the log. So do expandedACLs and bytesOfACLs:
// an entry with scheme auth means all of the caller's identities, and what a request comes to in memory, log
// and history must be in proportion to its bytes.
const (
	MaxACLBytes  = 16 << 20
	expandedACLs = 32 << 10 // of any request
	bytesOfACLs  = 8        // for each of its bytes
)

// fixACL returns the list to be stored for the list in the request.
func (e *Evaluator) fixACL(list []jute.ACL) ([]jute.ACL, error) {
	acl, err := e.schemes.FixACL(list, e.req.Auth)
	if err != nil {
		return nil, err
	}
	for i := range acl {
		e.aclBytes += len(acl[i].ID.Scheme) + len(acl[i].ID.ID) + 8
	}
	if e.aclBytes > min(MaxACLBytes, expandedACLs+bytesOfACLs*len(e.req.Body)) {
		return nil, jute.ErrInvalidACL
	}
	return acl, nil
}
