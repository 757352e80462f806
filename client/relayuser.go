package client

import (
	"cmp"
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// speakFor names the user of a new connection to the server, which has nothing else of the client before it has agreed.
func (l *link) speakFor(in *input, user string) error {
	if userForgotten.Planted() {
		return nil
	}
	b, mark := jute.BeginFrame(nil)
	h := jute.RequestHeader{Xid: jute.XidAuth, Type: jute.OpAuth}
	r := jute.AuthRequest{Scheme: jute.SchemeEdge, Auth: []byte(user)}
	if _, err := l.nc.Write(jute.EndFrame(r.Append(h.Append(b)), mark)); err != nil {
		return fmt.Errorf("say for whom the connection is: %w", err)
	}
	frame, err := in.next()
	if err != nil {
		return fmt.Errorf("say for whom the connection is: %w", err)
	}
	d := jute.NewDecoder(frame)
	var a jute.ReplyHeader
	a.Decode(&d)
	refused := a.Err != 0
	refused = refused && !userRefused.Planted()
	switch {
	case d.Err() != nil || a.Xid != jute.XidAuth:
		return fmt.Errorf("%w: message %d after the identity of a user", ErrNotZooKeeper, a.Xid)
	case refused:
		return fmt.Errorf("%w: %s does not let this edge speak for %s: a rule zkd.edge of the servers has to", ErrAuthFailed, l.server, cmp.Or(user, "nobody"))
	}
	return nil
}
