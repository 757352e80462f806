package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// TestExactlyOnceAtEachWrite breaks the connection before and after each kind of write. Each is
// done once, and its caller gets its result.
func TestExactlyOnceAtEachWrite(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	ctx := t.Context()
	if _, err := c.Create(ctx, "/n", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if f := c.Status().Features; f&jute.FeatureExactlyOnce == 0 {
		t.Fatalf("the server grants %v", f)
	}
	n := 0
	for _, op := range []struct {
		code jute.OpCode
		run  func(path string) error
	}{
		{jute.OpCreate, func(path string) error {
			made, err := c.Create(ctx, path, nil, client.CreateOptions{})
			if err == nil && made.Path != path {
				err = fmt.Errorf("created %q", made.Path)
			}
			return err
		}},
		{jute.OpCreate2, func(path string) error {
			made, err := c.Create(ctx, path+"-", nil, client.CreateOptions{Mode: client.EphemeralSequential, Stat: true})
			if err == nil && (made.Stat.Czxid == 0 || made.Stat.EphemeralOwner == 0) {
				err = fmt.Errorf("created %+v", made)
			}
			return err
		}},
		{jute.OpSetData, func(string) error {
			n++
			stat, err := c.Set(ctx, "/n", []byte("x"), client.AnyVersion)
			if err == nil && int(stat.Version) != n {
				err = fmt.Errorf("version %d after %d sets", stat.Version, n)
			}
			return err
		}},
		{jute.OpSetACL, func(string) error {
			_, err := c.SetACL(ctx, "/n", client.OpenACL(), client.AnyVersion)
			return err
		}},
		{jute.OpDelete, func(path string) error {
			if _, err := c.Create(ctx, path, nil, client.CreateOptions{}); err != nil {
				return err
			}
			return c.Delete(ctx, path, client.AnyVersion)
		}},
		{jute.OpMulti, func(path string) error {
			results, err := c.Multi(ctx, client.CreateOp(path, nil, client.CreateOptions{}), client.CreateOp(path+"/a", nil, client.CreateOptions{}))
			if err == nil && (len(results) != 2 || results[1].Path != path+"/a") {
				err = fmt.Errorf("results %+v", results)
			}
			return err
		}},
		{jute.OpGetData, func(string) error {
			node, err := c.Get(ctx, "/n")
			if err == nil && int(node.Stat.Version) != n {
				err = fmt.Errorf("version %d after %d sets", node.Stat.Version, n)
			}
			return err
		}},
	} {
		for _, after := range []bool{false, true} {
			cut := s.CutBefore(zktest.Op(op.code))
			if after {
				cut.Cancel()
				cut = s.CutAfter(zktest.Op(op.code))
			}
			if err := op.run(fmt.Sprintf("/%v-%v", op.code, after)); err != nil {
				t.Errorf("%v, cut after it: %v: %v", op.code, after, err)
			}
			<-cut.Done()
		}
	}
	// A refused write is refused once.
	cut := s.CutAfter(zktest.Op(jute.OpDelete))
	if err := c.Delete(ctx, "/none", client.AnyVersion); !errors.Is(err, client.ErrNoNode) {
		t.Errorf("delete of nothing: %v", err)
	}
	<-cut.Done()
}

// TestExactlyOnceInPipelines cuts connections under many writes that are under way, and counts.
func TestExactlyOnceInPipelines(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	ctx := t.Context()
	for _, path := range []string{"/n", "/s"} {
		if _, err := c.Create(ctx, path, nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const writers, each = 8, 50
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				if _, err := c.Set(ctx, "/n", nil, client.AnyVersion); err != nil {
					t.Errorf("set: %v", err)
				}
				if _, err := c.Create(ctx, "/s/x-", nil, client.CreateOptions{Mode: client.PersistentSequential}); err != nil {
					t.Errorf("create: %v", err)
				}
			}
		})
	}
	stop, stopped := context.WithCancel(ctx)
	var cuts sync.WaitGroup
	cuts.Go(func() {
		for i := 1; stop.Err() == nil; i++ {
			cut := s.CutAfter(zktest.Nth(1+i%13, zktest.Writes()))
			select {
			case <-cut.Done():
			case <-stop.Done():
				cut.Cancel()
			}
		}
	})
	all.Wait()
	stopped()
	cuts.Wait()
	node, err := c.Get(ctx, "/n")
	if err != nil || node.Stat.Version != writers*each {
		t.Errorf("%d sets give version %d, %v", writers*each, node.Stat.Version, err)
	}
	dir, err := c.Exists(ctx, "/s")
	if err != nil || dir.Stat.Cversion != writers*each {
		t.Errorf("%d creates give %d, %v", writers*each, dir.Stat.Cversion, err)
	}
}

// TestExactlyOnceDeletesATree deletes a tree whose outcome takes more than half of the room that a session has,
// among other writes, and cuts the connection.
func TestExactlyOnceDeletesATree(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	ctx := t.Context()
	const nodes = 5000
	ops := []client.Op{client.CreateOp("/d", nil, client.CreateOptions{})}
	for i := 1; i < nodes; i++ {
		ops = append(ops, client.CreateOp(fmt.Sprintf("/d/%d", i), nil, client.CreateOptions{}))
	}
	if _, err := c.Multi(ctx, ops...); err != nil {
		t.Fatal(err)
	}
	cut := s.CutAfter(zktest.Nth(10, zktest.Op(jute.OpMulti)))
	var sets []*client.Future[[]client.OpResult]
	for i := range 40 {
		ops := []client.Op{client.CreateOrSetOp("/n", nil, client.AnyVersion, client.CreateOptions{})}
		if i == 8 {
			ops = append(ops, client.DeleteTreeOp("/d", client.AnyVersion, 0))
		}
		sets = append(sets, c.Async().Multi(ops))
	}
	for i, f := range sets {
		results, err := f.Wait(ctx)
		if err != nil || i == 8 && results[1].Deleted != nodes {
			t.Fatalf("multi %d: %v", i, err)
		}
	}
	<-cut.Done()
	if node, err := c.Get(ctx, "/n"); err != nil || node.Stat.Version != 39 {
		t.Errorf("%+v, %v", node.Stat, err)
	}
}

// TestExactlyOnceGivesUp breaks each connection at the same call. The call fails in the end, and those after it are done.
func TestExactlyOnceGivesUp(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t, func(o *client.Options) { o.MaxReply = 2000 })
	ctx := t.Context()
	for _, path := range []string{"/bad", "/good"} {
		if _, err := c.Create(ctx, path, nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var cuts []*zktest.Cut
	for range 10 {
		cuts = append(cuts, s.CutBefore(zktest.Op(jute.OpDelete)))
	}
	bad := c.Async().Delete("/bad", client.AnyVersion)
	good := c.Async().Set("/good", nil, client.AnyVersion)
	if _, err := bad.Wait(ctx); !errors.Is(err, client.ErrConnectionLoss) {
		t.Errorf("delete: %v", err)
	}
	if _, err := good.Wait(ctx); err != nil {
		t.Errorf("set: %v", err)
	}
	for _, cut := range cuts {
		<-cut.Done()
	}

	if _, err := c.Set(ctx, "/bad", make([]byte, 3000), client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, "/bad"); !errors.Is(err, client.ErrConnectionLoss) {
		t.Errorf("get: %v", err)
	}
	if node, err := c.Get(ctx, "/good"); err != nil || node.Stat.Version != 1 {
		t.Errorf("get: version %d, %v", node.Stat.Version, err)
	}
}
