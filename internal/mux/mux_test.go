package mux

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/mux/streams"
)

// pair returns both sides of a connection, which serve until the end of the test.
func pair(t *testing.T, accept func(s *Stream, whose string)) (connects, accepts *Carrier) {
	one, other := net.Pipe()
	made := make(chan *Carrier)
	var work sync.WaitGroup
	work.Go(func() {
		c, err := Accept(other, other, time.Minute, accept)
		if err != nil {
			t.Error(err)
		}
		made <- c
		c.Serve()
	})
	greet := make(chan error)
	go func() { greet <- Greet(one) }()
	accepts = <-made
	if err := <-greet; err != nil {
		t.Fatal(err)
	}
	connects = Connect(one, time.Minute)
	work.Go(func() { connects.Serve() })
	t.Cleanup(func() {
		one.Close()
		work.Wait()
	})
	return connects, accepts
}

// pattern is what one side of a stream sends: its bytes tell the stream and their place.
func pattern(id uint32, from, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(int(id)*31 + (from+i)*7 + (from+i)>>8)
	}
	return b
}

// held returns the memory of what has come.
func (s *Stream) held() int {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.rules.Held()
}

// talk sends and reads on a stream in random pieces. It returns what is wrong. The side that ends the stream reads no more
// than the other one sends; the other one reads until the end.
func talk(s *Stream, r *rand.Rand, sends, reads int, ends bool) error {
	var reader sync.WaitGroup
	var wrong error
	seed := r.Uint64()
	reader.Go(func() {
		r := rand.New(rand.NewPCG(seed, 2))
		for got := 0; got < reads || !ends; {
			if r.IntN(3) == 0 {
				woken := make(chan bool, 1)
				if s.Await(func() { woken <- true }) {
					select {
					case <-woken:
					case <-time.After(10 * time.Minute):
						wrong = fmt.Errorf("stream %d: it is not woken", s.rules.ID())
					}
				}
			}
			b := make([]byte, 1+r.IntN(6000))
			n, err := s.Read(b)
			if held := s.held(); held > 3*streams.Window {
				wrong = fmt.Errorf("stream %d: it holds %d bytes", s.rules.ID(), held)
			}
			if !bytes.Equal(b[:n], pattern(s.rules.ID(), got, n)) {
				wrong = fmt.Errorf("stream %d: wrong bytes after %d", s.rules.ID(), got)
				return
			}
			if got += n; err != nil || got > reads {
				if err != io.EOF || got != reads {
					wrong = fmt.Errorf("stream %d: %d bytes of %d, then %v", s.rules.ID(), got, reads, err)
				}
				return
			}
			if r.IntN(4) == 0 {
				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
			}
		}
	})
	for sent := 0; sent < sends; {
		b := pattern(s.rules.ID(), sent, min(1+r.IntN(9000), sends-sent))
		send := s.Write
		if r.IntN(3) == 0 {
			send = s.WriteNow
		}
		n, err := send(b)
		if sent += n; err != nil {
			reader.Wait()
			return fmt.Errorf("stream %d: after %d sent bytes %w", s.rules.ID(), sent, err)
		}
		if n == 0 || r.IntN(4) == 0 {
			time.Sleep(time.Duration(1+r.IntN(20)) * time.Millisecond)
		}
	}
	reader.Wait()
	return wrong
}

// run has random streams send both ways. One of them, which nobody reads, must hold up none of the others.
func run(t *testing.T, seed uint64) []error {
	var mu sync.Mutex
	var wrong []error
	note := func(err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			wrong = append(wrong, err)
		}
	}
	var work sync.WaitGroup
	r := rand.New(rand.NewPCG(seed, 1))
	size := func() int { return []int{0, 1, 700, streams.Window, 5*streams.Window + 3}[r.IntN(5)] }
	type plan struct{ up, down int }
	var plans sync.Map // by whose
	connects, accepts := pair(t, func(s *Stream, whose string) {
		v, _ := plans.Load(whose)
		p, ok := v.(plan)
		if !ok {
			return // nobody reads it
		}
		go func() {
			defer work.Done()
			defer s.Close()
			note(talk(s, rand.New(rand.NewPCG(seed, uint64(s.rules.ID()))), p.down, p.up, false))
		}()
	})
	unread, err := connects.Open("unread")
	note(err)
	n, err := unread.WriteNow(make([]byte, 2*streams.Window))
	if note(err); n != streams.Window {
		note(fmt.Errorf("%d bytes are sent that nobody reads, want %d", n, streams.Window))
	}
	for i := range 20 {
		p := plan{size(), size()}
		whose := fmt.Sprint(i)
		plans.Store(whose, p)
		work.Add(2) // for both sides of the stream
		s, err := connects.Open(whose)
		if note(err); err != nil {
			work.Add(-2)
			break
		}
		seed := r.Uint64()
		go func() {
			defer work.Done()
			defer s.Close()
			note(talk(s, rand.New(rand.NewPCG(seed, 0)), p.up, p.down, true))
		}()
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
	}
	ended := make(chan bool)
	go func() {
		work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Hour):
		note(errors.New("some streams never end"))
		accepts.fail(errors.New("the test is over"))
		<-ended
	}
	unread.Close()
	time.Sleep(time.Second)
	if n := connects.Streams(); n != 1 { // the other side has not ended it
		note(fmt.Errorf("%d streams are left", n))
	}
	return wrong
}

