package secure

import (
	"crypto/tls"
	"time"

	"github.com/zkd-project/zkd/internal/keystore"
)

// Settings are those of a port.
type Settings struct {
	keystore.Files
	// MinVersion and MaxVersion are constants of crypto/tls; 0 means TLS 1.2, and the newest.
	MinVersion, MaxVersion uint16
	// CipherSuites are those of TLS 1.2; nil means Go's choice.
	CipherSuites []uint16
	// ClientAuth says whether clients must show a certificate. It is not about servers, which
	// always must.
	ClientAuth ClientAuth
	// VerifyHost requires the certificate of a server to name its host.
	VerifyHost bool
	// VerifyClientHost requires the certificate of a client to name its address or, with
	// ReverseDNS, a name that leads to its address and back.
	VerifyClientHost, ReverseDNS bool
	// CRL and OCSP ask whether a certificate has been revoked: by the lists in Files and at its
	// distribution points, and from the responder that it names.
	CRL, OCSP bool
	// Staple asks the OCSP responder that the port's own certificate names, and gives clients
	// the answer with the certificate.
	Staple bool
	// DetectionTimeout bounds the time until the first byte of a connection to a port for TLS and
	// plain connections, and then that of the handshake.
	DetectionTimeout time.Duration
}

// ClientAuth says whether clients must show a certificate.
type ClientAuth int

// A certificate that is shown must be valid, except with NoClientAuth, which asks for none.
const (
	NeedClientAuth ClientAuth = iota
	WantClientAuth
	NoClientAuth
)

func (a ClientAuth) tls() tls.ClientAuthType {
	return [...]tls.ClientAuthType{tls.RequireAndVerifyClientCert, tls.VerifyClientCertIfGiven, tls.NoClientCert}[a]
}
