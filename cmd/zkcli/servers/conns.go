package servers

import (
	"context"
	"fmt"
	"strings"
)

// Conn is a connection, as a server shows it by the word cons.
type Conn struct {
	Client, Session, LastOp string
	Queued, Received, Sent  int64
}

// LookClosely is Look with the server's connections.
func LookClosely(ctx context.Context, server string) View {
	v := Look(ctx, server)
	if v.Mode == "" {
		return v
	}
	text, err := word(ctx, server, "cons")
	if err != nil {
		if v.Problem == "" {
			v.Problem = err.Error()
		}
		return v
	}
	v.Conns = readCons(text)
	return v
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
		for field := range strings.SplitSeq(strings.TrimSuffix(fields, ")"), ",") {
			key, value, _ := strings.Cut(field, "=")
			switch key {
			case "queued":
				fmt.Sscan(value, &c.Queued)
			case "recved":
				fmt.Sscan(value, &c.Received)
			case "sent":
				fmt.Sscan(value, &c.Sent)
			case "sid":
				c.Session = value
			case "lop":
				c.LastOp = value
			}
		}
		list = append(list, c)
	}
	return list
}
