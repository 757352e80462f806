package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Giving something up waits for two seconds, or as long as its context says.
func TestPatience(t *testing.T) {
	for _, tt := range []struct {
		ctx  context.Context
		want time.Duration
	}{
		{t.Context(), line.Leaving},
		{line.WithPatience(t.Context(), time.Minute), time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := line.EndBy(tt.ctx, nil, "/a", func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			if took := time.Since(began); took != tt.want || !client.IsAmbiguous(err) {
				t.Errorf("it took %v, want %v; error %v", took, tt.want, err)
			}
		})
	}
}
