package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/jute"
)

// An edge that is replaced passes its listeners and the connections of its clients to its successor, over a socket in the file system.
//
//	successor                         edge
//	hello: versions that it reads ──▶
//	                              ◀── version, a message with each listener, ready; or no
//	ready ──────────────────────────▶ it stops to accept clients
//	                              ◀── yours
//	                              ◀── a client: its connection and its state, when nothing of it is under way
//	ready, or no ───────────────────▶
//	                              ◀── yours, after ready: from here on the connection is the successor's
//	                              ◀── done, when each client was tried once
//
// Until the edge has sent yours, the connection is its own, and it continues to serve it if there is no answer in time: when that comes at last, it sends no.
// Until it has sent done, it accepts clients again if the successor ends, or does not answer any more. After that it tries the rest of its clients again and
// again, and ends when it has none.

// handoverVersion is the version of these messages, and of what they contain.
const handoverVersion = 1

// The kinds of messages.
const (
	msgHello    byte = iota + 1 // int32 the least version, int32 the highest one
	msgVersion                  // int32
	msgListener                 // ustring name; with the socket
	msgClient                   // a state; with the socket
	msgReady
	msgNo // ustring why
	msgYours
	msgDone
)

const (
	answerWithin = 10 * time.Second // for an answer of the other edge
	beginWithin  = time.Minute      // for a successor to open its ports and to find a server
	passEvery    = time.Second      // clients with something under way are tried again
	tryWithin    = time.Second      // for a client to be tried
	triedAtOnce  = 16               // clients
)

// state is what is passed on with the connection of a client.
type state struct {
	unread []byte // that the client has sent, and that is no whole request
	out    []byte // that waits for it
	relay  client.RelayRecord
}

func (s *state) append(b []byte) []byte {
	return s.relay.Append(jute.AppendBuffer(jute.AppendBuffer(b, s.unread), s.out))
}

func (s *state) decode(b []byte) error {
	d := jute.NewDecoder(b)
	s.unread, s.out = d.Buffer(), d.Buffer()
	s.relay.Decode(&d)
	if d.Err() == nil && len(d.Rest()) > 0 {
		return fmt.Errorf("%d bytes after the state of a client", len(d.Rest()))
	}
	return d.Err()
}

// peer is the connection between two edges. Its give is for several goroutines; the rest is for one in all.
type peer struct {
	nc   *net.UnixConn
	mu   sync.Mutex // of give
	late bool       // an answer about a client is owed, and was not waited for; guarded by mu
}

// expect takes a message that has no socket.
func (p *peer) expect(want byte) error {
	kind, body, f, err := p.receive()
	if f != nil {
		f.Close()
	}
	switch {
	case err != nil:
		return err
	case kind == msgNo:
		d := jute.NewDecoder(body)
		return &refusal{d.String()}
	case kind != want:
		return fmt.Errorf("message %d from the other edge, want %d", kind, want)
	}
	return nil
}

// refusal is the other edge's no.
type refusal struct{ why string }

func (r *refusal) Error() string { return "the other edge refuses: " + r.why }

// errLate is why a client is not passed on.
var errLate = errors.New("the other edge has not answered in time")

// give passes a client on, if there is an answer within so long: the client waits meanwhile. An error means that the client is still here.
func (p *peer) give(b []byte, socket syscall.Conn, within time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.settleLocked(0); err != nil {
		return err
	}
	p.nc.SetDeadline(time.Now().Add(3 * within)) // a part of a message is the end of the connection
	defer p.nc.SetDeadline(time.Time{})
	err := p.send(msgClient, b, socket)
	if err == nil {
		err = p.awaitLocked(within)
	}
	if err == errLate {
		p.late = true
		return err
	}
	if err == nil {
		err = p.expect(msgReady)
	}
	if err == nil {
		err = p.send(msgYours, nil, nil)
	}
	return p.failsLocked(err)
}

// failsLocked ends the connection after an error other than a refusal: an answer that comes too late must not count.
func (p *peer) failsLocked(err error) error {
	if _, refused := errors.AsType[*refusal](err); err != nil && !refused {
		p.nc.Close()
	}
	return err
}

// awaitLocked waits for the first byte of an answer.
func (p *peer) awaitLocked(within time.Duration) error {
	p.nc.SetReadDeadline(time.Now().Add(within))
	defer p.nc.SetReadDeadline(time.Now().Add(answerWithin))
	err := p.readable()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errLate
	}
	return err
}

