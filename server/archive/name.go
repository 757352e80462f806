package archive

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/history"
)

// Base is a snapshot in an archive, or one in a file of any name.
type Base struct {
	Name    string    // of the file, without its directory
	Time    time.Time // when it was fetched, in seconds
	Zxid    jute.Zxid
	History string // the beginning of the name, as history.ID.String; "" if the file's name does not have it
	Bytes   int64  // as it is stored
	CRC     uint32 // of what is in it, without the compression
	Zstd    bool   // it is compressed
}

// Segment is a file with entries.
type Segment struct {
	Name        string
	Time        time.Time // when it was made, in seconds
	After, Last jute.Zxid
	History     string // the beginning of the name, as history.ID.String
	Bytes       int64  // as it is stored
	CRC         uint32 // of what is in it, without the compression
	Zstd        bool   // it is compressed
}

const (
	prefix        = "zkd-"
	baseSuffix    = ".db"
	segmentSuffix = ".log"
	timeLayout    = "20060102T150405Z"
	unfinished    = ".zkd-backup-" // begins the names of files that are not complete
)

// FileName returns the name that b has in an archive.
func (b *Base) FileName() string {
	of := b.History
	if of != "" {
		of += "-"
	}
	return fmt.Sprintf("%s%s-%v-%s%08x%s%s", prefix, b.Time.UTC().Format(timeLayout), b.Zxid, of, b.CRC, baseSuffix, ending(b.Zstd))
}

// ending is how the name of a file ends that may be compressed.
func ending(zstd bool) string {
	if zstd {
		return ZstdSuffix
	}
	return ""
}

func (s *Segment) fileName() string {
	return fmt.Sprintf("%s%s-%v-%v-%s-%08x%s%s", prefix, s.Time.UTC().Format(timeLayout), s.After, s.Last, s.History, s.CRC, segmentSuffix, ending(s.Zstd))
}

// ParseBase is the inverse of Base.FileName.
func ParseBase(name string) (b Base, ok bool) {
	f := newFields(name, baseSuffix, 3, 4)
	b = Base{Name: name, Zstd: f.zstd, Time: f.time(), Zxid: f.zxid()}
	if len(f.rest) > 1 {
		b.History = f.next()
	}
	b.CRC = f.crc()
	return b, f.err == nil && b.FileName() == name && (b.History == "" || len(b.History) == len(history.ID{}.String()))
}

// parseSegment is the inverse of Segment.fileName.
func parseSegment(name string) (s Segment, ok bool) {
	f := newFields(name, segmentSuffix, 5, 5)
	s = Segment{Name: name, Zstd: f.zstd, Time: f.time(), After: f.zxid(), Last: f.zxid(), History: f.next(), CRC: f.crc()}
	return s, f.err == nil && s.fileName() == name && len(s.History) == len(history.ID{}.String()) && s.After < s.Last
}

// fields are the parts of a name.
type fields struct {
	rest []string
	zstd bool
	err  error
}

// newFields returns the parts of a name that has at least least and at most most of them.
func newFields(name, suffix string, least, most int) *fields {
	f := &fields{}
	inner, ok1 := strings.CutPrefix(name, prefix)
	inner, f.zstd = strings.CutSuffix(inner, ZstdSuffix)
	inner, ok2 := strings.CutSuffix(inner, suffix)
	f.rest = strings.Split(inner, "-")
	if !ok1 || !ok2 || len(f.rest) < least || len(f.rest) > most {
		f.err, f.rest = errors.New("another name"), make([]string, most)
	}
	return f
}

func (f *fields) next() string {
	s := f.rest[0]
	f.rest = f.rest[1:]
	return s
}

func (f *fields) time() time.Time {
	t, err := time.Parse(timeLayout, f.next())
	f.err = errors.Join(f.err, err)
	return t
}

func (f *fields) zxid() jute.Zxid {
	z, err := strconv.ParseUint(strings.TrimPrefix(f.next(), "0x"), 16, 64)
	f.err = errors.Join(f.err, err)
	return jute.Zxid(z)
}

func (f *fields) crc() uint32 {
	c, err := strconv.ParseUint(f.next(), 16, 32)
	f.err = errors.Join(f.err, err)
	return uint32(c)
}
