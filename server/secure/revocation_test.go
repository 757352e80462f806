package secure

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/zkd-project/zkd/internal/testing/certs"
)

// web answers HTTP requests by their URL, and counts them.
type web struct {
	pages map[string]func(body []byte) []byte // nil: not found
	asked int
}

func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	w.asked++
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	page := w.pages[r.URL.String()]
	if page == nil {
		return &http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found", Body: http.NoBody}, nil
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(page(body)))}, nil
}

const (
	listURL      = "http://ca.example/list"
	responderURL = "http://ca.example/ocsp"
)

// revocations are a checker, an authority, and certificates that name the web's pages.
type revocations struct {
	t *testing.T
	revocation
	web       web
	ca        *certs.Authority
	good, bad *x509.Certificate
	staple    []byte
}

func newRevocations(t *testing.T, crl, ocsp bool) *revocations {
	r := &revocations{t: t, ca: certs.New(t, "CA"), web: web{pages: make(map[string]func([]byte) []byte)}}
	r.init(crl, ocsp)
	r.http.Transport = &r.web
	issue := func(name string) *x509.Certificate {
		return r.ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: name},
			CRLDistributionPoints: []string{"ldap://ca.example/list", listURL}, OCSPServer: []string{responderURL}}).Cert
	}
	r.good, r.bad = issue("good"), issue("bad")
	return r
}

// list puts a revocation list with bad in it at listURL.
func (r *revocations) list(by *certs.Authority, valid time.Duration) {
	block, _ := pem.Decode(by.Revoke(time.Now().Add(valid), r.bad))
	r.web.pages[listURL] = func([]byte) []byte { return block.Bytes }
}

// respond puts a responder at responderURL, which signs with another key if by is not
// the authority.
func (r *revocations) respond(by certs.Pair, status int, thisUpdate, nextUpdate time.Duration) {
	r.web.pages[responderURL] = func(body []byte) []byte {
		request, err := ocsp.ParseRequest(body)
		if err != nil {
			r.t.Error(err)
			return nil
		}
		answer := ocsp.Response{Status: status, SerialNumber: request.SerialNumber, ThisUpdate: time.Now().Add(thisUpdate), RevokedAt: time.Now()}
		if nextUpdate != 0 {
			answer.NextUpdate = time.Now().Add(nextUpdate)
		}
		if by.Cert != r.ca.Cert {
			answer.Certificate = by.Cert
		}
		der, err := ocsp.CreateResponse(r.ca.Cert, by.Cert, answer, by.Key)
		if err != nil {
			r.t.Error(err)
		}
		return der
	}
}

// state returns what is found out about a certificate, a word, and the reason if nothing is.
func (r *revocations) state(cert *x509.Certificate, files ...*x509.RevocationList) string {
	err := r.check([][]*x509.Certificate{{cert, r.ca.Cert}}, files, r.staple)
	if unknown, ok := errors.AsType[*UnknownRevocationError](err); ok {
		return "unknown: " + strings.ReplaceAll(unknown.Err.Error(), "\n", "; ")
	}
	if is[*RevokedError](err) {
		return "revoked"
	}
	if err != nil {
		return err.Error()
	}
	return "good"
}

func (r *revocations) want(when string, cert *x509.Certificate, want string) {
	r.t.Helper()
	if got := r.state(cert); got != want && (!strings.HasPrefix(got, "unknown: ") || want == "" || !strings.Contains(got, want)) {
		r.t.Errorf("%s: %s is %s, want %s", when, cert.Subject, got, want)
	}
}

// TestDistributionPoint fetches a list, keeps it, and refuses everybody without a valid one.
func TestDistributionPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRevocations(t, true, false)
		r.want("without a list", r.good, "404 Not Found")
		r.list(r.ca, 24*time.Hour)
		r.want("soon after", r.good, "404 Not Found") // the failure is remembered
		time.Sleep(failureMemory + 1)
		r.want("with a list", r.good, "good")
		r.want("with a list", r.bad, "revoked")
		asked := r.web.asked
		r.want("later", r.good, "good")
		if r.web.asked != asked {
			t.Error("the list was fetched again at once")
		}
		delete(r.web.pages, listURL)
		time.Sleep(23 * time.Hour)
		r.want("while nobody answers", r.good, "good")
		r.want("while nobody answers", r.bad, "revoked")
		time.Sleep(2 * time.Hour)
		r.want("after the end of the list", r.good, "404 Not Found")
		r.want("after the end of the list", r.bad, "404 Not Found")
	})
}

