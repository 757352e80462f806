package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// cutOff is a feed that loses changes within a transaction.
type cutOff struct{}

func (cutOff) Next(_ context.Context, yield func(*jute.Change, bool)) error {
	for i, zxid := range []jute.Zxid{1, 2, 2} {
		yield(&jute.Change{Zxid: zxid, Index: int32(i), Kind: jute.ChangeData, Path: "/a"}, zxid == 1)
	}
	return &jute.CompactedError{After: 1, Oldest: 2}
}

func (cutOff) Close() {}

// A transaction that is cut off has no id: a reader must not resume after it.
func TestCutOffTransactionHasNoID(t *testing.T) {
	w := httptest.NewRecorder()
	e := &eventWriter{w: http.NewResponseController(w), out: w}
	var gone *jute.CompactedError
	if err := e.relay(t.Context(), cutOff{}); !errors.As(err, &gone) {
		t.Errorf("error %v", err)
	}
	text := w.Body.String()
	if !strings.Contains(text, "id: 0x1\n") || strings.Contains(text, "id: 0x2\n") || !strings.Contains(text, "event: compacted\ndata: {\"oldest\":\"0x2\"}\n") {
		t.Errorf("sent\n%s", text)
	}
}

// TestFeedNamesSessionsAsOthersDo has a session with the highest bit, which is not a negative number.
func TestFeedNamesSessionsAsOthersDo(t *testing.T) {
	if got := feedEventOf(&jute.Change{Session: -2}, false).Session; got != "0xfffffffffffffffe" {
		t.Errorf("the session is %s", got)
	}
}
