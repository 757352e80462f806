package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/pemfile"
)

// TLSFiles names the PEM files for secure connections. The client checks them before each
// connection and reads them again when they have changed, so certificates can be renewed
// without a restart. If a changed file is unusable, the previous contents stay in force, and
// the log says so.
type TLSFiles struct {
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
	// write it. A renewed key must have the same password, or none.
	Password string

	// Logger logs when files are read again, or can't be. Nil means slog.Default().
	Logger Logger
}

// Load reads the files, and returns a function for Options.TLSFor. The certificate of a
// server must be valid for the host, a name or an IP address, under which the server is
// listed. Errors name the file and the remedy.
func (f TLSFiles) Load() (func(server string) (*tls.Config, error), error) {
	if f.Key != "" && f.Cert == "" {
		return nil, fmt.Errorf("TLSFiles.Key is %s: set Cert, too, to the file of its certificate", f.Key)
	}
	if f.Key == "" {
		f.Key = f.Cert
	}
	if f.Logger == nil {
		f.Logger = slog.Default()
	}
	k := &tlsKeys{TLSFiles: f}
	k.mu.stamps = k.stamp()
	var err error
	if k.mu.current, err = k.read(); err != nil {
		return nil, err
	}
	return k.config, nil
}

// tlsKeys is the source of the current certificates.
type tlsKeys struct {
	TLSFiles

	mu struct {
		sync.Mutex
		stamps  []fileStamp
		current tlsMaterial
	}
}

// tlsMaterial is what was read from the files. It is not changed afterwards.
type tlsMaterial struct {
	certs []tls.Certificate // the client's, or none
	roots *x509.CertPool    // nil for the system's
}

// fileStamp identifies a version of a file.
type fileStamp struct {
	mod  time.Time
	size int64
}

func (k *tlsKeys) stamp() []fileStamp {
	var list []fileStamp
	for _, name := range []string{k.CA, k.Cert, k.Key} {
		var s fileStamp
		if info, err := os.Stat(name); err == nil {
			s = fileStamp{info.ModTime(), info.Size()}
		}
		list = append(list, s)
	}
	return list
}

func (k *tlsKeys) config(server string) (*tls.Config, error) {
	m := k.material()
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: server, RootCAs: m.roots, Certificates: m.certs}, nil
}

// material returns the current contents of the files, or the last valid ones.
func (k *tlsKeys) material() tlsMaterial {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.stamp()
	if slices.Equal(now, k.mu.stamps) {
		return k.mu.current
	}
	k.mu.stamps = now
	m, err := k.read()
	if err != nil {
		k.Logger.Log(context.Background(), slog.LevelError, "TLS files have changed and can't be used: staying with what they were", "err", err)
		return k.mu.current
	}
	k.mu.current = m
	k.Logger.Log(context.Background(), slog.LevelInfo, "TLS files were read again", "ca", k.CA, "cert", k.Cert)
	return m
}

func (k *tlsKeys) read() (m tlsMaterial, err error) {
	if k.CA != "" {
		if m.roots, err = pemfile.Pool(k.CA); err != nil {
			return m, err
		}
	}
	if k.Cert != "" {
		cert, err := pemfile.KeyPair(k.Cert, k.Key, k.Password)
		if errors.Is(err, pemfile.ErrNoPassword) {
			err = fmt.Errorf("%w: see TLSFiles.Password", err)
		}
		if err != nil {
			return m, err
		}
		m.certs = []tls.Certificate{cert}
	}
	return m, nil
}
