package snapshot

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// checkTimeout bounds the wait for another program that has the file open for writing.
const checkTimeout = time.Second

// Check opens a snapshot with bbolt, as other programs do, and has it examine the file. It is for
// files that Load accepts: bbolt trusts what it reads, and a wrong page may end the process. It maps
// the whole file.
func (s *Store) Check(name string) error {
	db, err := bbolt.Open(s.Path(name), 0o400, &bbolt.Options{ReadOnly: true, Timeout: checkTimeout})
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		var found []error
		for e := range tx.Check() {
			found = append(found, fmt.Errorf("%s: bbolt: %w", s.Path(name), e))
		}
		return errors.Join(found...)
	})
	return errors.Join(err, db.Close())
}
