package jute

// A null path makes reads undecodable. setData and setACL treat it as "", which is no
// valid path. So each is answered with the code of Apache's server. For the other writes
// see MultiOp.

// CreateRequest is the body of create, create2 and createContainer. The opcode, not the
// mode, makes a container.
type CreateRequest struct {
	Path string
	Data []byte // nil is null
	ACL  []ACL
	Mode CreateMode
}

func (r *CreateRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	b = AppendBuffer(b, r.Data)
	b = AppendACLs(b, r.ACL)
	return AppendInt32(b, r.Mode)
}

func (r *CreateRequest) Decode(d *Decoder) {
	r.Path = d.notNull()
	r.Data = d.Buffer()
	r.ACL = d.ACLs()
	r.Mode = CreateMode(d.Int32())
}

// CreateTTLRequest is the body of createTTL.
type CreateTTLRequest struct {
	CreateRequest
	TTL int64 // milliseconds, 1 to MaxTTL
}

func (r *CreateTTLRequest) Append(b []byte) []byte {
	return AppendInt64(r.CreateRequest.Append(b), r.TTL)
}

func (r *CreateTTLRequest) Decode(d *Decoder) {
	r.CreateRequest.Decode(d)
	r.TTL = d.Int64()
}

// DeleteRequest is the body of delete.
type DeleteRequest struct {
	Path    string
	Version int32 // the node's version, or -1 for any
}

func (r *DeleteRequest) Append(b []byte) []byte {
	return AppendInt32(AppendString(b, r.Path), r.Version)
}

func (r *DeleteRequest) Decode(d *Decoder) {
	r.Path = d.notNull()
	r.Version = d.Int32()
}

// CheckVersionRequest is the body of check, an operation of a multi.
type CheckVersionRequest struct {
	Path    string
	Version int32 // the node's version, or -1 for any
}

func (r *CheckVersionRequest) Append(b []byte) []byte {
	return AppendInt32(AppendString(b, r.Path), r.Version)
}

func (r *CheckVersionRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Version = d.Int32()
}

// SetDataRequest is the body of setData.
type SetDataRequest struct {
	Path    string
	Data    []byte // nil is null
	Version int32  // the node's version, or -1 for any
}

func (r *SetDataRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	b = AppendBuffer(b, r.Data)
	return AppendInt32(b, r.Version)
}

func (r *SetDataRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Data = d.Buffer()
	r.Version = d.Int32()
}

// SetACLRequest is the body of setACL.
type SetACLRequest struct {
	Path    string
	ACL     []ACL
	Version int32 // the node's aversion, or -1 for any
}

func (r *SetACLRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	b = AppendACLs(b, r.ACL)
	return AppendInt32(b, r.Version)
}

func (r *SetACLRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.ACL = d.ACLs()
	r.Version = d.Int32()
}

// PathRequest is the body of getACL and getAllChildrenNumber.
type PathRequest struct {
	Path string
}

func (r *PathRequest) Append(b []byte) []byte { return AppendString(b, r.Path) }

func (r *PathRequest) Decode(d *Decoder) { r.Path = d.notNull() }

// PathWatchRequest is the body of exists, getData, getChildren and
// getChildren2.
type PathWatchRequest struct {
	Path  string
	Watch bool // set a watch
}

func (r *PathWatchRequest) Append(b []byte) []byte {
	return AppendBool(AppendString(b, r.Path), r.Watch)
}

func (r *PathWatchRequest) Decode(d *Decoder) {
	r.Path = d.notNull()
	r.Watch = d.Bool()
}

// SyncRequest is the body of sync. The reply echoes the path, which may be any string.
type SyncRequest struct {
	Path string
}

func (r *SyncRequest) Append(b []byte) []byte { return AppendString(b, r.Path) }

func (r *SyncRequest) Decode(d *Decoder) { r.Path = d.String() }

// GetEphemeralsRequest is the body of getEphemerals.
type GetEphemeralsRequest struct {
	Prefix string // of strings, not of path components; "" or null matches all
}

func (r *GetEphemeralsRequest) Append(b []byte) []byte { return appendNullString(b, r.Prefix) }

func (r *GetEphemeralsRequest) Decode(d *Decoder) { r.Prefix = d.String() }

