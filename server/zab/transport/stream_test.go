package transport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// streamed runs a stream from server 1 to server 2. send is called with the sending end.
func streamed(t *testing.T, receive func(header []byte, r io.Reader) error, send func(t *testing.T, net *memNet, a, b *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		a, b := newNode(t, net, 1, 2), newNode(t, net, 2, 2)
		b.onStream = receive
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		send(t, net, a, b)
		if a.links() != 1 || b.links() != 1 {
			t.Errorf("the link suffered: %v %v", a.why(), b.why())
		}
	})
}

func open(t *testing.T, a *node, header string) *Stream {
	t.Helper()
	s, err := a.tr.OpenStream(t.Context(), 2, []byte(header))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pattern returns n bytes in which all pieces differ.
func pattern(n int) []byte {
	b := make([]byte, 0, n+sha256.Size)
	for i := 0; len(b) < n; i++ {
		sum := sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		b = append(b, sum[:]...)
	}
	return b[:n]
}

func TestStream(t *testing.T) {
	for _, size := range []int{0, 1, streamPiece - 1, streamPiece, streamPiece + 1, 3*streamPiece + 5} {
		want := pattern(size)
		var got []byte
		receive := func(header []byte, r io.Reader) (err error) {
			if string(header) != "token 7" {
				t.Errorf("header %q", header)
			}
			got, err = io.ReadAll(r)
			return err
		}
		streamed(t, receive, func(t *testing.T, _ *memNet, a, _ *node) {
			s := open(t, a, "token 7")
			for piece := want; len(piece) > 0; {
				n, err := s.Write(piece[:min(len(piece), 10_007)])
				if err != nil {
					t.Fatal(err)
				}
				piece = piece[n:]
			}
			if err := s.Close(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: got %d, %v", size, len(got), err)
			}
			if err := s.Close(); err == nil {
				t.Error("closed twice")
			}
			s.Abort(nil)
		})
	}
}

// TestStreamPauses makes both ends pause for longer than IdleTimeout, each in turn.
func TestStreamPauses(t *testing.T) {
	receive := func(_ []byte, r io.Reader) error {
		time.Sleep(time.Minute)
		b, err := io.ReadAll(r)
		time.Sleep(time.Minute)
		if len(b) != 400_010 {
			t.Errorf("%d bytes", len(b))
		}
		return err
	}
	streamed(t, receive, func(t *testing.T, _ *memNet, a, _ *node) {
		s := open(t, a, "")
		s.Write(make([]byte, 10))
		time.Sleep(2 * time.Minute)
		s.Write(make([]byte, 400_000))
		time.Sleep(time.Minute)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestStreamFails(t *testing.T) {
	all := func(_ []byte, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	var seen error // by the receiver
	note := func(header []byte, r io.Reader) error {
		seen = all(header, r)
		return nil // it must not count as success
	}
	write := func(s *Stream) (err error) {
		for range 50 {
			if _, err = s.Write(make([]byte, streamPiece)); err != nil {
				return err
			}
		}
		return s.Close()
	}
	tests := []struct {
		name    string
		receive func([]byte, io.Reader) error
		send    func(net *memNet, a *node, s *Stream) error
		err     string // of the sender
		seen    string // by the receiver
	}{
		{"receiver refuses", func([]byte, io.Reader) error { return errors.New("disk full") },
			func(_ *memNet, _ *node, s *Stream) error { return write(s) }, "receiver: disk full", ""},
		{"receiver ends early", func([]byte, io.Reader) error { return nil },
			func(_ *memNet, _ *node, s *Stream) error { return write(s) }, "receiver: the stream was not read to its end", ""},
		{"receiver's verdict at the end", func(h []byte, r io.Reader) error { return errors.Join(all(h, r), errors.New("bad digest")) },
			func(_ *memNet, _ *node, s *Stream) error { return write(s) }, "receiver: bad digest", ""},
		{"no longer wanted", note, func(_ *memNet, _ *node, s *Stream) error {
			s.Write(make([]byte, 300_000))
			s.Abort(errors.New("not needed"))
			synctest.Wait()
			return s.Close()
		}, "aborted", "not needed"},
		{"cut", note, func(net *memNet, _ *node, s *Stream) error {
			s.Write(make([]byte, 300_000))
			net.mu.Lock()
			for c := range net.conns {
				if s.conn.raw == c || c.RemoteAddr() == s.conn.raw.LocalAddr() {
					c.In.Fail(io.ErrUnexpectedEOF)
				}
			}
			net.mu.Unlock()
			synctest.Wait()
			return write(s)
		}, "EOF", "EOF"},
		{"server closes", note, func(_ *memNet, a *node, s *Stream) error {
			s.Write(make([]byte, 300_000))
			synctest.Wait()
			s.t.drop(s.conn.raw) // as Close does
			synctest.Wait()
			return s.Close()
		}, "closed", "EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen = nil
			streamed(t, tt.receive, func(t *testing.T, net *memNet, a, b *node) {
				err := tt.send(net, a, open(t, a, ""))
				synctest.Wait()
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("the sender got %v, want %q", err, tt.err)
				}
				if tt.seen != "" && (seen == nil || !strings.Contains(seen.Error(), tt.seen)) {
					t.Errorf("the receiver got %v, want %q", seen, tt.seen)
				}
			})
		})
	}
}

// TestStreamBlackHole cuts the path to the receiver while a Write waits. Both ends notice,
// and the end of the context unblocks another Write at once.
func TestStreamBlackHole(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			net := newMemNet()
			a, b := newNode(t, net, 1, 2), newNode(t, net, 2, 2)
			ended := make(chan error, 1)
			b.onStream = func(_ []byte, r io.Reader) error {
				_, err := io.Copy(io.Discard, r)
				ended <- err
				return err
			}
			within(t, time.Second, "a link", func() bool { return linked(a, b) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := a.tr.OpenStream(ctx, 2, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Write(make([]byte, streamPiece))
			synctest.Wait()
			net.blackHole("s1", "s2", true)
			if cancelled {
				time.AfterFunc(time.Second, cancel)
			}
			start := time.Now()
			for err = nil; err == nil; {
				_, err = s.Write(make([]byte, streamPiece))
			}
			limit := 6 * time.Second
			if cancelled {
				limit = time.Second
			}
			if took := time.Since(start); took > limit {
				t.Errorf("Write noticed after %v: %v", took, err)
			}
			s.Abort(err)
			if err := <-ended; err == nil {
				t.Error("the receiver got an end")
			}
		})
	}
}

// TestControlBesideStreams sends messages while two streams fill a slow network's buffers:
// the messages have their own connection and do not wait.
func TestControlBesideStreams(t *testing.T) {
	var (
		mu   sync.Mutex
		sums = make(map[string]int)
	)
	receive := func(header []byte, r io.Reader) error {
		var n int
		for buf := make([]byte, 10_000); ; {
			k, err := r.Read(buf)
			time.Sleep(10 * time.Millisecond) // a slow disk
			if n += k; err == io.EOF {
				break
			} else if err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		sums[string(header)] = n
		return nil
	}
	streamed(t, receive, func(t *testing.T, _ *memNet, a, b *node) {
		var streams sync.WaitGroup
		for i := range 2 {
			streams.Go(func() {
				s := open(t, a, fmt.Sprint(i))
				s.Write(make([]byte, 5_000_000+i))
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range uint64(100) {
			a.send(2, i+1)
			synctest.Wait() // no time passes
			if got := len(b.received()); got != int(i)+1 {
				t.Fatalf("message %d has not arrived", i+1)
			}
			time.Sleep(time.Millisecond)
		}
		streams.Wait()
		if sums["0"] != 5_000_000 || sums["1"] != 5_000_001 {
			t.Errorf("received %v", sums)
		}
	})
}

// TestReceiverKnowsTheEnd checks that a receiver that knows where the data end need not
// read the end frame.
func TestReceiverKnowsTheEnd(t *testing.T) {
	receive := func(_ []byte, r io.Reader) error {
		_, err := io.ReadFull(r, make([]byte, 100_000))
		return err
	}
	streamed(t, receive, func(t *testing.T, _ *memNet, a, _ *node) {
		s := open(t, a, "")
		s.Write(make([]byte, 100_000))
		time.Sleep(time.Minute)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestStreamToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNode(t, newMemNet(), 1, 2)
		if _, err := a.tr.OpenStream(t.Context(), 2, nil); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("to a server that is down: %v", err)
		}
		if _, err := a.tr.OpenStream(t.Context(), 9, nil); err == nil || !strings.Contains(err.Error(), "no such peer") {
			t.Errorf("to a server that does not exist: %v", err)
		}
		a.close()
		if _, err := a.tr.OpenStream(t.Context(), 2, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestCloseEndsStreams closes the transports of both ends during a stream.
func TestCloseEndsStreams(t *testing.T) {
	for _, closer := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			net := newMemNet()
			nodes := []*node{newNode(t, net, 1, 2), newNode(t, net, 2, 2)}
			ended := make(chan error, 1)
			nodes[1].onStream = func(_ []byte, r io.Reader) error {
				_, err := io.Copy(io.Discard, r)
				ended <- err
				return err
			}
			within(t, time.Second, "a link", func() bool { return linked(nodes...) })
			s := open(t, nodes[0], "")
			s.Write(make([]byte, 300_000))
			synctest.Wait()
			nodes[closer].close()
			if err := <-ended; err == nil {
				t.Error("the receiver got an end")
			}
			if err := s.Close(); err == nil {
				t.Error("the sender got a success")
			}
		})
	}
}
