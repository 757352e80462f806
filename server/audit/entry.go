package audit

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zkd-project/zkd/internal/console"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
)

// Result is how an operation ended.
type Result uint8

// The results. Invoked is that of the server's stop, which is written before it happens.
const (
	Success Result = iota
	Failure
	Invoked
)

// String returns the word that lines have.
func (r Result) String() string { return [...]string{"success", "failure", "invoked"}[r] }

// Names of operations. The first group are those of Apache's server.
const (
	ServerStart     = "serverStart"
	ServerStop      = "serverStop"
	Create          = "create"
	Delete          = "delete"
	SetData         = "setData"
	SetACL          = "setAcl"
	Multi           = "multiOperation" // a multi that was refused
	Reconfig        = "reconfig"
	DeleteEphemeral = "ephemeralZNodeDeletionOnSessionCloseOrExpire"

	AddAuth        = "addAuth"
	ResumeSession  = "resumeSession" // refused, because of a wrong password
	TransferLeader = "transferLeader"
	Drain          = "drain"
	Configure      = "configure"
	EndSession     = "endSession" // another's, by an operator
)

// Entry is an operation and its outcome. Fields that are zero are left out of the line.
type Entry struct {
	Session   jute.SessionID
	IDs       []jute.ID // of the client
	User      string    // of the server, if that acts for itself
	IP        string
	Via       string  // the door by which the client came, if that is no port for clients
	Edge      jute.ID // that speaks for the client, if one does
	Operation string
	Scheme    string // of AddAuth
	Znode     string
	ZnodeType string     // of Create: the mode, as ModeName has it
	ACL       []jute.ACL // of SetACL
	Key       string     // of Configure
	Value     string     // of Configure, Reconfig, TransferLeader, Drain, EndSession, and AddAuth of an edge: what was asked for
	Result    Result
	Code      jute.Code // why it failed; in JSON only
	Zxid      jute.Zxid // in JSON only
}

var modeNames = [...]string{"persistent", "ephemeral", "persistent_sequential", "ephemeral_sequential",
	"container", "persistent_with_ttl", "persistent_sequential_with_ttl"}

// ModeName returns the name of a mode in Entry.ZnodeType, "" if there is no such mode.
func ModeName(m jute.CreateMode) string {
	if !m.Valid() {
		return ""
	}
	return modeNames[m]
}

// AppendText appends the entry in the format of Apache's server: fields with a tab between
// them, without a line break.
//
//	session=0x1	user=10.0.0.7,bob	ip=10.0.0.7	operation=create	znode=/a	znode_type=persistent	result=success
//
// A backslash, and everything that does not print, is escaped as in Go's strings, and so
// is a comma within the name of a user or of an ACL. Of the ids in an ACL that may have a
// secret there is only the part that names the user.
func AppendText(b []byte, e *Entry) []byte {
	if e.Session != 0 {
		b = append(b, "session=0x"...)
		b = strconv.AppendUint(b, uint64(e.Session), 16)
		b = append(b, '\t')
	}
	b = appendUsers(b, e)
	b = appendField(b, "ip=", e.IP)
	b = appendField(b, "via=", e.Via)
	b = appendField(b, "edge=", edgeOf(e))
	b = appendField(b, "operation=", e.Operation)
	b = appendField(b, "scheme=", e.Scheme)
	b = appendField(b, "znode=", e.Znode)
	b = appendField(b, "znode_type=", e.ZnodeType)
	if len(e.ACL) > 0 {
		b = append(b, "acl="...)
		for i := range e.ACL {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendACL(b, &e.ACL[i])
		}
		b = append(b, '\t')
	}
	b = appendField(b, "key=", e.Key)
	b = appendField(b, "value=", e.Value)
	b = append(b, "result="...)
	return append(b, e.Result.String()...)
}

// edgeOf returns the name of the edge, "" for none.
func edgeOf(e *Entry) string {
	if e.Edge == (jute.ID{}) {
		return ""
	}
	return auth.Name(e.Edge)
}

func appendField(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, name...)
	b = appendEscaped(b, value, false)
	return append(b, '\t')
}

// appendUsers appends the names of the identities, as Apache's server does: without those
// whose name is blank, and of super nothing but the user's name.
func appendUsers(b []byte, e *Entry) []byte {
	if e.User != "" {
		return appendField(b, "user=", e.User)
	}
	start := len(b)
	for i := range e.IDs {
		name := auth.User(e.IDs[i])
		if e.IDs[i].Scheme == "super" || strings.TrimSpace(name) == "" {
			continue
		}
		if len(b) == start {
			b = append(b, "user="...)
		} else {
			b = append(b, ',')
		}
		b = appendEscaped(b, name, true)
	}
	if len(b) > start {
		b = append(b, '\t')
	}
	return b
}

