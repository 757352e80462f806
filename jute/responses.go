package jute

// The responses of exists, setData and setACL are a bare [Stat].

// PathResponse is the response of create (the final path, with its sequence
// number) and of sync.
type PathResponse struct {
	Path string
}

func (r *PathResponse) Append(b []byte) []byte { return AppendString(b, r.Path) }

func (r *PathResponse) Decode(d *Decoder) { r.Path = d.String() }

// Create2Response is the response of create2, createContainer and createTTL.
type Create2Response struct {
	Path string
	Stat Stat
}

func (r *Create2Response) Append(b []byte) []byte {
	return r.Stat.Append(AppendString(b, r.Path))
}

func (r *Create2Response) Decode(d *Decoder) {
	r.Path = d.String()
	r.Stat.Decode(d)
}

// GetDataResponse is the response of getData, and of reconfig: the new config
// and the Stat of /zookeeper/config.
type GetDataResponse struct {
	Data []byte // nil is null
	Stat Stat
}

func (r *GetDataResponse) Append(b []byte) []byte {
	return r.Stat.Append(AppendBuffer(b, r.Data))
}

func (r *GetDataResponse) Decode(d *Decoder) {
	r.Data = d.Buffer()
	r.Stat.Decode(d)
}

// GetACLResponse is the response of getACL.
type GetACLResponse struct {
	ACL  []ACL
	Stat Stat
}

func (r *GetACLResponse) Append(b []byte) []byte {
	return r.Stat.Append(AppendACLs(b, r.ACL))
}

func (r *GetACLResponse) Decode(d *Decoder) {
	r.ACL = d.ACLs()
	r.Stat.Decode(d)
}

// GetChildrenResponse is the response of getChildren: names, not paths, in no
// particular order.
type GetChildrenResponse struct {
	Children []string
}

func (r *GetChildrenResponse) Append(b []byte) []byte { return AppendStrings(b, r.Children) }

func (r *GetChildrenResponse) Decode(d *Decoder) { r.Children = d.Strings() }

// GetChildren2Response is the response of getChildren2.
type GetChildren2Response struct {
	Children []string
	Stat     Stat // of the parent
}

func (r *GetChildren2Response) Append(b []byte) []byte {
	return r.Stat.Append(AppendStrings(b, r.Children))
}

func (r *GetChildren2Response) Decode(d *Decoder) {
	r.Children = d.Strings()
	r.Stat.Decode(d)
}

// GetEphemeralsResponse is the response of getEphemerals: paths of the
// session's own ephemerals.
type GetEphemeralsResponse struct {
	Paths []string
}

func (r *GetEphemeralsResponse) Append(b []byte) []byte { return AppendStrings(b, r.Paths) }

func (r *GetEphemeralsResponse) Decode(d *Decoder) { r.Paths = d.Strings() }

// GetAllChildrenNumberResponse is the response of getAllChildrenNumber.
type GetAllChildrenNumberResponse struct {
	Total int32 // descendants, without the node itself
}

func (r *GetAllChildrenNumberResponse) Append(b []byte) []byte { return AppendInt32(b, r.Total) }

func (r *GetAllChildrenNumberResponse) Decode(d *Decoder) { r.Total = d.Int32() }

// ErrorResponse is the response of addWatch.
type ErrorResponse struct {
	Err Code // 0
}

func (r *ErrorResponse) Append(b []byte) []byte { return AppendInt32(b, r.Err) }

func (r *ErrorResponse) Decode(d *Decoder) { r.Err = Code(d.Int32()) }

// ClientInfo is an identity of a connection as whoAmI shows it.
type ClientInfo struct {
	Scheme string
	User   string // for digest only the name; for ip the address
}

// WhoAmIResponse is the response of whoAmI: one entry for each identity.
type WhoAmIResponse struct {
	Clients []ClientInfo
}

func (r *WhoAmIResponse) Append(b []byte) []byte {
	b = AppendInt32(b, int32(len(r.Clients)))
	for i := range r.Clients {
		b = AppendString(b, r.Clients[i].Scheme)
		b = AppendString(b, r.Clients[i].User)
	}
	return b
}

func (r *WhoAmIResponse) Decode(d *Decoder) {
	r.Clients = nil
	n, _ := d.Count(8)
	if n == 0 {
		return
	}
	r.Clients = make([]ClientInfo, n)
	for i := range r.Clients {
		r.Clients[i].Scheme = d.String()
		r.Clients[i].User = d.String()
	}
}
