package settle

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// protectedPrefix begins the names of protected nodes: "_c_", a GUID, "-". It is
// Curator's layout, so that its programs take part in the same locks and queues.
const protectedPrefix = "_c_"

// NewGUID returns a random (version 4) UUID in the usual notation: it makes the paths
// of ByPath unique.
func NewGUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// guidLen is the length of a GUID in the notation with hyphens.
const guidLen = 36

// ProtectedName returns the name that a node would have if it were not protected,
// and the GUID of its protection: "_c_5f1d…-lock-0000000007" is "lock-0000000007".
// ok is false, and plain is name, if the node is not protected.
func ProtectedName(name string) (plain, guid string, ok bool) {
	rest, found := strings.CutPrefix(name, protectedPrefix)
	if !found || len(rest) <= guidLen || rest[guidLen] != '-' {
		return name, "", false
	}
	return rest[guidLen+1:], rest[:guidLen], true
}

// By says how Create recognises the node that it made, when the connection broke before
// the reply.
type By int

const (
	// ByData recognises the node at the path by its looks: it has the data, has never
	// been changed, and belongs to this session if it is ephemeral and to none if not.
	// If another client creates the same node with the same data at the same moment,
	// both succeed. Where that matters, as with a lock, put something unique into the
	// data. ByData is not for sequential modes.
	ByData By = iota
	// ByGUID puts "_c_", a GUID and "-" in front of the name, as Curator does, and
	// finds the node by that. It is what a lock or a queue needs, where other clients
	// wait for a sequential node: a node that nobody knows of would never be removed.
	ByGUID
	// ByPath is ByGUID for a path that is unique as it is: no other create, of this
	// program or another, may ever use a path that begins with it.
	ByPath
)

// CreateOptions say what kind of node Create makes. The zero value makes a persistent
// node that everybody may read and change, and recognises it by its data.
type CreateOptions struct {
	Mode client.CreateMode // not one with a time to live
	ACL  []client.ACL      // nil means client.OpenACL
	By   By
}

// Create creates a node, and repeats that as the policy of c says until it knows the
// outcome. Before it repeats a create that may have been done, it looks for the node:
// see By. The returned path has the prefix of ByGUID, and the number of a sequential
// mode. The Stat is zero for ByData.
//
// If the context or the attempts end while a node may have been made, the error
// IsAmbiguous. With ByGUID and ByPath the node is then looked for and deleted in the
// background, so that there is none sooner or later, unless Close comes first or the
// session ends. An ephemeral node goes with the session; a persistent one may be left,
// which is logged.
//
// With ByGUID and ByPath, finding a sequential node takes the permission to read the
// parent, and an ephemeral node that belongs to the session before a renewal
// (client.Options.RenewSession) is an ErrSessionExpired. They do not suffice for nodes
// that other clients delete, such as items of a queue: an item that was taken before
// Create looked is created a second time. Package recipes/queue handles that.
func Create(ctx context.Context, c *client.Client, path string, data []byte, o CreateOptions) (client.Created, error) {
	if o.By == ByData {
		return createByData(ctx, c, path, data, o)
	}
	p := &creation{c: c.WithRetry(nil), path: path, o: client.CreateOptions{Mode: o.Mode, ACL: o.ACL, Stat: true}}
	if err := validate(path, o.Mode.Sequential()); err != nil {
		return client.Created{}, p.error(client.ErrBadArguments, err)
	}
	i := strings.LastIndexByte(path, '/')
	p.dir = path[:max(i, 1)]
	if o.By == ByGUID {
		p.path = path[:i+1] + protectedPrefix + NewGUID() + "-" + path[i+1:]
	}
	made, err := p.settle(ctx, c.Options().Retry, data)
	if err != nil && p.unknown {
		c.Session().Background(p.clean)
	}
	return made, err
}

// validate checks the path of a create. A sequential one may end in / because digits
// follow.
func validate(path string, sequential bool) error {
	if sequential && strings.HasSuffix(path, "/") {
		path += "0"
	}
	return jute.ValidatePath(path)
}

// creation is a create of a unique path under way.
type creation struct {
	c    *client.Client
	dir  string
	path string // without the sequence number
	o    client.CreateOptions
	// unknown means that a create was sent, and may have been done.
	unknown bool
}

func (p *creation) error(err, cause error) error {
	return &client.Error{Op: opOf(p.o), Path: p.path, Err: err, Cause: cause}
}