func appendACL(b []byte, a *jute.ACL) []byte {
	b = appendEscaped(b, a.ID.Scheme, true)
	b = append(b, ':')
	b = appendEscaped(b, nameOf(&a.ID), true)
	b = append(b, ':')
	for _, p := range []struct {
		bit    jute.Perms
		letter byte
	}{{jute.PermCreate, 'c'}, {jute.PermDelete, 'd'}, {jute.PermRead, 'r'}, {jute.PermWrite, 'w'}, {jute.PermAdmin, 'a'}} {
		if a.Perms&p.bit != 0 {
			b = append(b, p.letter)
		}
	}
	return b
}

// nameOf returns the id of an ACL entry without secrets. Only ids of schemes that are known
// to have none are shown in full. Others may be user:password or user:hash, also by
// mistake, such as with the scheme auth.
func nameOf(id *jute.ID) string {
	switch id.Scheme {
	case "world", "ip", "sasl", "x509", "jwt":
		return id.ID
	}
	user, _, secret := strings.Cut(id.ID, ":")
	switch {
	case secret:
		return user + ":x"
	case id.ID == "":
		return ""
	}
	return "x"
}

// appendEscaped appends text such that it has no tab and no line break, and no comma if
// inList is set.
func appendEscaped(b []byte, text string, inList bool) []byte {
	clean := 0
	for i := 0; i < len(text); {
		if c := text[i]; ' ' <= c && c <= '~' && c != '\\' && (c != ',' || !inList) {
			i++
			continue
		}
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		var escaped bool
		switch {
		case r == '\\', inList && r == ',':
			escaped = true
			b = append(append(b, text[clean:i]...), '\\', byte(r))
		case r == utf8.RuneError && size == 1, !strconv.IsPrint(r):
			escaped = true
			quoted := strconv.Quote(text[i : i+size])
			b = append(append(b, text[clean:i]...), quoted[1:len(quoted)-1]...)
		}
		i += size
		if escaped {
			clean = i
		}
	}
	return append(b, text[clean:]...)
}

// AppendJSON appends the entry as one JSON object, without a line break and without a time: see appendTimed. users are
// the identities with their schemes, so that they tell a super user from one of that name.
func AppendJSON(b []byte, e *Entry) []byte {
	b = append(b, '{')
	if e.Session != 0 {
		b = append(b, `"session":"0x`...)
		b = strconv.AppendUint(b, uint64(e.Session), 16)
		b = append(b, `",`...)
	}
	if e.User != "" {
		b = appendMember(b, `"user":`, e.User)
	}
	if len(e.IDs) > 0 {
		b = append(b, `"users":[`...)
		for i := range e.IDs {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, e.IDs[i].Scheme+":"+auth.User(e.IDs[i]))
		}
		b = append(b, "],"...)
	}
	b = appendMember(b, `"ip":`, e.IP)
	b = appendMember(b, `"via":`, e.Via)
	b = appendMember(b, `"edge":`, edgeOf(e))
	b = appendMember(b, `"operation":`, e.Operation)
	b = appendMember(b, `"scheme":`, e.Scheme)
	b = appendMember(b, `"znode":`, e.Znode)
	b = appendMember(b, `"znode_type":`, e.ZnodeType)
	if len(e.ACL) > 0 {
		b = append(b, `"acl":[`...)
		for i := range e.ACL {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, string(appendACL(nil, &e.ACL[i])))
		}
		b = append(b, "],"...)
	}
	b = appendMember(b, `"key":`, e.Key)
	b = appendMember(b, `"value":`, e.Value)
	if e.Zxid > 0 {
		b = append(b, `"zxid":"0x`...)
		b = strconv.AppendUint(b, uint64(e.Zxid), 16)
		b = append(b, `",`...)
	}
	if e.Code != 0 {
		b = appendMember(b, `"error":`, e.Code.Error())
	}
	b = append(b, `"result":"`...)
	b = append(b, e.Result.String()...)
	return append(b, `"}`...)
}

// appendTimed appends an object of AppendJSON with a time before its members.
func appendTimed(b, object, at []byte) []byte {
	b = append(b, `{"time":"`...)
	b = append(b, at...)
	b = append(b, `",`...)
	return append(b, object[1:]...)
}

func appendMember(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, name...)
	b = appendString(b, value)
	return append(b, ',')
}

// appendString appends a JSON string. Bytes that are no UTF-8 become U+FFFD.
func appendString(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // strings have no errors
			return append(b, console.EscapeJSON(quoted)...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

// timeLayout is that of the server's log.
const timeLayout = "2006-01-02T15:04:05.000Z0700"