// TestBadLists has lists that must not count.
func TestBadLists(t *testing.T) {
	r := newRevocations(t, true, false)
	for _, test := range []struct {
		name string
		page []byte
		want string
	}{
		{"nonsense", []byte("nonsense"), "the revocation list at " + listURL},
		{"out of date", r.ca.Revoke(time.Now().Add(-time.Hour)), "is valid from"},
		{"of another authority", certs.New(t, "other").Revoke(time.Now().Add(time.Hour)), "is of CN=other"},
		{"forged", certs.New(t, "CA").Revoke(time.Now().Add(time.Hour)), "verification"},
		{"too long", make([]byte, maxListSize+1), "more than"},
	} {
		if block, _ := pem.Decode(test.page); block != nil {
			test.page = block.Bytes
		}
		clear(r.answers)
		r.web.pages[listURL] = func([]byte) []byte { return test.page }
		r.want(test.name, r.good, test.want)
	}
}

// TestListFiles has lists in files, which come before those that certificates name.
func TestListFiles(t *testing.T) {
	r := newRevocations(t, true, false)
	parse := func(text []byte) *x509.RevocationList {
		block, _ := pem.Decode(text)
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	other := parse(certs.New(t, "other").Revoke(time.Now().Add(time.Hour)))
	list := parse(r.ca.Revoke(time.Now().Add(time.Hour), r.bad))
	old := parse(r.ca.Revoke(time.Now().Add(-time.Hour)))
	for _, test := range []struct {
		name  string
		cert  *x509.Certificate
		files []*x509.RevocationList
		want  string
	}{
		{"good", r.good, []*x509.RevocationList{other, list}, "good"},
		{"bad", r.bad, []*x509.RevocationList{other, list}, "revoked"},
		{"an old one first", r.bad, []*x509.RevocationList{old, list}, "revoked"},
		{"an old one alone", r.good, []*x509.RevocationList{old}, "unknown"},
		{"of another authority", r.good, []*x509.RevocationList{other}, "unknown"},
	} {
		if got := r.state(test.cert, test.files...); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %s", test.name, got)
		}
	}
	if n := len(r.verified); n > 2 {
		t.Errorf("%d lists are kept", n)
	}
}

// issued returns a revocation list of an authority with a number, from some hours ago.
func issued(t *testing.T, by *certs.Authority, number int64, ago time.Duration, entries ...x509.RevocationListEntry) *x509.RevocationList {
	t.Helper()
	about := &x509.RevocationList{ThisUpdate: time.Now().Add(-ago), NextUpdate: time.Now().Add(24 * time.Hour), RevokedCertificateEntries: entries,
		Number: big.NewInt(number)}
	der, err := x509.CreateRevocationList(rand.Reader, about, by.Cert, by.Key)
	if err != nil {
		t.Fatal(err)
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestNewestList has several valid lists of one authority, in each order: the newest decides,
// by its number and then by its time. Lists of another authority of that name do not count.
func TestNewestList(t *testing.T) {
	r := newRevocations(t, true, false)
	bad := x509.RevocationListEntry{SerialNumber: r.bad.SerialNumber, RevocationTime: time.Now().Add(-time.Hour)}
	namesake := certs.New(t, "CA")
	list := func(number int64, ago time.Duration, entries ...x509.RevocationListEntry) *x509.RevocationList {
		return issued(t, r.ca, number, ago, entries...)
	}
	for _, test := range []struct {
		name  string
		files []*x509.RevocationList
		want  string
	}{
		{"the newer one revokes", []*x509.RevocationList{list(1, 9*time.Hour), list(2, time.Hour, bad)}, "revoked"},
		{"the newer one releases", []*x509.RevocationList{list(1, 9*time.Hour, bad), list(2, time.Hour)}, "good"},
		{"of one number, by time", []*x509.RevocationList{list(1, 9*time.Hour), list(1, time.Hour, bad)}, "revoked"},
		{"of one number and time", []*x509.RevocationList{list(1, time.Hour), list(1, time.Hour, bad)}, "revoked"},
		{"the number, not the time", []*x509.RevocationList{list(2, 9*time.Hour, bad), list(1, time.Hour)}, "revoked"},
		{"of a namesake", []*x509.RevocationList{list(1, 9*time.Hour, bad), issued(t, namesake, 2, time.Hour)}, "revoked"},
		{"three", []*x509.RevocationList{list(2, 9*time.Hour), list(3, time.Hour, bad), list(1, 20*time.Hour)}, "revoked"},
	} {
		for range test.files {
			test.files = append(test.files[1:], test.files[0])
			if got := r.state(r.bad, test.files...); got != test.want {
				t.Errorf("%s: %s, want %s", test.name, got, test.want)
			}
		}
	}
}

// TestNewestListOfPlaces has a certificate that names two places, of which one is behind.
func TestNewestListOfPlaces(t *testing.T) {
	r := newRevocations(t, true, false)
	cert := r.ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "two"}, CRLDistributionPoints: []string{listURL, listURL + "2"}}).Cert
	page := func(list *x509.RevocationList) func([]byte) []byte { return func([]byte) []byte { return list.Raw } }
	old := page(issued(t, r.ca, 1, 9*time.Hour))
	now := page(issued(t, r.ca, 2, time.Hour, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: time.Now().Add(-time.Hour)}))
	for _, pages := range []map[string]func([]byte) []byte{{listURL: old, listURL + "2": now}, {listURL: now, listURL + "2": old}} {
		clear(r.answers)
		r.web.pages = pages
		r.want("two places", cert, "revoked")
	}
}

