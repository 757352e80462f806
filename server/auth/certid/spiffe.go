package certid

import (
	"crypto/x509"
	"errors"
	"strings"
)

var errSPIFFE = errors.New("certificate is no X.509-SVID: it must have exactly one URI, a SPIFFE ID, and be no authority")

// spiffeID returns the SPIFFE ID of an X.509-SVID (SPIFFE's standard X509-SVID, sections
// 2 and 4).
func spiffeID(cert *x509.Certificate) (string, error) {
	uris, err := altNames(cert, typeURI)
	if err != nil {
		return "", err
	}
	if len(uris) != 1 || cert.IsCA || !validSPIFFE(uris[0]) {
		return "", errSPIFFE
	}
	return uris[0], nil
}

// validSPIFFE reports whether s is a SPIFFE ID with a path, as that of a program is
// (SPIFFE-ID, section 2): no part of it can be spelled in two ways.
func validSPIFFE(s string) bool {
	rest, ok := strings.CutPrefix(s, "spiffe://")
	if !ok || len(s) > maxIdentity {
		return false
	}
	const lower, upper, digits = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	domain, path, _ := strings.Cut(rest, "/")
	if domain == "" || strings.Trim(domain, lower+digits+".-_") != "" {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." || strings.Trim(segment, lower+upper+digits+".-_") != "" {
			return false
		}
	}
	return true
}
