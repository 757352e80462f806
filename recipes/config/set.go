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

// Set replaces the configuration at path, and returns the new version, if the node's
// version is version, as Config.Current has it, or whatever it is if that is
// client.AnyVersion; then the node is also made if there is none. ErrInvalid if
// Options.Validate refuses the value, and client.ErrBadVersion if somebody was faster;
// nothing is set then, unless client.IsAmbiguous(err). A node that is deleted and made
// again begins with version 0 anew.
//
// It takes a set of the same value at the same moment for its own: who set it then
// makes no difference.
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

// replace sets the node's data, or creates it; others may be faster.
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
		return 0, err // to begin anew
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
