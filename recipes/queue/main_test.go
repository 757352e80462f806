package queue_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened returns a queue that is closed before its client is.
func opened[Q interface{ Close(context.Context) error }](tb testing.TB, q Q, err error) Q {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := q.Close(ctx); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return q
}
