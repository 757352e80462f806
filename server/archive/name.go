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
	Name  string    // of the file, without its directory
	Time  time.Time // when it was fetched, in seconds
	Zxid  jute.Zxid
	Bytes int64
	CRC   uint32
}

// Segment is a file with entries.
type Segment struct {
	Name        string
	Time        time.Time // when it was made, in seconds
	After, Last jute.Zxid
	History     string // the beginning of the name, as history.ID.String
	Bytes       int64
	CRC         uint32
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
	return fmt.Sprintf("%s%s-%v-%08x%s", prefix, b.Time.UTC().Format(timeLayout), b.Zxid, b.CRC, baseSuffix)
}

func (s *Segment) fileName() string {
	return fmt.Sprintf("%s%s-%v-%v-%s-%08x%s", prefix, s.Time.UTC().Format(timeLayout), s.After, s.Last, s.History, s.CRC, segmentSuffix)
}

// ParseBase is the inverse of Base.FileName.
func ParseBase(name string) (b Base, ok bool) {
	f := newFields(name, baseSuffix, 3)
	b = Base{Name: name, Time: f.time(), Zxid: f.zxid(), CRC: f.crc()}
	return b, f.err == nil && b.FileName() == name
}

// parseSegment is the inverse of Segment.fileName.
func parseSegment(name string) (s Segment, ok bool) {
	f := newFields(name, segmentSuffix, 5)
	s = Segment{Name: name, Time: f.time(), After: f.zxid(), Last: f.zxid(), History: f.next(), CRC: f.crc()}
	return s, f.err == nil && s.fileName() == name && len(s.History) == len(history.ID{}.String()) && s.After < s.Last
}

// fields are the parts of a name.
type fields struct {
	rest []string
	err  error
}

func newFields(name, suffix string, n int) *fields {
	inner, ok1 := strings.CutPrefix(name, prefix)
	inner, ok2 := strings.CutSuffix(inner, suffix)
	f := &fields{rest: strings.Split(inner, "-")}
	if !ok1 || !ok2 || len(f.rest) != n {
		f.err, f.rest = errors.New("another name"), make([]string, n)
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
