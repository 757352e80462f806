package zab

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
)

// ErrMalformed is returned, wrapped, by all decoders of this package for bytes that no
// encoder produces. For a kind or a flag that a later version may have added they return a
// *format.VersionError instead.
var ErrMalformed = errors.New("malformed")

// The encodings are canonical: each value has exactly one encoding, and bytes that decode
// without an error encode to the same bytes. Fixed-width numbers are big endian; lengths
// and most other numbers are uvarints in their shortest form.

// decoder reads from b and remembers the first error.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: %w", what, ErrMalformed)
	}
	d.b = nil
}

func (d *decoder) bytes(n int, what string) []byte {
	if n > len(d.b) {
		d.fail(what)
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) u8(what string) uint8 {
	if p := d.bytes(1, what); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) u64(what string) uint64 {
	if p := d.bytes(8, what); p != nil {
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

func (d *decoder) zxid(what string) jute.Zxid { return jute.Zxid(d.u64(what)) }

func (d *decoder) uvarint(what string) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || n > 1 && d.b[n-1] == 0 { // truncated, too long, or not the shortest form
		d.fail(what)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) u32(what string) uint32 {
	v := d.uvarint(what)
	if v > 1<<32-1 {
		d.fail(what)
		return 0
	}
	return uint32(v)
}

// count reads a number of elements that take at least size bytes each.
func (d *decoder) count(size int, what string) int {
	v := d.uvarint(what)
	if v > uint64(len(d.b)/size) {
		d.fail(what)
		return 0
	}
	return int(v)
}

func (d *decoder) id(what string) (id ID) {
	copy(id[:], d.bytes(len(id), what))
	return id
}

// flags reads a byte in which only the bits in known may be set. A later version sets other
// bits when it adds fields.
func (d *decoder) flags(known uint8, what string) uint8 {
	v := d.u8(what)
	if v&^known != 0 {
		d.err = &format.VersionError{What: what + " flags", Found: uint32(v), Most: uint32(known)}
		d.b = nil
	}
	return v
}

// end returns the first error. Bytes left over are an error.
func (d *decoder) end(what string) error {
	if len(d.b) > 0 {
		d.fail(what + ": bytes after the end")
	}
	return d.err
}

func appendBytes(b, p []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(p))), p...)
}

// text reads a length and that many bytes, which alias the input. It returns nil for length
// 0.
func (d *decoder) text(what string) []byte {
	n := d.count(1, what)
	if n == 0 {
		return nil
	}
	return d.bytes(n, what)
}

// Append appends the admission's encoding to b: always 17 bytes.
func (a *Admission) Append(b []byte) []byte {
	return append(append(b, byte(a.Server)), a.Incarnation[:]...)
}

// Decode sets a from the first bytes of b.
func (a *Admission) Decode(b []byte) error {
	d := decoder{b: b}
	a.decode(&d)
	return d.err
}

func (a *Admission) decode(d *decoder) {
	a.Server = SIDOf(d.u8("admission"))
	a.Incarnation = d.id("admission")
	if d.err == nil && a.Server == 0 {
		d.fail("admission of server 0")
	}
}

func appendAdmissions(b []byte, list []Admission) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for i := range list {
		b = list[i].Append(b)
	}
	return b
}

func (d *decoder) admissions() []Admission {
	n := d.count(admissionSize, "admissions")
	if n == 0 {
		return nil
	}
	list := make([]Admission, n)
	for i := range list {
		list[i].decode(d)
		if i > 0 && list[i].Server <= list[i-1].Server {
			d.fail("admissions out of order")
		}
	}
	return list
}

func appendEpochs(b []byte, list []EpochEnd) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, e := range list {
		b = binary.AppendUvarint(b, uint64(e.Epoch))
		b = binary.AppendUvarint(b, uint64(e.Last))
	}
	return b
}

func (d *decoder) epochs(dst []EpochEnd) []EpochEnd {
	n := d.count(2, "epochs")
	if n == 0 {
		return nil
	}
	list := dst[:0]
	for i := range n {
		list = append(list, EpochEnd{Epoch: d.u32("epochs"), Last: d.u32("epochs")})
		if i > 0 && list[i].Epoch <= list[i-1].Epoch {
			d.fail("epochs out of order")
		}
	}
	return list
}

// Bits of the encodings below.
const (
	hasInit    = 1
	hasMembers = 2
	isAlone    = 4

	memberObserver      = 1
	memberDemoted       = 2
	membersHierarchical = 1
	membersCommanded    = 2
)

func (i *ClusterInit) append(b []byte) []byte {
	return append(append(b, i.Cluster[:]...), i.Secret[:]...)
}

