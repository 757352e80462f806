package archive

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
)

// ZstdSuffix ends the name of a file that is compressed.
const ZstdSuffix = ".zst"

const (
	// window is how far back an encoder looks for what repeats. Encoder and decoder need a few
	// times as much memory.
	window = 1 << 20
	// maxWindow is the largest window accepted in files of other programs. RFC 8878, section
	// 3.1.1.1.2, recommends 8 MiB.
	maxWindow = 8 << 20
)

// Encoders have tables of some MiB, which short segments should not make again each time.
// They have no goroutines. Decoders are not kept: they have channels, which no bubble of
// testing/synctest may take from another, and a new one costs less than a file.
var encoders = sync.Pool{New: func() any {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are wrong
	}
	return enc
}}

// encoder compresses. It must be closed.
type encoder struct{ *zstd.Encoder }

// newEncoder returns an encoder of a content of size bytes, 0 if that is not known.
func newEncoder(w io.Writer, size int64) encoder {
	enc := encoders.Get().(*zstd.Encoder)
	enc.ResetContentSize(w, size)
	return encoder{enc}
}

func (e encoder) Close() error {
	err := e.Encoder.Close()
	e.Reset(nil)
	encoders.Put(e.Encoder)
	return err
}

// decoder decompresses. It must be closed. What is wrong with the compressed bytes is ErrDamaged.
type decoder struct {
	*zstd.Decoder
	source *source
}

// source remembers the error with which the compressed bytes end.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func newDecoder(r io.Reader) *decoder {
	s := &source{Reader: r}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		panic(err) // the options are wrong
	}
	d.Reset(s) // it says so again at the first Read
	return &decoder{d, s}
}

func (d *decoder) Read(p []byte) (int, error) {
	n, err := d.Decoder.Read(p)
	switch {
	case err == nil || err == io.EOF:
	case d.source.err != nil:
		err = d.source.err
	default:
		err = fmt.Errorf("%w: zstd: %w", ErrDamaged, err)
	}
	return n, err
}

// Compress compresses a file that was written, as Storage.Create has made it. It returns the
// compressed file instead; f is gone, whatever happens.
func Compress(ctx context.Context, s Storage, f *os.File) (to *os.File, err error) {
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		to, err = s.Create()
	}
	if err != nil {
		return nil, err
	}
	enc := newEncoder(to, size)
	_, err = io.Copy(enc, untilDone{ctx, f})
	if err = cmp.Or(err, enc.Close()); err != nil {
		return nil, errors.Join(err, to.Close(), os.Remove(to.Name()))
	}
	return to, nil
}

// untilDone reads until a context is done.
type untilDone struct {
	context.Context
	io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if u.Err() != nil {
		return 0, context.Cause(u)
	}
	return u.Reader.Read(p)
}

// expand decompresses r into f, which is in a directory of this machine. The file says how much that
// will be: no more is written, and nothing that has no room.
func expand(r io.Reader, f *os.File) error {
	in := bufio.NewReaderSize(r, 256<<10)
	head, err := in.Peek(zstd.HeaderMaxSize)
	if err != nil && err != io.EOF {
		return err
	}
	var h zstd.Header
	switch err := h.Decode(head); {
	case err != nil:
		return fmt.Errorf("%w: zstd: %w", ErrDamaged, err)
	case !h.HasFCS:
		return errors.New("it does not say how long it is when it is decompressed: decompress it with zstd -d")
	}
	space, err := vfs.OS{}.Space(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	if h.FrameContentSize > uint64(space.Free) {
		return fmt.Errorf("it says that it has %d bytes when it is decompressed, and %d are free in %s: %w",
			h.FrameContentSize, space.Free, filepath.Dir(f.Name()), syscall.ENOSPC)
	}
	d := newDecoder(in)
	defer d.Close()
	n, err := io.Copy(f, io.LimitReader(d, int64(h.FrameContentSize)+1))
	if err == nil && uint64(n) != h.FrameContentSize {
		err = fmt.Errorf("%w: it does not have the %d bytes that it says", ErrDamaged, h.FrameContentSize)
	}
	return err
}

// open opens a segment for reading what it has, without its compression.
func (a *Archive) open(ctx context.Context, name string) (io.ReadCloser, error) {
	f, err := a.Open(ctx, name)
	if err != nil || !strings.HasSuffix(name, ZstdSuffix) {
		return f, err
	}
	return &compressed{newDecoder(f), f}, nil
}

// compressed is a file that is compressed.
type compressed struct {
	*decoder
	file io.Closer
}

func (c *compressed) Close() error {
	c.decoder.Close()
	return c.file.Close()
}

// plain returns a file of this machine with a base, without its compression. release ends its use.
func (a *Archive) plain(ctx context.Context, b *Base) (path string, release func() error, err error) {
	if p, ok := a.Storage.(interface{ Path(name string) string }); ok && !b.Zstd {
		return p.Path(b.Name), func() error { return nil }, nil
	}
	r, err := a.Open(ctx, b.Name)
	if err != nil {
		return "", nil, fault.IO(a.path(b.Name), err)
	}
	defer r.Close() // it was only read
	f, err := os.CreateTemp(a.Temp, unfinished)
	if err != nil {
		return "", nil, err
	}
	if b.Zstd {
		err = expand(untilDone{ctx, r}, f)
	} else {
		_, err = io.Copy(f, untilDone{ctx, r})
	}
	if err = errors.Join(err, f.Close()); err == nil {
		return f.Name(), func() error { return os.Remove(f.Name()) }, nil
	}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrDamaged):
		err = fault.New(fault.Damaged, a.path(b.Name), err)
	case vfs.IsShortage(err): // it says nothing of the base
		err = fmt.Errorf("copy %s to %s: %w", a.path(b.Name), cmp.Or(a.Temp, "TMPDIR"), err)
	default:
		err = fault.IO(a.path(b.Name), err)
	}
	return "", nil, errors.Join(err, os.Remove(f.Name()))
}
