package api

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
)

// The records of answers and of bodies in JSON. The description is made from them.

// Node is a node, or what a write has made of it.
type Node struct {
	Path string         `json:"path" doc:"with its sequence number, if it has one"`
	Zxid string         `json:"zxid" doc:"of the state that this shows"`
	Stat *show.NodeStat `json:"stat"`
	Data *[]byte        `json:"data,omitempty" doc:"in base64; null if there is none. Answers to writes do not have it"`
	Time string         `json:"time,omitempty" doc:"at a moment of the past: of the last transaction before it"`
	ACL  []ACL          `json:"acl,omitempty" doc:"at a moment of the past"`
}

// Children are a part of the children of a node.
type Children struct {
	Path     string         `json:"path"`
	Zxid     string         `json:"zxid"`
	Stat     *show.NodeStat `json:"stat" doc:"of the node"`
	Children []Child        `json:"children" doc:"in the byte order of their names"`
	More     bool           `json:"more" doc:"there are children after these: ask for those after the last name"`
	Time     string         `json:"time,omitempty" doc:"at a moment of the past: of the last transaction before it"`
}

// Child is a child of a node, or a node of a subtree.
type Child struct {
	Name  string         `json:"name" doc:"of a node of a subtree its path, from the root of the subtree on"`
	Stat  *show.NodeStat `json:"stat,omitempty"`
	Data  *[]byte        `json:"data,omitempty" doc:"in base64"`
	ACL   []ACL          `json:"acl,omitempty"`
	Error string         `json:"error,omitempty" doc:"NOAUTH: it may not be read; MARSHALLINGERROR: its data is too long for a page, ask for it alone"`
}

// Found is a node that a search has found, or how far it is.
type Found struct {
	Name     string         `json:"name" doc:"the path of the node, from the root of the subtree on"`
	Stat     *show.NodeStat `json:"stat,omitempty"`
	Searched int            `json:"searched,omitempty" doc:"without stat: so many nodes have been searched"`
}

// ACLList is the ACL of a node.
type ACLList struct {
	Path string         `json:"path,omitempty"`
	Zxid string         `json:"zxid,omitempty"`
	Stat *show.NodeStat `json:"stat,omitempty"`
	ACL  []ACL          `json:"acl"`
}

// ACL is an entry of an ACL.
type ACL struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"perms" doc:"some of the letters c, d, r, w and a" pattern:"^[cdrwa]*$"`
}

// Ops are the operations of a multi.
type Ops struct {
	Ops []Op `json:"ops"`
}

// Op is an operation of a multi.
type Op struct {
	Op      string  `json:"op" enum:"create set delete check checkAbsent createOrSet deleteTree"`
	Path    string  `json:"path"`
	Data    []byte  `json:"data,omitempty" doc:"in base64"`
	Text    *string `json:"text,omitempty" doc:"instead of data"`
	Mode    string  `json:"mode,omitempty" enum:"persistent ephemeral persistent_sequential ephemeral_sequential container persistent_with_ttl persistent_sequential_with_ttl" doc:"of a node that is created"`
	TTL     int64   `json:"ttl,omitempty" doc:"of a mode with a TTL, in ms"`
	ACL     []ACL   `json:"acl,omitempty" doc:"of a node that is created; anybody may do everything without one"`
	Version *int32  `json:"version,omitempty" doc:"that the node must have"`
	Limit   int32   `json:"limit,omitempty" doc:"of deleteTree: the largest number of nodes"`
}

// Results are those of a multi.
type Results struct {
	Zxid    string   `json:"zxid"`
	Results []Result `json:"results" doc:"one for each operation"`
}

// Result is that of an operation.
type Result struct {
	Op      string         `json:"op"`
	Path    string         `json:"path" doc:"with its sequence number, if it has one"`
	Stat    *show.NodeStat `json:"stat,omitempty"`
	Deleted int            `json:"deleted,omitempty" doc:"how many nodes deleteTree has deleted"`
	Code    int32          `json:"code,omitempty"`
	Name    string         `json:"name,omitempty" doc:"of the error; RUNTIMEINCONSISTENCY: another operation failed"`
}

// Session is a session that a caller has opened.
type Session struct {
	ID         string   `json:"id"`
	TimeoutMs  int32    `json:"timeoutMs" doc:"the session ends if there is no request with its token for so long"`
	Token      string   `json:"token,omitempty" doc:"for X-Session; it is a secret"`
	Ephemerals []string `json:"ephemerals,omitempty" doc:"the paths of its nodes"`
}

// Identities are those of the caller.
type Identities struct {
	Identities []Identity `json:"identities"`
}

// Identity is one of the caller's.
type Identity struct {
	Scheme string `json:"scheme"`
	User   string `json:"user"`
}

// modes are the create modes by the names that the audit log has, too.
var modes = []string{"persistent", "ephemeral", "persistent_sequential", "ephemeral_sequential", "container", "persistent_with_ttl", "persistent_sequential_with_ttl"}

const permLetters = "rwcda" // in the order of their bits

func permsOf(text string) (p jute.Perms, err error) {
	for _, letter := range text {
		bit := strings.IndexRune(permLetters, letter)
		if bit < 0 {
			return 0, fmt.Errorf("the permissions %q are not some of cdrwa", text)
		}
		p |= 1 << bit
	}
	return p, nil
}

func permsText(p jute.Perms) string {
	text := ""
	for _, letter := range "cdrwa" {
		if p>>strings.IndexRune(permLetters, letter)&1 != 0 {
			text += string(letter)
		}
	}
	return text
}

// acls converts the list of a request.
func acls(list []ACL) (out []jute.ACL, err error) {
	for _, a := range list {
		perms, err := permsOf(a.Perms)
		if err != nil {
			return nil, err
		}
		out = append(out, jute.ACL{Perms: perms, ID: jute.ID{Scheme: a.Scheme, ID: a.ID}})
	}
	return out, nil
}

// shownACL converts the list of an answer.
func shownACL(list []jute.ACL) []ACL {
	out := make([]ACL, len(list))
	for i, a := range list {
		out[i] = ACL{Scheme: a.ID.Scheme, ID: a.ID.ID, Perms: permsText(a.Perms)}
	}
	return out
}

// parseACL parses an entry in the form scheme:id:perms. The id may have colons.
func parseACL(text string) (a ACL, err error) {
	first, last := strings.IndexByte(text, ':'), strings.LastIndexByte(text, ':')
	if first == last {
		return a, fmt.Errorf("the ACL entry %q is not of the form scheme:id:perms", text)
	}
	return ACL{Scheme: text[:first], ID: text[first+1 : last], Perms: text[last+1:]}, nil
}

// open is the ACL of a node that is created without one.
var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}

// createOp returns the operation that creates a node with a mode.
func createOp(mode jute.CreateMode) jute.OpCode {
	switch {
	case mode == jute.ModeContainer:
		return jute.OpCreateContainer
	case mode.TTL():
		return jute.OpCreateTTL
	}
	return jute.OpCreate2
}
