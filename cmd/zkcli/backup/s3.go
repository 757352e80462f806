package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/zkd-project/zkd/server/archive"
)

const (
	// partBytes is the size of the parts in which a larger file is uploaded. There may be maxParts.
	partBytes = 16 << 20
	maxParts  = 10_000
	// uploads is how many parts are under way at a time.
	uploads = 4
	// attempts bounds how often a request is made.
	attempts = 10
	// silence is how long nothing may move on a connection.
	silence = time.Minute
)

// Storage returns the storage with a name: s3://BUCKET/PREFIX, or a directory. getenv has AWS_ENDPOINT_URL
// and AWS_REGION. All else is as AWS's own tools have it, from the environment, the files in ~/.aws and the
// machine. report is called when the server is silent, and asked again.
func Storage(ctx context.Context, name string, getenv func(string) string, report func(format string, args ...any)) (archive.Storage, error) {
	rest, ok := strings.CutPrefix(name, "s3://")
	if !ok {
		return archive.Dir(name), nil
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	silent := func(err error) { report("%s: %v; trying again", name, err) }
	client, err := newClient(ctx, bucket, getenv("AWS_ENDPOINT_URL"), getenv("AWS_REGION"), silence, silent)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &objects{client: client, bucket: bucket, prefix: prefix, part: partBytes, silent: silent}, nil
}

// newClient returns a client for a bucket. Without an endpoint it is one of AWS. silent is called before a request is repeated to which
// the server was silent.
func newClient(ctx context.Context, bucket, endpoint, region string, silence time.Duration, silent func(error)) (*s3.Client, error) {
	if u, err := url.Parse(endpoint); endpoint != "" && (err != nil || u.Host == "") {
		return nil, fmt.Errorf("AWS_ENDPOINT_URL is %q, which is no URL", endpoint)
	}
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithBaseEndpoint(endpoint),
		config.WithRegion(region),
		config.WithRetryer(func() aws.Retryer {
			return &retryer{retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts = attempts }), silent}
		}),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			dial := t.DialContext
			t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return impatient{c, silence}, nil
			}
		})),
		// Other servers than AWS's refuse checksums that they do not know.
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired))
	if err != nil {
		return nil, err
	}
	options := func(o *s3.Options) {
		o.UsePathStyle = o.BaseEndpoint != nil && takesPaths(*o.BaseEndpoint)
		o.HTTPSignerV4 = signer{o.HTTPSignerV4}
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
		cfg.Region = cmp.Or(regionOf(ctx, s3.NewFromConfig(cfg, options), bucket), cfg.Region)
	}
	return s3.NewFromConfig(cfg, options), nil
}

// retryer is the standard one, which tells when a server was silent.
type retryer struct {
	*retry.Standard
	silent func(error)
}

// RetryDelay implements aws.Retryer.
func (r *retryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	if isTimeout(err) {
		r.silent(err)
	}
	return r.Standard.RetryDelay(attempt, err)
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// impatient is a connection that fails when nothing has moved on it for a time, in either direction: a server may
// stop in the middle of an answer, or while it takes a file. One that is idle is closed so.
type impatient struct {
	net.Conn
	silence time.Duration
}

// Read implements net.Conn.
func (c impatient) Read(b []byte) (int, error) {
	c.SetDeadline(time.Now().Add(c.silence)) // an error is one of Read, too
	return c.Conn.Read(b)
}

// Write implements net.Conn.
func (c impatient) Write(b []byte) (int, error) {
	c.SetDeadline(time.Now().Add(c.silence))
	return c.Conn.Write(b)
}

// takesPaths reports whether a server takes the bucket in the path of a URL. Alibaba's takes it in the name of
// the host only. Servers without a name for each bucket take it in the path only.
func takesPaths(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err != nil || !strings.HasSuffix(u.Hostname(), ".aliyuncs.com")
}

// regionOf returns the region of a bucket, which signatures contain; "" if the server does not say it.
func regionOf(ctx context.Context, client *s3.Client, bucket string) string {
	out, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &bucket}, func(o *s3.Options) { o.RetryMaxAttempts = 1 })
	if err == nil {
		return aws.ToString(out.BucketRegion)
	}
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return r.Response.Header.Get("X-Amz-Bucket-Region")
	}
	return ""
}

