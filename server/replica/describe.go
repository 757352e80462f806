package replica

import (
	"fmt"

	"github.com/zkd-project/zkd/internal/wire"
)

// DescribeFrame renders a frame between servers in one line, for traces.
func DescribeFrame(kind uint8, body []byte) string {
	f := wire.NewReader(body)
	epoch := f.Uint32()
	var b []byte
	switch rest := f.Rest(); kind {
	case frameSubmissions:
		subs, _ := decodeSubmissions(nil, rest, 0)
		b = fmt.Appendf(b, "SUBMISSIONS epoch=%d", epoch)
		for i := range subs {
			req := &subs[i].Request
			b = fmt.Appendf(b, " [%v %v session=%v origin=%#x cxid=%d]", subs[i].Kind, req.Op, req.Session, req.Origin, req.Cxid)
		}
	case frameBarriers:
		barriers, _ := decodeBarriers(nil, rest)
		b = fmt.Appendf(b, "BARRIERS epoch=%d", epoch)
		for _, x := range barriers {
			b = fmt.Appendf(b, " [after=%v origin=%#x code=%d read=%d]", x.after, x.origin, x.code, x.read)
		}
	case frameConfirmed:
		reads, _ := decodeConfirmed(nil, rest)
		b = fmt.Appendf(b, "CONFIRMED epoch=%d", epoch)
		for _, r := range reads {
			b = fmt.Appendf(b, " [read=%d ok=%v]", r.ID, r.OK)
		}
	case frameTouches:
		_, touches, _ := decodeReport(nil, rest)
		b = fmt.Appendf(b, "TOUCHES epoch=%d", epoch)
		for _, t := range touches {
			b = fmt.Appendf(b, " [session=%v age=%d]", t.Session, t.AgeMs)
		}
	case frameDigest, frameDiverged:
		zxid, _, _ := decodeDigest(rest)
		b = fmt.Appendf(b, "%s epoch=%d zxid=%v", map[uint8]string{frameDigest: "DIGEST", frameDiverged: "DIVERGED"}[kind], epoch, zxid)
	case frameJoin:
		b = fmt.Appendf(b, "JOIN epoch=%d %s", epoch, rest)
	case frameFence:
		service, _ := decodeFence(rest)
		b = fmt.Appendf(b, "FENCE epoch=%d service=%#x", epoch, service)
	default:
		b = fmt.Appendf(b, "frame of kind %d", kind)
	}
	return string(b)
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

var kindNames = [...]string{Write: "write", Barrier: "barrier", Resume: "resume"}
