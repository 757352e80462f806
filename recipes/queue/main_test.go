package queue_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// closeLater closes what belongs to a client before that is closed.
func closeLater(tb testing.TB, close func(context.Context) error) {
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := close(ctx); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
}