// settle tries until the outcome is known.
func (p *creation) settle(ctx context.Context, policy *client.RetryPolicy, data []byte) (client.Created, error) {
	var made client.Created
	err := policy.Do(ctx, client.IsTransient, func(ctx context.Context) (err error) {
		made, err = p.attempt(ctx, data)
		return err
	})
	return made, inDoubt(err, opOf(p.o), p.path, p.unknown)
}

// attempt looks for the node if it may be there, and else creates it.
func (p *creation) attempt(ctx context.Context, data []byte) (client.Created, error) {
	if p.unknown {
		found, err := p.find(ctx)
		if found.Path != "" || err != nil {
			return found, err
		}
		p.unknown = false
	}
	made, err := p.c.Create(ctx, p.path, data, p.o)
	p.unknown = client.IsAmbiguous(err)
	return made, err
}

// find returns the node, or one without a path if there is none and none of the creates
// sent so far can still make one: the servers refuse what a session sent on its earlier
// connections.
func (p *creation) find(ctx context.Context) (client.Created, error) {
	if err := p.c.Sync(ctx, p.dir); err != nil {
		return client.Created{}, err
	}
	path := p.path
	if p.o.Mode.Sequential() {
		list, err := p.c.Children(ctx, p.dir)
		if err != nil && !errors.Is(err, client.ErrNoNode) {
			return client.Created{}, err
		}
		prefix := jute.Base(p.path)
		i := slices.IndexFunc(list.Names, func(name string) bool { return strings.HasPrefix(name, prefix) })
		if i < 0 {
			return client.Created{}, nil
		}
		path = jute.Join(p.dir, list.Names[i])
	}
	node, err := p.c.Exists(ctx, path)
	if err != nil || !node.Exists {
		return client.Created{}, err
	}
	if id := p.c.Session().ID(); p.o.Mode.Ephemeral() && node.Stat.EphemeralOwner != id {
		return client.Created{}, &client.Error{Op: opOf(p.o), Path: path, Err: client.ErrSessionExpired, Cause: errors.New("the node belongs to the session before this one, and goes with it")}
	}
	return client.Created{Path: path, Stat: node.Stat}, nil
}

// clean deletes the node if there is one.
func (p *creation) clean(ctx context.Context) {
	err := stubborn.Do(ctx, mendable(p.c), func(ctx context.Context) error {
		found, err := p.find(ctx)
		if found.Path == "" || err != nil {
			return err
		}
		err = p.c.Delete(ctx, found.Path, client.AnyVersion)
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		return err
	})
	if err != nil && !p.o.Mode.Ephemeral() {
		p.c.Options().Logger.Log(ctx, slog.LevelWarn, "node may be left over: delete it", "path", p.path, "sequential", p.o.Mode.Sequential(), "err", err)
	}
}

// createByData is Create by the data.
func createByData(ctx context.Context, c *client.Client, path string, data []byte, o CreateOptions) (client.Created, error) {
	create := client.CreateOptions{Mode: o.Mode, ACL: o.ACL}
	if o.Mode.Sequential() {
		return client.Created{}, &client.Error{Op: opOf(create), Path: path, Err: client.ErrBadArguments, Cause: errors.New("a sequential node is not recognised by its data: see settle.ByGUID")}
	}
	once, unknown := c.WithRetry(nil), false
	err := c.Options().Retry.Do(ctx, client.IsTransient, func(ctx context.Context) error {
		_, err := once.Create(ctx, path, data, create)
		if unknown && errors.Is(err, client.ErrNodeExists) {
			ours, lookErr := madeAs(ctx, once, path, data, o.Mode)
			if ours || lookErr != nil {
				return lookErr
			}
			unknown = false
		}
		if err != nil {
			unknown = unknown && !isAnswer(err) || client.IsAmbiguous(err)
		}
		return err
	})
	if err = inDoubt(err, opOf(create), path, unknown); err != nil {
		return client.Created{}, err
	}
	return client.Created{Path: path}, nil
}

// madeAs reports whether a node looks as if a create of this session had made it.
func madeAs(ctx context.Context, c *client.Client, path string, data []byte, mode client.CreateMode) (bool, error) {
	node, err := c.Get(ctx, path)
	if errors.Is(err, client.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	owner := client.SessionID(0)
	if mode.Ephemeral() {
		owner = c.Session().ID()
	}
	return node.Stat.EphemeralOwner == owner && node.Stat.Version == 0 && bytes.Equal(node.Data, data), nil
}
