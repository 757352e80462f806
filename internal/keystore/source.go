package keystore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Files are the files of one TLS configuration.
type Files struct {
	Key   Store    // no File: no key
	Trust Store    // no File: no authorities
	CRLs  []string // certificate revocation lists, in PEM or DER
}

// Contents are what Files contain. They are not changed afterwards.
type Contents struct {
	Keys        []*tls.Certificate  // nil without Files.Key
	Authorities []*x509.Certificate // nil without Files.Trust
	Pool        *x509.CertPool      // the Authorities, nil without Files.Trust
	CRLs        []*x509.RevocationList
	Skipped     []error // what is in the files and can't be used
}

// KeysAt returns the keys to use at a time, in the order of the file: of those of one kind,
// such as RSA, the one whose certificate is valid, and of several the one that expires last.
func (c *Contents) KeysAt(now time.Time) (keys []*tls.Certificate) {
	valid := func(k *tls.Certificate) bool { return !now.Before(k.Leaf.NotBefore) && !now.After(k.Leaf.NotAfter) }
	for _, k := range c.Keys {
		i := slices.IndexFunc(keys, func(other *tls.Certificate) bool {
			return other.Leaf.PublicKeyAlgorithm == k.Leaf.PublicKeyAlgorithm
		})
		switch {
		case i < 0:
			keys = append(keys, k)
		case valid(k) != valid(keys[i]):
			if valid(k) {
				keys[i] = k
			}
		case k.Leaf.NotAfter.After(keys[i].Leaf.NotAfter):
			keys[i] = k
		}
	}
	return keys
}

// Read reads the files with read, which may be nil for the operating system's.
func (f Files) Read(read func(name string) ([]byte, error)) (*Contents, error) {
	if read == nil {
		read = osRead
	}
	c := new(Contents)
	var err error
	if f.Key.File != "" {
		if c.Keys, c.Skipped, err = f.Key.ReadKeys(read); err != nil {
			return nil, err
		}
	}
	if f.Trust.File != "" {
		var skipped []error
		if c.Authorities, skipped, err = f.Trust.ReadTrust(read); err != nil {
			return nil, err
		}
		c.Skipped = append(c.Skipped, skipped...)
		c.Pool = x509.NewCertPool()
		for _, cert := range c.Authorities {
			c.Pool.AddCert(cert)
		}
	}
	for _, name := range f.CRLs {
		b, err := readFile(read, name)
		if err != nil {
			return nil, err
		}
		lists, err := parseCRLs(b)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		c.CRLs = append(c.CRLs, lists...)
	}
	return c, nil
}

func (f Files) names() []string {
	names := []string{f.Key.File, f.Key.KeyFile, f.Key.PasswordFile, f.Trust.File, f.Trust.PasswordFile}
	return append(names, f.CRLs...)
}

// Source holds the contents of files. It may be used from any goroutine.
type Source struct {
	files   Files
	read    func(name string) ([]byte, error) // nil for the operating system's
	changed func(*Contents, error)
	fails   atomic.Int64
	failure atomic.Pointer[error] // of the last read; nil after one that succeeded

	mu struct {
		sync.Mutex
		versions []os.FileInfo // of the files, as they were last read; nil for one that was not there
		contents *Contents
	}
}

// Open reads the files. When they have changed, Contents calls changed with the new
// contents, or with the reason why they can't be used. changed must not use the Source.
func Open(f Files, changed func(*Contents, error)) (*Source, error) {
	s := &Source{files: f, changed: changed}
	s.mu.versions = s.versions()
	var err error
	s.mu.contents, err = f.Read(nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Source) versions() []os.FileInfo {
	names := s.files.names()
	list := make([]os.FileInfo, len(names))
	for i, name := range names {
		if name != "" {
			list[i], _ = os.Stat(name)
		}
	}
	return list
}

func sameVersion(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && os.SameFile(a, b)
}

// Contents returns the present contents of the files, or the last ones that could be used.
// It looks at the files, which takes a few microseconds, and reads them if they have changed, until the operating system
// lets it read all of them.
func (s *Source) Contents() *Contents {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.versions()
	same := true
	for i := range now {
		same = same && sameVersion(now[i], s.mu.versions[i])
	}
	if same {
		return s.mu.contents
	}
	c, err := s.files.Read(s.read)
	if !isUnread(err) {
		s.mu.versions = now
	} else if isUnread(s.Failure()) {
		return s.mu.contents // read again each time; it was told of once
	}
	if err != nil {
		s.fails.Add(1)
		s.failure.Store(&err)
	} else {
		s.mu.contents = c
		s.failure.Store(nil)
	}
	s.changed(c, err)
	return s.mu.contents
}

// isUnread reports whether the operating system did not let a file be read: descriptors, memory, a disk or permissions may
// be there later, and the file still have the same version. What is in a file, and wrong, stays so until it changes.
func isUnread(err error) bool {
	_, unread := errors.AsType[syscall.Errno](err)
	return unread
}

// Failures returns how often changed files could not be used.
func (s *Source) Failures() int64 { return s.fails.Load() }

// Failure returns why the files, as they are now, can't be used, or nil if they are.
func (s *Source) Failure() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}
