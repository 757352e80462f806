package queue

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/internal/receipt"
)

// newReceipts returns the receipts with which changes are done once.
func newReceipts(c *client.Client, dir string, acl []client.ACL) *receipt.Book {
	return receipt.New(c, receipt.Options{
		Path: func() string { return line.Join(dir, line.NewID()) },
		Missing: func(ctx context.Context) error {
			return settle.Ensure(ctx, c, dir, client.CreateOptions{Mode: client.Container, ACL: acl})
		},
		ACL: acl,
	})
}

// once does the operations as one change. ErrUnknown is that it can't be known whether
// that was done.
func (q *core) once(ctx context.Context, ops ...client.Op) error {
	_, err := q.receipts.Do(ctx, ops...)
	if client.IsAmbiguous(err) {
		return unknown(q.path, err)
	}
	return err
}

// failed returns which operation of a multi failed, or -1.
func failed(err error) int {
	if m, ok := errors.AsType[*client.MultiError](err); ok {
		return m.Index
	}
	return -1
}
