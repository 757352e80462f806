package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// protectedPrefix begins the names of protected nodes: "_c_", a GUID, "-". It is
// Curator's layout, so that its programs take part in the same locks and queues.
const protectedPrefix = "_c_"

// NewGUID returns a random (version 4) UUID in the usual notation: what makes the paths
// of CreateUnique unique.
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

// CreateProtected is Create that makes exactly one node, also if the connection
// breaks before the reply: the name gets "_c_", a GUID and "-" in front, as with
// Curator, by which the node is found again. The returned path has that name. It is
// what sequential nodes need that somebody waits for: a lock whose node was created
// unnoticed would never be released. It is not enough for nodes that others take away,
// such as items of a queue: one that was taken before it was looked for is made once
// more. Package recipes/queue knows what to do then.
//
// It repeats as the view's RetryPolicy says, or DefaultRetry, until it knows the
// outcome. If it fails all the same while a node may have been made, because ctx
// or the attempts have ended, the error IsAmbiguous, and the node is looked for and
// deleted in the background: sooner or later there is none, unless Close comes
// first or the session ends. Then an ephemeral node goes with the session; a
// persistent one may be left, which is logged.
//
// To find a sequential node takes the permission to read the parent. Modes with a
// time to live are not possible. An ephemeral node that is found but belongs to
// the session before a renewal (Options.RenewSession) makes it fail with
// ErrSessionExpired.
func (c *Client) CreateProtected(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, error) {
	i := strings.LastIndexByte(path, '/') + 1
	made, _, err := c.createUnique(ctx, path, path[:i]+protectedPrefix+NewGUID()+"-"+path[i:], data, mode, acl)
	return made, err
}

// CreateUnique is CreateProtected for a path that is unique without the prefix, and
// stays as it is: no other create, of this program or another, may ever be of a
// path that begins with it. It is for layouts that have their own way to tell whose
// a node is. It returns the new node's Stat, too.
func (c *Client) CreateUnique(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, Stat, error) {
	return c.createUnique(ctx, path, path, data, mode, acl)
}

// createUnique creates the node at unique, which is asked for as path.
func (c *Client) createUnique(ctx context.Context, path, unique string, data []byte, mode CreateMode, acl []ACL) (string, Stat, error) {
	if _, err := c.full(path, mode.Sequential()); err != nil {
		return "", Stat{}, &Error{Op: createOp(mode), Path: path, Err: ErrBadArguments, Cause: err}
	}
	p := &protected{c: c.once(), path: unique, mode: mode}
	p.dir = path[:max(strings.LastIndexByte(path, '/'), 1)]
	made, err := p.settle(ctx, c.policy(), data, acl)
	if err != nil && p.unknown {
		c.s.inBackground(p.clean)
	}
	return made.Path, made.Stat, err
}

// protected is a protected create under way.
type protected struct {
	c    *Client
	dir  string
	path string // without the sequence number
	mode CreateMode
	// unknown: a create was sent, and it is not known whether it was done.
	unknown bool
}

// settle tries until the outcome is known.
func (p *protected) settle(ctx context.Context, policy *RetryPolicy, data []byte, acl []ACL) (Created, error) {
	var made Created
	err := policy.Do(ctx, IsTransient, func(ctx context.Context) (err error) {
		made, err = p.attempt(ctx, data, acl)
		return err
	})
	return made, inDoubt(err, createOp(p.mode), p.path, p.unknown)
}

// attempt looks for the node if it may be there, and else creates it.
func (p *protected) attempt(ctx context.Context, data []byte, acl []ACL) (Created, error) {
	if p.unknown {
		found, err := p.find(ctx)
		if found.Path != "" || err != nil {
			return found, err
		}
		p.unknown = false
	}
	made, err := p.c.Create(ctx, p.path, data, CreateOptions{Mode: p.mode, ACL: acl, Stat: true})
	p.unknown = IsAmbiguous(err)
	return made, err
}