// settle takes the answer that is owed, if one is.
func (p *peer) settle(within time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settleLocked(within)
}

func (p *peer) settleLocked(within time.Duration) error {
	if !p.late {
		return nil
	}
	err := p.awaitLocked(within)
	if err == errLate {
		return err
	}
	p.late = false
	p.nc.SetDeadline(time.Now().Add(answerWithin))
	defer p.nc.SetDeadline(time.Time{})
	if err == nil {
		err = p.expect(msgReady)
	}
	if _, refused := errors.AsType[*refusal](err); refused {
		return nil
	}
	if err == nil {
		err = p.send(msgNo, jute.AppendString(nil, "the answer came too late: the client is served here"), nil)
	}
	return p.failsLocked(err)
}

// HandOver offers all that the edge has to a successor that connects to l, in the background. When the successor has the listeners and each client
// was tried, listening is called with the successor's process. Replaced tells when the edge has no clients any more.
func (e *Edge) HandOver(l *net.UnixListener, listening func(pid int)) {
	e.Keep(handoverName+l.Addr().String(), l)
	e.work.Go(func() {
		for {
			nc, err := l.AcceptUnix()
			if err != nil {
				return
			}
			e.handOver(&peer{nc: nc}, listening)
		}
	})
}

// handoverName begins the name of the listener for successors.
const handoverName = "handover:"

// Replaced returns a channel that is closed when a successor has the listeners, and the edge has no clients any more.
func (e *Edge) Replaced() <-chan struct{} { return e.replaced }

// handOver serves a successor.
func (e *Edge) handOver(p *peer, listening func(pid int)) {
	defer context.AfterFunc(e.stop, func() { p.nc.Close() })()
	defer p.nc.Close()
	pid, err := e.begin(p)
	if err != nil {
		e.o.Log.Warn("nothing is handed over", "err", err)
		return
	}
	e.o.Log.Info("handing over", "to", pid)
	if err = e.passAll(p); err == nil {
		err = p.settle(answerWithin)
	}
	if err == nil {
		err = p.send(msgDone, nil, nil)
	}
	if err != nil {
		e.o.Log.Warn("the successor has gone; clients are accepted here again", "err", err)
		e.accept()
		return
	}
	e.closeListeners()
	listening(pid)
	left := e.left()
	e.o.Log.Info("handed over", "clients", e.figures.handedOver.Load(), "left", left)
	for left > 0 {
		if pause.For(e.stop, passEvery) != nil {
			return
		}
		if err == nil {
			err = e.passAll(p) // those for whom it fails stay
		}
		left = e.left()
	}
	close(e.replaced)
}

// begin passes the listeners on. An error means that nothing has changed.
func (e *Edge) begin(p *peer) (pid int, err error) {
	p.nc.SetDeadline(time.Now().Add(beginWithin))
	defer p.nc.SetDeadline(time.Time{})
	pid, err = p.same()
	if err != nil {
		return 0, err
	}
	kind, body, f, err := p.receive()
	if err != nil {
		return 0, err
	}
	if f != nil {
		f.Close()
	}
	d := jute.NewDecoder(body)
	least, most := d.Int32(), d.Int32()
	why := ""
	switch {
	case kind != msgHello || d.Err() != nil:
		return 0, fmt.Errorf("message %d is no hello: %v", kind, d.Err())
	case least > handoverVersion || most < handoverVersion:
		why = fmt.Sprintf("it hands over by version %d, and the successor reads %d to %d", handoverVersion, least, most)
	case e.takes.Load() > 0:
		why = "it takes clients over itself"
	}
	if why != "" {
		p.send(msgNo, jute.AppendString(nil, why), nil)
		return 0, errors.New(why)
	}
	if err := p.send(msgVersion, jute.AppendInt32(nil, int32(handoverVersion)), nil); err != nil {
		return 0, err
	}
	for _, port := range e.portsNow() {
		if socket, ok := port.l.(syscall.Conn); ok && port.name != "" {
			if err := p.send(msgListener, jute.AppendString(nil, port.name), socket); err != nil {
				return 0, err
			}
		}
	}
	if err := p.send(msgReady, nil, nil); err != nil {
		return 0, err
	}
	if err := p.expect(msgReady); err != nil {
		return 0, err
	}
	e.refrain()
	if err := p.send(msgYours, nil, nil); err != nil {
		e.accept()
		return 0, err
	}
	return pid, nil
}

