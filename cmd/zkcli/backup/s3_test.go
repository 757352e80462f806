package backup

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
)

// bucket starts an S3 server with a bucket, and returns a storage there.
func bucket(t *testing.T) archive.Storage {
	t.Helper()
	return seenBucket(t, "us-east-1", func(http.ResponseWriter, *http.Request) bool { return true })
}

// seenBucket is bucket where see gets each request first. It answers those for which it returns false.
func seenBucket(t *testing.T, region string, see func(w http.ResponseWriter, r *http.Request) bool) archive.Storage {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	s3 := gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if see(w, r) {
			s3.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("HOME", t.TempDir()) // without settings
	env := map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": region}
	s, err := Storage(t.Context(), "s3://backups/of/zkd", func(name string) string { return env[name] }, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBucket follows into a bucket, merges, prunes and verifies there, and copies it into a directory.
func TestBucket(t *testing.T) {
	to := bucket(t)
	s := newStreams(t, 5)
	servers := startHandlers(t, s)
	for last := jute.Zxid(30); last <= 90; last += 30 {
		s.change(func() { s.last = last })
		following(t, to, last, servers)
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
	if _, err := Create(t.Context(), servers, to, false, noon.AddDate(1, 0, 0)); err != nil {
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
	servers := startHandlers(t, s)
	following(t, from, 5, servers)
	s.change(func() { s.last = 7 })
	following(t, from, 7, servers)
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
	none := func(name string) string { return map[string]string{"AWS_REGION": "us-east-1"}[name] }
	for name, want := range map[string]string{"/backup": "/backup", "s3://b": "s3://b/", "s3://b/p/q/": "s3://b/p/q"} {
		if s, err := Storage(t.Context(), name, none, t.Logf); err != nil || s.String() != want {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if _, err := Storage(t.Context(), "s3://b", func(string) string { return "here" }, t.Logf); err == nil {
		t.Error("no error")
	}
}

// TestParts stores files of several sizes, in parts, and reads them. The parts of one that failed go.
func TestParts(t *testing.T) {
	var refuse atomic.Bool
	var aborted atomic.Int32
	to := seenBucket(t, "us-east-1", func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			aborted.Add(1)
		}
		if refuse.Load() && r.URL.Query().Get("partNumber") == "3" {
			http.Error(w, "no", http.StatusForbidden)
			return false
		}
		return true
	}).(*objects)
	to.part = 1000
	put := func(content []byte) error {
		f, err := to.Create()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(content); err != nil {
			t.Fatal(err)
		}
		return to.Put(t.Context(), f, "file")
	}
	for _, size := range []int{0, 1, 1000, 1001, 2000, 9500} {
		content := make([]byte, size)
		rand.Read(content)
		if err := put(content); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		r, err := to.Open(t.Context(), "file")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: read %d others, %v", size, len(got), err)
		}
		if files, err := to.List(t.Context()); err != nil || files["file"] != int64(size) {
			t.Errorf("%d bytes: %v, %v", size, files, err)
		}
	}
	refuse.Store(true)
	if err := put(make([]byte, 5000)); !errors.Is(err, fs.ErrPermission) || aborted.Load() != 1 {
		t.Errorf("error %v, %d uploads were aborted", err, aborted.Load())
	}
	if files, err := to.List(t.Context()); err != nil || files["file"] != 9500 {
		t.Errorf("%v, %v", files, err)
	}
}

// cutting answers requests for a file with what they ask for, but for all after some bytes.
func cutting(t *testing.T, content []byte, after *atomic.Int64) archive.Storage {
	return seenBucket(t, "us-east-1", func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "file") {
			return true
		}
		rest := content
		status := http.StatusOK
		w.Header().Set("ETag", `"one"`)
		if bytes := r.Header.Get("Range"); bytes != "" {
			var from int
			if _, err := fmt.Sscanf(bytes, "bytes=%d-", &from); err != nil || r.Header.Get("If-Match") != `"one"` {
				t.Errorf("%q, If-Match %q", bytes, r.Header.Get("If-Match"))
			}
			rest, status = content[from:], http.StatusPartialContent
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(rest)))
		w.WriteHeader(status)
		http.NewResponseController(w).Flush()
		sent := min(int(after.Load()), len(rest))
		w.Write(rest[:sent])
		http.NewResponseController(w).Flush()
		if sent < len(rest) {
			panic(http.ErrAbortHandler)
		}
		return false
	})
}

// TestBrokenReads reads a file over connections that break. If no more arrives, that does not say that the file is damaged.
func TestBrokenReads(t *testing.T) {
	content := make([]byte, 50_000)
	rand.Read(content)
	var each atomic.Int64
	each.Store(1000)
	to := cutting(t, content, &each)
	read := func() ([]byte, error) {
		r, err := to.Open(t.Context(), "file")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	if got, err := read(); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
	}
	each.Store(0)
	if _, err := read(); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
}

// TestSilentServer has a server stop while it takes a file, before its answer, and in the middle of one: an error says so.
func TestSilentServer(t *testing.T) {
	end := make(chan struct{})
	content := make([]byte, 16<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			r.Body.Read(make([]byte, 1))
		case strings.HasSuffix(r.URL.Path, "middle") && r.Header.Get("Range") == "":
			w.Header().Set("Content-Length", "1000")
			w.Write(content[:500])
			http.NewResponseController(w).Flush()
		}
		<-end
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) })
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("HOME", t.TempDir())
	client, err := newClient(t.Context(), "backups", server.URL, "us-east-1", 100*time.Millisecond, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	to := &objects{client: s3.New(client.Options(), func(o *s3.Options) { o.Retryer = aws.NopRetryer{} }), bucket: "backups", part: partBytes}
	if err := to.upload(t.Context(), bytes.NewReader(content), int64(len(content)), to.key("file")); err == nil {
		t.Error("a file: no error")
	}
	if _, err := to.List(t.Context()); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("a list: %v", err)
	}
	told := 0
	to.silent = func(error) { told++ }
	r, err := to.Open(t.Context(), "middle")
	if err == nil { // on a slow machine the beginning may be too late as well
		_, err = io.ReadAll(r)
		if told == 0 {
			t.Error("nobody is told of an answer that ends in the middle")
		}
	}
	if err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("an answer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	to.client, err = newClient(ctx, "backups", server.URL, "us-east-1", 100*time.Millisecond, func(err error) {
		if !strings.Contains(err.Error(), "timeout") {
			t.Errorf("told of %v", err)
		}
		cancel()
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.List(ctx); !errors.Is(err, context.Canceled) || ctx.Err() == nil {
		t.Errorf("a list that is repeated: %v", err)
	}
}

