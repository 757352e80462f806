package clients

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/auth/sasl"
	"github.com/zkd-project/zkd/server/clients/line"
)

// errNullToken means that a SASL request has no token.
var errNullToken = errors.New("SASL request with a null token")

// errSpeaksNoMore means that the rules for edges have changed.
var errSpeaksNoMore = fmt.Errorf("the edge may not speak for this client any more (zkd.edge): %w", jute.ErrAuthFailed)

// login changes the identity of a connection by what its client proves. It answers the requests for that
// at once, before requests that still wait, and the identities apply to the requests after it. The
// reader of the connection owns it.
type login struct {
	proofs   *Proofs
	identity *identity
	line     *guardedLine
	exchange *sasl.Exchange // nil if the client sent no SASL token
}

// auth handles an auth packet, and answers one that proves nothing. turn waits for the turn of an attempt. One that
// can't be decoded ends the connection without a reply, as in Apache's server.
func (l *login) auth(req *line.Request, turn func(time.Duration) error) error {
	var r jute.AuthRequest
	d := jute.NewDecoder(req.Body)
	r.Decode(&d)
	if d.Err() != nil {
		return fmt.Errorf("auth packet: %w", d.Err())
	}
	creds, wrong, err := l.proofs.prove(&r, l.identity.credentials.Load(), l.identity.ip(), turn)
	ended := errors.Is(err, auth.ErrEnded)
	if err != nil && !ended {
		return l.failAuth(req, &r, err)
	}
	l.identity.set(creds, l.proofs.now())
	if !l.proofs.schemes.StillSpeaks(creds) { // the rules have changed before endSpoken could see it
		return l.failAuth(req, &r, errSpeaksNoMore)
	}
	code := jute.Code(0)
	if wrong || ended { // a wrong one is another digest user than the super user, as on Apache's server
		code = jute.ErrAuthFailed
	}
	l.record(&r, code)
	return nil
}

// failAuth answers an auth packet that proves nothing, and returns the error that ends the
// connection.
func (l *login) failAuth(req *line.Request, r *jute.AuthRequest, err error) error {
	if isEnd(err) {
		return err
	}
	code := jute.ErrAuthFailed
	errors.As(err, &code)
	l.proofs.metrics.AuthFailed.Add(1)
	l.record(r, code)
	if errors.Is(err, auth.ErrOtherEnsemble) {
		return err
	}
	l.line.reply(req.Xid, 0, code)
	l.line.endAfterFlush()
	return fmt.Errorf("auth packet with scheme %q: %w", r.Scheme, err)
}

// sasl handles a token of SASL (wire.md section 17). secure: the connection has TLS. A request without a token ends the
// connection without a reply, as in Apache's server.
func (l *login) sasl(req *line.Request, secure bool, turn func(time.Duration) error) error {
	var r jute.SASLToken
	d := jute.NewAliasDecoder(req.Body)
	r.Decode(&d)
	switch {
	case d.Err() != nil:
		return fmt.Errorf("SASL request: %w", d.Err())
	case r.Token == nil:
		return errNullToken
	case l.proofs.sasl == nil:
		l.line.replyToken(req.Xid, 0, nil)
		return nil
	}
	if l.exchange == nil {
		l.exchange = l.proofs.sasl.Begin(secure)
	}
	name := ""
	if user := l.exchange.User(r.Token); user != "" {
		name = sasl.Scheme + ":" + user
	}
	attempt, err := l.proofs.beginAttempt(l.identity.ip(), name, turn)
	if err != nil {
		return l.failSASL(req, err)
	}
	reply, proof, err := l.exchange.Step(r.Token)
	attempt.End(err != nil, l.proofs.now())
	if err != nil {
		return l.failSASL(req, err)
	}
	if len(proof.IDs) > 0 {
		creds, err := l.identity.credentials.Load().With(proof)
		if err != nil {
			return l.failSASL(req, err)
		}
		l.identity.set(creds, l.proofs.now())
		l.record(bySASL, 0)
	}
	l.line.replyToken(req.Xid, 0, reply)
	return nil
}

// failSASL refuses a login, which ends the connection unless allowSaslFailedClients is set.
func (l *login) failSASL(req *line.Request, err error) error {
	if isEnd(err) {
		return err
	}
	l.proofs.metrics.AuthFailed.Add(1)
	live := l.proofs.live.Load()
	required := live.EnforceAuth && slices.Contains(live.EnforceAuthSchemes, sasl.Scheme)
	code := jute.ErrAuthFailed
	switch {
	case required:
		code = jute.ErrSessionClosedRequireSASL
	case l.proofs.saslMayFail:
		l.record(bySASL, code)
		l.line.replyToken(req.Xid, 0, nil)
		return nil
	}
	l.record(bySASL, code)
	l.line.replyToken(req.Xid, code, nil)
	l.line.endAfterFlush()
	return fmt.Errorf("SASL: %w", err)
}

// certificate takes over the identities of the client's certificate.
func (l *login) certificate(s tls.ConnectionState, turn func(time.Duration) error) error {
	scheme := l.proofs.certificates
	if len(s.PeerCertificates) == 0 || !l.proofs.schemes.Has(scheme) {
		return nil
	}
	more, err := l.proofs.proveCertificate(scheme, s.PeerCertificates, l.identity.credentials.Load(), l.identity.ip(), turn)
	if err != nil {
		l.proofs.metrics.AuthFailed.Add(1)
		return fmt.Errorf("the certificate of %s gives no identity of scheme %s: %w", s.PeerCertificates[0].Subject, scheme, err)
	}
	l.identity.set(more, l.proofs.now())
	return nil
}

// bySASL stands for the packets of a login by SASL.
var bySASL = &jute.AuthRequest{Scheme: sasl.Scheme}

// record makes the audit log's entry about an attempt.
func (l *login) record(r *jute.AuthRequest, code jute.Code) {
	who := author{session: l.line.SessionID(), ip: l.identity.ip(), ids: l.identity.ids(), edge: l.identity.edge()}
	l.line.waitFor(l.proofs.audit.Load().authenticated(who, r, code))
}
