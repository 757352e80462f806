package command

import (
	"context"
	"fmt"
	"strings"
)

// connView is a connection as a server shows it by the word cons.
type connView struct {
	client, session, lastOp string
	queued, received, sent  int64
}

// lookClosely is look with the server's connections.
func lookClosely(ctx context.Context, server string) serverView {
	v := look(ctx, server)
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
	v.conns = readCons(text)
	return v
}

// readCons reads lines such as
//
//	/127.0.0.1:42318[1](queued=0,recved=6,sent=6,sid=0x100000a323e0038,lop=EXIS,…)
func readCons(text string) []connView {
	var list []connView
	for line := range strings.Lines(text) {
		who, fields, ok := strings.Cut(strings.TrimSpace(line), "(")
		if !ok {
			continue
		}
		if i := strings.LastIndexByte(who, '['); i >= 0 {
			who = who[:i]
		}
		c := connView{client: strings.TrimPrefix(who, "/")}
		for field := range strings.SplitSeq(strings.TrimSuffix(fields, ")"), ",") {
			key, value, _ := strings.Cut(field, "=")
			switch key {
			case "queued":
				fmt.Sscan(value, &c.queued)
			case "recved":
				fmt.Sscan(value, &c.received)
			case "sent":
				fmt.Sscan(value, &c.sent)
			case "sid":
				c.session = value
			case "lop":
				c.lastOp = value
			}
		}
		list = append(list, c)
	}
	return list
}

// busy returns what the connections of a server did since an earlier look. One
// that is new counts from its beginning.
func busy(now, before serverView, seconds float64) []topConn {
	was := make(map[string]connView, len(before.conns))
	for _, c := range before.conns {
		was[c.client+c.session] = c
	}
	var list []topConn
	for _, c := range now.conns {
		if c.session == "" {
			continue // our own question
		}
		b := was[c.client+c.session]
		list = append(list, topConn{
			Server: now.Server, Client: c.client, Session: c.session, Queued: c.queued, LastOp: c.lastOp,
			Requests: rate(c.received, b.received, seconds), Replies: rate(c.sent, b.sent, seconds),
		})
	}
	return list
}
