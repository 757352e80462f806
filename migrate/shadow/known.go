package shadow

import (
	"strings"
	"unicode/utf8"

	"github.com/zkd-project/zkd/jute"
)

// known returns the id in docs/compat.md of a difference between two answers, or "".
func known(r *request, a, z *answer, d differences) string {
	ca, cz := a.failed(), z.failed()
	switch {
	case r.path == configPath:
		return "config-version"
	case r.op == jute.OpExists && cz == jute.ErrNoAuth && ca == 0:
		return "exists-read"
	case r.timesToLive() && ca == jute.ErrUnimplemented && cz == 0:
		return "ttl-on"
	case r.timesToLive() && ca == 0 && cz == jute.ErrBadArguments:
		return "ttl-poison"
	case (r.op == jute.OpRemoveWatches || r.op == jute.OpCheckWatches) && a.Err == jute.ErrMarshalling && z.Err != a.Err:
		return "watcher-types"
	case r.op == jute.OpCheckWatches && ca == 0 && cz == jute.ErrNoWatcher:
		return "check-own"
	case r.op == jute.OpMulti && z.Err == jute.ErrMarshalling && ca == jute.ErrBadArguments:
		return "multi-flags"
	case r.op == jute.OpMulti && onlyTypes(d):
		return "multi-create2"
	case r.op == jute.OpCheck && z.Err == jute.ErrUnimplemented:
		return "bare-check"
	case (r.op == jute.OpCreateSession || r.op == jute.OpDeleteContainer) && z.Err == jute.ErrUnimplemented:
		return "internal-ops"
	case cz == jute.ErrInvalidACL && ca == jute.ErrMarshalling:
		return "null-id"
	case cz == 0 && ca == jute.ErrInvalidACL && r.hasIPACL(':'):
		return "ipv6-acl"
	case cz == jute.ErrInvalidACL && ca == 0 && r.hasIPACL('.'):
		return "ip-strict"
	case (r.op == jute.OpSetWatches || r.op == jute.OpSetWatches2) && a.Err == jute.ErrMarshalling && z.Err == a.Err:
		return "null-list"
	case r.op == jute.OpSync && !utf8.ValidString(r.path):
		return "string-encoding"
	}
	return ""
}

// onlyTypes reports whether the answers differ in the type of results alone.
func onlyTypes(d differences) bool {
	for _, text := range d {
		if !strings.HasPrefix(text, "type of the result: create, zkd create2") {
			return false
		}
	}
	return len(d) > 0
}

// timesToLive reports whether the request creates a znode with a time to live.
func (r *request) timesToLive() bool {
	if r.op == jute.OpCreateTTL {
		return true
	}
	for i := range r.make {
		if r.make[i].op == jute.OpCreateTTL {
			return true
		}
	}
	return false
}

// hasIPACL reports whether the request has an ACL of scheme ip with an address that contains sep.
func (r *request) hasIPACL(sep rune) bool {
	for _, e := range r.acls() {
		if e.ID.Scheme == "ip" && strings.ContainsRune(e.ID.ID, sep) {
			return true
		}
	}
	return false
}

func (r *request) acls() (list []jute.ACL) {
	d := jute.NewAliasDecoder(r.frame[8:])
	switch r.op {
	case jute.OpSetACL:
		_ = d.String() // the path
		return d.ACLs()
	case jute.OpMulti:
		var m jute.MultiRequest
		m.Decode(&d)
		for i := range m.Ops {
			list = append(list, m.Ops[i].ACL...)
		}
		return list
	}
	o := jute.MultiOp{Type: r.op}
	o.Decode(&d)
	return o.ACL
}
