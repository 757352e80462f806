package lock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// limit returns the number of leases.
func (s *Semaphore) limit(ctx context.Context) (int, error) {
	if s.count == "" {
		return s.n, nil
	}
	node, err := s.c.Get(ctx, s.count)
	if err != nil {
		return 0, err
	}
	return s.decode(node.Data)
}

// limitW is limit with a watch, which is nil if the number cannot change.
func (s *Semaphore) limitW(ctx context.Context) (int, *client.Watch, error) {
	if s.count == "" {
		return s.n, nil, nil
	}
	node, err := s.c.GetW(ctx, s.count)
	if err != nil {
		return 0, nil, err
	}
	limit, err := s.decode(node.Data)
	if err != nil {
		line.DropWatch(ctx, node.Watch)
	}
	return limit, node.Watch, err
}

func (s *Semaphore) decode(data []byte) (int, error) {
	if len(data) != 4 {
		return 0, fmt.Errorf("%w: %s has %d bytes, but a shared count has 4", recipes.ErrLayout, s.count, len(data))
	}
	return int(int32(binary.BigEndian.Uint32(data))), nil
}

// EncodeCount returns the data of the node that NewCountedSemaphore reads, for n leases.
func EncodeCount(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// agree returns an error if others say that there is a different number of leases. The
// first program writes the number into the semaphore's node, as kazoo does with its own.
func (s *Semaphore) agree(ctx context.Context) error {
	own := []byte(strconv.Itoa(s.n))
	for {
		node, err := s.c.Get(ctx, s.path)
		switch {
		case errors.Is(err, client.ErrNoNode):
			err = s.create(ctx, own)
		case err == nil && len(node.Data) == 0:
			_, err = settle.Set(ctx, s.c, s.path, own, node.Stat.Version)
		case err == nil:
			return s.compare(node.Data)
		}
		again := errors.Is(err, client.ErrNodeExists) || errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrNoNode)
		if !again {
			return err
		}
	}
}

func (s *Semaphore) create(ctx context.Context, data []byte) error {
	if err := settle.Ensure(ctx, s.c, line.Parent(s.path), client.CreateOptions{Mode: client.Container, ACL: s.o.ACL}); err != nil {
		return err
	}
	_, err := settle.Create(ctx, s.c, s.path, data, settle.CreateOptions{Mode: client.Container, ACL: s.o.ACL})
	return err
}

// compare ignores data that are no number: they mean something else.
func (s *Semaphore) compare(data []byte) error {
	if n, err := strconv.Atoi(string(data)); err == nil && n != s.n {
		return fmt.Errorf("%w: this program says that there are %d, but others say %d: have all say the same, and delete the data of %s", ErrLimit, s.n, n, s.path)
	}
	return nil
}
