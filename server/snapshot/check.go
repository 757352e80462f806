package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// checkTimeout bounds the wait for another program that has the file open for writing.
const checkTimeout = time.Second

// Check reads all items of a snapshot with bbolt, as other programs do. The keys of each bucket must
// be in order. It is for files that Load accepts: bbolt trusts what it reads, and a wrong page may
// end the process. It maps the whole file.
func (s *Store) Check(name string) error {
	db, err := bbolt.Open(s.Path(name), 0o400, &bbolt.Options{ReadOnly: true, Timeout: checkTimeout})
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(bucket []byte, b *bbolt.Bucket) error {
			var last []byte
			return b.ForEach(func(k, _ []byte) error {
				if bytes.Compare(k, last) <= 0 {
					return fmt.Errorf("%s: bucket %s: bbolt finds key %.100q after %.100q", s.Path(name), bucket, k, last)
				}
				last = k
				return nil
			})
		})
	})
	return errors.Join(err, db.Close())
}