func TestRandomStreams(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			for _, err := range run(t, seed) {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}

// echo is a side that accepts streams and sends back what they send.
func echo(s *Stream, _ string) {
	go func() {
		io.Copy(s, s)
		s.Close()
	}()
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pair(t, func(*Stream, string) {})
		s, err := c.Open("")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		began := time.Now()
		s.SetDeadline(began.Add(time.Second))
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(began))
		}
		if n, err := s.Write(make([]byte, streams.Window+1)); n != streams.Window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %d, %v", n, err)
		}
		s.SetWriteDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { s.SetWriteDeadline(time.Unix(1, 0)) })
		if _, err := s.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute+time.Second {
			t.Errorf("write: %v after %v", err, time.Since(began))
		}
		s.SetReadDeadline(time.Now().Add(-1))
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read after the deadline: %v", err)
		}
		time.AfterFunc(time.Second, func() { s.Close() })
		s.SetReadDeadline(time.Time{})
		if _, err := s.Read(make([]byte, 1)); err != net.ErrClosed {
			t.Errorf("read of a closed stream: %v", err)
		}
		if _, err := s.Write([]byte("x")); err != net.ErrClosed {
			t.Errorf("write to a closed stream: %v", err)
		}
	})
}

func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var theirs *Stream
		c, accepts := pair(t, func(s *Stream, whose string) {
			if whose == "kept" {
				theirs = s
			} else {
				echo(s, whose)
			}
		})
		// What the other side has sent before its end is read, and then the end.
		s, _ := c.Open("kept")
		synctest.Wait()
		theirs.Write([]byte("last"))
		theirs.Close()
		synctest.Wait()
		if _, err := s.Write([]byte("late")); err != io.ErrClosedPipe {
			t.Errorf("a write after the other side's end: %v", err)
		}
		if b, err := io.ReadAll(s); string(b) != "last" || err != nil {
			t.Errorf("read %q, %v", b, err)
		}
		if c.Streams() != 1 || accepts.Streams() != 1 {
			t.Error("the stream is forgotten before both sides have ended it")
		}
		s.Close()
		synctest.Wait()
		if c.Streams() != 0 || accepts.Streams() != 0 {
			t.Error("the stream is not forgotten")
		}
		// A side that quits ends with its last stream.
		s, _ = c.Open("")
		synctest.Wait()
		accepts.Quit()
		s.Write([]byte("a"))
		if b := make([]byte, 1); must(s.Read(b)) != 1 || b[0] != 'a' {
			t.Errorf("read %q", b)
		}
		if _, err := c.Open(""); err != streams.ErrQuits {
			t.Errorf("a stream to a side that quits: %v", err)
		}
		s.Close()
		<-c.Done()
		<-accepts.Done()
		if _, err := c.Open(""); err == nil {
			t.Error("a stream of a connection that has ended")
		}
	})
}

// A connection without streams ends, and a stream that comes at that moment is refused.
func TestUnusedConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, accepts := pair(t, echo)
		began := time.Now()
		time.Sleep(time.Minute - 1)
		s, err := c.Open("")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		s.Close()
		<-c.Done()
		<-accepts.Done()
		if after := time.Since(began); after != time.Hour+2*time.Minute-1 {
			t.Errorf("it ends after %v", after)
		}
		c, accepts = pair(t, echo)
		accepts.Quit() // the other side does not know yet
		if s, err = c.Open(""); err == nil {
			if n, err := s.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Errorf("a stream to a side that quits: %d, %v", n, err)
			}
			s.Close()
		}
		<-c.Done()
	})
}

// A connection that takes no more streams ends with the last one that both sides have ended, and not later.
func TestQuitEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var theirs *Stream
		c, accepts := pair(t, func(s *Stream, _ string) { theirs = s })
		s, _ := c.Open("")
		synctest.Wait()
		accepts.Quit()
		s.Close()
		synctest.Wait()
		if over(c) || over(accepts) {
			t.Error("it ends before the other side has ended the stream")
		}
		theirs.Close()
		synctest.Wait()
		if !over(c) || !over(accepts) {
			t.Error("it does not end")
		}
	})
}