// signer leaves a header out of signatures that proxies change: Google's would refuse each request.
type signer struct{ s3.HTTPSignerV4 }

// SignHTTP implements s3.HTTPSignerV4.
func (s signer) SignHTTP(ctx context.Context, c aws.Credentials, r *http.Request, hash, service, region string, at time.Time, options ...func(*v4.SignerOptions)) error {
	const name = "Accept-Encoding"
	if accepts, ok := r.Header[name]; ok {
		delete(r.Header, name)
		defer func() { r.Header[name] = accepts }()
	}
	return s.HTTPSignerV4.SignHTTP(ctx, c, r, hash, service, region, at, options...)
}

// objects is a storage in a bucket of S3. An object appears as a whole, and is durable then. It implements archive.Storage.
type objects struct {
	client         *s3.Client
	bucket, prefix string
	part           int64       // partBytes, but for tests
	silent         func(error) // as newClient's
}

func (o *objects) String() string {
	return "s3://" + o.bucket + "/" + strings.TrimSuffix(o.prefix, "/")
}

// endpoint returns the URL of the server.
func (o *objects) endpoint() string {
	return cmp.Or(aws.ToString(o.client.Options().BaseEndpoint), "https://s3.amazonaws.com")
}

// key returns the name of a file's object in the bucket.
func (o *objects) key(name string) *string { return new(o.prefix + name) }

func (o *objects) List(ctx context.Context) (map[string]int64, error) {
	files := make(map[string]int64)
	pages := s3.NewListObjectsV2Paginator(o.client, &s3.ListObjectsV2Input{Bucket: &o.bucket, Prefix: &o.prefix})
	for token := ""; pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, o.failed("list", "", err)
		}
		for _, object := range page.Contents {
			files[strings.TrimPrefix(aws.ToString(object.Key), o.prefix)] = aws.ToInt64(object.Size)
		}
		last := token
		if token = aws.ToString(page.NextContinuationToken); aws.ToBool(page.IsTruncated) && token == last {
			return nil, fmt.Errorf("list %v: the server has more than %d files, and does not say how to list the rest (ListObjectsV2)", o, len(files))
		}
	}
	return files, nil
}

func (o *objects) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	r := &reader{objects: o, ctx: ctx, name: name}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// reader reads an object. When the connection fails, it asks for the rest.
type reader struct {
	*objects
	ctx     context.Context // of Open
	name    string
	version *string // the rest must be of the same
	body    io.ReadCloser
	at      int64 // what was read
	broken  int   // reads in a row
}

// open asks for what was not read.
func (r *reader) open() error {
	in := &s3.GetObjectInput{Bucket: &r.bucket, Key: r.key(r.name), IfMatch: r.version}
	if r.at > 0 {
		in.Range = new(fmt.Sprintf("bytes=%d-", r.at))
	}
	object, err := r.client.GetObject(r.ctx, in)
	if err != nil {
		return r.failed("read", r.name, err)
	}
	r.version, r.body = object.ETag, object.Body
	if r.at > 0 && !strings.HasPrefix(aws.ToString(object.ContentRange), fmt.Sprintf("bytes %d-", r.at)) {
		return fmt.Errorf("read %v/%s: the server can't continue at byte %d", r.objects, r.name, r.at)
	}
	return nil
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for {
		n, err := r.body.Read(p)
		r.at += int64(n)
		switch r.broken++; {
		case err == nil, err == io.EOF:
			r.broken = 0
			return n, err
		case n > 0:
			r.broken = 0
			return n, nil // the next Read has the error
		case r.ctx.Err() != nil:
			return 0, context.Cause(r.ctx)
		case r.broken == attempts: // an io.ErrUnexpectedEOF would say that the file is damaged
			return 0, fmt.Errorf("read %v/%s: after %d bytes: %v", r.objects, r.name, r.at, err)
		}
		if isTimeout(err) {
			r.silent(fmt.Errorf("read %s: after %d bytes: %w", r.name, r.at, err))
		}
		r.body.Close() // it has failed
		if err := r.open(); err != nil {
			return 0, err
		}
	}
}

