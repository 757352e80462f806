package jute

// StatLen is the length in bytes of an encoded Stat.
const StatLen = 68

func (s *Stat) Append(b []byte) []byte {
	b = AppendInt64(b, s.Czxid)
	b = AppendInt64(b, s.Mzxid)
	b = AppendInt64(b, s.Ctime)
	b = AppendInt64(b, s.Mtime)
	b = AppendInt32(b, s.Version)
	b = AppendInt32(b, s.Cversion)
	b = AppendInt32(b, s.Aversion)
	b = AppendInt64(b, s.EphemeralOwner)
	b = AppendInt32(b, s.DataLength)
	b = AppendInt32(b, s.NumChildren)
	return AppendInt64(b, s.Pzxid)
}

func (s *Stat) Decode(d *Decoder) {
	s.Czxid = Zxid(d.Int64())
	s.Mzxid = Zxid(d.Int64())
	s.Ctime = d.Int64()
	s.Mtime = d.Int64()
	s.Version = d.Int32()
	s.Cversion = d.Int32()
	s.Aversion = d.Int32()
	s.EphemeralOwner = SessionID(d.Int64())
	s.DataLength = d.Int32()
	s.NumChildren = d.Int32()
	s.Pzxid = Zxid(d.Int64())
}