// ReconfigRequest is the body of reconfig. Each string is a comma-separated list; "", which is
// null on the wire, means none.
type ReconfigRequest struct {
	Joining    string // server specifications to add or replace
	Leaving    string // ids of servers to remove
	NewMembers string // the whole new membership, instead of the two above
	// EmptyMembers means that NewMembers is empty and not null, so that no member would be left.
	EmptyMembers bool
	ConfigID     int64 // version that the current config must have, or -1 for any
}

func (r *ReconfigRequest) Append(b []byte) []byte {
	b = appendNullString(b, r.Joining)
	b = appendNullString(b, r.Leaving)
	if r.EmptyMembers {
		b = AppendString(b, "")
	} else {
		b = appendNullString(b, r.NewMembers)
	}
	return AppendInt64(b, r.ConfigID)
}

func (r *ReconfigRequest) Decode(d *Decoder) {
	r.Joining = d.String()
	r.Leaving = d.String()
	var whole bool
	r.NewMembers, whole = d.NullString()
	r.EmptyMembers = whole && r.NewMembers == ""
	r.ConfigID = d.Int64()
}

// appendNullString appends a ustring, "" as null.
func appendNullString(b []byte, s string) []byte {
	if s == "" {
		return AppendInt32(b, int32(-1))
	}
	return AppendString(b, s)
}

// TransferLeaderRequest is the body of transferLeader.
type TransferLeaderRequest struct {
	Server int32 // id of the new leader
}

func (r *TransferLeaderRequest) Append(b []byte) []byte { return AppendInt32(b, r.Server) }

func (r *TransferLeaderRequest) Decode(d *Decoder) { r.Server = d.Int32() }

// DrainRequest is the body of drain.
type DrainRequest struct {
	Percent int32 // of the other connections of the server, 1 to 100, that it ends; 0 with HasKeepAway
	// With HasKeepAway the server ends all others, and keeps clients away for KeepAwayMs; or it
	// lets them in again, if that is 0. Servers that do not know the field refuse the request.
	HasKeepAway bool
	KeepAwayMs  int64
}

func (r *DrainRequest) Append(b []byte) []byte {
	b = AppendInt32(b, r.Percent)
	if r.HasKeepAway {
		b = AppendInt64(b, r.KeepAwayMs)
	}
	return b
}

// Decode reads the record, which must be the rest of d.
func (r *DrainRequest) Decode(d *Decoder) {
	r.Percent = d.Int32()
	if r.HasKeepAway = len(d.Rest()) > 0; r.HasKeepAway {
		r.KeepAwayMs = d.Int64()
	}
}

// The actions of a ConfigureRequest.
const (
	ConfigureShow  int32 = iota // return the configuration
	ConfigureSet                // set Key to Value while the server runs
	ConfigureUnset              // go back from that to the configuration file's value
)

// ConfigureRequest is the body of configure, which is about the configuration of the server that
// gets it.
type ConfigureRequest struct {
	Action     int32
	Key, Value string
}

func (r *ConfigureRequest) Append(b []byte) []byte {
	b = AppendInt32(b, r.Action)
	b = AppendString(b, r.Key)
	return AppendString(b, r.Value)
}

func (r *ConfigureRequest) Decode(d *Decoder) {
	r.Action, r.Key, r.Value = d.Int32(), d.String(), d.String()
}

// ConfigureResponse is the reply's body.
type ConfigureResponse struct {
	Done bool
	Text string // the configuration or what has changed; the reason if it is not done
}

func (r *ConfigureResponse) Append(b []byte) []byte {
	return AppendString(AppendBool(b, r.Done), r.Text)
}

func (r *ConfigureResponse) Decode(d *Decoder) { r.Done, r.Text = d.Bool(), d.String() }

// AuthRequest is the body of auth: Apache's AuthPacket.
type AuthRequest struct {
	Type   int32 // 0; has no effect
	Scheme string
	Auth   []byte // meaning depends on the scheme, often user:password
}

func (r *AuthRequest) Append(b []byte) []byte {
	b = AppendInt32(b, r.Type)
	b = AppendString(b, r.Scheme)
	return AppendBuffer(b, r.Auth)
}

func (r *AuthRequest) Decode(d *Decoder) {
	r.Type = d.Int32()
	r.Scheme = d.String()
	r.Auth = d.Buffer()
}

// SASLToken is the body of sasl, in both directions. A server without SASL answers with a
// nil token.
type SASLToken struct {
	Token []byte // nil is null
}

func (r *SASLToken) Append(b []byte) []byte { return AppendBuffer(b, r.Token) }

func (r *SASLToken) Decode(d *Decoder) { r.Token = d.Buffer() }
