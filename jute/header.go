package jute

// RequestHeader begins every request except the connect request.
type RequestHeader struct {
	Xid  int32 // chosen by the client; the reply echoes it
	Type OpCode
}

func (r *RequestHeader) Append(b []byte) []byte {
	return AppendInt32(AppendInt32(b, r.Xid), r.Type)
}

func (r *RequestHeader) Decode(d *Decoder) {
	r.Xid = d.Int32()
	r.Type = OpCode(d.Int32())
}

// ReplyHeader begins every reply and notification. The operation's response
// follows only if Err is 0.
type ReplyHeader struct {
	Xid  int32
	Zxid Zxid // last zxid applied by the server that replies
	Err  Code // 0 for success
}

func (r *ReplyHeader) Append(b []byte) []byte {
	b = AppendInt32(b, r.Xid)
	b = AppendInt64(b, r.Zxid)
	return AppendInt32(b, r.Err)
}

func (r *ReplyHeader) Decode(d *Decoder) {
	r.Xid = d.Int32()
	r.Zxid = Zxid(d.Int64())
	r.Err = Code(d.Int32())
}
