package secure

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/zkd-project/zkd/internal/ocspstatus"
)

// revocation finds out whether certificates have been revoked, and remembers answers for as
// long as they are valid.
type revocation struct {
	crl, ocsp bool
	http      *http.Client

	mu       sync.Mutex
	answers  map[string]*answer // by the URL of a list, or the certificate of an OCSP request
	verified map[*x509.RevocationList]*list
}

const (
	fetchTimeout  = 5 * time.Second
	maxListSize   = 16 << 20
	maxOCSPSize   = 64 << 10
	mostAnswers   = 4096
	failureMemory = 10 * time.Second // before a source that failed is asked again
	goodMemory    = time.Hour        // before a source is asked again although its answer is valid
	clockSkew     = ocspstatus.ClockSkew
)

// RevokedError means that a certificate has been revoked.
type RevokedError struct{ Cert *x509.Certificate }

func (e *RevokedError) Error() string {
	return fmt.Sprintf("the certificate of %s has been revoked", e.Cert.Subject)
}

// UnknownRevocationError means that it is not known whether a certificate has been revoked.
type UnknownRevocationError struct {
	Cert *x509.Certificate
	Err  error
}

func (e *UnknownRevocationError) Error() string {
	return fmt.Sprintf("it is not known whether the certificate of %s has been revoked: %v", e.Cert.Subject, e.Err)
}

func (e *UnknownRevocationError) Unwrap() error { return e.Err }

func (r *revocation) init(crl, useOCSP bool) {
	r.crl, r.ocsp = crl, useOCSP
	r.answers = make(map[string]*answer)
	r.verified = make(map[*x509.RevocationList]*list)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	r.http = &http.Client{Timeout: fetchTimeout, Transport: transport}
}

// check checks that in one of the chains no certificate has been revoked. The last
// certificate of a chain is trusted by itself. staple is the OCSP answer about the first
// one that the other side has sent, if any.
func (r *revocation) check(chains [][]*x509.Certificate, files []*x509.RevocationList, staple []byte) (err error) {
	if !r.crl && !r.ocsp {
		return nil
	}
	for _, chain := range chains {
		if err = r.checkChain(chain, files, staple); err == nil {
			return nil
		}
	}
	return err
}

func (r *revocation) checkChain(chain []*x509.Certificate, files []*x509.RevocationList, staple []byte) error {
	for i := range len(chain) - 1 {
		if err := r.checkOne(chain[i], chain[i+1], files, staple); err != nil {
			return err
		}
		staple = nil
	}
	return nil
}

// checkOne asks one source after the other until one knows the certificate. A staple may be
// older than what the responder would say, so it only counts if that does not answer.
func (r *revocation) checkOne(cert, issuer *x509.Certificate, files []*x509.RevocationList, staple []byte) error {
	var reasons []error
	known := func(revoked bool, err error) bool {
		if err != nil {
			reasons = append(reasons, err)
			return false
		}
		reasons = nil
		if revoked {
			reasons = []error{&RevokedError{cert}}
		}
		return true
	}
	switch {
	case r.ocsp && known(r.askResponders(cert, issuer)):
	case r.ocsp && len(staple) > 0 && known(stapled(staple, cert, issuer)):
	case r.crl && known(r.lookUp(cert, issuer, files)):
	default:
		return &UnknownRevocationError{cert, errors.Join(reasons...)}
	}
	return errors.Join(reasons...)
}

// answer is what a source has answered.
type answer struct {
	sync.Mutex           // held while the source is asked, so that it is asked once
	list       *list     // of a revocation list
	revoked    bool      // of OCSP
	validUntil time.Time // zero before the first answer
	askAgain   time.Time
	err        error // of the last attempt
}

// answerOf returns the answer of a source, with its lock held. Beyond a number of them, all
// are forgotten.
func (r *revocation) answerOf(source string) *answer {
	r.mu.Lock()
	a := r.answers[source]
	if a == nil {
		if len(r.answers) >= mostAnswers {
			clear(r.answers)
		}
		a = new(answer)
		r.answers[source] = a
	}
	r.mu.Unlock()
	a.Lock()
	return a
}