// find returns the node, or one without a path if there is none and won't be one of the
// creates sent so far: the servers refuse what a session sent on its connections
// before this one.
func (p *protected) find(ctx context.Context) (Created, error) {
	if err := p.c.Sync(ctx, p.dir); err != nil {
		return Created{}, err
	}
	path := p.path
	if p.mode.Sequential() {
		list, err := p.c.Children(ctx, p.dir)
		if err != nil && !errors.Is(err, ErrNoNode) {
			return Created{}, err
		}
		prefix := jute.Base(p.path)
		i := slices.IndexFunc(list.Names, func(name string) bool { return strings.HasPrefix(name, prefix) })
		if i < 0 {
			return Created{}, nil
		}
		path = join(p.dir, list.Names[i])
	}
	node, err := p.c.Exists(ctx, path)
	if err != nil || !node.Exists {
		return Created{}, err
	}
	if id, _ := p.c.Session(); p.mode.Ephemeral() && node.Stat.EphemeralOwner != id {
		return Created{}, &Error{Op: createOp(p.mode), Path: path, Err: ErrSessionExpired, Cause: errors.New("the node was made by the session before, and goes with it")}
	}
	return Created{Path: path, Stat: node.Stat}, nil
}

// clean deletes the node if there is one.
func (p *protected) clean(ctx context.Context) {
	err := stubborn.Do(ctx, p.c.worthTrying, func(ctx context.Context) error {
		found, err := p.find(ctx)
		if found.Path == "" || err != nil {
			return err
		}
		err = p.c.Delete(ctx, found.Path, AnyVersion)
		if errors.Is(err, ErrNoNode) {
			return nil
		}
		return err
	})
	if err != nil && !p.mode.Ephemeral() {
		p.c.s.log(slog.LevelWarn, "node may be left over: delete it", "path", p.path, "sequential", p.mode.Sequential(), "err", err)
	}
}

// CreateIdempotent is Create for a mode that is not sequential, which is repeated if
// the connection breaks: ErrNodeExists counts as success if an attempt may have
// been done and the node looks as that made it: with the data, never changed, and
// owned by this session if it is to be ephemeral and by none if not. So somebody
// else's create of the same node with the same data at the same moment is taken
// for ours; where that matters, as with a lock, put something unique in the data.
// It repeats as the view's RetryPolicy says, or DefaultRetry.
func (c *Client) CreateIdempotent(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) error {
	op := (&CreateOptions{Mode: mode}).code()
	if mode.Sequential() {
		return &Error{Op: op, Path: path, Err: ErrBadArguments, Cause: errors.New("a sequential create can't be recognised by its path: see CreateProtected")}
	}
	once, unknown := c.once(), false
	err := c.policy().Do(ctx, IsTransient, func(ctx context.Context) error {
		_, err := once.Create(ctx, path, data, CreateOptions{Mode: mode, ACL: acl})
		if unknown && errors.Is(err, ErrNodeExists) {
			ours, lookErr := once.madeAs(ctx, path, data, mode)
			if ours || lookErr != nil {
				return lookErr
			}
			unknown = false
		}
		if err != nil {
			unknown = unknown && !isAnswer(err) || IsAmbiguous(err)
		}
		return err
	})
	return inDoubt(err, op, path, unknown)
}

