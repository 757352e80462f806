package shadow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// answer is a reply.
type answer struct {
	jute.ReplyHeader
	parts []part // results of a multi, or one
	// rest is the number of bytes after the record, or -1 if it is cut off.
	rest int
}

// part is the result of an operation. What the operation does not return is nil.
type part struct {
	op     jute.OpCode // of a result in a multi
	err    jute.Code   // of a result in a multi
	path   *string
	data   *[]byte
	stat   *jute.Stat
	set    []string // children, paths or identities, sorted
	acl    []string // sorted
	number *int32
}

// decodeAnswer reads a reply to a request. It shares the frame's memory.
func decodeAnswer(op jute.OpCode, frame []byte) *answer {
	d := jute.NewAliasDecoder(frame)
	a := new(answer)
	a.Decode(&d)
	if a.Err != 0 || d.Err() != nil {
		a.end(&d)
		return a
	}
	if op == jute.OpMulti || op == jute.OpMultiRead {
		var m jute.MultiResponse
		m.Decode(&d)
		for i := range m.Results {
			a.parts = append(a.parts, partOf(&m.Results[i]))
		}
	} else {
		a.parts = []part{decodePart(op, &d)}
	}
	a.end(&d)
	return a
}

func (a *answer) end(d *jute.Decoder) {
	a.rest = len(d.Rest())
	if d.Err() != nil {
		a.rest = -1
	}
}

func decodePart(op jute.OpCode, d *jute.Decoder) (p part) {
	stat := func() {
		p.stat = new(jute.Stat)
		p.stat.Decode(d)
	}
	switch op {
	case jute.OpCreate, jute.OpSync:
		path := d.String()
		p.path = &path
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		path := d.String()
		p.path = &path
		stat()
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		stat()
	case jute.OpGetData, jute.OpReconfig:
		data := d.Buffer()
		p.data = &data
		stat()
	case jute.OpGetACL:
		p.acl = aclSet(d.ACLs())
		stat()
	case jute.OpGetChildren, jute.OpGetEphemerals:
		p.set = d.Strings()
	case jute.OpGetChildren2:
		p.set = d.Strings()
		stat()
	case jute.OpGetAllChildrenNumber, jute.OpAddWatch:
		n := d.Int32()
		p.number = &n
	case jute.OpSASL:
		data := d.Buffer()
		p.data = &data
	case jute.OpWhoAmI:
		var w jute.WhoAmIResponse
		w.Decode(d)
		for _, c := range w.Clients {
			if c.Scheme == "ip" {
				c.User = "(of the connection)" // the two sides may see different ones
			}
			p.set = append(p.set, c.Scheme+":"+c.User)
		}
	}
	slices.Sort(p.set)
	return p
}

// aclSet returns the entries of an ACL, sorted.
func aclSet(list []jute.ACL) (entries []string) {
	for _, e := range list {
		entries = append(entries, fmt.Sprintf("%s:%s:%d", e.ID.Scheme, e.ID.ID, e.Perms))
	}
	slices.Sort(entries)
	return entries
}

func partOf(r *jute.MultiResult) part {
	p := part{op: r.Type, err: r.Err}
	switch r.Type {
	case jute.OpCreate:
		p.path = &r.Path
	case jute.OpCreate2:
		p.path, p.stat = &r.Path, &r.Stat
	case jute.OpSetData:
		p.stat = &r.Stat
	case jute.OpGetData:
		p.data, p.stat = &r.Data, &r.Stat
	case jute.OpGetChildren:
		p.set = slices.Sorted(slices.Values(r.Children))
	}
	return p
}

// failed returns the code with which the request failed, that of an operation if it is a multi.
func (a *answer) failed() jute.Code {
	if a.Err != 0 {
		return a.Err
	}
	for _, p := range a.parts {
		if p.err != 0 && p.err != jute.ErrRuntimeInconsistency {
			return p.err
		}
	}
	return 0
}

func (a *answer) String() string {
	if a.Err != 0 {
		return codeText(a.Err)
	}
	var parts []string
	for _, p := range a.parts {
		parts = append(parts, p.String())
	}
	text := strings.Join(parts, "; ")
	if text == "" {
		text = "ok"
	}
	switch {
	case a.rest < 0:
		text += " (cut off)"
	case a.rest > 0:
		text += fmt.Sprintf(" (and %d bytes more)", a.rest)
	}
	return text
}

func codeText(c jute.Code) string {
	if c == 0 {
		return "ok"
	}
	return fmt.Sprintf("%v (%d)", c, int32(c))
}

func (p *part) String() string {
	var words []string
	if p.op == jute.OpError {
		return codeText(p.err)
	}
	if p.op != 0 {
		words = append(words, p.op.String())
	}
	if p.path != nil {
		words = append(words, fmt.Sprintf("%q", *p.path))
	}
	if p.data != nil {
		words = append(words, dataText(*p.data))
	}
	if p.set != nil {
		words = append(words, fmt.Sprintf("%q", p.set))
	}
	if p.acl != nil {
		words = append(words, fmt.Sprintf("acl=%q", p.acl))
	}
	if p.number != nil {
		words = append(words, fmt.Sprint(*p.number))
	}
	if s := p.stat; s != nil {
		words = append(words, fmt.Sprintf("stat{czxid=%v mzxid=%v pzxid=%v ctime=%d mtime=%d version=%d cversion=%d aversion=%d owner=%v length=%d children=%d}",
			s.Czxid, s.Mzxid, s.Pzxid, s.Ctime, s.Mtime, s.Version, s.Cversion, s.Aversion, s.EphemeralOwner, s.DataLength, s.NumChildren))
	}
	return strings.Join(words, " ")
}
