package certid

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of alternative names, by their numbers in RFC 5280. The others, such as addresses,
// name no clients.
const (
	typeEmail     = 1
	typeDNS       = 2
	typeDirectory = 4
	typeURI       = 6
)

// AltNameTypes are the values that Rule.Type may have.
var AltNameTypes = []int{typeEmail, typeDNS, typeDirectory, typeURI}

// maxIdentity bounds the length of an identity that is no distinguished name, in bytes.
const maxIdentity = 2048

var (
	errAltNames = errors.New("certificate has malformed alternative names")
	errNoMatch  = errors.New("certificate does not have exactly one alternative name that clientCertIdSanMatchRegex matches")
	errNoGroup  = errors.New("clientCertIdSanExtractRegex finds no identity in the certificate's alternative name")
)

func (r *Rule) check() error {
	known := false
	for _, t := range AltNameTypes {
		known = known || t == r.Type
	}
	switch {
	case !known:
		return fmt.Errorf("alternative names of type %d name no clients: the type must be one of %v", r.Type, AltNameTypes)
	case r.Match == nil || r.Extract == nil:
		return errors.New("a rule for alternative names needs two patterns")
	case r.Group < 0 || r.Group > r.Extract.NumSubexp():
		return fmt.Errorf("pattern %q has no group %d", r.Extract, r.Group)
	}
	return nil
}

// apply returns the identity that the rule finds.
func (r *Rule) apply(cert *x509.Certificate) (string, error) {
	names, err := altNames(cert, r.Type)
	if err != nil {
		return "", err
	}
	found, matches := "", 0
	for _, name := range names {
		if r.Match.MatchString(name) {
			found = name
			matches++
		}
	}
	if matches != 1 {
		return "", errNoMatch
	}
	groups := r.Extract.FindStringSubmatch(found)
	if groups == nil || !validText(groups[r.Group]) {
		return "", errNoGroup
	}
	return groups[r.Group], nil
}

// altNames returns the certificate's alternative names of one type, as Java's
// X509Certificate.getSubjectAlternativeNames spells them.
func altNames(cert *x509.Certificate, kind int) (names []string, err error) {
	for _, ext := range cert.Extensions {
		if !ext.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			continue
		}
		var all []asn1.RawValue
		if rest, err := asn1.Unmarshal(ext.Value, &all); err != nil || len(rest) > 0 {
			return nil, errAltNames
		}
		for i := range all {
			if all[i].Class != asn1.ClassContextSpecific || all[i].Tag != kind {
				continue
			}
			name, err := altName(&all[i])
			if err != nil {
				return nil, err
			}
			names = append(names, name)
		}
	}
	return names, nil
}

func altName(v *asn1.RawValue) (string, error) {
	if v.Tag == typeDirectory {
		return nameString(v.Bytes)
	}
	if !utf8.Valid(v.Bytes) {
		return "", errAltNames
	}
	return string(v.Bytes), nil
}

// validText reports whether s may be an identity: a text that is not empty, not too
// long, and has no control characters, which could hide what it is.
func validText(s string) bool {
	return s != "" && len(s) <= maxIdentity && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}
