package backup

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zkd-project/zkd/server/archive"
)

func newFollower(t *testing.T, s *streams) *Follower {
	t.Helper()
	return &Follower{Servers: startHandlers(t, s), Report: func(string, ...any) {}}
}

// TestClaimDir follows into a directory where a killed follower has left files. A second follower is
// refused meanwhile.
func TestClaimDir(t *testing.T) {
	dir := archive.Dir(filepath.Join(t.TempDir(), "archive"))
	work := dir.Path(".zkd-follow")
	lock, err := claimDir(work)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(work, "123"), dir.Path("mine"), dir.Path(".zkd-backup-1")} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newStreams(t, 5)
	if err := newFollower(t, s).Claim(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "another backup follow") {
		t.Errorf("a second follower: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	reached := errors.New("reached")
	f := newFollower(t, s)
	f.Report = func(format string, _ ...any) {
		if strings.HasPrefix(format, "fetched") {
			cancel(reached)
		}
	}
	if err := f.Claim(ctx, dir); !errors.Is(err, reached) {
		t.Fatal(err)
	}
	if names := filesOf(t, work); len(names) != 1 {
		t.Errorf("left: %v", names)
	}
	names := filesOf(t, string(dir))
	if len(names) != 4 || names[0] != ".zkd-backup-1" || names[2] != "mine" || !strings.HasSuffix(names[3], ".db.zst") {
		t.Errorf("files: %v", names)
	}
}

// TestClaimRefusesForeignDir does not follow a link that another user may have made.
func TestClaimRefusesForeignDir(t *testing.T) {
	dir, victim := t.TempDir(), t.TempDir()
	if err := os.Symlink(victim, filepath.Join(dir, "work")); err != nil {
		t.Fatal(err)
	}
	if _, err := claimDir(filepath.Join(dir, "work")); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("error %v", err)
	}
	if names := filesOf(t, victim); len(names) > 0 {
		t.Errorf("made: %v", names)
	}
}

// instead returns a pause during which something happens.
func instead(f func()) func(context.Context, time.Duration) error {
	return func(context.Context, time.Duration) error { f(); return nil }
}

// TestMarker has two followers of one bucket: the second one takes it over only from one that was
// killed.
func TestMarker(t *testing.T) {
	to := bucket(t).(*objects)
	var said []string
	report := func(format string, _ ...any) { said = append(said, format) }
	check := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
	first, second := newMarker(to), newMarker(to)
	check(first.acquire(t.Context(), report), nil)
	check(first.renew(t.Context()), nil)

	second.pause = instead(func() { check(first.renew(t.Context()), nil) })
	check(second.acquire(t.Context(), report), errTaken)
	if len(said) != 1 {
		t.Errorf("said %q", said)
	}

	second.pause = instead(func() {}) // the first one was killed
	check(second.acquire(t.Context(), report), nil)
	check(second.renew(t.Context()), nil)
	check(first.renew(t.Context()), errTaken) // it was only stopped
	first.release(t.Context())
	check(second.renew(t.Context()), nil)

	second.pause = instead(func() { second.release(t.Context()) })
	first.pause = second.pause
	check(first.acquire(t.Context(), report), nil) // while the second one ends
	ctx, cancel := context.WithCancel(t.Context())
	first.pause = func(ctx context.Context, _ time.Duration) error { cancel(); return context.Cause(ctx) }
	check(first.keep(ctx), context.Canceled)

	third := newMarker(to)
	third.pause = instead(func() { // both take over from one that was killed
		fourth := newMarker(to)
		fourth.pause = instead(func() {})
		check(fourth.acquire(t.Context(), report), nil)
	})
	check(third.acquire(t.Context(), report), errTaken)
}

// lossy is a way to a server on which the answer to the next write is lost.
type lossy struct {
	s3.HTTPClient
	loses bool
}

func (l *lossy) Do(r *http.Request) (*http.Response, error) {
	resp, err := l.HTTPClient.Do(r)
	if l.loses && r.Method == http.MethodPut && err == nil {
		l.loses = false
		resp.Body.Close()
		return nil, syscall.ECONNRESET
	}
	return resp, err
}

// TestAnswerToTheMarkerIsLost: a follower that writes the marker again, as it has got no answer, finds what it has written, and not another follower.
func TestAnswerToTheMarkerIsLost(t *testing.T) {
	to := bucket(t).(*objects)
	way := &lossy{HTTPClient: to.client.Options().HTTPClient}
	to.client = s3.New(to.client.Options(), func(o *s3.Options) { o.HTTPClient = way })
	m := newMarker(to)
	m.pause = func(context.Context, time.Duration) error { return errors.New("it waits") }
	for _, write := range []func() error{func() error { return m.acquire(t.Context(), t.Logf) }, func() error { return m.renew(t.Context()) }} {
		way.loses = true
		if err := write(); err != nil || way.loses {
			t.Error(err)
		}
	}
}

// TestMarkerOfAnother stops at an object that is no marker.
func TestMarkerOfAnother(t *testing.T) {
	to := bucket(t).(*objects)
	f, err := to.Create()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	if err := to.Put(t.Context(), f, markerName); err != nil {
		t.Fatal(err)
	}
	if err := newMarker(to).acquire(t.Context(), t.Logf); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("error %v", err)
	}
}

// TestClaimBucket follows into a bucket until another follower has the marker, and leaves that one.
func TestClaimBucket(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	to := bucket(t)
	s := newStreams(t, 5)
	ctx, cancel := context.WithCancelCause(t.Context())
	reached := errors.New("reached")
	f := newFollower(t, s)
	f.Report = func(format string, _ ...any) {
		if strings.HasPrefix(format, "following") {
			cancel(reached)
		}
	}
	if err := f.Claim(ctx, to); !errors.Is(err, reached) {
		t.Fatal(err)
	}
	files, err := to.List(t.Context())
	if err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
	for _, dir := range filesOf(t, os.TempDir()) {
		if names := filesOf(t, filepath.Join(os.TempDir(), dir)); len(names) != 1 {
			t.Errorf("left in %s: %v", dir, names)
		}
	}
}
