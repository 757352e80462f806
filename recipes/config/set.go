package config

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Set replaces the configuration at path and returns the node's new version. The node must
// have the given version, for example that of Config.Current. With client.AnyVersion it may
// have any, and is created if it does not exist. Versions start at 0 again when a node is
// deleted and created again.
//
// The error wraps ErrInvalid if Options.Validate refuses the value, and
// client.ErrBadVersion if the node has another version. Unless the error is ambiguous
// (client.IsAmbiguous), nothing was set.
//
// If another client sets the same value at the same moment, both may succeed.
func Set[T any](ctx context.Context, c *client.Client, path string, o Options[T], v T, version int32) (int32, error) {
	o.complete()
	if err := line.CheckPath(path); err != nil {
		return 0, fmt.Errorf("config: %w", err)
	}
	if err := o.check(path, v); err != nil {
		return 0, err
	}
	data, err := o.Codec.Encode(v)
	if err != nil {
		return 0, fmt.Errorf("encode %s: %w: %w", path, typed.ErrData, err)
	}
	c = c.Steady()
	if version != client.AnyVersion {
		return set(ctx, c, path, data, version)
	}
	for {
		is, err := replace(ctx, c, path, data, o.ACL)
		if err == nil || client.IsAmbiguous(err) || !isAny(err, client.ErrBadVersion, client.ErrNoNode, client.ErrNodeExists) {
			return is, err
		}
	}
}

// replace sets the node's data, or creates the node. It fails if another client changes,
// creates or deletes the node meanwhile.
func replace(ctx context.Context, c *client.Client, path string, data []byte, acl []client.ACL) (version int32, err error) {
	found, err := c.Exists(ctx, path)
	if err != nil {
		return 0, err
	}
	if found.Exists {
		return set(ctx, c, path, data, found.Stat.Version)
	}
	_, err = settle.Create(ctx, c, path, data, settle.CreateOptions{ACL: acl})
	if errors.Is(err, client.ErrNoNode) && !client.IsAmbiguous(err) {
		if err := settle.Ensure(ctx, c, line.Parent(path), client.CreateOptions{Mode: client.Container, ACL: acl}); err != nil {
			return 0, line.Settled(err, nil)
		}
		return 0, err // the caller tries again
	}
	if err != nil {
		return 0, err
	}
	return 0, nil
}

func set(ctx context.Context, c *client.Client, path string, data []byte, version int32) (int32, error) {
	stat, err := settle.Set(ctx, c, path, data, version)
	return stat.Version, err
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
