package shadow

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// comparer compares answers. It knows which ids of the two sides stand for each other.
type comparer struct {
	zxids    *pairs[jute.Zxid]
	sessions *pairs[jute.SessionID]
	// before is a time before the shadow began, in ms since the Unix epoch: what is
	// older was copied, with its times.
	before int64
}

// keptPairs bounds the zxids that are known of each side.
const keptPairs = 1 << 18

func newComparer(before int64) *comparer {
	return &comparer{newPairs[jute.Zxid](keptPairs), newPairs[jute.SessionID](keptPairs), before}
}

// differences lists what differs between two answers to a request: "version: 1, zkd 2".
type differences []string

func (d *differences) add(name string, a, z any) {
	*d = append(*d, fmt.Sprintf("%s: %v, zkd %v", name, a, z))
}

func differ[T comparable](d *differences, name string, a, z T) {
	if a != z {
		d.add(name, a, z)
	}
}

// answers compares two answers. With learn, ids that are seen for the first time stand for
// each other from now on.
func (c *comparer) answers(r *request, a, z *answer, learn bool) (d differences) {
	if a.Err != z.Err {
		d.add("error", codeText(a.Err), codeText(z.Err))
		return d
	}
	differ(&d, "bytes after the record", a.rest, z.rest)
	if len(a.parts) != len(z.parts) {
		d.add("results", len(a.parts), len(z.parts))
		return d
	}
	if learn && r.op.Write() && a.failed() == 0 && z.failed() == 0 && !c.zxids.learn(a.Zxid, z.Zxid) {
		d.add("zxid", a.Zxid, z.Zxid)
	}
	for i := range a.parts {
		c.parts(&d, &a.parts[i], &z.parts[i], learn)
	}
	return d
}

func (c *comparer) parts(d *differences, a, z *part, learn bool) {
	differ(d, "type of the result", a.op, z.op)
	if a.err != z.err {
		d.add("error", codeText(a.err), codeText(z.err))
	}
	if a.path != nil && z.path != nil {
		differ(d, "path", *a.path, *z.path)
	}
	if a.data != nil && z.data != nil && (!bytes.Equal(*a.data, *z.data) || (*a.data == nil) != (*z.data == nil)) {
		d.add("data", dataText(*a.data), dataText(*z.data))
	}
	if !slices.Equal(a.set, z.set) {
		d.add("set", without(a.set, z.set), without(z.set, a.set))
	}
	if !slices.Equal(a.acl, z.acl) {
		d.add("ACL", without(a.acl, z.acl), without(z.acl, a.acl))
	}
	if a.number != nil && z.number != nil {
		differ(d, "number", *a.number, *z.number)
	}
	if a.stat != nil && z.stat != nil {
		c.stats(d, a.stat, z.stat, learn)
	}
}

// without returns the elements of a sorted list that are missing in another.
func without(list, other []string) string {
	var only []string
	for _, s := range list {
		if _, found := slices.BinarySearch(other, s); !found {
			only = append(only, s)
		}
	}
	const most = 8
	if len(only) > most {
		return fmt.Sprintf("also %q and %d more", only[:most], len(only)-most)
	}
	return fmt.Sprintf("also %q", only)
}

func (c *comparer) stats(d *differences, a, z *jute.Stat, learn bool) {
	zxid := func(name string, a, z jute.Zxid) {
		if agrees(c.zxids, a, z, learn) {
			return
		}
		if known, ok := c.zxids.of(a); ok {
			d.add(name, fmt.Sprintf("%v (zkd's %v)", a, known), z)
		} else {
			d.add(name, a, z)
		}
	}
	zxid("stat.czxid", a.Czxid, z.Czxid)
	zxid("stat.mzxid", a.Mzxid, z.Mzxid)
	zxid("stat.pzxid", a.Pzxid, z.Pzxid)
	c.time(d, "stat.ctime", a.Ctime, z.Ctime, a.Czxid == z.Czxid)
	c.time(d, "stat.mtime", a.Mtime, z.Mtime, a.Mzxid == z.Mzxid)
	if z.Czxid == z.Mzxid && a.Czxid == a.Mzxid && a.Ctime == a.Mtime && z.Ctime != z.Mtime {
		d.add("stat.mtime", "that of the create", z.Mtime)
	}
	differ(d, "stat.version", a.Version, z.Version)
	differ(d, "stat.cversion", a.Cversion, z.Cversion)
	differ(d, "stat.aversion", a.Aversion, z.Aversion)
	if (a.EphemeralOwner == 0) != (z.EphemeralOwner == 0) || !agrees(c.sessions, a.EphemeralOwner, z.EphemeralOwner, learn) {
		d.add("stat.ephemeralOwner", a.EphemeralOwner, z.EphemeralOwner)
	}
	differ(d, "stat.dataLength", a.DataLength, z.DataLength)
	differ(d, "stat.numChildren", a.NumChildren, z.NumChildren)
}

func agrees[T ~int64](p *pairs[T], a, z T, learn bool) bool {
	if learn {
		return p.learn(a, z)
	}
	return p.agree(a, z)
}

// time compares two times. They are equal if the znode was copied: if the zxid is, too, and
// the time is from before the shadow.
func (c *comparer) time(d *differences, name string, a, z int64, copied bool) {
	if (a == 0) != (z == 0) || copied && a < c.before && a != z {
		d.add(name, a, z)
	}
}
