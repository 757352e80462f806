package zk

import (
	"testing"
	"time"

	theirs "github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// TestLock has two clients, one of them go-zookeeper's, that want a lock below a node that does
// not exist.
func TestLock(t *testing.T) {
	p := zktest.Start(t)
	c, _ := connect(t, p.Proxy)
	ours := NewLock(c, "/locks/l", WorldACL(PermAll))
	if err := ours.Unlock(); err != ErrNotLocked {
		t.Errorf("unlock = %v", err)
	}
	cut := p.CutAfter(zktest.At("/locks/l")) // under the create of that node
	must(t, ours.LockWithData([]byte("me")))
	<-cut.Done()
	if err := ours.Lock(); err != ErrDeadlock {
		t.Errorf("lock twice = %v", err)
	}
	if data, _, err := c.Get(ours.node); err != nil || string(data) != "me" {
		t.Errorf("the lock's data: %q, %v", data, err)
	}

	other, events, err := theirs.Connect([]string{p.Addr()}, time.Minute, theirs.WithLogger(testLog{t}))
	must(t, err)
	second := theirs.NewLock(other, "/locks/l", theirs.WorldACL(theirs.PermAll))
	locked := make(chan error, 2)
	go func() { locked <- second.Lock() }()
	await := func(n int) {
		t.Helper()
		for {
			names, _, changed, err := c.ChildrenW("/locks/l")
			must(t, err)
			if len(names) == n {
				return
			}
			select {
			case <-changed:
			case <-within(t).Done():
				t.Fatalf("%q, want %d", names, n)
			}
		}
	}
	await(2)
	if len(locked) != 0 {
		t.Error("both have the lock")
	}
	must(t, ours.Unlock())
	must(t, <-locked)
	go func() { locked <- ours.Lock() }()
	await(2)
	if len(locked) != 0 {
		t.Error("both have the lock")
	}
	must(t, second.Unlock())
	must(t, <-locked)
	must(t, ours.Unlock())
	other.Close()
	for range events {
	}
}

// TestLockWithoutSession expires the session of one that waits for a lock: it does not get the
// lock.
func TestLockWithoutSession(t *testing.T) {
	p := zktest.Start(t)
	first, _ := connect(t, p.Proxy)
	must(t, NewLock(first, "/l", WorldACL(PermAll)).Lock())
	c, await := connect(t, p.Proxy)
	lock := NewLock(c, "/l", WorldACL(PermAll))
	locked := make(chan error, 1)
	before := p.Requests().Of(jute.OpGetData)
	go func() { locked <- lock.Lock() }()
	must(t, p.AwaitRequests(within(t), jute.OpGetData, before+1)) // it watches the node of the first
	p.ExpireSession(client.SessionID(c.SessionID()))
	if err := <-locked; err != ErrSessionExpired {
		t.Errorf("lock = %v", err)
	}
	await(StateExpired)
	await(StateHasSession)
	if names, _, err := first.Children("/l"); err != nil || len(names) != 1 {
		t.Errorf("nodes of the lock: %q, %v", names, err)
	}
	for _, bad := range []string{"x", "lock-", "__lock__"} {
		if n, err := numberOf(bad); err == nil {
			t.Errorf("the number of %q is %d", bad, n)
		}
	}
}
