package admin

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
)

// TestStreamsAreShared checks that an address that holds all streams gives one up to a client of another
// address, and not to one of its own.
func TestStreamsAreShared(t *testing.T) {
	h := new(handler)
	enter := func(remote string) (context.Context, func()) {
		r := httptest.NewRequest("GET", "/v1/feed", nil)
		r.RemoteAddr = remote
		return h.enterStream(r)
	}
	var first, last context.Context
	var leave func()
	for i := range maxStreams {
		ctx, end := enter(fmt.Sprintf("[fd00:1:2:3::%x]:1000", i)) // of one network
		if end == nil {
			t.Fatalf("stream %d is refused", i)
		}
		if last, leave = ctx, end; first == nil {
			first = ctx
		}
	}
	if _, end := enter("[fd00:1:2:3::ff]:1000"); end != nil {
		t.Error("one more of the same network is let in")
	}
	ctx, end := enter("10.0.0.2:1000")
	if end == nil || context.Cause(first) != ErrDisplaced || last.Err() != nil || ctx.Err() != nil {
		t.Fatalf("another one is let in: %v; the first stream: %v, the last: %v", end != nil, context.Cause(first), context.Cause(last))
	}
	leave()
	if last.Err() == nil {
		t.Error("a stream that has left continues")
	}
	if _, end := enter("[fd00:1:2:3::ff]:1000"); end == nil {
		t.Error("a free place is refused")
	}
}