// over reports whether a connection has ended.
func over(c *Carrier) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// A connection ends whose streams this side has ended long ago, though the other side has not: a client without a session could keep it.
func TestKeptStreamsKeepNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, accepts := pair(t, func(s *Stream, _ string) { s.Close() })
		began := time.Now()
		for range 3 {
			if _, err := c.Open(""); err != nil {
				t.Fatal(err)
			}
		}
		<-accepts.Done()
		if after := time.Since(began); after != time.Minute {
			t.Errorf("it ends after %v", after)
		}
	})
}

// A side that opens and ends streams, and reads none of the answers, makes the other one keep no more than a bound, and no streams.
func TestAnswersThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := net.Pipe()
		defer one.Close()
		sent := make(chan int)
		go func() {
			one.Write(greeting())
			n := uint32(0)
			for err := error(nil); err == nil; {
				var b []byte
				for range 1000 {
					n++
					open, end := streams.Header{Kind: streams.KindOpen, Stream: n}, streams.Header{Kind: streams.KindEnd, Stream: n}
					b = end.Append(open.Append(b))
				}
				_, err = one.Write(b)
			}
			sent <- int(n)
		}()
		c, err := Accept(other, other, time.Minute, func(s *Stream, _ string) { s.Close() })
		if err != nil {
			t.Fatal(err)
		}
		err = c.Serve()
		if n := <-sent; err != streams.ErrSlow || c.side.Waiting() > 2*streams.MaxOut+1000*streams.HeaderLen || c.Streams() > 1 {
			t.Errorf("after %d streams %d bytes wait, and there are %d streams: %v", n, c.side.Waiting(), c.Streams(), err)
		}
	})
}

func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}

// A lost connection ends all streams, also those that wait.
func TestLostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, accepts := pair(t, func(*Stream, string) {})
		s, _ := c.Open("")
		parked, _ := c.Open("")
		var woken atomic.Bool
		if !parked.Await(func() { woken.Store(true) }) {
			t.Error("a stream without anything to read is not awaited")
		}
		time.AfterFunc(time.Second, func() { accepts.nc.Close() })
		if _, err := s.Write(make([]byte, 2*streams.Window)); err == nil {
			t.Error("all is written")
		}
		if _, err := s.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("read: %v", err)
		}
		if synctest.Wait(); !woken.Load() || parked.Await(func() {}) {
			t.Error("an awaited stream is not woken")
		}
		s.Close()
	})
}

// stuckConn is a connection whose reads and writes take until they are let go.
type stuckConn struct {
	net.Conn
	read, written chan struct{}
}

func (c stuckConn) Read([]byte) (int, error)         { <-c.read; return 0, io.EOF }
func (c stuckConn) Write(b []byte) (int, error)      { <-c.written; return len(b), nil }
func (c stuckConn) Close() error                     { return nil }
func (c stuckConn) SetWriteDeadline(time.Time) error { return nil }

// TestServeEndsLast: what the caller of Serve closes or frees after it is used by no goroutine of the carrier.
func TestServeEndsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := stuckConn{read: make(chan struct{}), written: make(chan struct{})}
		c := newCarrier(nc, nc, time.Minute, nil)
		c.greeting = greeting()
		ended := make(chan error, 1)
		go func() { ended <- c.Serve() }()
		synctest.Wait()
		close(nc.read)
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("Serve ends before its last write")
		}
		close(nc.written)
		if err := <-ended; err == nil {
			t.Error("the connection ended without an error")
		}
	})
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var theirs *Stream
		c, _ := pair(t, func(s *Stream, _ string) { theirs = s })
		s, _ := c.Open("")
		synctest.Wait()
		woken := 0
		wake := func() { woken++ }
		if !theirs.Await(wake) {
			t.Fatal("not awaited")
		}
		s.Write([]byte("ab"))
		if synctest.Wait(); woken != 1 || theirs.Await(wake) {
			t.Errorf("woken %d times", woken)
		}
		theirs.Read(make([]byte, 2))
		if !theirs.Await(wake) {
			t.Fatal("not awaited again")
		}
		s.Close()
		if synctest.Wait(); woken != 2 || theirs.Await(wake) {
			t.Errorf("woken %d times", woken)
		}
		theirs.Close()
	})
}

