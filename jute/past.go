package jute

// What a PastRequest asks for, besides ShowStats, ShowData and ShowACLs. With ShowNames the look ends.
const (
	ShowChanges     int32 = 4 + iota // of a node, or of a subtree
	ShowChangedData                  // these, with the data before and after
)

// PastRequest is the body of past, an operation of FeaturePast.
type PastRequest struct {
	Path string
	Look int64 // of the response before; 0 begins, and the rest counts only then
	Show int32
	// Below says that all nodes below Path are meant. Otherwise it is the node and, of a state, its children.
	Below bool
	// Zxid is the moment: after that transaction. Of changes, those before it are meant; 0 is for all.
	Zxid Zxid
	// Time is the moment, if Zxid is 0: in ms since the Unix epoch, or how long ago by the clock of the server, as a negative number.
	Time  int64
	Limit int32 // the largest number of changes; 0 leaves it to the server
}

func (r *PastRequest) Append(b []byte) []byte {
	b = AppendInt32(AppendInt64(AppendString(b, r.Path), r.Look), r.Show)
	return AppendInt32(AppendInt64(AppendInt64(AppendBool(b, r.Below), r.Zxid), r.Time), r.Limit)
}

func (r *PastRequest) Decode(d *Decoder) {
	r.Path, r.Look, r.Show, r.Below = d.notNull(), d.Int64(), d.Int32(), d.Bool()
	r.Zxid, r.Time, r.Limit = Zxid(d.Int64()), d.Int64(), d.Int32()
}

// PastResponse is the response of past: a part of what was asked for, or nothing yet.
type PastResponse struct {
	Look int64 // to ask for more; 0 if there is no more
	Code Code  // why there is nothing, or 0
	Text string
	Zxid Zxid   // of the state; of changes, all after it that were asked for are told
	Time int64  // of the last transaction before the moment, in ms; 0 for none
	From string // what the state was made of
	More bool   // there may be older changes
	// Nodes are those of the state: parents before their children, in tree order. Names are paths below Path, which has "".
	Nodes   []SubtreeNode
	Changes []PastChange // the oldest first
}

// PastChange is what a transaction did to a node.
type PastChange struct {
	Zxid    Zxid
	Time    int64     // by the clock of the leader, in ms
	Session SessionID // 0 for the servers themselves
	Xid     int32     // of the session's request
	Of      int32     // how many operations the transaction has
	Op      string    // create, set, setACL, delete, or expire: its session ended
	Name    string    // as in SubtreeNode
	Stat    Stat      // after it; zero if the node is gone
	Was     int32     // how long the data was before; -1 if there was no node
	Before  []byte    // with ShowChangedData, unless the data of the change is too long
	After   []byte
	User    string // of the session, and its address, as far as this server knows and the client may see
	Address string
}

func (r *PastResponse) Append(b []byte) []byte {
	b = AppendString(AppendInt32(AppendInt64(b, r.Look), r.Code), r.Text)
	b = AppendBool(AppendString(AppendInt64(AppendInt64(b, r.Zxid), r.Time), r.From), r.More)
	b = AppendInt32(b, int32(len(r.Nodes)))
	for i := range r.Nodes {
		b = r.Nodes[i].Append(b)
	}
	b = AppendInt32(b, int32(len(r.Changes)))
	for i := range r.Changes {
		b = r.Changes[i].Append(b)
	}
	return b
}

func (r *PastResponse) Decode(d *Decoder) {
	r.Look, r.Code, r.Text = d.Int64(), Code(d.Int32()), d.String()
	r.Zxid, r.Time, r.From, r.More = Zxid(d.Int64()), d.Int64(), d.String(), d.Bool()
	if n, _ := d.Count(minSubtreeNode); n > 0 {
		r.Nodes = make([]SubtreeNode, n)
	}
	for i := range r.Nodes {
		r.Nodes[i].Decode(d)
	}
	if n, _ := d.Count(minPastChange); n > 0 {
		r.Changes = make([]PastChange, n)
	}
	for i := range r.Changes {
		r.Changes[i].Decode(d)
	}
}

// minPastChange is the least length of a PastChange.
const minPastChange = 3*8 + 2*4 + 2*4 + statBytes + 4 + 2*4 + 2*4

func (c *PastChange) Append(b []byte) []byte {
	b = AppendInt64(AppendInt64(AppendInt64(b, c.Zxid), c.Time), c.Session)
	b = AppendString(AppendString(AppendInt32(AppendInt32(b, c.Xid), c.Of), c.Op), c.Name)
	b = AppendBuffer(AppendBuffer(AppendInt32(c.Stat.Append(b), c.Was), c.Before), c.After)
	return AppendString(AppendString(b, c.User), c.Address)
}

func (c *PastChange) Decode(d *Decoder) {
	c.Zxid, c.Time, c.Session = Zxid(d.Int64()), d.Int64(), SessionID(d.Int64())
	c.Xid, c.Of, c.Op, c.Name = d.Int32(), d.Int32(), d.String(), d.String()
	c.Stat.Decode(d)
	c.Was, c.Before, c.After = d.Int32(), d.Buffer(), d.Buffer()
	c.User, c.Address = d.String(), d.String()
}
