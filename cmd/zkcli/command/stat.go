package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
)

// javaDate is how zkCli.sh prints times, in the local time zone.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

func javaTime(ms int64) string { return time.UnixMilli(ms).Format(javaDate) }

// statFields are the fields of a Stat in zkCli.sh's names and order.
func statFields(s client.Stat) [][]string {
	return [][]string{
		{"cZxid", s.Czxid.String()},
		{"ctime", javaTime(s.Ctime)},
		{"mZxid", s.Mzxid.String()},
		{"mtime", javaTime(s.Mtime)},
		{"pZxid", s.Pzxid.String()},
		{"cversion", fmt.Sprint(s.Cversion)},
		{"dataVersion", fmt.Sprint(s.Version)},
		{"aclVersion", fmt.Sprint(s.Aversion)},
		{"ephemeralOwner", s.EphemeralOwner.String()},
		{"dataLength", fmt.Sprint(s.DataLength)},
		{"numChildren", fmt.Sprint(s.NumChildren)},
	}
}

func statText(s client.Stat) string {
	var b strings.Builder
	for _, f := range statFields(s) {
		b.WriteString(f[0] + " = " + f[1] + "\n")
	}
	return b.String()
}

func statTable(s client.Stat) [][]string {
	return append([][]string{{"FIELD", "VALUE"}}, statFields(s)...)
}

// Stat is a client.Stat in JSON: zxids and session ids in hex, as 64 bits don't
// fit into JSON's numbers, and times in RFC 3339 with milliseconds.
type Stat struct {
	Czxid          string `json:"czxid"`
	Ctime          string `json:"ctime"`
	Mzxid          string `json:"mzxid"`
	Mtime          string `json:"mtime"`
	Pzxid          string `json:"pzxid"`
	Cversion       int32  `json:"cversion"`
	Version        int32  `json:"version"`
	Aversion       int32  `json:"aversion"`
	EphemeralOwner string `json:"ephemeralOwner"`
	DataLength     int32  `json:"dataLength"`
	NumChildren    int32  `json:"numChildren"`
}

// NewStat returns the Stat in the form for JSON.
func NewStat(s client.Stat) *Stat {
	at := func(ms int64) string { return stamp(time.UnixMilli(ms)) }
	return &Stat{
		Czxid: s.Czxid.String(), Ctime: at(s.Ctime), Mzxid: s.Mzxid.String(), Mtime: at(s.Mtime), Pzxid: s.Pzxid.String(),
		Cversion: s.Cversion, Version: s.Version, Aversion: s.Aversion, EphemeralOwner: s.EphemeralOwner.String(),
		DataLength: s.DataLength, NumChildren: s.NumChildren,
	}
}

// stamp is a time in JSON.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }
