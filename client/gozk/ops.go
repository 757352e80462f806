package zk

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// check returns ErrInvalidPath for an invalid path.
func check(path string) error {
	if jute.ValidatePath(path) != nil {
		return ErrInvalidPath
	}
	return nil
}

// checkCreate is check for the path of a create: that of a sequential node gets a number at its
// end, and so may end in a slash.
func checkCreate(path string, mode client.CreateMode) error {
	if sequential(mode) && path != "" {
		path += "0"
	}
	return check(path)
}

// AddAuth authenticates the client with a further identity, on this connection and all later
// ones.
func (c *Conn) AddAuth(scheme string, auth []byte) error {
	_, err := run(c, func(ctx context.Context) (client.None, error) {
		return client.None{}, c.client.Session().AddAuth(ctx, scheme, auth)
	})
	return err
}

// Get returns the data of a node, and its Stat.
func (c *Conn) Get(path string) ([]byte, *Stat, error) {
	if err := check(path); err != nil {
		return nil, nil, err
	}
	n, err := run(c, func(ctx context.Context) (client.Node, error) { return c.client.Get(ctx, path) })
	return n.Data, statOf(n.Stat), err
}

// GetW is Get and sets a watch: its channel gets one event, when the node is changed or deleted,
// and is closed then.
func (c *Conn) GetW(path string) ([]byte, *Stat, <-chan Event, error) {
	if err := check(path); err != nil {
		return nil, nil, nil, err
	}
	n, err := run(c, func(ctx context.Context) (client.Node, error) { return c.watching.GetW(ctx, path) })
	if err != nil {
		return nil, nil, nil, err
	}
	return n.Data, statOf(n.Stat), c.watches.channel(n.Watch), nil
}

// Children returns the names of a node's children, and its Stat.
func (c *Conn) Children(path string) ([]string, *Stat, error) {
	if err := check(path); err != nil {
		return nil, nil, err
	}
	l, err := run(c, func(ctx context.Context) (client.Listing, error) { return c.client.Children(ctx, path) })
	if err != nil {
		return nil, statOf(l.Stat), err
	}
	return append([]string{}, l.Names...), statOf(l.Stat), nil
}

// ChildrenW is Children and sets a watch: its channel gets one event, when a child is created
// or deleted, or the node is deleted, and is closed then.
func (c *Conn) ChildrenW(path string) ([]string, *Stat, <-chan Event, error) {
	if err := check(path); err != nil {
		return nil, nil, nil, err
	}
	l, err := run(c, func(ctx context.Context) (client.Listing, error) { return c.watching.ChildrenW(ctx, path) })
	if err != nil {
		return nil, nil, nil, err
	}
	return append([]string{}, l.Names...), statOf(l.Stat), c.watches.channel(l.Watch), nil
}

// Exists reports whether a node exists, and returns its Stat.
func (c *Conn) Exists(path string) (bool, *Stat, error) {
	if err := check(path); err != nil {
		return false, nil, err
	}
	p, err := run(c, func(ctx context.Context) (client.Presence, error) { return c.client.Exists(ctx, path) })
	return p.Exists, statOf(p.Stat), err
}

// ExistsW is Exists and sets a watch: its channel gets one event, when the node is created,
// changed or deleted, and is closed then.
func (c *Conn) ExistsW(path string) (bool, *Stat, <-chan Event, error) {
	if err := check(path); err != nil {
		return false, nil, nil, err
	}
	p, err := run(c, func(ctx context.Context) (client.Presence, error) { return c.watching.ExistsW(ctx, path) })
	if err != nil {
		return false, nil, nil, err
	}
	return p.Exists, statOf(p.Stat), c.watches.channel(p.Watch), nil
}

// GetACL returns the ACL of a node, and its Stat.
func (c *Conn) GetACL(path string) ([]ACL, *Stat, error) {
	if err := check(path); err != nil {
		return nil, nil, err
	}
	a, err := run(c, func(ctx context.Context) (client.Access, error) { return c.client.GetACL(ctx, path) })
	return aclOf(a.ACL), statOf(a.Stat), err
}

// SetACL replaces the ACL of a node whose aversion is version; -1 means any.
func (c *Conn) SetACL(path string, acl []ACL, version int32) (*Stat, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	s, err := run(c, func(ctx context.Context) (client.Stat, error) {
		return c.client.SetACL(ctx, path, listOf(acl), version)
	})
	return statOf(s), err
}

// Set replaces the data of a node that has the version; -1 means any.
func (c *Conn) Set(path string, data []byte, version int32) (*Stat, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	s, err := run(c, func(ctx context.Context) (client.Stat, error) { return c.client.Set(ctx, path, data, version) })
	return statOf(s), err
}

// Delete deletes a node that has the version; -1 means any.
func (c *Conn) Delete(path string, version int32) error {
	if err := check(path); err != nil {
		return err
	}
	_, err := run(c, func(ctx context.Context) (client.None, error) {
		return client.None{}, c.client.Delete(ctx, path, version)
	})
	return err
}

// Sync waits until the server has applied everything that was committed before. It returns the
// path.
func (c *Conn) Sync(path string) (string, error) {
	if err := check(path); err != nil {
		return "", err
	}
	_, err := run(c, func(ctx context.Context) (client.None, error) {
		return client.None{}, c.client.Sync(ctx, path)
	})
	if err != nil {
		return "", err
	}
	return path, nil
}