// A side that breaks the rules loses the connection, and no memory is taken for it.
func TestHostileFrames(t *testing.T) {
	data := func(stream uint32, n int) string {
		h := streams.Header{Kind: streams.KindData, Stream: stream, Length: n}
		return string(h.Append(nil)) + strings.Repeat("x", n)
	}
	frame := func(kind byte, stream uint32, body string) string {
		h := streams.Header{Kind: kind, Stream: stream, Length: len(body)}
		return string(h.Append(nil)) + body
	}
	open := frame(streams.KindOpen, 1, "a")
	for name, sent := range map[string]string{
		"data of no stream":                   data(1, 1),
		"empty data":                          open + data(1, 0),
		"data beyond the window":              open + data(1, streams.Window) + data(1, 1),
		"a long frame":                        open + "\x02\x00\x00\x00\x01\xff\xff\xff\xff",
		"an unknown kind":                     frame(9, 1, ""),
		"kind 0":                              frame(0, 0, ""),
		"a number twice":                      open + open,
		"a lower number":                      frame(streams.KindOpen, 5, "") + open,
		"number 0":                            frame(streams.KindOpen, 0, ""),
		"a long name":                         frame(streams.KindOpen, 1, strings.Repeat("a", streams.MaxWhose+1)),
		"credit for nothing":                  open + frame(streams.KindCredit, 1, "\x00\x00\x00\x01"),
		"negative credit":                     open + frame(streams.KindCredit, 1, "\xff\xff\xff\xff"),
		"a quit by the side that connects":    frame(streams.KindQuit, 0, ""),
		"no credit":                           open + frame(streams.KindCredit, 1, "\x00\x00\x00\x00"),
		"data after the end":                  open + frame(streams.KindEnd, 1, "") + data(1, 1),
		"pings of a stream that there is not": open + frame(streams.KindPings, 0, "\x00\x00\x00\x01\x00\x00\x00\x02"),
		"pings of half a stream":              open + frame(streams.KindPings, 0, "\x00\x00\x00\x01\x00\x00"),
		"no pings":                            frame(streams.KindPings, 0, ""),
		"a pong by the side that connects":    open + frame(streams.KindPongs, 0, "\x00\x00\x00\x01"),
		"two ends":                            open + frame(streams.KindEnd, 1, "") + frame(streams.KindEnd, 1, ""),
		"more streams than there may be": func() (s string) {
			for i := range uint32(streams.Most + 1) {
				s += frame(streams.KindOpen, i+1, "")
			}
			return s
		}(),
	} {
		synctest.Test(t, func(t *testing.T) {
			one, other := net.Pipe()
			go func() {
				one.Write(greeting())
				io.WriteString(one, sent)
			}()
			go io.Copy(io.Discard, one)
			c, err := Accept(other, other, time.Minute, func(s *Stream, _ string) {})
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Minute, func() { c.fail(nil) })
			if err := c.Serve(); err == nil {
				t.Errorf("%s: nothing happens", name)
			}
			one.Close()
		})
	}
}

func TestGreeting(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		plain  bool
	}{
		"the same":        {"zmux\x00\x00\x00\x01", false},
		"the end":         {"", true},
		"a later version": {"zmux\x00\x00\x00\x02", true},
		"HTTP":            {"HTTP/1.1 400 Bad Request", true},
	} {
		one, other := net.Pipe()
		go func() {
			io.ReadFull(other, make([]byte, 8))
			io.WriteString(other, tt.answer)
			other.Close()
		}()
		if err := Greet(one); errors.Is(err, ErrPlain) != tt.plain || (err == nil) == tt.plain {
			t.Errorf("%s: %v", name, err)
		}
		one.Close()
	}
}

// A server that has not read all of the greeting resets the connection.
func TestGreetingIsReset(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		io.ReadFull(nc, make([]byte, 4))
		nc.(*net.TCPConn).SetLinger(0)
		nc.Close()
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := Greet(nc); !errors.Is(err, ErrPlain) {
		t.Errorf("greeted with %v", err)
	}
}

// FuzzCarrier feeds bytes of another side to one that accepts streams.
func FuzzCarrier(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x01\x00\x00\x00\x01a\x02\x00\x00\x00\x01\x00\x00\x00\x03abc\x04\x00\x00\x00\x01\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		one, other := net.Pipe()
		var written sync.WaitGroup
		written.Go(func() {
			one.Write(append(greeting(), b...))
			one.Close()
		})
		c, err := Accept(other, other, time.Minute, echo)
		if err != nil {
			t.Fatal(err)
		}
		c.Serve()
		written.Wait()
	})
}

func BenchmarkStream(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		nc, _ := l.Accept()
		c, _ := Accept(nc, nc, time.Minute, echo)
		c.Serve()
	})
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil || Greet(nc) != nil {
		b.Fatal(err)
	}
	c := Connect(nc, time.Minute)
	work.Go(func() { c.Serve() })
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		s, err := c.Open("")
		if err != nil {
			b.Error(err)
			return
		}
		defer s.Close()
		for m := make([]byte, 100); pb.Next(); {
			s.Write(m)
			if _, err := io.ReadFull(s, m); err != nil {
				b.Error(err)
				return
			}
		}
	})
	nc.Close()
	l.Close()
	work.Wait()
}
