package auth

import (
	"crypto/x509"
	"errors"

	"github.com/zkd-project/zkd/jute"
)

// Provider defines the identities of one scheme. How a connection proves one is up to the
// interfaces PacketProver and CertificateProver, or to an exchange outside of this
// package, such as SASL. All methods may be called from any goroutine, and must not block:
// they run while the tree is locked. They keep no reference to their arguments.
type Provider interface {
	// Scheme returns the name of the scheme.
	Scheme() string
	// Personal reports whether the scheme distinguishes users: the pseudo scheme "auth"
	// means their identities.
	Personal() bool
	// Valid reports whether an entry of an ACL may have expr.
	Valid(expr string) bool
	// Match reports whether expr, which an ACL has, covers the identity id.
	Match(id, expr string) bool
}

// PacketProver is a Provider whose identities are proved by auth packets (addAuth). It is
// called by the reader of the connection, and may block that.
type PacketProver interface {
	Provider
	// ProvePacket checks the payload of an auth packet. Null data is nil. ErrEnded refuses it
	// without a consequence for the connection.
	ProvePacket(data []byte) (Proof, error)
}

// CertificateProver is a Provider whose identities are proved by the client's certificate.
type CertificateProver interface {
	Provider
	// ProveCertificate returns the identities of the owner of a certificate that TLS has
	// verified. The owner's certificate is the first of the chain.
	ProveCertificate(chain []*x509.Certificate) (Proof, error)
}

// ErrEnded means that what a client presents was valid once, and proves nothing any more.
var ErrEnded = errors.New("no longer valid")

// Proof is what a connection has proved.
type Proof struct {
	IDs []jute.ID
	// Until is when the identities end, in Unix ms. 0 means that they end with the
	// connection.
	Until int64
}
