package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// rounds is how often a step is repeated because other clients changed the keys meanwhile.
// So many conflicts in sequence are not chance.
const rounds = 100

// read reads a directory's keys at one moment, without checking them. The error wraps
// client.ErrNoNode if there is no directory or an empty one, and ErrNotReady if there are
// keys without a node "ready".
func read(ctx context.Context, c *client.Client, dir string) (Snapshot, error) {
	for range rounds {
		list, err := c.Children(ctx, dir)
		if err != nil {
			return Snapshot{}, err
		}
		names := slices.DeleteFunc(list.Names, func(name string) bool { return name == readyName })
		ops := []client.Op{client.GetOp(dir + "/" + readyName), client.ChildrenOp(dir)}
		for _, name := range names {
			ops = append(ops, client.GetOp(dir+"/"+name))
		}
		results, err := c.MultiRead(ctx, ops...)
		if err != nil {
			return Snapshot{}, err
		}
		now, again, err := snapshot(dir, names, results)
		if !again {
			return now, err
		}
	}
	return Snapshot{}, fmt.Errorf("read %s: %w: its keys come and go", dir, ErrNotReady)
}

// snapshot returns the Snapshot of what was read. It reports again if other keys existed at
// that moment than those that were read.
func snapshot(dir string, names []string, results []client.OpResult) (s Snapshot, again bool, err error) {
	ready, list, keys := results[0], results[1], results[2:]
	switch {
	case errors.Is(ready.Err, client.ErrNoNode) && list.Err == nil && len(list.Children) == 0:
		return s, false, fmt.Errorf("read %s: %w", dir, client.ErrNoNode) // there has been no change yet
	case errors.Is(ready.Err, client.ErrNoNode):
		return s, false, fmt.Errorf("read %s: %w: there is no node %q", dir, ErrNotReady, readyName)
	case ready.Err != nil:
		return s, false, ready.Err
	case list.Err != nil:
		return s, false, list.Err
	case len(list.Children) != len(names)+1:
		return s, true, nil
	}
	s = Snapshot{make(map[string]string), ready.Stat.Version, ready.Stat.Mzxid, ready.Stat.Czxid, make(map[string]int32)}
	for i, key := range keys {
		if errors.Is(key.Err, client.ErrNoNode) {
			return s, true, nil
		}
		if key.Err != nil {
			return s, false, fmt.Errorf("read %s/%s: %w", dir, names[i], key.Err)
		}
		s.Keys[names[i]], s.versions[names[i]] = string(key.Data), key.Stat.Version
	}
	return s, false, nil
}

// UpdateTree changes the keys below path: fn gets the existing keys and adds, changes and
// deletes entries. Either all its changes are made or none, and readers of the directory
// see all or none. If another client changes the keys meanwhile, fn is called again with the
// newer ones, so it must only compute. If fn returns an error, or TreeOptions.Validate
// refuses the result, UpdateTree first makes sure that fn was given the leader's newest
// keys, and then returns that error.
//
// It returns the new keys. It creates the directory if there is none. A key is the name of
// a node: not empty, without "/", and not "ready". The error wraps ErrNotReady if there are
// keys without a node "ready"; then nothing is changed. See client.IsAmbiguous for errors
// after which it is not known whether the change was made.
func UpdateTree(ctx context.Context, c *client.Client, path string, o TreeOptions, fn func(keys map[string]string) error) (Snapshot, error) {
	if err := line.CheckPath(path); err != nil {
		return Snapshot{}, fmt.Errorf("config: %w", err)
	}
	c = c.Steady()
	for round, synced := 1, false; ; round++ {
		was, err := base(ctx, c, path, o.ACL)
		if err != nil {
			return Snapshot{}, err
		}
		keys, err := o.next(path, was.Keys, fn)
		if err != nil && !synced {
			synced = true // the server may lag behind
			if err = c.Sync(ctx, path); err == nil {
				continue
			}
		}
		if err != nil {
			return Snapshot{}, err
		}
		u := &update{c: c, dir: path, acl: o.ACL, was: was, keys: keys}
		now, err := u.settle(ctx)
		late := isAny(err, client.ErrBadVersion, client.ErrNoNode, client.ErrNodeExists) && !client.IsAmbiguous(err)
		if !late || round == rounds {
			return now, err
		}
	}
}

// next calls fn with the keys and returns the result, or an error if it is not good. The
// result is a copy, which fn cannot change later.
func (o *TreeOptions) next(path string, was map[string]string, fn func(keys map[string]string) error) (map[string]string, error) {
	keys := maps.Clone(was)
	err := fn(keys)
	if err == nil {
		err = checkKeys(path, keys)
	}
	if err == nil {
		err = o.check(path, keys)
	}
	return maps.Clone(keys), err
}

// base returns the keys that a change starts from. If there is no directory, it creates it
// and returns no keys.
func base(ctx context.Context, c *client.Client, dir string, acl []client.ACL) (Snapshot, error) {
	none := Snapshot{Keys: map[string]string{}, Version: -1}
	was, err := read(ctx, c, dir)
	if !errors.Is(err, client.ErrNoNode) {
		return was, err
	}
	if err := settle.Ensure(ctx, c, line.Parent(dir), client.CreateOptions{Mode: client.Container, ACL: acl}); err != nil {
		return none, line.Settled(err, nil)
	}
	return none, line.Settled(settle.Ensure(ctx, c, dir, client.CreateOptions{ACL: acl}), nil)
}