// refresh calls ask, unless the answer is recent. It returns an error if there is no valid
// answer.
func (a *answer) refresh(ask func() (validUntil time.Time, err error)) error {
	now := time.Now()
	if now.After(a.askAgain) {
		var until time.Time
		if until, a.err = ask(); a.err == nil {
			a.validUntil, a.askAgain = until, earlier(until, now.Add(goodMemory))
		} else {
			a.askAgain = time.Now().Add(failureMemory)
		}
	}
	if time.Now().After(a.validUntil) {
		if a.err == nil {
			return errors.New("the last answer is no longer valid")
		}
		return a.err
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// askResponders asks the OCSP responders that the certificate names.
func (r *revocation) askResponders(cert, issuer *x509.Certificate) (revoked bool, err error) {
	if len(cert.OCSPServer) == 0 {
		return false, errors.New("it names no OCSP responder")
	}
	id := sha256.Sum256(slices.Concat(cert.Raw, issuer.Raw))
	a := r.answerOf(string(id[:]))
	defer a.Unlock()
	err = a.refresh(func() (time.Time, error) {
		var reasons []error
		for _, url := range cert.OCSPServer {
			_, revoked, until, err := r.askResponder(url, cert, issuer)
			if err == nil {
				a.revoked = revoked
				return until, nil
			}
			reasons = append(reasons, err)
		}
		return time.Time{}, errors.Join(reasons...)
	})
	return a.revoked, err
}

func (r *revocation) askResponder(url string, cert, issuer *x509.Certificate) (answer []byte, revoked bool, until time.Time, err error) {
	request, err := ocsp.CreateRequest(cert, issuer, nil)
	if err != nil {
		return nil, false, until, fmt.Errorf("OCSP: %w", err)
	}
	answer, err = r.fetch(http.MethodPost, url, request, maxOCSPSize)
	if err != nil {
		return nil, false, until, err
	}
	revoked, until, err = ocspstatus.Of(answer, cert, issuer)
	if err != nil {
		return nil, false, until, fmt.Errorf("the OCSP responder %s: %w", url, err)
	}
	return answer, revoked, until, nil
}

// stapled is what a staple says.
func stapled(staple []byte, cert, issuer *x509.Certificate) (revoked bool, err error) {
	revoked, _, err = ocspstatus.Of(staple, cert, issuer)
	if err != nil {
		return false, fmt.Errorf("the stapled OCSP answer: %w", err)
	}
	return revoked, nil
}

// list is a revocation list.
type list struct {
	*x509.RevocationList
	revoked  map[string]bool  // by the serial number
	critical []pkix.Extension // of the list and of its entries
	issuers  sync.Map         // the issuers whose signature it has, by their DER: error or nil
}

func newList(parsed *x509.RevocationList) *list {
	l := &list{RevocationList: parsed, revoked: make(map[string]bool, len(parsed.RevokedCertificateEntries))}
	l.addCritical(parsed.Extensions)
	for _, e := range parsed.RevokedCertificateEntries {
		l.revoked[serial(e.SerialNumber)] = e.ReasonCode != removeFromCRL
		l.addCritical(e.Extensions)
	}
	return l
}

func (l *list) addCritical(extensions []pkix.Extension) {
	for _, e := range extensions {
		if e.Critical {
			l.critical = append(l.critical, e)
		}
	}
}

// serial returns a serial number as a key. It may be negative.
func serial(n *big.Int) string { return n.Text(62) }

const removeFromCRL = 8 // of RFC 5280, section 5.3.1

// newerThan reports whether l was issued after other, a list of the same issuer.
func (l *list) newerThan(other *list) bool {
	if l.Number != nil && other.Number != nil && l.Number.Cmp(other.Number) != 0 {
		return l.Number.Cmp(other.Number) > 0
	}
	return l.ThisUpdate.After(other.ThisUpdate)
}

// check checks that the list is one of the issuer, and valid.
func (l *list) check(issuer *x509.Certificate) error {
	if !bytes.Equal(l.RawIssuer, issuer.RawSubject) {
		return fmt.Errorf("the revocation list is of %s", l.Issuer)
	}
	for _, e := range l.critical {
		return fmt.Errorf("the revocation list of %s has the critical extension %v, which zkd does not know: it may not have all certificates", l.Issuer, e.Id)
	}
	now := time.Now()
	if now.After(l.NextUpdate) || l.ThisUpdate.After(now.Add(clockSkew)) {
		return fmt.Errorf("the revocation list of %s is valid from %v to %v", l.Issuer, l.ThisUpdate, l.NextUpdate)
	}
	key := string(issuer.Raw)
	if err, known := l.issuers.Load(key); known {
		return err.(signature).error
	}
	var s signature
	if err := l.CheckSignatureFrom(issuer); err != nil {
		s.error = fmt.Errorf("the revocation list of %s: %w", l.Issuer, err)
	}
	l.issuers.Store(key, s)
	return s.error
}

// signature is the result of the check of a signature.
type signature struct{ error }

// lookUp looks a certificate up in the newest valid list of its issuer: of those in files, or,
// if these have none, of those at the places that the certificate names. Lists of one number
// and time count together.
func (r *revocation) lookUp(cert, issuer *x509.Certificate, files []*x509.RevocationList) (revoked bool, err error) {
	var newest []*list
	var reasons []error
	consider := func(l *list, err error) {
		switch {
		case err != nil:
			reasons = append(reasons, err)
		case len(newest) == 0 || l.newerThan(newest[0]):
			newest = []*list{l}
		case !newest[0].newerThan(l):
			newest = append(newest, l)
		}
	}
	for _, parsed := range files {
		if bytes.Equal(parsed.RawIssuer, issuer.RawSubject) {
			l := r.fileList(parsed, files)
			consider(l, l.check(issuer))
		}
	}
	if len(newest) == 0 {
		for _, url := range cert.CRLDistributionPoints {
			consider(r.listAt(url, issuer))
		}
	}
	switch {
	case len(newest) > 0:
		return slices.ContainsFunc(newest, func(l *list) bool { return l.revoked[serial(cert.SerialNumber)] }), nil
	case len(reasons) == 0:
		return false, errors.New("there is no revocation list of its issuer, and it names none")
	}
	return false, errors.Join(reasons...)
}

// fileList returns the index of a list. It forgets those that are not in files.
func (r *revocation) fileList(parsed *x509.RevocationList, files []*x509.RevocationList) *list {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.verified[parsed]
	if l == nil {
		for old := range r.verified {
			if !slices.Contains(files, old) {
				delete(r.verified, old)
			}
		}
		l = newList(parsed)
		r.verified[parsed] = l
	}
	return l
}

// listAt returns the issuer's list at a URL.
func (r *revocation) listAt(url string, issuer *x509.Certificate) (*list, error) {
	a := r.answerOf(url)
	defer a.Unlock()
	err := a.refresh(func() (until time.Time, err error) {
		body, err := r.fetch(http.MethodGet, url, nil, maxListSize)
		if err != nil {
			return until, err
		}
		parsed, err := x509.ParseRevocationList(body)
		if err != nil {
			return until, fmt.Errorf("the revocation list at %s: %w", url, err)
		}
		l := newList(parsed)
		if err := l.check(issuer); err != nil {
			return until, fmt.Errorf("%s: %w", url, err)
		}
		if a.list == nil || a.list.check(issuer) != nil || !a.list.newerThan(l) {
			a.list = l
		}
		return a.list.NextUpdate, nil
	})
	if err == nil {
		err = a.list.check(issuer)
	}
	return a.list, err
}

// fetch sends a request by HTTP and returns the answer.
func (r *revocation) fetch(method, url string, body []byte, maxSize int64) ([]byte, error) {
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return nil, fmt.Errorf("%s is no HTTP address", url)
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/ocsp-request")
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", url, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	case int64(len(answer)) > maxSize:
		return nil, fmt.Errorf("%s: more than %d bytes", url, maxSize)
	}
	return answer, nil
}
