package zab

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/internal/wire"
	"github.com/zkd-project/zkd/jute"
)

// ErrMalformed is returned, wrapped, by all decoders of this package for bytes that no
// encoder produces. For a kind or a flag that a later version may have added they return a
// *format.VersionError instead.
var ErrMalformed = wire.ErrMalformed

// The encodings are canonical: each value has exactly one encoding, and bytes that decode
// without an error encode to the same bytes. Fixed-width numbers are big endian; lengths
// and most other numbers are uvarints.

// decoder decodes what this package encodes.
type decoder struct{ wire.Reader }

func (d *decoder) zxid() jute.Zxid { return jute.Zxid(d.BigUint64()) }

func (d *decoder) u32() uint32 { return uint32(d.UvarintTo(math.MaxUint32)) }

func (d *decoder) id() (id ID) {
	copy(id[:], d.Take(len(id)))
	return id
}

// flags reads a byte in which only the bits in known may be set. A later version sets other
// bits when it adds fields. what is the record that has them.
func (d *decoder) flags(known uint8, what string) uint8 {
	v := d.Byte()
	if v&^known != 0 {
		d.Fail(&format.VersionError{What: what + " flags", Found: uint32(v), Most: uint32(known)})
	}
	return v
}

// end returns the first error. Bytes left over are an error.
func (d *decoder) end(what string) error {
	if err := d.End(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Append appends the admission's encoding to b: always 17 bytes.
func (a *Admission) Append(b []byte) []byte {
	return append(append(b, byte(a.Server)), a.Incarnation[:]...)
}

// Decode sets a from the first bytes of b.
func (a *Admission) Decode(b []byte) error {
	d := decoder{wire.NewReader(b)}
	a.decode(&d)
	return d.Err()
}

func (a *Admission) decode(d *decoder) {
	a.Server = SIDOf(d.Byte())
	a.Incarnation = d.id()
	if d.Err() == nil && a.Server == 0 {
		d.Malformed("admission of server 0")
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
	n := d.Count(admissionSize)
	if n == 0 {
		return nil
	}
	list := make([]Admission, n)
	for i := range list {
		list[i].decode(d)
		if i > 0 && list[i].Server <= list[i-1].Server {
			d.Malformed("admissions out of order")
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
	n := d.Count(2)
	if n == 0 {
		return nil
	}
	list := dst[:0]
	for i := range n {
		list = append(list, EpochEnd{Epoch: d.u32(), Last: d.u32()})
		if i > 0 && list[i].Epoch <= list[i-1].Epoch {
			d.Malformed("epochs out of order")
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
	i.Cluster = d.id()
	copy(i.Secret[:], d.Take(len(i.Secret)))
	if d.Err() == nil && i.Cluster == (ID{}) {
		d.Malformed("init without cluster id")
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
	return wire.AppendBytes(b, m.App)
}

// Decode sets m from all of b. App aliases it.
func (m *Marker) Decode(b []byte) error {
	d := decoder{wire.NewReader(b)}
	*m = Marker{}
	flags := d.flags(hasInit|hasMembers|isAlone, "marker")
	m.Alone = flags&isAlone != 0
	m.Leader = SIDOf(d.Byte())
	m.Boot = d.BigUint64()
	m.TimeMs = int64(d.BigUint64())
	if flags&hasInit != 0 {
		m.Init = new(ClusterInit)
		m.Init.decode(&d)
		m.Admitted = d.admissions()
	}
	if flags&hasMembers != 0 {
		m.Members = new(Members)
		m.Members.decode(&d)
	}
	m.App = d.Bytes()
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
	return wire.AppendBytes(b, m.Text)
}

// Decode sets m from all of b. Text aliases it.
func (m *Members) Decode(b []byte) error {
	d := decoder{wire.NewReader(b)}
	m.decode(&d)
	return d.end("members")
}

func (m *Members) decode(d *decoder) {
	*m = Members{}
	flags := d.flags(membersHierarchical|membersCommanded, "members")
	m.Hierarchical, m.Commanded = flags&membersHierarchical != 0, flags&membersCommanded != 0
	m.Version = d.zxid()
	m.TimeMs = int64(d.BigUint64())
	n := d.Count(4)
	for i := range n {
		one := Member{ID: SIDOf(d.Byte())}
		flags := d.flags(memberObserver|memberDemoted, "members")
		one.Observer, one.Demoted = flags&memberObserver != 0, flags&memberDemoted != 0
		if one.Demoted && !one.Observer {
			d.Malformed("demoted voter")
			return
		}
		one.Weight = d.u32()
		one.Group = d.u32()
		if i > 0 && one.ID <= m.List[i-1].ID {
			d.Malformed("members out of order")
			return
		}
		m.List = append(m.List, one)
	}
	m.Text = d.Bytes()
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
	d := decoder{wire.NewReader(b)}
	*s = State{}
	flags := d.flags(hasInit|hasMembers, "state")
	s.Zxid = d.zxid()
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