func (i *ClusterInit) decode(d *decoder) {
	i.Cluster = d.id("init")
	copy(i.Secret[:], d.bytes(len(i.Secret), "init"))
	if d.err == nil && i.Cluster == (ID{}) {
		d.fail("init without cluster id")
	}
}

// Append appends the marker's encoding to b.
func (m *Marker) Append(b []byte) []byte {
	var flags byte
	if m.Init != nil {
		flags = hasInit
	}
	if m.Alone {
		flags |= isAlone
	}
	if m.Members != nil {
		flags |= hasMembers
	}
	b = append(b, flags, byte(m.Leader))
	b = binary.BigEndian.AppendUint64(b, m.Boot)
	b = binary.BigEndian.AppendUint64(b, uint64(m.TimeMs))
	if m.Init != nil {
		b = m.Init.append(b)
		b = appendAdmissions(b, m.Admitted)
	}
	if m.Members != nil {
		b = m.Members.Append(b)
	}
	return appendBytes(b, m.App)
}

// Decode sets m from all of b. App aliases it.
func (m *Marker) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Marker{}
	flags := d.flags(hasInit|hasMembers|isAlone, "marker")
	m.Alone = flags&isAlone != 0
	m.Leader = SIDOf(d.u8("marker"))
	m.Boot = d.u64("marker")
	m.TimeMs = int64(d.u64("marker"))
	if flags&hasInit != 0 {
		m.Init = new(ClusterInit)
		m.Init.decode(&d)
		m.Admitted = d.admissions()
	}
	if flags&hasMembers != 0 {
		m.Members = new(Members)
		m.Members.decode(&d)
	}
	m.App = d.text("marker")
	return d.end("marker")
}

// Append appends the members' encoding to b.
func (m *Members) Append(b []byte) []byte {
	var flags byte
	if m.Hierarchical {
		flags = membersHierarchical
	}
	if m.Commanded {
		flags |= membersCommanded
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Version))
	b = binary.BigEndian.AppendUint64(b, uint64(m.TimeMs))
	b = binary.AppendUvarint(b, uint64(len(m.List)))
	for i := range m.List {
		one := &m.List[i]
		flags = 0
		if one.Observer {
			flags = memberObserver
		}
		if one.Demoted {
			flags |= memberDemoted
		}
		b = append(b, byte(one.ID), flags)
		b = binary.AppendUvarint(b, uint64(one.Weight))
		b = binary.AppendUvarint(b, uint64(one.Group))
	}
	return appendBytes(b, m.Text)
}

// Decode sets m from all of b. Text aliases it.
func (m *Members) Decode(b []byte) error {
	d := decoder{b: b}
	m.decode(&d)
	return d.end("members")
}

func (m *Members) decode(d *decoder) {
	*m = Members{}
	flags := d.flags(membersHierarchical|membersCommanded, "members")
	m.Hierarchical, m.Commanded = flags&membersHierarchical != 0, flags&membersCommanded != 0
	m.Version = d.zxid("members")
	m.TimeMs = int64(d.u64("members"))
	n := d.count(4, "members")
	for i := range n {
		one := Member{ID: SIDOf(d.u8("members"))}
		flags := d.flags(memberObserver|memberDemoted, "members")
		one.Observer, one.Demoted = flags&memberObserver != 0, flags&memberDemoted != 0
		if one.Demoted && !one.Observer {
			d.fail("members with a demoted voter")
			return
		}
		one.Weight = d.u32("members")
		one.Group = d.u32("members")
		if i > 0 && one.ID <= m.List[i-1].ID {
			d.fail("members out of order")
			return
		}
		m.List = append(m.List, one)
	}
	m.Text = d.text("members")
}

// Append appends the state's encoding to b.
func (s *State) Append(b []byte) []byte {
	var flags byte
	if s.Seeded() {
		flags |= hasInit
	}
	if s.Members != nil {
		flags |= hasMembers
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Zxid))
	if s.Seeded() {
		b = s.Init.append(b)
	}
	b = appendEpochs(b, s.Epochs)
	b = appendAdmissions(b, s.Admitted)
	if s.Members != nil {
		b = s.Members.Append(b)
	}
	return b
}

// Decode sets s from all of b. The text of the members aliases it.
func (s *State) Decode(b []byte) error {
	d := decoder{b: b}
	*s = State{}
	flags := d.flags(hasInit|hasMembers, "state")
	s.Zxid = d.zxid("state")
	if flags&hasInit != 0 {
		s.Init.decode(&d)
	}
	s.Epochs = d.epochs(nil)
	s.Admitted = d.admissions()
	if flags&hasMembers != 0 {
		s.Members = new(Members)
		s.Members.decode(&d)
	}
	return d.end("state")
}