func checkKeys(dir string, keys map[string]string) error {
	for key := range keys {
		if key == readyName || strings.Contains(key, "/") || line.CheckPath(dir+"/"+key) != nil {
			return fmt.Errorf("config: key %q is not a node's name, or is %q: %w", key, readyName, client.ErrBadArguments)
		}
	}
	return nil
}

// update is a change of a directory under way. Each attempt writes a unique tag to the node
// "ready", by which look recognizes it.
type update struct {
	c    *client.Client
	dir  string
	acl  []client.ACL
	was  Snapshot
	keys map[string]string
}

// settle makes the change. If the reply is lost, it finds out whether the change was made,
// and makes it if not.
func (u *update) settle(ctx context.Context) (Snapshot, error) {
	tag := []byte(line.NewID())
	ops := u.ops(tag)
	if u.was.Version >= 0 && maps.Equal(u.keys, u.was.Keys) {
		return u.was, u.unchanged(ctx, ops)
	}
	session := u.c.Session().ID()
	c := u.c.InSession(session) // in the next session, nobody can know what became of a request of this one
	for round := 1; ; round++ {
		results, err := c.Multi(ctx, ops...)
		if err == nil {
			return u.made(results[0].Stat), nil
		}
		if !client.IsAmbiguous(err) {
			return Snapshot{}, err
		}
		stat, again, err := u.look(ctx, c, tag, err)
		if !again && err == nil {
			return u.made(stat), nil
		}
		if !again || round == rounds {
			return Snapshot{}, err
		}
	}
}

// unchanged is settle for a change that changes nothing: it checks that the keys are still
// the same for the leader, which may know more than the server that they were read from.
func (u *update) unchanged(ctx context.Context, ops []client.Op) error {
	ops[0] = client.CheckOp(u.dir+"/"+readyName, u.was.Version)
	for round := 1; ; round++ {
		_, err := u.c.Multi(ctx, ops...)
		if !client.IsAmbiguous(err) || ctx.Err() != nil || round == rounds {
			return line.Settled(err, nil)
		}
	}
}

// made returns the keys after the change, from the Stat of "ready".
func (u *update) made(ready client.Stat) Snapshot {
	return Snapshot{Keys: u.keys, Version: ready.Version, Zxid: ready.Mzxid}
}

// ops returns the operations of the change. The first one changes "ready" and fails if
// another client was faster. Version 0 of "ready" is not sufficient: another program may
// have deleted it, changed keys, and created it again. In that case the versions of all keys
// are checked too.
func (u *update) ops(tag []byte) []client.Op {
	ready := u.dir + "/" + readyName
	ops := []client.Op{client.SetOp(ready, tag, u.was.Version)}
	if u.was.Version < 0 {
		ops[0] = client.CreateOp(ready, tag, client.CreateOptions{ACL: u.acl})
	}
	for _, key := range slices.Sorted(maps.Keys(u.keys)) {
		text, path := u.keys[key], u.dir+"/"+key
		was, exists := u.was.Keys[key]
		switch {
		case !exists:
			ops = append(ops, client.CreateOp(path, []byte(text), client.CreateOptions{ACL: u.acl}))
		case was != text:
			ops = append(ops, client.SetOp(path, []byte(text), u.was.versions[key]))
		case u.was.Version == 0:
			ops = append(ops, client.CheckOp(path, u.was.versions[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(u.was.Keys)) {
		if _, exists := u.keys[key]; !exists {
			ops = append(ops, client.DeleteOp(u.dir+"/"+key, u.was.versions[key]))
		}
	}
	return ops
}

// look finds out whether a change that failed with the ambiguous error err was made. It
// returns the Stat of "ready" if it was, again if it was not, and otherwise why.
func (u *update) look(ctx context.Context, c *client.Client, tag []byte, err error) (stat client.Stat, again bool, why error) {
	if lookErr := c.Sync(ctx, u.dir); lookErr != nil {
		return stat, false, line.InDoubt(err, lookErr)
	}
	node, lookErr := c.Get(ctx, u.dir+"/"+readyName)
	stat = node.Stat
	first, gone := u.was.Version < 0, errors.Is(lookErr, client.ErrNoNode)
	switch {
	case gone && first || lookErr == nil && !first && stat.Mzxid == u.was.Zxid:
		return stat, true, line.Settled(err, nil)
	case lookErr != nil:
		return stat, false, line.InDoubt(err, lookErr)
	case string(node.Data) == string(tag):
		return stat, false, nil
	}
	faster := &client.Error{Err: client.ErrBadVersion, Cause: errors.New("somebody else has changed the directory")}
	if !first && stat.Czxid == u.was.czxid && stat.Version == u.was.Version+1 {
		return stat, false, line.Settled(err, faster) // another client made the version that this change would have made
	}
	return stat, false, line.InDoubt(err, faster)
}
