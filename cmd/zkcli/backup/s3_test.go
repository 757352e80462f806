package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
)

// bucket starts an S3 server with a bucket, and returns a storage there.
func bucket(t *testing.T) archive.Storage {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	env := map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-east-1"}
	s, err := Storage("s3://backups/of/zkd", func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBucket follows into a bucket, merges, prunes and verifies there, and copies it into a directory.
func TestBucket(t *testing.T) {
	to := bucket(t)
	s := newStreams(t, 5)
	source := startHandlers(t, s)
	for last := jute.Zxid(30); last <= 90; last += 30 {
		s.change(func() { s.last = last })
		following(t, to, last, source)
	}
	a, err := archive.Read(t.Context(), to)
	if err != nil || len(a.Bases) != 1 || len(a.Segments) == 0 || len(a.Segments) > 2*mergeAt {
		t.Fatalf("%+v, %v", a, err)
	}
	if err := a.VerifyBase(t.Context(), &a.Bases[0]); err != nil {
		t.Error(err)
	}
	dir := archive.Dir(t.TempDir())
	for _, want := range []int{len(a.Segments), 0} { // the second time there is nothing to copy
		copied, err := Copy(t.Context(), a, dir)
		if err != nil || len(copied.Segments) != want {
			t.Errorf("copied %+v, %v", copied, err)
		}
	}
	if end, bases := ends(t, dir); end != 90 || bases != 1 {
		t.Errorf("the copy ends at %v", end)
	}
	if _, err := Create(t.Context(), source, to, false, noon.AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if a, err = archive.Read(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	removed, err := a.Prune(t.Context(), archive.Retention{Keep: 1}, noon.AddDate(2, 0, 0))
	if err != nil || len(removed.Bases) != 1 {
		t.Errorf("removed %+v, %v", removed, err)
	}
	if _, err := to.Open(t.Context(), "nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := to.Remove(t.Context(), "nothing"); err != nil {
		t.Error(err)
	}
}

// flips is a storage that gives the content of one file with another byte, once.
type flips struct {
	archive.Storage
	name string
	done *bool
}

func (f flips) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := f.Storage.Open(ctx, name)
	if err != nil || name != f.name || *f.done {
		return r, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	b[len(b)-1] ^= 1
	*f.done = true
	return io.NopCloser(bytes.NewReader(b)), nil
}

// TestCopyOfDamage copies an archive of which a file arrives damaged: the next copy brings it again.
func TestCopyOfDamage(t *testing.T) {
	s := newStreams(t, 5)
	from := unsynced{archive.Dir(t.TempDir())}
	source := startHandlers(t, s)
	following(t, from, 5, source)
	s.change(func() { s.last = 7 })
	following(t, from, 7, source)
	a, err := archive.Read(t.Context(), from)
	if err != nil || len(a.Segments) != 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, name := range []string{a.Bases[0].Name, a.Segments[1].Name} {
		a.Storage = flips{from, name, new(bool)}
		dir := archive.Dir(t.TempDir())
		if _, err := Copy(t.Context(), a, dir); err == nil {
			t.Fatalf("%s: no error", name)
		}
		if _, err := Copy(t.Context(), a, dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if end, bases := ends(t, dir); end != 7 || bases != 1 {
			t.Errorf("%s: the copy has %d bases and ends at %v", name, bases, end)
		}
	}
}

// TestStorage reads names.
func TestStorage(t *testing.T) {
	none := func(string) string { return "" }
	for name, want := range map[string]string{"/backup": "/backup", "s3://b": "s3://b/", "s3://b/p/q/": "s3://b/p/q"} {
		if s, err := Storage(name, none); err != nil || s.String() != want {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if _, err := Storage("s3://b", func(string) string { return "here" }); err == nil {
		t.Error("no error")
	}
}
