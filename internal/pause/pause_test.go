package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errEnough = errors.New("enough")

func TestFor(t *testing.T) {
	for _, tt := range []struct {
		name      string
		pause     time.Duration
		cutAfter  time.Duration // -1: before
		want      error
		wantAfter time.Duration
	}{
		{"to its end", time.Minute, time.Hour, nil, time.Minute},
		{"cut short", time.Hour, time.Minute, errEnough, time.Minute},
		{"none", 0, time.Minute, nil, 0},
		{"less than none", -time.Second, time.Minute, nil, 0},
		{"of a context that is done", time.Hour, -1, errEnough, 0},
		{"none of a context that is done", 0, -1, errEnough, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if tt.cutAfter < 0 {
					cancel(errEnough)
				}
				defer time.AfterFunc(tt.cutAfter, func() { cancel(errEnough) }).Stop()
				began := time.Now()
				if err := For(ctx, tt.pause); err != tt.want || time.Since(began) != tt.wantAfter {
					t.Errorf("after %v: %v; want after %v: %v", time.Since(began), err, tt.wantAfter, tt.want)
				}
			})
		})
	}
}
