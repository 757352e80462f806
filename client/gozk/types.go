package zk

import (
	"net"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/client"
)

// Event is an event of a watch, or a change of the session's state.
type Event struct {
	Type   EventType
	State  State
	Path   string // of the watched node; empty for changes of the state
	Err    error  // of EventNotWatching
	Server string // for changes of the state
}

// Stat has the metadata of a node.
type Stat struct {
	Czxid          int64 // The zxid of the create.
	Mzxid          int64 // The zxid of the last change of the data.
	Ctime          int64 // The time of the create, in ms since the Unix epoch.
	Mtime          int64 // The time of the last change of the data, in ms since the Unix epoch.
	Version        int32 // The number of changes of the data.
	Cversion       int32 // The number of changes of the list of children.
	Aversion       int32 // The number of changes of the ACL.
	EphemeralOwner int64 // The id of the session of an ephemeral node, 0 for others.
	DataLength     int32 // The length of the data.
	NumChildren    int32 // The number of children.
	Pzxid          int64 // The zxid of the last create or delete of a child.
}

func statOf(s client.Stat) *Stat {
	return &Stat{
		Czxid: int64(s.Czxid), Mzxid: int64(s.Mzxid), Ctime: s.Ctime, Mtime: s.Mtime,
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion, EphemeralOwner: int64(s.EphemeralOwner),
		DataLength: s.DataLength, NumChildren: s.NumChildren, Pzxid: int64(s.Pzxid),
	}
}

// ACL grants permissions to an identity.
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

// WorldACL gives permissions to everybody.
func WorldACL(perms int32) []ACL { return []ACL{{perms, "world", "anyone"}} }

// AuthACL gives permissions to the identities that the client has authenticated with.
func AuthACL(perms int32) []ACL { return []ACL{{perms, "auth", ""}} }

// DigestACL gives permissions to clients that authenticate with this user and password.
func DigestACL(perms int32, user, password string) []ACL {
	return []ACL{{perms, "digest", client.DigestID(user, password).ID}}
}

// listOf returns an ACL for package client: never nil, which would stand for one that is open.
func listOf(acl []ACL) []client.ACL {
	list := make([]client.ACL, 0, len(acl))
	for _, a := range acl {
		list = append(list, client.ACL{Perms: client.Perms(a.Perms), ID: client.ID{Scheme: a.Scheme, ID: a.ID}})
	}
	return list
}

func aclOf(list []client.ACL) []ACL {
	acl := make([]ACL, 0, len(list))
	for _, a := range list {
		acl = append(acl, ACL{int32(a.Perms), a.ID.Scheme, a.ID.ID})
	}
	return acl
}

// PathVersionRequest names a node and its version.
type PathVersionRequest struct {
	Path    string
	Version int32
}

// The operations of a Multi.
type (
	// CheckVersionRequest fails unless the node has the version.
	CheckVersionRequest PathVersionRequest

	// DeleteRequest deletes a node that has the version.
	DeleteRequest PathVersionRequest

	// SetDataRequest replaces the data of a node that has the version.
	SetDataRequest struct {
		Path    string
		Data    []byte
		Version int32
	}

	// CreateRequest creates a node.
	CreateRequest struct {
		Path  string
		Data  []byte
		Acl   []ACL
		Flags int32
	}
)

// CreateTTLRequest is for programs that name it: Multi does not take it.
type CreateTTLRequest struct {
	Path  string
	Data  []byte
	Acl   []ACL
	Flags int32
	Ttl   int64 // ms
}

// MultiResponse is the result of one operation of a Multi.
type MultiResponse struct {
	Stat   *Stat  // of a set
	String string // the path of a create
	Error  error
}

// FormatServers adds the default port to addresses that have none.
func FormatServers(servers []string) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		if list[i] = s; !strings.Contains(s, ":") {
			list[i] = net.JoinHostPort(s, strconv.Itoa(DefaultPort))
		}
	}
	return list
}
