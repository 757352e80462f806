package subtree

import (
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
)

// formatName and formatVersion are in the header of an export. A reader refuses
// another version.
const (
	formatName    = "zkcli-export"
	formatVersion = 1
)

// Header is the header of an export.
type Header struct {
	// Source is the connect string of the servers.
	Source string
	// Path is the root of the subtree there.
	Path string
	// Zxid is the zxid of the state that was exported: see Exported. Otherwise it is one that the
	// client had seen before it read the first node: each node is as it was then, or later.
	Zxid client.Zxid
	Time time.Time
	// About is how many nodes there were at the beginning; 0 if not known.
	About int
}

type headerLine struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Source  string    `json:"source"`
	Path    string    `json:"path"`
	Zxid    hexNumber `json:"zxid"`
	Time    time.Time `json:"time"`
	About   int       `json:"about,omitempty"`
}

type nodeLine struct {
	Path   string   `json:"path"`
	Kind   Kind     `json:"kind,omitempty"`
	Text   *string  `json:"text,omitempty"`
	Base64 []byte   `json:"base64,omitempty"`
	ACL    []string `json:"acl"`
	Stat   statLine `json:"stat"`
}

type statLine struct {
	Czxid    hexNumber `json:"czxid"`
	Mzxid    hexNumber `json:"mzxid"`
	Pzxid    hexNumber `json:"pzxid"`
	Ctime    int64     `json:"ctime"`
	Mtime    int64     `json:"mtime"`
	Version  int32     `json:"version"`
	Cversion int32     `json:"cversion"`
	Aversion int32     `json:"aversion"`
	Owner    hexNumber `json:"owner"`
	Children int32     `json:"children"`
}

// hexNumber is a zxid or a session id, as ZooKeeper writes them: "0x1f". JSON
// numbers lose bits of such large ones in many readers.
type hexNumber int64

func (h hexNumber) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#x", uint64(h)), nil }

func (h *hexNumber) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return fmt.Errorf("%q is not a number like 0x1f", text)
	}
	*h = hexNumber(n)
	return nil
}

func toStatLine(s client.Stat) statLine {
	return statLine{
		Czxid: hexNumber(s.Czxid), Mzxid: hexNumber(s.Mzxid), Pzxid: hexNumber(s.Pzxid),
		Ctime: s.Ctime, Mtime: s.Mtime,
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion,
		Owner: hexNumber(s.EphemeralOwner), Children: s.NumChildren,
	}
}

func (l statLine) stat(dataLength int) client.Stat {
	return client.Stat{
		Czxid: client.Zxid(l.Czxid), Mzxid: client.Zxid(l.Mzxid), Pzxid: client.Zxid(l.Pzxid),
		Ctime: l.Ctime, Mtime: l.Mtime,
		Version: l.Version, Cversion: l.Cversion, Aversion: l.Aversion,
		EphemeralOwner: client.SessionID(l.Owner), NumChildren: l.Children, DataLength: int32(dataLength),
	}
}

// trailer is the last line. It has the number of nodes, and the hash of the bytes before it.
func trailer(nodes int, sum hash.Hash) []byte {
	return fmt.Appendf(nil, "{\"end\":true,\"nodes\":%d,\"sha256\":\"%x\"}\n", nodes, sum.Sum(nil))
}