// TestListEntries has entries that do not revoke, and one that only some readers understand.
func TestListEntries(t *testing.T) {
	r := newRevocations(t, true, false)
	entry := func(e x509.RevocationListEntry) *x509.RevocationList {
		e.SerialNumber, e.RevocationTime = r.bad.SerialNumber, time.Now().Add(-time.Hour)
		return issued(t, r.ca, 1, time.Hour, e)
	}
	critical := x509.RevocationListEntry{ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 29}, Critical: true, Value: []byte{0x30, 0}}}}
	for name, test := range map[string]struct {
		list *x509.RevocationList
		want string
	}{
		"removeFromCRL":   {entry(x509.RevocationListEntry{ReasonCode: removeFromCRL}), "good"},
		"certificateHold": {entry(x509.RevocationListEntry{ReasonCode: 6}), "revoked"},
		"no reason":       {entry(x509.RevocationListEntry{}), "revoked"},
		"critical":        {entry(critical), "unknown"},
	} {
		if got := r.state(r.bad, test.list); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestRevokedAuthority has certificates below an authority that was revoked.
func TestRevokedAuthority(t *testing.T) {
	r := newRevocations(t, true, false)
	below := certs.NewBelow(t, r.ca, "below")
	chain := [][]*x509.Certificate{{below.Issue("app").Cert, below.Cert, r.ca.Cert}}
	own := issued(t, below, 1, time.Hour)
	entry := x509.RevocationListEntry{SerialNumber: below.Cert.SerialNumber, RevocationTime: time.Now().Add(-time.Hour)}
	old, now := issued(t, r.ca, 1, 9*time.Hour), issued(t, r.ca, 2, time.Hour, entry)
	if err := r.check(chain, []*x509.RevocationList{own, old}, nil); err != nil {
		t.Error(err)
	}
	if err := r.check(chain, []*x509.RevocationList{own, old, now}, nil); !is[*RevokedError](err) {
		t.Error(err)
	}
}

// TestOCSP asks a responder.
func TestOCSP(t *testing.T) {
	r := newRevocations(t, false, true)
	delegate := r.ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "responder"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning}})
	for _, test := range []struct {
		name    string
		by      certs.Pair
		status  int
		from    time.Duration
		until   time.Duration
		outcome string
	}{
		{"good", r.ca.Pair, ocsp.Good, 0, time.Hour, "good"},
		{"good for now", r.ca.Pair, ocsp.Good, 0, 0, "good"},
		{"revoked", r.ca.Pair, ocsp.Revoked, 0, time.Hour, "revoked"},
		{"unknown", r.ca.Pair, ocsp.Unknown, 0, time.Hour, "it does not know the certificate"},
		{"by a delegate", delegate, ocsp.Good, 0, time.Hour, "good"},
		{"by another certificate of the authority", r.ca.Issue("app"), ocsp.Good, 0, time.Hour, "is not for that"},
		{"by another authority", certs.New(t, "CA").Pair, ocsp.Good, 0, time.Hour, "the OCSP responder " + responderURL},
		{"old", r.ca.Pair, ocsp.Good, -2 * time.Hour, -time.Hour, "was valid until"},
		{"of tomorrow", r.ca.Pair, ocsp.Good, 24 * time.Hour, 48 * time.Hour, "from the future"},
	} {
		clear(r.answers)
		r.respond(test.by, test.status, test.from, test.until)
		r.want(test.name, r.good, test.outcome)
	}
	clear(r.answers)
	r.web.pages[responderURL] = func([]byte) []byte { return ocsp.TryLaterErrorResponse }
	r.want("an error", r.good, "try later")
}

