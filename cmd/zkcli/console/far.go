package console

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// patience is how long a request may take, with the attempts to reach another server.
const patience = 10 * time.Second

// far is the server's end of a connection of the API.
type far struct {
	*Console
	conn net.Conn
	mu   sync.Mutex // one reply is written at a time
}

// serve answers requests until the connection or the Console ends.
func (c *Console) serve(conn net.Conn) {
	ctx, cancel := context.WithCancel(c.life)
	f := &far{Console: c, conn: conn}
	var requests sync.WaitGroup
	defer requests.Wait()
	defer conn.Close()
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	in := bufio.NewReader(conn)
	if err := f.greet(in); err != nil {
		return
	}
	for {
		frame, err := jute.ReadFrame(in, maxFrame)
		if err != nil {
			return
		}
		var h jute.RequestHeader
		d := jute.NewDecoder(frame)
		if h.Decode(&d); d.Err() != nil {
			return
		}
		switch h.Type {
		case jute.OpSync: // requests that follow come after it
			f.answer(ctx, h, &d)
		case jute.OpCloseSession:
			f.reply(h.Xid, nil, nil)
			return
		default:
			requests.Go(func() { f.answer(ctx, h, &d) })
		}
	}
}

// greet takes the session of a caller, which is no session of the ensemble: the caller has none.
func (f *far) greet(in *bufio.Reader) error {
	frame, err := jute.ReadFrame(in, maxFrame)
	if err != nil {
		return err
	}
	var q jute.ConnectRequest
	d := jute.NewDecoder(frame)
	if q.Decode(&d); d.Err() != nil {
		return d.Err()
	}
	b, mark := jute.BeginFrame(nil)
	r := jute.ConnectResponse{TimeoutMs: q.TimeoutMs, SessionID: 1, Password: make([]byte, jute.PasswordLen), HasReadOnly: q.HasReadOnly}
	_, err = f.conn.Write(jute.EndFrame(r.Append(b), mark))
	return err
}

// answer asks the ensemble, and sends the reply.
func (f *far) answer(ctx context.Context, h jute.RequestHeader, d *jute.Decoder) {
	if h.Type == jute.OpPing {
		f.reply(h.Xid, nil, nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := f.ask(ctx, h.Type, d)
	f.reply(h.Xid, body, err)
}

// record is the body of a reply.
type record interface{ Append([]byte) []byte }

// reply sends a reply.
func (f *far) reply(xid int32, body record, err error) {
	h := jute.ReplyHeader{Xid: xid, Zxid: f.Client.Status().LastZxid}
	if err != nil {
		h.Err = jute.ErrOperationTimeout // no server is reached
		if code, ok := errors.AsType[jute.Code](err); ok {
			h.Err = code
		}
	}
	b, mark := jute.BeginFrame(nil)
	b = h.Append(b)
	if body != nil && err == nil {
		b = body.Append(b)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = f.conn.Write(jute.EndFrame(b, mark)) // if the other end is gone it needs no reply
}

// ask asks the ensemble. It knows the requests by which the API reads.
func (f *far) ask(ctx context.Context, op jute.OpCode, d *jute.Decoder) (record, error) {
	zk := f.Client.Steady()
	switch op {
	case jute.OpGetData:
		var q jute.PathWatchRequest
		if q.Decode(d); d.Err() != nil {
			return nil, jute.ErrMarshalling
		}
		got, err := zk.Get(ctx, q.Path)
		return &jute.GetDataResponse{Data: got.Data, Stat: got.Stat}, err
	case jute.OpExists:
		var q jute.PathWatchRequest
		if q.Decode(d); d.Err() != nil {
			return nil, jute.ErrMarshalling
		}
		got, err := zk.Exists(ctx, q.Path)
		if err == nil && !got.Exists {
			err = jute.ErrNoNode
		}
		return &got.Stat, err
	case jute.OpGetACL:
		var q jute.PathRequest
		if q.Decode(d); d.Err() != nil {
			return nil, jute.ErrMarshalling
		}
		got, err := zk.GetACL(ctx, q.Path)
		return &jute.GetACLResponse{ACL: got.ACL, Stat: got.Stat}, err
	case jute.OpSync:
		return nil, zk.Sync(ctx, "/")
	case jute.OpWhoAmI:
		list, err := zk.Session().WhoAmI(ctx)
		if errors.Is(err, jute.ErrUnimplemented) { // Apache's before 3.7
			err = nil
		}
		return &jute.WhoAmIResponse{Clients: list}, err
	case jute.OpChildrenPage:
		var q jute.ChildrenPageRequest
		if q.Decode(d); d.Err() != nil {
			return nil, jute.ErrMarshalling
		}
		return f.page(ctx, zk, &q)
	case jute.OpSubtreePage:
		var q jute.SubtreePageRequest
		if q.Decode(d); d.Err() != nil {
			return nil, jute.ErrMarshalling
		}
		if f.features()&jute.FeaturePaging == 0 {
			return nil, jute.ErrUnimplemented
		}
		return subtree(ctx, zk, &q)
	}
	return nil, jute.ErrUnimplemented
}

func subtree(ctx context.Context, zk *client.Client, q *jute.SubtreePageRequest) (record, error) {
	o := client.SubtreePageOptions{View: q.View, Data: q.Show >= jute.ShowData, ACLs: q.Show >= jute.ShowACLs, End: q.View != 0 && q.Show == jute.ShowNames}
	got, err := zk.SubtreePage(ctx, q.Path, o)
	r := &jute.SubtreePageResponse{Zxid: got.Zxid, View: got.View}
	for i := range got.Nodes {
		r.Nodes = append(r.Nodes, jute.SubtreeNode{PageChild: childOf(&got.Nodes[i]), ACL: got.Nodes[i].ACL})
	}
	return r, err
}

// childOf returns the record of a child.
func childOf(c *client.Child) jute.PageChild {
	p := jute.PageChild{Name: c.Name, Stat: c.Stat, Data: c.Data}
	if code, ok := errors.AsType[jute.Code](c.Err); ok {
		p.Err = code
	}
	return p
}