// Close implements io.Closer.
func (r *reader) Close() error { return r.body.Close() }

func (o *objects) Create() (*os.File, error) { return os.CreateTemp("", "zkd-backup-") }

func (o *objects) Put(ctx context.Context, f *os.File, name string) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		err = o.failed("write", name, o.upload(ctx, f, size, o.key(name)))
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

var contentType = new("application/octet-stream")

// upload makes an object of a file, in parts if it is large.
func (o *objects) upload(ctx context.Context, f io.ReaderAt, size int64, key *string) error {
	if size <= o.part {
		_, err := o.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &o.bucket, Key: key, ContentType: contentType, Body: io.NewSectionReader(f, 0, size)})
		return err
	}
	begun, err := o.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &o.bucket, Key: key, ContentType: contentType})
	if err != nil {
		return err
	}
	parts, err := o.uploadParts(ctx, f, size, &s3.UploadPartInput{Bucket: &o.bucket, Key: key, UploadId: begun.UploadId})
	if err == nil {
		_, err = o.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: &o.bucket, Key: key, UploadId: begun.UploadId,
			MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}})
	}
	if err != nil { // the parts would stay, and cost
		ctx, cancel := lingering(ctx)
		defer cancel()
		_, aborted := o.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &o.bucket, Key: key, UploadId: begun.UploadId})
		err = errors.Join(err, aborted)
	}
	return err
}

// uploadParts uploads the parts of a file to an upload, some at a time.
func (o *objects) uploadParts(ctx context.Context, f io.ReaderAt, size int64, to *s3.UploadPartInput) ([]types.CompletedPart, error) {
	bytes := max(o.part, (size+maxParts-1)/maxParts)
	parts := make([]types.CompletedPart, (size+bytes-1)/bytes)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var work sync.WaitGroup
	for range min(uploads, len(parts)) {
		work.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(parts)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				in := *to
				in.PartNumber = new(int32(i + 1))
				in.Body = io.NewSectionReader(f, i*bytes, min(bytes, size-i*bytes))
				out, err := o.client.UploadPart(ctx, &in)
				if err != nil {
					cancel(err)
					return
				}
				parts[i] = types.CompletedPart{ETag: out.ETag, PartNumber: in.PartNumber}
			}
		})
	}
	work.Wait()
	return parts, context.Cause(ctx)
}

func (o *objects) Remove(ctx context.Context, name string) error {
	_, err := o.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &o.bucket, Key: o.key(name)})
	return o.failed("remove", name, err)
}

// failed returns the error of an operation, if there is one, in the terms of files.
func (o *objects) failed(what, name string, err error) error {
	if err == nil {
		return nil
	}
	status := statusOf(err)
	api, ok := errors.AsType[smithy.APIError](err)
	if ok { // the rest says how it was asked
		err = api
	}
	switch {
	case status == http.StatusNotFound:
		err = fmt.Errorf("%w (%w)", err, fs.ErrNotExist)
	case status == http.StatusForbidden, ok && api.ErrorCode() == "ExpiredToken": // a process does not read credentials in files again
		err = fmt.Errorf("%w (%w)", err, fs.ErrPermission)
	}
	return fmt.Errorf("%s %s: %w", what, strings.TrimSuffix(o.String()+"/"+name, "/"), err)
}

// statusOf returns the HTTP status of an error that the server has sent, otherwise 0.
func statusOf(err error) int {
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return r.HTTPStatusCode()
	}
	return 0
}