// TestOCSPOfAnother replays the good answer for one certificate to the question about another.
func TestOCSPOfAnother(t *testing.T) {
	r := newRevocations(t, false, true)
	r.respond(r.ca.Pair, ocsp.Good, 0, time.Hour)
	request, err := ocsp.CreateRequest(r.good, r.ca.Cert, &ocsp.RequestOptions{Hash: crypto.SHA1})
	if err != nil {
		t.Fatal(err)
	}
	replay := r.web.pages[responderURL](request)
	r.web.pages[responderURL] = func([]byte) []byte { return replay }
	r.want("an answer about another", r.bad, "the OCSP responder")
}

// TestStaples has clients that send the OCSP answer about their certificate.
func TestStaples(t *testing.T) {
	r := newRevocations(t, false, true)
	answer := func(of *x509.Certificate, by certs.Pair, status int, from, until time.Duration) []byte {
		t.Helper()
		r.respond(by, status, from, until)
		request, err := ocsp.CreateRequest(of, r.ca.Cert, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.web.pages[responderURL](request)
	}
	for _, test := range []struct {
		name    string
		staple  []byte
		outcome string
	}{
		{"good", answer(r.good, r.ca.Pair, ocsp.Good, 0, time.Hour), "good"},
		{"revoked", answer(r.good, r.ca.Pair, ocsp.Revoked, 0, time.Hour), "revoked"},
		{"old", answer(r.good, r.ca.Pair, ocsp.Good, -2*time.Hour, -time.Hour), "was valid until"},
		{"of another certificate", answer(r.bad, r.ca.Pair, ocsp.Good, 0, time.Hour), "the stapled OCSP answer"},
		{"by another authority", answer(r.good, certs.New(t, "CA").Pair, ocsp.Good, 0, time.Hour), "the stapled OCSP answer"},
		{"nonsense", []byte("nonsense"), "the stapled OCSP answer"},
	} {
		clear(r.answers)
		clear(r.web.pages)
		r.staple = test.staple
		r.want(test.name, r.good, test.outcome)
	}
	r.staple = answer(r.good, r.ca.Pair, ocsp.Good, 0, time.Hour)
	clear(r.answers)
	r.respond(r.ca.Pair, ocsp.Revoked, 0, time.Hour)
	r.want("the responder knows better", r.good, "revoked")
}

// TestOCSPThenList falls back to a list if the responder does not answer.
func TestOCSPThenList(t *testing.T) {
	r := newRevocations(t, true, true)
	r.list(r.ca, time.Hour)
	r.want("no responder", r.bad, "revoked")
	clear(r.answers)
	r.respond(r.ca.Pair, ocsp.Good, 0, time.Hour)
	r.want("a responder", r.bad, "good")
	none := r.ca.Issue("names nobody").Cert
	r.want("no source", none, "it names no OCSP responder")
}

// TestChains has two chains, one with a revoked certificate.
func TestChains(t *testing.T) {
	r := newRevocations(t, true, false)
	r.list(r.ca, time.Hour)
	over := [][]*x509.Certificate{{r.bad, r.ca.Cert}}
	if err := r.check(over, nil, nil); err == nil {
		t.Error("a chain through a revoked certificate is good")
	}
	if err := r.check(append(over, []*x509.Certificate{r.good, r.ca.Cert}), nil, nil); err != nil {
		t.Error(err)
	}
	if err := r.check([][]*x509.Certificate{{r.bad}}, nil, nil); err != nil {
		t.Errorf("a certificate that is trusted by itself: %v", err)
	}
}
