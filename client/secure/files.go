package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/keystore"
	"github.com/zkd-project/zkd/internal/ocspstatus"
	"github.com/zkd-project/zkd/internal/secret"
)

// Files names the files for secure connections: PEM, or the key stores and trust stores
// of Java's clients, JKS and PKCS #12. The client checks the files before each connection and
// reads them again when they have changed, so certificates can be renewed without a restart.
// If a changed file is unusable, the previous contents stay in force, and the log says so.
type Files struct {
	// CA has the certificates of the authorities that sign the servers' certificates. Empty
	// means those of the system.
	CA string

	// Cert has the client's certificate, followed by the intermediate certificates, and Key
	// its private key. To servers, the client's identity has the scheme "x509" and the
	// certificate's subject as its id. If Key is empty, the key is in Cert as well. If Cert
	// is empty, the client presents no certificate; Apache's servers require one by default
	// (ssl.clientAuth).
	Cert, Key string

	// Password decrypts the key if it is encrypted by PKCS #8 with PBES2, as openssl and Java
	// write it. It is also that of key stores and trust stores. A renewed key must have the same
	// password, or none.
	Password string

	// RequireStaple refuses a server that has stapled no valid OCSP answer to its certificate
	// (zkd.ssl.ocspStapling). A stapled answer that the certificate has been revoked is
	// refused always.
	RequireStaple bool

	// Logger logs when files are read again, or can't be. Nil means slog.Default().
	Logger client.Logger
}

// Load reads the files, and returns a function for [For]. The certificate of a
// server must be valid for the host, a name or an IP address, under which the server is
// listed. Errors name the file and the remedy.
func (f Files) Load() (func(server string) (*tls.Config, error), error) {
	if f.Key != "" && f.Cert == "" {
		return nil, fmt.Errorf("secure.Files.Key is %s: secure.Files.Cert has to be the file of its certificate", f.Key)
	}
	if f.Logger == nil {
		f.Logger = slog.Default()
	}
	source, err := keystore.Open(keystore.Files{
		Key:   keystore.Store{File: f.Cert, KeyFile: f.Key, Password: secret.NewText(f.Password)},
		Trust: keystore.Store{File: f.CA, Password: secret.NewText(f.Password)},
	}, f.changed)
	if errors.Is(err, keystore.ErrNoPassword) {
		err = fmt.Errorf("%w: see secure.Files.Password", err)
	}
	if err != nil {
		return nil, err
	}
	f.logSkipped(source.Contents())
	return func(server string) (*tls.Config, error) {
		now := source.Contents()
		c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: server, RootCAs: now.Pool, VerifyConnection: f.checkStaple}
		for _, key := range now.KeysAt(time.Now()) {
			c.Certificates = append(c.Certificates, *key)
		}
		return c, nil
	}, nil
}

// checkStaple checks the OCSP answer that a server has stapled to its certificate.
func (f Files) checkStaple(s tls.ConnectionState) error {
	if len(s.OCSPResponse) == 0 && !f.RequireStaple {
		return nil
	}
	err := errors.New("the server has stapled no OCSP answer to its certificate")
	for _, chain := range s.VerifiedChains {
		if len(s.OCSPResponse) == 0 || len(chain) < 2 {
			continue
		}
		var revoked bool
		revoked, _, err = ocspstatus.Of(s.OCSPResponse, chain[0], chain[1])
		switch {
		case err != nil:
			err = fmt.Errorf("the stapled OCSP answer: %w", err)
		case revoked:
			return fmt.Errorf("the certificate of %s has been revoked", chain[0].Subject)
		default:
			return nil
		}
	}
	if f.RequireStaple {
		return err
	}
	return nil
}

// changed logs that files have changed.
func (f Files) changed(c *keystore.Contents, err error) {
	if err != nil {
		f.Logger.Log(context.Background(), slog.LevelError, "TLS files have changed and can't be used: staying with what they were", "err", err)
		return
	}
	f.Logger.Log(context.Background(), slog.LevelInfo, "TLS files were read again", "ca", f.CA, "cert", f.Cert)
	f.logSkipped(c)
}

func (f Files) logSkipped(c *keystore.Contents) {
	for _, err := range c.Skipped {
		f.Logger.Log(context.Background(), slog.LevelWarn, "a part of the TLS files can't be used", "err", err)
	}
}
