package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zkd-project/zkd/internal/pause"
)

const (
	// markerName is the object that names the follower which works in a bucket, below a prefix.
	markerName = ".zkd-follow"
	// markerRenewal is how often a follower writes it again, and markerLease the time after which
	// one that has not changed is that of a follower that was killed. No clock is compared.
	markerRenewal, markerLease = 10 * time.Second, 40 * time.Second
)

// errTaken means that another follower works in the bucket.
var errTaken = errors.New("another backup follow works there")

// marker is the claim of a follower to a bucket: an object that it writes again and again. Each write has the
// condition that the object is what it was, so of two followers one stops, within markerRenewal. A
// server without such conditions leaves the object to the second one, and the first one sees that.
// While both work they lose nothing: a file never changes, and parts go only after the whole is there.
type marker struct {
	*objects
	claim claim
	pause func(context.Context, time.Duration) error
}

// claim is the content of the object.
type claim struct {
	Host    string `json:"host"`
	Process int    `json:"process"`
	Run     string `json:"run"`
	Writes  int    `json:"writes"`
}

func newMarker(o *objects) *marker {
	host, _ := os.Hostname()
	return &marker{objects: o, claim: claim{Host: host, Process: os.Getpid(), Run: rand.Text()}, pause: pause.For}
}

// acquire makes the claim. It waits for markerLease if there is another one.
func (m *marker) acquire(ctx context.Context, report func(string, ...any)) error {
	err := m.write(ctx, "")
	if !errors.Is(err, errTaken) {
		return err
	}
	other, etag, err := m.read(ctx)
	if err == nil {
		report("%v: process %d on %s; waiting %v to see whether it was killed", errTaken, other.Process, other.Host, markerLease)
		if err := m.pause(ctx, markerLease); err != nil {
			return err
		}
		var now string
		if other, now, err = m.read(ctx); err == nil && now != etag {
			return fmt.Errorf("%v: %w: process %d on %s", m.objects, errTaken, other.Process, other.Host)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		etag = ""
	case err != nil:
		return err
	}
	return m.write(ctx, etag)
}

// keep renews the claim until ctx ends, or until another follower has it.
func (m *marker) keep(ctx context.Context) error {
	for {
		if err := m.pause(ctx, markerRenewal); err != nil {
			return err
		}
		if err := m.renew(ctx); err != nil {
			return err
		}
	}
}

// renew writes the marker again. It returns an error only if another follower has written it: as
// long as the server can't be reached, that one can't work either.
func (m *marker) renew(ctx context.Context) error {
	now, etag, err := m.read(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		etag = ""
	case err != nil:
		return nil
	case now.Run != m.claim.Run:
		return fmt.Errorf("%v: %w: process %d on %s", m.objects, errTaken, now.Process, now.Host)
	}
	if err := m.write(ctx, etag); errors.Is(err, errTaken) {
		return fmt.Errorf("%v: %w", m.objects, err)
	}
	return nil
}

// release removes the marker, if it is still this follower's. If that fails, the next follower waits.
func (m *marker) release(ctx context.Context) {
	if now, _, err := m.read(ctx); err == nil && now.Run == m.claim.Run {
		m.Remove(ctx, markerName) // see above
	}
}

// write writes the marker if it has an ETag, or if there is none for "". The error is errTaken if that is
// not so.
func (m *marker) write(ctx context.Context, etag string) error {
	m.claim.Writes++
	b, err := json.Marshal(m.claim)
	if err != nil {
		return err
	}
	put := func(match, noneMatch *string) error {
		_, err := m.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &m.bucket, Key: m.key(markerName), Body: bytes.NewReader(b), IfMatch: match, IfNoneMatch: noneMatch})
		return err
	}
	if etag == "" {
		err = put(nil, new("*"))
	} else {
		err = put(&etag, nil)
	}
	switch status := statusOf(err); {
	case status == http.StatusPreconditionFailed, status == http.StatusConflict, status == http.StatusNotFound && etag != "":
		if now, _, err := m.read(ctx); err == nil && now == m.claim { // by an attempt whose answer was lost
			return nil
		}
		return errTaken
	case status == http.StatusNotImplemented:
		err = put(nil, nil)
	}
	return m.failed("write", markerName, err)
}

func (m *marker) read(ctx context.Context) (c claim, etag string, err error) {
	object, err := m.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &m.bucket, Key: m.key(markerName)})
	if err != nil {
		return c, "", m.failed("read", markerName, err)
	}
	defer object.Body.Close() // it was only read
	b, err := io.ReadAll(io.LimitReader(object.Body, 4<<10))
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return c, "", fmt.Errorf("%v/%s is no marker of a follower: %w: if none works there, remove it", m.objects, markerName, err)
	}
	return c, cmp.Or(aws.ToString(object.ETag), "-"), nil
}