// passAll tries to pass each client on. An error means that the successor has gone.
func (e *Edge) passAll(p *peer) error {
	e.mu.Lock()
	var list []*conn
	for c := range e.conns {
		if c.relay.Load() != nil {
			list = append(list, c)
		}
	}
	e.mu.Unlock()
	turns := make(chan struct{}, triedAtOnce)
	var trying sync.WaitGroup
	for _, c := range list {
		turns <- struct{}{}
		trying.Go(func() {
			c.try(p)
			<-turns
		})
	}
	trying.Wait()
	return p.alive()
}

// left returns how many connections there are.
func (e *Edge) left() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.conns)
}

// past makes what waits for a connection return.
var past = time.Unix(1, 0)

// passing is an attempt to pass a client on.
type passing struct {
	to   *peer
	over chan struct{} // closed when that was tried, or the client has gone
}

// try has the client passed on, by the goroutine that reads from it, which may be busy.
func (c *conn) try(p *peer) {
	a := &passing{p, make(chan struct{})}
	c.passing.Store(a)
	c.nc.SetReadDeadline(past)
	t := time.NewTimer(tryWithin)
	defer t.Stop()
	select {
	case <-a.over:
	case <-t.C:
		if c.passing.Swap(nil) == nil { // it has begun
			<-a.over
		}
	}
}

// pass passes the client on if it was asked to. Otherwise the client is served here as before.
func (c *conn) pass(r *client.Relay) (passed bool) {
	a := c.passing.Swap(nil)
	c.nc.SetReadDeadline(time.Time{})
	if a == nil {
		return false
	}
	defer close(a.over)
	socket, ok := c.nc.(syscall.Conn)
	if !ok {
		return false
	}
	within := min(tryWithin, r.Client().Status().Timeout/10)
	ctx, cancel := context.WithTimeout(c.e.stop, within)
	defer cancel()
	record, err := r.Hold(ctx)
	if err != nil {
		return false
	}
	out, over := c.pause()
	s := state{relay: *record, unread: c.in.TakeAll(), out: out}
	if over || a.to.give(s.append(nil), socket, within) != nil {
		r.Release()
		c.in.Put(s.unread)
		c.unpause()
		return false
	}
	r.Leave()
	c.drop()
	c.e.figures.handedOver.Add(1)
	return true
}

// pause lets nothing be written, and returns what waits. It reports whether the connection ends.
func (c *conn) pause() (out []byte, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
	c.nc.SetWriteDeadline(past)
	for c.writing {
		c.changed.Wait()
	}
	c.nc.SetWriteDeadline(time.Time{})
	return c.out, c.over
}

// unpause lets what waits be written.
func (c *conn) unpause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	c.startLocked()
}

// Predecessor is a running edge that hands over to this process.
type Predecessor struct {
	peer
	listeners map[string]net.Listener
	taken     []net.Listener // of them
}

// Ask asks the edge that listens at a path to hand over, and takes its listeners. Without an edge there it returns nil.
func Ask(path string) (*Predecessor, error) {
	nc, err := net.DialTimeout("unix", path, answerWithin)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &Predecessor{peer: peer{nc: nc.(*net.UnixConn)}, listeners: map[string]net.Listener{}}
	if err := p.begin(); err != nil {
		p.Close()
		return nil, fmt.Errorf("the edge at %s does not hand over: %w", path, err)
	}
	return p, nil
}

func (p *Predecessor) begin() error {
	p.nc.SetDeadline(time.Now().Add(answerWithin))
	defer p.nc.SetDeadline(time.Time{})
	if _, err := p.same(); err != nil {
		return err
	}
	if err := p.send(msgHello, jute.AppendInt32(jute.AppendInt32(nil, int32(handoverVersion)), int32(handoverVersion)), nil); err != nil {
		return err
	}
	if err := p.expect(msgVersion); err != nil {
		return err
	}
	for {
		kind, body, f, err := p.receive()
		switch {
		case err != nil:
			return err
		case kind == msgReady:
			return nil
		case kind != msgListener || f == nil:
			return fmt.Errorf("message %d from the other edge, want a listener", kind)
		}
		l, err := net.FileListener(f)
		f.Close()
		if err != nil {
			return err
		}
		d := jute.NewDecoder(body)
		p.listeners[d.String()] = l
	}
}