// Create creates a node of the kind that the flags say, but none with a time to live. It returns
// the path, which for a sequential node has the number.
func (c *Conn) Create(path string, data []byte, flags int32, acl []ACL) (string, error) {
	mode, err := modeOf(flags)
	if err != nil {
		return "", err
	}
	if err := checkCreate(path, mode); err != nil {
		return "", err
	}
	if hasTTL(mode) {
		return "", fmt.Errorf("Create with TTL flag disallowed: %w", ErrInvalidFlags)
	}
	return c.create(path, data, client.CreateOptions{Mode: mode, ACL: listOf(acl)})
}

// CreateContainer creates a container. The flag must be FlagContainer.
func (c *Conn) CreateContainer(path string, data []byte, flag int32, acl []ACL) (string, error) {
	mode, err := modeOf(flag)
	if err != nil {
		return "", err
	}
	if err := checkCreate(path, mode); err != nil {
		return "", err
	}
	if mode != client.Container {
		return "", fmt.Errorf("CreateContainer requires container flag: %w", ErrInvalidFlags)
	}
	return c.create(path, data, client.CreateOptions{Mode: mode, ACL: listOf(acl)})
}

// CreateTTL creates a node that the servers delete when it has had no children and no change
// for the time ttl. The flag must be FlagTTL or FlagPersistentSequentialWithTTL.
func (c *Conn) CreateTTL(path string, data []byte, flag int32, acl []ACL, ttl time.Duration) (string, error) {
	mode, err := modeOf(flag)
	if err != nil {
		return "", err
	}
	if err := checkCreate(path, mode); err != nil {
		return "", err
	}
	if !hasTTL(mode) {
		return "", fmt.Errorf("CreateTTL requires TTL flag: %w", ErrInvalidFlags)
	}
	return c.create(path, data, client.CreateOptions{Mode: mode, ACL: listOf(acl), TTL: ttl})
}

func (c *Conn) create(path string, data []byte, o client.CreateOptions) (string, error) {
	made, err := run(c, func(ctx context.Context) (client.Created, error) { return c.client.Create(ctx, path, data, o) })
	return made.Path, err
}

// CreateProtectedEphemeralSequential creates an ephemeral sequential node with a random part in
// its name. If the connection of a session that is not exactly-once breaks under it, the node is
// looked for by that name.
func (c *Conn) CreateProtectedEphemeralSequential(path string, data []byte, acl []ACL) (string, error) {
	if err := checkCreate(path, client.EphemeralSequential); err != nil {
		return "", err
	}
	var guid [16]byte
	rand.Read(guid[:]) // never fails
	at := strings.LastIndexByte(path, '/') + 1
	dir, prefix := path[:at], fmt.Sprintf("_c_%x-", guid)
	var made string
	err := ErrConnectionClosed
	for range 3 {
		made, err = c.Create(dir+prefix+path[at:], data, FlagEphemeralSequential, acl)
		switch err {
		case ErrSessionExpired: // and the node with it, if there was one
			continue
		case ErrConnectionClosed:
		default:
			return made, err
		}
		parent := dir
		if len(dir) > 1 {
			parent = dir[:len(dir)-1]
		}
		names, _, err := c.Children(parent)
		if err != nil {
			return "", err
		}
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				return dir + name, nil
			}
		}
	}
	return "", err
}

// Multi does all operations or none. They are *CreateRequest, *SetDataRequest, *DeleteRequest
// and *CheckVersionRequest. If one fails, Multi returns its error, and each response has its own.
func (c *Conn) Multi(ops ...interface{}) ([]MultiResponse, error) {
	list := make([]client.Op, len(ops))
	for i, op := range ops {
		switch op := op.(type) {
		case *CreateRequest:
			mode, err := modeOf(op.Flags)
			if err != nil {
				return nil, err
			}
			if hasTTL(mode) {
				return nil, fmt.Errorf("CreateRequest with TTL flag disallowed: %w", ErrInvalidFlags)
			}
			list[i] = client.CreateOp(op.Path, op.Data, client.CreateOptions{Mode: mode, ACL: listOf(op.Acl)})
		case *SetDataRequest:
			list[i] = client.SetOp(op.Path, op.Data, op.Version)
		case *DeleteRequest:
			list[i] = client.DeleteOp(op.Path, op.Version)
		case *CheckVersionRequest:
			list[i] = client.CheckOp(op.Path, op.Version)
		default:
			return nil, fmt.Errorf("unknown operation type %T", op)
		}
	}
	results, err := run(c, func(ctx context.Context) ([]client.OpResult, error) { return c.client.Multi(ctx, list...) })
	responses := make([]MultiResponse, len(results))
	for i, r := range results {
		responses[i] = MultiResponse{String: r.Path, Error: plain(r.Err)}
		if _, ok := ops[i].(*SetDataRequest); ok && r.Err == nil {
			responses[i].Stat = statOf(r.Stat)
		}
	}
	return responses, err
}

// Reconfig replaces the members of the ensemble, if its configuration has the version; -1 means
// any. It returns the Stat of the new configuration.
func (c *Conn) Reconfig(members []string, version int64) (*Stat, error) {
	return c.reconfig(client.Members{All: strings.Join(members, ",")}, version)
}

// IncrementalReconfig adds members and removes others: see Reconfig.
func (c *Conn) IncrementalReconfig(joining, leaving []string, version int64) (*Stat, error) {
	return c.reconfig(client.Members{Joining: strings.Join(joining, ","), Leaving: strings.Join(leaving, ",")}, version)
}

func (c *Conn) reconfig(m client.Members, version int64) (*Stat, error) {
	n, err := run(c, func(ctx context.Context) (client.Node, error) {
		return c.client.Ensemble().Reconfig(ctx, m, version)
	})
	return statOf(n.Stat), err
}