// TestExpiredCredentials ends a follower whose credentials have expired: when it is started again, it has the next ones.
func TestExpiredCredentials(t *testing.T) {
	to := seenBucket(t, "us-east-1", func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>")
		return false
	})
	if _, err := to.List(t.Context()); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("error %v", err)
	}
}

// TestListHasAnEnd lists a bucket of a server that does not take the name of the next page, or gives none: the list would have no
// end, or lack files.
func TestListHasAnEnd(t *testing.T) {
	for _, next := range []string{"", "<NextContinuationToken>again</NextContinuationToken>"} {
		to := seenBucket(t, "us-east-1", func(w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprintf(w, "<ListBucketResult><IsTruncated>true</IsTruncated>%s<Contents><Key>of/zkd/one</Key></Contents></ListBucketResult>", next)
			return false
		})
		if files, err := to.List(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 1 files") {
			t.Errorf("with %q: %v, %v", next, files, err)
		}
	}
}

// TestSignatures signs for the region of the bucket, which the server says if no setting does. It does not
// sign the header that proxies change.
func TestSignatures(t *testing.T) {
	for _, tt := range []struct{ set, says, want string }{
		{"eu-west-1", "eu-central-1", "eu-west-1"},
		{"", "eu-central-1", "eu-central-1"},
		{"", "", "us-east-1"},
	} {
		for _, status := range []int{http.StatusOK, http.StatusMovedPermanently} {
			var signatures []string
			to := seenBucket(t, tt.set, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodHead {
					signatures = append(signatures, r.Header.Get("Authorization"))
					return true
				}
				if tt.says != "" {
					w.Header().Set("X-Amz-Bucket-Region", tt.says)
				}
				w.WriteHeader(status)
				return false
			})
			if _, err := to.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(signatures) != 1 || !strings.Contains(signatures[0], "/"+tt.want+"/s3/") || strings.Contains(signatures[0], "accept-encoding") {
				t.Errorf("%+v: signed %q", tt, signatures)
			}
		}
	}
}

// TestTakesPaths tells where the name of a bucket goes.
func TestTakesPaths(t *testing.T) {
	for endpoint, want := range map[string]bool{"http://localhost:9000": true, "https://storage.googleapis.com": true, "https://oss-cn-hangzhou.aliyuncs.com": false} {
		if got := takesPaths(endpoint); got != want {
			t.Errorf("%s: %t", endpoint, got)
		}
	}
}