// Listener returns a listener of the predecessor, or nil: it has none of this name.
func (p *Predecessor) Listener(name string) net.Listener {
	if p == nil {
		return nil
	}
	l := p.listeners[name]
	if l != nil {
		delete(p.listeners, name)
		p.taken = append(p.taken, l)
	}
	return l
}

// Successors returns the predecessor's listener for successors at a path, or nil.
func (p *Predecessor) Successors(path string) *net.UnixListener {
	l, _ := p.Listener(handoverName + path).(*net.UnixListener)
	return l
}

// Close ends a handover that has not begun: the predecessor continues.
func (p *Predecessor) Close() {
	p.nc.Close()
	for _, l := range p.listeners {
		l.Close()
	}
}

// unlinks says whether the file of a listener goes with it, if it has one.
func unlinks(l net.Listener, so bool) {
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(so)
	}
}

// Ready lets the predecessor begin. It accepts no clients from here on.
func (p *Predecessor) Ready() error {
	p.nc.SetDeadline(time.Now().Add(answerWithin))
	defer p.nc.SetDeadline(time.Time{})
	if err := p.send(msgReady, nil, nil); err != nil {
		return err
	}
	if err := p.expect(msgYours); err != nil {
		return err
	}
	for _, l := range p.taken {
		unlinks(l, true)
	}
	return nil
}

// Take takes the clients of a predecessor, in the background. It returns when each of them was tried, or the predecessor has gone; those with
// something under way come later.
func (e *Edge) Take(p *Predecessor) {
	for _, l := range p.listeners { // of addresses that are not wanted any more
		unlinks(l, true)
		l.Close()
	}
	e.takes.Add(1)
	done := sync.OnceFunc(func() { e.takes.Add(-1) })
	tried := make(chan struct{})
	e.work.Go(func() {
		defer context.AfterFunc(e.stop, func() { p.nc.Close() })()
		defer p.nc.Close()
		all := sync.OnceFunc(func() { done(); close(tried) })
		defer all()
		for {
			kind, body, f, err := p.receive()
			switch {
			case err != nil:
				e.o.Log.Info("the predecessor has ended", "clients", e.figures.taken.Load())
				return
			case kind == msgDone:
				all()
			case kind == msgClient && f != nil:
				if err := e.takeClient(p, body, f); err != nil {
					e.o.Log.Warn("a client is not taken over", "err", err)
				}
			}
		}
	})
	<-tried
}

func (e *Edge) takeClient(p *Predecessor, body []byte, f *os.File) error {
	nc, err := net.FileConn(f)
	f.Close()
	var s state
	if err == nil {
		err = s.decode(body)
	}
	if err != nil {
		p.send(msgNo, jute.AppendString(nil, err.Error()), nil)
	} else if err = p.send(msgReady, nil, nil); err == nil {
		err = p.expect(msgYours)
	}
	if err == nil {
		err = e.resume(nc, &s)
	} else if nc != nil {
		nc.Close() // it is the predecessor's
	}
	return err
}

// takenConn returns the connection of a client that another edge has passed on. What waited for the client is
// queued before its relay begins, so that events come after it.
func (e *Edge) takenConn(nc net.Conn, s *state) *conn {
	c := newConn(e, nc)
	c.in.Put(s.unread)
	if len(s.out) > 0 {
		c.append(s.out)
	}
	return c
}

// resume serves a client that another edge has passed on.
func (e *Edge) resume(nc net.Conn, s *state) error {
	c := e.takenConn(nc, s)
	same := sameIdentity(e.identify(c), s.relay.User())
	same = same || identityHanded.Planted()
	if !same {
		nc.Close()
		c.drop()
		return errors.New("its identity is another one now")
	}
	r := c.newRelay(client.RelayOptions{Record: &s.relay})
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop.Err() != nil {
		nc.Close()
		r.Abort()
		e.memory.leave(c.shared)
		c.drop()
		return e.stop.Err()
	}
	e.figures.taken.Add(1)
	e.conns[c] = true
	e.admitted++
	e.work.Add(1)
	go c.session(r)
	return nil
}
