package client

import (
	"context"
)

// RetryPolicy says how failed operations are tried again.
type RetryPolicy struct{}

func (p *RetryPolicy) again(ctx context.Context, attempt int, err error) bool { return false }

// WithRetry returns a view of c that tries operations again as p says, where that
// is safe.
func (c *Client) WithRetry(p *RetryPolicy) *Client {
	view := *c
	view.retry = p
	return &view
}
