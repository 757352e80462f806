package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/keystore"
)

// staple is the OCSP answer about the certificate of the port, which clients get with it.
type staple struct {
	sync.Mutex
	of       *keystore.Contents // whose certificate the rest is about
	key      *tls.Certificate   // its key and certificate with the answer; nil before there is one
	until    time.Time          // the end of the answer
	askAgain time.Time
	asking   bool
	failed   bool // the last time
}

// stapleRetry is the time after which a responder that failed is asked again.
const stapleRetry = time.Minute

// key returns the key of c, with an OCSP answer if there is a valid one.
func (t *TLS) key(c *keystore.Contents) *tls.Certificate {
	if !t.Staple {
		return c.Key
	}
	t.staple.Lock()
	defer t.staple.Unlock()
	if t.staple.of != c || t.staple.key == nil || time.Now().After(t.staple.until) {
		return c.Key
	}
	return t.staple.key
}

// refreshStaple asks the responder in the background when it is time for that.
func (t *TLS) refreshStaple(c *keystore.Contents, now time.Time) {
	if !t.Staple {
		return
	}
	s := &t.staple
	s.Lock()
	defer s.Unlock()
	switch {
	case s.asking:
		return
	case s.of != c:
		s.of, s.key, s.failed = c, nil, false
	case now.Before(s.askAgain):
		return
	}
	s.asking = true
	go t.fetchStaple(c)
}

func (t *TLS) fetchStaple(c *keystore.Contents) {
	answer, revoked, until, err := t.askAboutOwn(c)
	now := time.Now()
	s := &t.staple
	s.Lock()
	defer s.Unlock()
	s.asking = false
	if err != nil {
		s.askAgain = now.Add(stapleRetry)
		if !s.failed {
			t.log.Warn("no OCSP answer to staple", zap.String("port", t.port), zap.Time("last_valid_until", s.until), zap.Error(err))
		}
		s.failed = true
		return
	}
	if s.failed || s.key == nil {
		t.log.Info("OCSP answer stapled", zap.String("port", t.port), zap.Time("until", until))
	}
	if revoked {
		t.log.Error("the server's own certificate has been revoked", zap.String("port", t.port), zap.Stringer("serial", c.Key.Leaf.SerialNumber))
	}
	key := *c.Key
	key.OCSPStaple = answer
	s.of, s.key, s.until, s.failed = c, &key, until, false
	s.askAgain = earlier(now.Add(until.Sub(now)/2), now.Add(goodMemory))
}

// askAboutOwn asks the responders about the certificate of the port.
func (t *TLS) askAboutOwn(c *keystore.Contents) (answer []byte, revoked bool, until time.Time, err error) {
	issuer, err := issuerOf(c)
	if err != nil {
		return nil, false, until, err
	}
	var reasons []error
	for _, url := range c.Key.Leaf.OCSPServer {
		answer, revoked, until, err = t.revocation.askResponder(url, c.Key.Leaf, issuer)
		if err == nil {
			return answer, revoked, until, nil
		}
		reasons = append(reasons, err)
	}
	return nil, false, until, errors.Join(reasons...)
}

// issuerOf returns the issuer of the port's own certificate. It is an error if the
// certificate can't have a staple.
func issuerOf(c *keystore.Contents) (*x509.Certificate, error) {
	if c.Key == nil {
		return nil, errors.New("there is no certificate")
	}
	leaf := c.Key.Leaf
	if len(leaf.OCSPServer) == 0 {
		return nil, fmt.Errorf("the certificate of %s names no OCSP responder", leaf.Subject)
	}
	candidates := c.Authorities
	if len(c.Key.Certificate) > 1 {
		if next, err := x509.ParseCertificate(c.Key.Certificate[1]); err == nil {
			candidates = append([]*x509.Certificate{next}, candidates...)
		}
	}
	for _, issuer := range candidates {
		if leaf.CheckSignatureFrom(issuer) == nil {
			return issuer, nil
		}
	}
	return nil, fmt.Errorf("the certificate of the authority that signed %s is neither after it nor in the trust store", leaf.Subject)
}