// madeAs reports whether a node looks as a create of this session would have made it.
func (c *Client) madeAs(ctx context.Context, path string, data []byte, mode CreateMode) (bool, error) {
	node, err := c.Get(ctx, path)
	if errors.Is(err, ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	owner := SessionID(0)
	if mode.Ephemeral() {
		owner, _ = c.Session()
	}
	return node.Stat.EphemeralOwner == owner && node.Stat.Version == 0 && bytes.Equal(node.Data, data), nil
}

// SetIdempotent is Set that is repeated if the connection breaks: if an attempt may
// have been done it looks, and the set counts as done if the node has the data and
// the version after the one given. If the node has changed further since, it can't
// be known whose change came first: the error is ErrBadVersion and IsAmbiguous.
// Somebody else's set of the same data at the same version is taken for ours: see
// CreateIdempotent.
//
// version must be a version: to repeat an unconditional set could undo what
// somebody has set since. It repeats as the view's RetryPolicy says, or
// DefaultRetry.
func (c *Client) SetIdempotent(ctx context.Context, path string, data []byte, version int32) (Stat, error) {
	w := &write{c: c.once(), path: path, data: data, version: version}
	if version == AnyVersion {
		return Stat{}, w.error(ErrBadArguments, errors.New("a set that may be repeated needs the version it is for"))
	}
	err := w.settle(ctx, c.policy())
	return w.stat, err
}

// write is a set under way, of one version.
type write struct {
	c       *Client
	path    string
	data    []byte
	version int32
	czxid   Zxid // of the node that is meant; 0 is any
	stat    Stat
	unknown bool // it was sent, and it is not known whether it was done
	looked  bool // that it was done was not said by a reply, but seen
}

func (w *write) error(err error, cause error) *Error {
	return &Error{Op: jute.OpSetData, Path: w.path, Err: err, Cause: cause, Ambiguous: w.unknown}
}

func (w *write) settle(ctx context.Context, policy *RetryPolicy) error {
	err := policy.Do(ctx, IsTransient, w.attempt)
	return inDoubt(err, jute.OpSetData, w.path, w.unknown)
}

// attempt sets the data, or finds out that it has been done or can't be any more.
func (w *write) attempt(ctx context.Context) error {
	if w.unknown {
		done, err := w.look(ctx)
		if done || err != nil {
			return err
		}
		w.unknown = false
	}
	var err error
	w.stat, err = w.c.Set(ctx, w.path, w.data, w.version)
	w.unknown = IsAmbiguous(err)
	return err
}

// look reports whether the set was done. It fails if it can't be done any more, or
// if that can't be known: then unknown stays true.
func (w *write) look(ctx context.Context) (done bool, err error) {
	if err := w.c.Sync(ctx, w.path); err != nil {
		return false, err
	}
	node, err := w.c.Get(ctx, w.path)
	switch {
	case errors.Is(err, ErrNoNode):
		return false, w.error(ErrNoNode, nil)
	case err != nil:
		return false, err
	case w.czxid != 0 && node.Stat.Czxid != w.czxid:
		return false, w.error(ErrBadVersion, errors.New("the node has been created anew"))
	case node.Stat.Version == w.version:
		return false, nil
	case node.Stat.Version != w.version+1:
		return false, w.error(ErrBadVersion, nil)
	case bytes.Equal(node.Data, w.data):
		w.stat, w.unknown, w.looked = node.Stat, false, true
		return true, nil
	}
	w.unknown = false // somebody else's set was the one that made this version
	return false, w.error(ErrBadVersion, nil)
}

// inDoubt makes err, with which a look at what has become of a change may have
// failed, the change's own and ambiguous, if it is unknown whether that was done.
func inDoubt(err error, op OpCode, path string, unknown bool) error {
	if err == nil || !unknown || IsAmbiguous(err) {
		return err
	}
	e := &Error{Op: op, Path: path, Err: err, Ambiguous: true}
	if in, ok := errors.AsType[*Error](err); ok {
		e.Err, e.Cause = in.Err, in
	}
	return e
}

// join returns the path of a child.
func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// isAnswer reports whether err is what a server has to say of the operation itself. That
// the session or the context has ended is not: it leaves open what became of an attempt
// before.
func isAnswer(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || IsTransient(err) {
		return false
	}
	code, ok := errors.AsType[jute.Code](e.Err)
	return ok && code != ErrSessionExpired && code != ErrClosed && code != ErrAuthFailed
}

// once returns the view of c that tries nothing again, for what does so by itself.
func (c *Client) once() *Client { return c.WithRetry(nil) }

// createOp is the operation of a create that returns the Stat.
func createOp(mode CreateMode) OpCode { return (&CreateOptions{Mode: mode, Stat: true}).code() }
