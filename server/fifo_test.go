package server

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// TestReadBehindAFinishingWriteIsAnswered checks that a read that arrives at the moment
// when the write before it is answered is neither lost nor answered too early. Its body
// is large, so that reading it takes time; its last byte arrives at a random distance
// from the end of the write's fsync, so that the two coincide.
func TestReadBehindAFinishingWriteIsAnswered(t *testing.T) {
	var disk sync.Mutex
	fs := crashfs.New(1)
	s := startOn(t, fs, "/data")
	c := s.connect(t)
	fs.SetHook(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpSync {
			disk.Lock()
			defer disk.Unlock()
		}
		return nil
	})
	prefix := strings.Repeat("x", 500_000)
	rng := rand.New(rand.NewPCG(7, 1))
	for i := range 300 {
		disk.Lock()
		stream := frameOf(requestFrame(1, jute.OpSetData, set("/", "")))
		stream = append(stream, frameOf(requestFrame(2, jute.OpGetEphemerals, &jute.GetEphemeralsRequest{Prefix: prefix}))...)
		end := len(stream) - 1
		c.nc.Write(stream[:end])
		c.nc.Out.Drained()
		wait := rng.IntN(20_000)
		go func() {
			for range wait {
				runtime.KeepAlive(&wait)
			}
			disk.Unlock()
		}()
		c.nc.Write(stream[end:])
		c.nc.SetReadDeadline(time.Now().Add(patience))
		for xid := int32(1); xid <= 2; xid++ {
			if r, err := c.next(); err != nil || r.Xid != xid || r.Err != 0 {
				t.Fatalf("round %d: %v, %v; want the reply to %d (1 is the write, 2 the read)", i, r, err, xid)
			}
		}
	}
	s.noErrors(t)
}

// TestAnEndedIdentityIsRefusedInOrder has a token end while a write of its owner waits for the disk: the request after it is refused
// after the answer to the write.
func TestAnEndedIdentityIsRefusedInOrder(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		fs := crashfs.New(1)
		s := startOn(t, fs, "/data", append(i.lines, "enforce.auth.enabled=true", "enforce.auth.schemes=jwt")...)
		c := s.connect(t)
		if code := c.addAuth("jwt", i.token("root", 5*time.Second)); code != 0 {
			t.Fatal(code)
		}
		disk := make(chan struct{})
		fs.SetHook(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpSync {
				<-disk
			}
			return nil
		})
		c.send(jute.OpSetData, set("/", "a"))
		time.Sleep(6 * time.Second)
		c.send(jute.OpGetData, get("/", false))
		synctest.Wait()
		c.quiet("a write waits for the disk")
		close(disk)
		for _, want := range []jute.Code{0, jute.ErrSessionClosedRequireSASL} {
			if r := c.must(); r.Err != want {
				t.Errorf("%v, want code %d", r, want)
			}
		}
		c.eof("the identity has ended")
	})
}

// TestRepliesBeforeTheEndAreDelivered checks that an unknown operation ends the
// connection, but the requests before it are answered, and its own reply comes last,
// whatever follows it in the pipeline.
func TestRepliesBeforeTheEndAreDelivered(t *testing.T) {
	s := startServer(t)
	for range 50 {
		c := s.connect(t)
		var stream []byte
		add := func(xid int32, op jute.OpCode, body record) {
			stream = append(stream, frameOf(requestFrame(xid, op, body))...)
		}
		add(1, jute.OpSetData, set("/", "a"))
		add(2, jute.OpGetData, get("/", false))
		add(3, 999, nil)
		add(4, jute.OpSetData, set("/", "b"))
		add(5, jute.OpGetData, get("/", false))
		add(6, jute.OpSync, &jute.PathRequest{Path: "/"})
		c.nc.Write(stream)
		for xid := int32(1); xid <= 3; xid++ {
			r, err := c.next()
			if err != nil || r.Xid != xid || (r.Err == jute.ErrUnimplemented) != (xid == 3) {
				t.Fatalf("reply %d: %v, %v", xid, r, err)
			}
			if xid == 3 && r.Zxid != -1 {
				t.Errorf("zxid of the last reply is %v, want -1", r.Zxid)
			}
		}
		c.eof("unknown operation")
	}
	s.noErrors(t)
}
