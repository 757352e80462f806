package jute

// PasswordLen is the length in bytes of a session's password.
const PasswordLen = 16

// ConnectRequest is the first frame that a client sends. It has no header.
type ConnectRequest struct {
	ProtocolVersion int32     // clients send 0; servers heed only ProtocolOperator
	LastZxidSeen    Zxid      // the highest zxid of a reply that the client has
	TimeoutMs       int32     // requested session timeout, any value
	SessionID       SessionID // 0 for a new session
	Password        []byte
	ReadOnly        bool // the client accepts a read-only server
	// HasReadOnly reports whether the frame has the ReadOnly byte: clients up to 3.3,
	// go-zookeeper and ClickHouse leave it out.
	HasReadOnly bool
}

// ProtocolOperator, as the protocol version of a connect request, lets a client in where
// others are kept away: see OpDrain. Only zkd's servers heed it.
const ProtocolOperator = 1

func (r *ConnectRequest) Append(b []byte) []byte {
	b = AppendInt32(b, r.ProtocolVersion)
	b = AppendInt64(b, r.LastZxidSeen)
	b = AppendInt32(b, r.TimeoutMs)
	b = AppendInt64(b, r.SessionID)
	b = AppendBuffer(b, r.Password)
	return appendReadOnly(b, r.HasReadOnly, r.ReadOnly)
}

// Decode reads the record, which must be the rest of d.
func (r *ConnectRequest) Decode(d *Decoder) {
	r.ProtocolVersion = d.Int32()
	r.LastZxidSeen = Zxid(d.Int64())
	r.TimeoutMs = d.Int32()
	r.SessionID = SessionID(d.Int64())
	r.Password = d.Buffer()
	r.HasReadOnly, r.ReadOnly = d.readOnly()
}

// ConnectResponse is the first frame that a server sends. It has no header. One with
// TimeoutMs and SessionID 0 and a password of 16 zero bytes means that the session no
// longer exists.
type ConnectResponse struct {
	ProtocolVersion int32 // 0
	TimeoutMs       int32 // negotiated
	SessionID       SessionID
	Password        []byte // PasswordLen bytes
	ReadOnly        bool   // this server is read-only
	// HasReadOnly reports whether the frame has the ReadOnly byte. A server copies it
	// from the request, because some clients check the frame's length.
	HasReadOnly bool
}

func (r *ConnectResponse) Append(b []byte) []byte {
	b = AppendInt32(b, r.ProtocolVersion)
	b = AppendInt32(b, r.TimeoutMs)
	b = AppendInt64(b, r.SessionID)
	b = AppendBuffer(b, r.Password)
	return appendReadOnly(b, r.HasReadOnly, r.ReadOnly)
}

// Decode reads the record, which must be the rest of d.
func (r *ConnectResponse) Decode(d *Decoder) {
	r.ProtocolVersion = d.Int32()
	r.TimeoutMs = d.Int32()
	r.SessionID = SessionID(d.Int64())
	r.Password = d.Buffer()
	r.HasReadOnly, r.ReadOnly = d.readOnly()
}

func appendReadOnly(b []byte, has, v bool) []byte {
	if !has {
		return b
	}
	return AppendBool(b, v)
}

// readOnly reads the optional byte at the end of a connect record.
func (d *Decoder) readOnly() (has, v bool) {
	if len(d.buf) == 0 {
		return false, false
	}
	return true, d.Bool()
}
