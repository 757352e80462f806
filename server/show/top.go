package show

import (
	"github.com/zkd-project/zkd/internal/console"
)

// ClientUse is what a connection did since it began, or since crst. Without a Port it is the
// sum of connections that have ended.
type ClientUse struct {
	Address     string // without the port
	Port        int
	Session     int64
	Identity    string // scheme:name; "" for none but the address
	Connections int64
	Requests    int64
	Replies     int64 // and events
	BytesIn     int64
	BytesOut    int64
	Watches     int64
}

// Add adds the counts of another use, not its identity.
func (u *ClientUse) Add(v *ClientUse) {
	u.Connections += v.Connections
	u.Requests += v.Requests
	u.Replies += v.Replies
	u.BytesIn += v.BytesIn
	u.BytesOut += v.BytesOut
	u.Watches += v.Watches
}

// top prints a line for each connection, and one for each address and identity of those that
// have ended. Its fields are separated by tabs.
func (p printer) top(list []ClientUse) {
	p.printf("address\tport\tsession\tidentity\tconnections\trequests\treplies\tbytes_in\tbytes_out\twatches\n")
	for i := range list {
		u := &list[i]
		p.printf("%s\t%d\t0x%x\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", u.Address, u.Port, uint64(u.Session), console.Line(u.Identity),
			u.Connections, u.Requests, u.Replies, u.BytesIn, u.BytesOut, u.Watches)
	}
}
