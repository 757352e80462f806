package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/zab"
)

// spoil changes a server's tree without a transaction.
func (s *testServer) spoil() {
	s.state.Lock()
	defer s.state.Unlock()
	var out datatree.Applied
	s.state.Tree.Apply(&datatree.Txn{
		Zxid: s.state.Tree.LastZxid(),
		Ops:  []datatree.Op{{Kind: datatree.OpSetData, Path: "/a", Data: []byte("wrong"), Version: 1}},
	}, &out)
}

func TestServerWithAnotherTreeStops(t *testing.T) {
	for _, which := range []string{"follower", "leader"} {
		t.Run(which, func(t *testing.T) {
			inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
				wrong := e.leader()
				if which == "follower" {
					wrong = e.follower()
				}
				c := e.servers[wrong%3+1].connect(t)
				c.create("/a", "1")
				c.create("/b", "1")
				e.settled()
				e.servers[wrong].spoil()
				for range 300 { // until the error is detected and the connection ends
					if _, err := c.nc.Write(frameOf(requestFrame(1, jute.OpSetData, set("/b", "2")))); err != nil {
						break
					}
				}
				select {
				case err := <-e.servers[wrong].Failed():
					var halt *HaltError
					if !errors.As(err, &halt) || !strings.Contains(halt.Reason, "majority") {
						t.Errorf("server %d failed with %v", wrong, err)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("server %d serves a tree that no other has", wrong)
				}
				e.stop(wrong)
				e.leader()
				e.settled()
				// Its log is correct, so the server is correct again after a restart.
				e.start(wrong)
				e.settled()
			})
		})
	}
}

// Two servers of three whose trees differ prove nothing: both continue, and the
// difference is reported.
func TestDifferingTreesWithoutAMajority(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		down := e.follower()
		e.stop(down)
		other := 6 - leader - down
		c := e.servers[other].connect(t)
		c.create("/a", "1")
		c.create("/b", "1")
		e.settled()
		e.servers[other].spoil()
		for range 300 {
			c.set("/b", "2")
		}
		synctest.Wait()
		if e.servers[leader].logged.FilterLevelExact(zap.ErrorLevel).Len() == 0 {
			t.Error("the leader logged no error")
		}
		if !e.servers[leader].service.serving.Load() || !e.servers[other].service.serving.Load() {
			t.Error("a server stopped that may be the right one")
		}
	})
}

// TestDigestsOfOtherFormulas checks that digests of a version with another formula are
// not compared, although they differ for the same trees, and that no server ends.
func TestDigestsOfOtherFormulas(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		s := e.servers[leader]
		c := s.connect(t)
		for i := range 2 * state.DigestEvery {
			c.create(fmt.Sprintf("/n%d", i), "")
		}
		e.settled()
		all := s.state.Digests.Transactions()
		zxid := all[len(all)-1].Zxid
		epoch := s.standing.role.Load().Epoch
		const frameDigest, frameDiverged = 4, 6 // see server/replica/wire.go
		frame := func(formula byte) []byte {
			body := append(binary.LittleEndian.AppendUint32(nil, epoch), formula)
			body = binary.LittleEndian.AppendUint64(body, uint64(zxid))
			return append(body, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
		}
		for id, f := range e.servers {
			if f != nil && id != leader {
				links{s.loop, s.life.Context()}.ReceiveApp(zab.SID(id), s.linkTo(id), frameDigest, frame(2))
				st := f.standing.role.Load()
				links{f.loop, f.life.Context()}.ReceiveApp(st.Leader, st.LeaderGen, frameDiverged, frame(2))
			}
		}
		c.create("/after", "")
		e.settled()
		for id, f := range e.servers {
			if f != nil && (len(f.Failed()) > 0 || f.logged.FilterLevelExact(zap.ErrorLevel).Len() > 0) {
				t.Errorf("server %d ended, or logged %v", id, f.logged.All())
			}
		}
		// Digests of the same formula are compared.
		id := e.follower()
		f := e.servers[id]
		st := f.standing.role.Load()
		links{f.loop, f.life.Context()}.ReceiveApp(st.Leader, st.LeaderGen, frameDiverged, frame(1))
		if err := <-f.Failed(); !strings.Contains(err.Error(), "majority") {
			t.Errorf("the follower ended with %v", err)
		}
	})
}

// linkTo returns the number of the link to a server.
func (s *testServer) linkTo(id int) (gen uint64) {
	for _, p := range s.loop.transport.Peers() {
		if p.ID == zab.SID(id) {
			gen = p.Gen
		}
	}
	return gen
}
