package zk

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Lock is a lock that one client holds at a time. It works together with the locks of
// go-zookeeper, Curator and kazoo at the same path. One goroutine may use it at a time.
type Lock struct {
	c    *Conn
	path string
	acl  []ACL
	node string // our node while the lock is held
}

// NewLock makes a lock, not locked yet, of a node that is used for nothing else.
func NewLock(c *Conn, path string, acl []ACL) *Lock { return &Lock{c: c, path: path, acl: acl} }

// Lock is LockWithData with empty data.
func (l *Lock) Lock() error { return l.LockWithData([]byte{}) }

// LockWithData waits until the lock is acquired, or an error occurs. The lock's node has the
// data. The node of the lock, and those above it, are created if they don't exist. If this Lock
// is locked already, the error is ErrDeadlock.
func (l *Lock) LockWithData(data []byte) error {
	if l.node != "" {
		return ErrDeadlock
	}
	node, err := l.queue(data)
	if err != nil {
		return err
	}
	if err := l.wait(node); err != nil {
		// Others would wait for a node that nobody waits with.
		if deleted := l.c.Delete(node, -1); deleted != nil && deleted != ErrNoNode {
			return errors.Join(err, deleted)
		}
		return err
	}
	l.node = node
	return nil
}

// queue creates our node, and the nodes above it if they are missing.
func (l *Lock) queue(data []byte) (string, error) {
	node, err := l.c.CreateProtectedEphemeralSequential(l.path+"/lock-", data, l.acl)
	if err != ErrNoNode {
		return node, err
	}
	for i := 1; i <= len(l.path); i++ {
		if i < len(l.path) && l.path[i] != '/' {
			continue
		}
		if _, err := l.c.Create(l.path[:i], []byte{}, FlagPersistent, l.acl); err != nil && err != ErrNodeExists {
			if exists, _, e := l.c.Exists(l.path[:i]); e != nil || !exists { // one above may be another's
				return "", err
			}
		}
	}
	return l.c.CreateProtectedEphemeralSequential(l.path+"/lock-", data, l.acl)
}

// wait returns when no node is before ours.
func (l *Lock) wait(node string) error {
	name := node[len(l.path)+1:]
	ours, err := numberOf(name)
	if err != nil {
		return err
	}
	for {
		names, _, err := l.c.Children(l.path)
		if err != nil {
			return err
		}
		before, last, found := "", 0, false
		for _, n := range names {
			number, err := numberOf(n)
			switch {
			case err != nil:
				return err
			case n == name:
				found = true
			case number < ours && (before == "" || number > last):
				before, last = n, number
			}
		}
		switch {
		case !found: // it went with its session, or somebody has deleted it
			return ErrSessionExpired
		case before == "":
			return nil
		}
		_, _, gone, err := l.c.GetW(l.path + "/" + before)
		if err == ErrNoNode {
			continue
		}
		if err != nil {
			return err
		}
		if ev := <-gone; ev.Err != nil {
			return ev.Err
		}
	}
}

// numberOf returns the number at the end of a name: "_c_38553bd6…-lock-0000000007", or, from
// kazoo, "da571998…__lock__0000000003".
func numberOf(name string) (int, error) {
	for _, sign := range []string{"lock-", "__"} {
		if i := strings.LastIndex(name, sign); i >= 0 {
			return strconv.Atoi(name[i+len(sign):])
		}
	}
	return 0, fmt.Errorf("zk: %q is not the name of a lock's node", name)
}

// Unlock releases the lock. If it is not locked, the error is ErrNotLocked.
func (l *Lock) Unlock() error {
	if l.node == "" {
		return ErrNotLocked
	}
	if err := l.c.Delete(l.node, -1); err != nil {
		return err
	}
	l.node = ""
	return nil
}
