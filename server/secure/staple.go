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
	of       *tls.Certificate // the key that the rest is about
	key      *tls.Certificate // it with the answer; nil before there is one
	until    time.Time        // the end of the answer
	askAgain time.Time
	asking   bool
	failed   bool // the last time
}

// stapleRetry is the time after which a responder that failed is asked again.
const stapleRetry = time.Minute

// keys returns the keys of c, the first one with an OCSP answer if there is a valid one.
func (t *TLS) keys(c *keystore.Contents) []*tls.Certificate {
	now := time.Now()
	keys := c.KeysAt(now)
	if !t.Staple {
		return keys
	}
	s := &t.staple
	s.Lock()
	defer s.Unlock()
	if s.of == firstOf(keys) && s.key != nil && !now.After(s.until) {
		keys[0] = s.key
	}
	return keys
}

// firstOf returns the first of the keys, nil if there is none. The answer is about it.
func firstOf(keys []*tls.Certificate) *tls.Certificate {
	if len(keys) == 0 {
		return nil
	}
	return keys[0]
}

// refreshStaple asks the responder in the background when it is time for that.
func (t *TLS) refreshStaple(c *keystore.Contents, now time.Time) {
	if !t.Staple {
		return
	}
	s := &t.staple
	own := firstOf(c.KeysAt(now))
	s.Lock()
	defer s.Unlock()
	switch {
	case s.asking:
		return
	case s.of != own:
		s.of, s.key, s.failed = own, nil, false
	case now.Before(s.askAgain):
		return
	}
	s.asking = true
	go t.fetchStaple(own, c.Authorities)
}

func (t *TLS) fetchStaple(own *tls.Certificate, authorities []*x509.Certificate) {
	answer, revoked, until, err := t.askAboutOwn(own, authorities)
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
		t.log.Error("the server's own certificate has been revoked", zap.String("port", t.port), zap.Stringer("serial", own.Leaf.SerialNumber))
	}
	key := *own
	key.OCSPStaple = answer
	s.of, s.key, s.until, s.failed = own, &key, until, false
	s.askAgain = earlier(now.Add(until.Sub(now)/2), now.Add(goodMemory))
}

// askAboutOwn asks the responders about the certificate of the port.
func (t *TLS) askAboutOwn(own *tls.Certificate, authorities []*x509.Certificate) (answer []byte, revoked bool, until time.Time, err error) {
	issuer, err := issuerOf(own, authorities)
	if err != nil {
		return nil, false, until, err
	}
	var reasons []error
	for _, url := range own.Leaf.OCSPServer {
		answer, revoked, until, err = t.revocation.askResponder(url, own.Leaf, issuer)
		if err == nil {
			return answer, revoked, until, nil
		}
		reasons = append(reasons, err)
	}
	return nil, false, until, errors.Join(reasons...)
}

// issuerOf returns the issuer of the port's own certificate. It is an error if the
// certificate can't have a staple.
func issuerOf(own *tls.Certificate, authorities []*x509.Certificate) (*x509.Certificate, error) {
	if own == nil {
		return nil, errors.New("there is no certificate")
	}
	leaf := own.Leaf
	if len(leaf.OCSPServer) == 0 {
		return nil, fmt.Errorf("the certificate of %s names no OCSP responder", leaf.Subject)
	}
	candidates := authorities
	if len(own.Certificate) > 1 {
		if next, err := x509.ParseCertificate(own.Certificate[1]); err == nil {
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
