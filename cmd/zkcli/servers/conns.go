package servers

import (
	"context"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/cmd/zkcli/why"
)

// Conn is a connection, as a server shows it by the word cons.
type Conn = why.Conn

// Use is what a client did: a connection, or with a Port of 0 those of an address and
// identity that have ended.
type Use struct {
	Address  string
	Port     int
	Session  string
	Identity string // "" for none but the address
	Requests int64
	Bytes    int64 // in both directions
	Watches  int64
}

// readTop reads the answer to the word topc of zkd's servers: a line of names, and lines of
// values between tabs.
func readTop(text string) (list []Use) {
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if names == nil {
			names = fields
			continue
		}
		if len(fields) != len(names) {
			continue
		}
		var u Use
		for i, value := range fields {
			n, _ := strconv.ParseInt(value, 10, 64)
			switch names[i] {
			case "address":
				u.Address = value
			case "port":
				u.Port = int(n)
			case "session":
				u.Session = value
			case "identity":
				u.Identity = value
			case "requests":
				u.Requests = n
			case "bytes_in", "bytes_out":
				u.Bytes += n
			case "watches":
				u.Watches = n
			}
		}
		list = append(list, u)
	}
	return list
}

// Conns returns the connections of a server, by the word cons.
func (a Asker) Conns(ctx context.Context, server string) ([]Conn, error) {
	text, err := a.word(ctx, server, "cons")
	return readCons(text), err
}

// Ephemerals returns the ephemeral nodes that a server knows, by their sessions, by the word dump.
func (a Asker) Ephemerals(ctx context.Context, server string) (map[string][]string, error) {
	text, err := a.word(ctx, server, "dump")
	return readDump(text), err
}

// readDump reads the end of an answer to dump: after its title each session has a line, which ends in a colon, and each of its nodes
// has a line that begins with a tab.
func readDump(text string) map[string][]string {
	of := make(map[string][]string)
	_, text, _ = strings.Cut(text, "Sessions with Ephemerals")
	session := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if path, ok := strings.CutPrefix(line, "\t"); ok && session != "" {
			of[session] = append(of[session], path)
		} else if id, ok := strings.CutSuffix(line, ":"); ok && strings.HasPrefix(id, "0x") {
			session = id
		}
	}
	return of
}

// readCons reads lines such as
//
//	/127.0.0.1:42318[1](queued=0,recved=6,sent=6,sid=0x100000a323e0038,lop=EXIS,…)
func readCons(text string) []Conn {
	var list []Conn
	for line := range strings.Lines(text) {
		who, fields, ok := strings.Cut(strings.TrimSpace(line), "(")
		if !ok {
			continue
		}
		if i := strings.LastIndexByte(who, '['); i >= 0 {
			who = who[:i]
		}
		c := Conn{Client: strings.TrimPrefix(who, "/")}
		into := map[string]*int64{
			"queued": &c.Queued, "recved": &c.Received, "sent": &c.Sent, "est": &c.Established, "to": &c.TimeoutMs,
			"minlat": &c.MinLatencyMs, "avglat": &c.AvgLatencyMs, "maxlat": &c.MaxLatencyMs,
		}
		for field := range strings.SplitSeq(strings.TrimSuffix(fields, ")"), ",") {
			key, value, _ := strings.Cut(field, "=")
			if at := into[key]; at != nil {
				*at, _ = strconv.ParseInt(value, 10, 64)
			} else if key == "sid" {
				c.Session = value
			} else if key == "lop" {
				c.LastOp = value
			}
		}
		list = append(list, c)
	}
	return list
}
