package replica

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/internal/wire"
)

// DescribeFrame renders a frame between servers in one line, for traces.
func DescribeFrame(kind uint8, body []byte) string {
	f := wire.NewReader(body)
	epoch := f.Uint32()
	var b strings.Builder
	switch rest := f.Rest(); kind {
	case frameSubmissions:
		subs, _ := decodeSubmissions(nil, rest, 0)
		fmt.Fprintf(&b, "SUBMISSIONS epoch=%d", epoch)
		for i := range subs {
			req := &subs[i].Request
			fmt.Fprintf(&b, " [%v %v session=%v origin=%#x cxid=%d]", subs[i].Kind, req.Op, req.Session, req.Origin, req.Cxid)
		}
	case frameBarriers:
		barriers, _ := decodeBarriers(nil, rest)
		fmt.Fprintf(&b, "BARRIERS epoch=%d", epoch)
		for _, x := range barriers {
			fmt.Fprintf(&b, " [after=%v origin=%#x code=%d read=%d]", x.after, x.origin, x.code, x.read)
		}
	case frameConfirmed:
		reads, _ := decodeConfirmed(nil, rest)
		fmt.Fprintf(&b, "CONFIRMED epoch=%d", epoch)
		for _, r := range reads {
			fmt.Fprintf(&b, " [read=%d ok=%v]", r.ID, r.OK)
		}
	case frameTouches:
		_, touches, _ := decodeReport(nil, rest)
		fmt.Fprintf(&b, "TOUCHES epoch=%d", epoch)
		for _, t := range touches {
			fmt.Fprintf(&b, " [session=%v age=%d]", t.Session, t.AgeMs)
		}
	case frameDigest, frameDiverged:
		zxid, _, _ := decodeDigest(rest)
		fmt.Fprintf(&b, "%s epoch=%d zxid=%v", map[uint8]string{frameDigest: "DIGEST", frameDiverged: "DIVERGED"}[kind], epoch, zxid)
	default:
		fmt.Fprintf(&b, "frame of kind %d", kind)
	}
	return b.String()
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

var kindNames = [...]string{Write: "write", Barrier: "barrier", Resume: "resume"}
