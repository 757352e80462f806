package settle

import (
	"context"
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

func TestAnswers(t *testing.T) {
	for err, want := range map[error]bool{
		client.ErrNoNode: true, client.ErrNotReadOnly: true, client.ErrNoRoom: true, client.ErrNodeExists: true,
		client.ErrConnectionLoss: false, client.ErrThrottled: false, client.ErrSessionExpired: false,
		client.ErrClosed: false, client.ErrAuthFailed: false, context.Canceled: false,
	} {
		if got := isAnswer(&client.Error{Op: jute.OpSetData, Err: err}); got != want {
			t.Errorf("isAnswer of %v is %v", err, got)
		}
	}
	if isAnswer(errors.New("x")) {
		t.Error("an error without an operation is an answer")
	}
}
