package data

import (
	"errors"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// readBytes is roughly how much of the log is read at a time.
const readBytes = 256 << 10

// Committed reads the committed entries of a log that is written.
type Committed struct {
	log    *wal.Writer
	at     jute.Zxid   // of the last entry that was read
	reader *wal.Reader // after at; nil between two looks
	known  jute.Zxid   // the entries of reader up to this one are committed
}

// ReadCommitted returns a reader of the entries after a zxid. Errors are those of wal.Log.NewReader.
func ReadCommitted(log *wal.Writer, after jute.Zxid) (*Committed, error) {
	c := &Committed{log: log, at: after}
	return c, c.open()
}

func (c *Committed) open() (err error) {
	c.reader, err = c.log.NewReader(c.at)
	return err
}

// At returns the zxid of the last entry that was read.
func (c *Committed) At() jute.Zxid { return c.at }

// Close closes the reader.
func (c *Committed) Close() error {
	if c.reader == nil {
		return nil
	}
	r := c.reader
	c.reader = nil
	return r.Close()
}

// Next returns some entries after at, if there are any that are committed for certain. Up to
// applied they are, but the log may have others there: what a new leader drops may still be in
// it, and the record that drops it is written after a while. Once the log has the entry applied,
// it has the history up to it, and nothing else: each entry names the one before.
func (c *Committed) Next(applied jute.Zxid) (list []zab.Entry, err error) {
	if c.at >= c.known {
		probe, err := c.log.NewReader(applied)
		if errors.Is(err, wal.ErrDiscontinuous) {
			return nil, nil // it is not written yet
		} else if err != nil {
			return nil, err
		}
		if err := errors.Join(probe.Close(), c.Close()); err != nil {
			return nil, err
		}
		c.known = applied
	}
	if c.reader == nil {
		if err := c.open(); err != nil {
			return nil, err
		}
	}
	records, err := c.reader.Next(readBytes)
	if errors.Is(err, wal.ErrRewritten) {
		return nil, c.Close()
	}
	for i := range records {
		if !copies.Settled(records[i].Zxid, c.known) {
			return list, c.Close() // it is read again when it is committed
		}
		list = append(list, EntryOf(&records[i]))
		c.at = records[i].Zxid
	}
	return list, err
}
