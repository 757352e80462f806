// Package ocspstatus reads OCSP answers: what a responder says about a certificate.
package ocspstatus

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/ocsp"
)

// ClockSkew is how far the clocks of a responder and of this machine may differ.
const ClockSkew = 5 * time.Minute

// Of checks an answer about a certificate, and returns what it says, and until when it is
// valid.
func Of(answer []byte, cert, issuer *x509.Certificate) (revoked bool, until time.Time, err error) {
	response, err := ocsp.ParseResponseForCert(answer, cert, issuer)
	if err != nil {
		return false, until, err
	}
	now := time.Now()
	if by := response.Certificate; by != nil && !bytes.Equal(by.Raw, issuer.Raw) {
		if !slices.Contains(by.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning) || now.Before(by.NotBefore) || now.After(by.NotAfter) {
			return false, until, fmt.Errorf("the certificate of %s is not for that", by.Subject)
		}
	}
	until = response.NextUpdate
	if until.IsZero() { // newer information is always available
		until = now.Add(time.Minute)
	}
	switch {
	case response.ThisUpdate.After(now.Add(ClockSkew)):
		return false, until, fmt.Errorf("its answer is from the future, %v", response.ThisUpdate)
	case now.After(until):
		return false, until, fmt.Errorf("its answer was valid until %v", until)
	case response.Status == ocsp.Unknown:
		return false, until, errors.New("it does not know the certificate")
	}
	return response.Status == ocsp.Revoked, until, nil
}
