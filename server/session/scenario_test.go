package session_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/session"
)

// TestScenarios runs testdata on a tracker with a tick of 2000 ms. The
// commands, where N is a time and T a timeout in ms:
//
//	add ID T N, touch ID T N, renew ID T N    print whether it was done
//	resume ID T N ORIGIN, timeout ID T N ORIGIN    Resume, SetTimeout
//	close ID, remove ID                       likewise
//	expire N                                  prints the sessions that expired
//	postpone MS, reset N
//	own ID ORIGIN, write ID ORIGIN            SetOwner, CheckOwner: print the error
//	closing ID
//	dump                                      prints the buckets
func TestScenarios(t *testing.T) {
	scenario.Run(t, "testdata/*.txt", func(t *testing.T) scenario.Command {
		tracker := session.NewTracker(2000)
		return func(words []string) (string, error) { return command(tracker, words) }
	})
}

func command(tracker *session.Tracker, words []string) (string, error) {
	var n [4]int64
	for i, word := range words[1:] {
		var err error
		if n[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			return "", err
		}
	}
	id, timeout := jute.SessionID(n[0]), int32(n[1])
	switch words[0] {
	case "add":
		_, ok := tracker.Add(id, timeout, n[2])
		return fmt.Sprint(ok), nil
	case "touch":
		return fmt.Sprint(tracker.Touch(id, n[2], timeout)), nil
	case "renew":
		return fmt.Sprint(tracker.Renew(id, timeout, n[2])), nil
	case "resume":
		before, ok := tracker.Resume(id, timeout, uint64(n[3]), n[2])
		return fmt.Sprint(before, " ", ok), nil
	case "timeout":
		tracker.SetTimeout(id, timeout, uint64(n[3]), n[2])
		return "", nil
	case "close":
		return fmt.Sprint(tracker.MarkClosing(id)), nil
	case "closing":
		return fmt.Sprint(tracker.IsClosing(id)), nil
	case "remove":
		return fmt.Sprint(tracker.Remove(id)), nil
	case "expire":
		return "expired " + fmt.Sprint(tracker.Expire(n[0], nil)), nil
	case "postpone":
		tracker.Postpone(n[0])
		return "", nil
	case "reset":
		tracker.Reset(n[0], nil)
		return "", nil
	case "own":
		return fmt.Sprint(tracker.SetOwner(id, uint64(n[1]))), nil
	case "write":
		return fmt.Sprint(tracker.CheckOwner(id, uint64(n[1]))), nil
	case "dump":
		return dump(tracker), nil
	}
	return "", scenario.Unknown(words)
}

func dump(tracker *session.Tracker) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d sessions\n", tracker.Len())
	for _, b := range tracker.Buckets() {
		fmt.Fprintf(&out, "at %d: %v\n", b.At, b.Sessions)
	}
	return out.String()
}
