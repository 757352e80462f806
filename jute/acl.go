package jute

// minACLLen is the length of an encoded ACL entry with empty strings.
const minACLLen = 12

func (i *ID) Append(b []byte) []byte {
	return AppendString(AppendString(b, i.Scheme), i.ID)
}

func (i *ID) Decode(d *Decoder) {
	// Nearly every ACL is for anyone, so do not copy that name each time.
	i.Scheme = d.stringOr(WorldAnyone.Scheme)
	i.ID = d.stringOr(WorldAnyone.ID)
}

func (a *ACL) Append(b []byte) []byte {
	return a.ID.Append(AppendInt32(b, a.Perms))
}

func (a *ACL) Decode(d *Decoder) {
	a.Perms = Perms(d.Int32())
	a.ID.Decode(d)
}

// AppendACLs appends a vector of ACL entries. A nil slice is an empty vector.
func AppendACLs(b []byte, v []ACL) []byte {
	b = AppendInt32(b, int32(len(v)))
	for i := range v {
		b = v[i].Append(b)
	}
	return b
}

// ACLs reads a vector of ACL entries; null and empty both give nil.
func (d *Decoder) ACLs() []ACL {
	n, _ := d.Count(minACLLen)
	if n == 0 {
		return nil
	}
	v := make([]ACL, n)
	for i := range v {
		v[i].Decode(d)
	}
	if d.err != nil {
		return nil
	}
	return v
}
