package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/zkd-project/zkd/server/archive"
)

// Storage returns the storage that a name stands for: s3://BUCKET/PREFIX, or a directory. getenv
// has what AWS's own tools read: AWS_ENDPOINT_URL, AWS_REGION, and the credentials, which may also be in
// the file ~/.aws/credentials or come from the machine.
func Storage(name string, getenv func(string) string) (archive.Storage, error) {
	rest, ok := strings.CutPrefix(name, "s3://")
	if !ok {
		return archive.Dir(name), nil
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	endpoint := getenv("AWS_ENDPOINT_URL")
	if endpoint == "" {
		endpoint = "https://s3.amazonaws.com"
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("AWS_ENDPOINT_URL is %q, which is no URL", endpoint)
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds:  credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}}),
		Secure: u.Scheme == "https",
		Region: getenv("AWS_REGION"),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &objects{client: client, bucket: bucket, prefix: prefix}, nil
}

// objects is a storage in a bucket of S3. An object appears as a whole, and is durable then.
type objects struct {
	client         *minio.Client
	bucket, prefix string
}

// String implements archive.Storage.
func (o *objects) String() string {
	return "s3://" + o.bucket + "/" + strings.TrimSuffix(o.prefix, "/")
}

// List implements archive.Storage.
func (o *objects) List(ctx context.Context) (map[string]int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // it ends the listing
	files := make(map[string]int64)
	for info := range o.client.ListObjects(ctx, o.bucket, minio.ListObjectsOptions{Prefix: o.prefix}) {
		if info.Err != nil {
			return nil, o.failed("list", "", info.Err)
		}
		files[strings.TrimPrefix(info.Key, o.prefix)] = info.Size
	}
	return files, nil
}

// Open implements archive.Storage.
func (o *objects) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := o.client.GetObject(ctx, o.bucket, o.prefix+name, minio.GetObjectOptions{})
	if err == nil {
		_, err = object.Stat() // before that nothing is asked
	}
	if err != nil {
		return nil, o.failed("read", name, err)
	}
	return object, nil
}

// Create implements archive.Storage.
func (o *objects) Create() (*os.File, error) { return os.CreateTemp("", "zkd-backup-") }

// Put implements archive.Storage.
func (o *objects) Put(ctx context.Context, f *os.File, name string) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = o.client.PutObject(ctx, o.bucket, o.prefix+name, f, size, minio.PutObjectOptions{ContentType: "application/octet-stream"})
		err = o.failed("write", name, err)
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// Remove implements archive.Storage.
func (o *objects) Remove(ctx context.Context, name string) error {
	return o.failed("remove", name, o.client.RemoveObject(ctx, o.bucket, o.prefix+name, minio.RemoveObjectOptions{}))
}

// failed returns the error of an operation, if there is one, in the terms of files.
func (o *objects) failed(what, name string, err error) error {
	if err == nil {
		return nil
	}
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusNotFound:
		err = fmt.Errorf("%w (%w)", err, fs.ErrNotExist)
	case http.StatusForbidden:
		err = fmt.Errorf("%w (%w)", err, fs.ErrPermission)
	}
	return fmt.Errorf("%s %s: %w", what, strings.TrimSuffix(o.String()+"/"+name, "/"), err)
}

// Copy copies what an archive has and a directory does not have. It verifies each file, and returns what
// it has copied.
func Copy(ctx context.Context, from *archive.Archive, to archive.Dir) (copied archive.Archive, err error) {
	copied.Storage = to
	has, err := to.List(ctx)
	if err != nil {
		return copied, err
	}
	one := func(name string, size int64, verify func() error) (fresh bool, err error) {
		if n, ok := has[name]; ok && n == size {
			return false, nil
		}
		if err := copyFile(ctx, from, to, name); err != nil {
			return false, err
		}
		if err := verify(); err != nil { // another copy must find that it is missing
			return false, errors.Join(err, to.Remove(ctx, name))
		}
		return true, nil
	}
	local := &archive.Archive{Storage: to}
	for _, b := range from.Bases {
		fresh, err := one(b.Name, b.Bytes, func() error { return local.VerifyBase(ctx, &b) })
		if err != nil {
			return copied, err
		}
		if fresh {
			copied.Bases = append(copied.Bases, b)
		}
	}
	for _, s := range from.Segments {
		fresh, err := one(s.Name, s.Bytes, func() error { return local.VerifySegment(ctx, &s) })
		if err != nil {
			return copied, err
		}
		if fresh {
			copied.Segments = append(copied.Segments, s)
		}
	}
	return copied, nil
}

func copyFile(ctx context.Context, from *archive.Archive, to archive.Dir, name string) error {
	r, err := from.Open(ctx, name)
	if err != nil {
		return err
	}
	defer r.Close() // it was only read
	f, err := to.Create()
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return to.Put(ctx, f, name)
}
