package certid

import (
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// attribute is a type and its value in a distinguished name.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// relativeName is one component of a distinguished name: usually one attribute. The name
// of the type ends in SET because package asn1 tells a set from a sequence by that.
type relativeNameSET []attribute

// keywords are the attribute types that RFC 2253 names. The others are written as numbers.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU",
	"2.5.4.9": "STREET", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

var errName = errors.New("certificate has a malformed name")

// nameString renders a distinguished name in DER as Java's X500Principal.getName does: by
// RFC 2253, so the last component is the first; as "1.2.3=#hex" where the type has no
// keyword; and as "CN=#hex" where the value is no text. It escapes more than the RFC asks
// for: "=" and "#" everywhere, and all spaces and carriage returns at both ends.
//
// Java reads texts in old encodings (T.61, BMP) as Java 21 and later do. Older versions
// replace most of their characters beyond ASCII by U+FFFD, which makes different names
// equal.
func nameString(der []byte) (string, error) {
	var components []relativeNameSET
	if rest, err := asn1.Unmarshal(der, &components); err != nil || len(rest) > 0 {
		return "", errName
	}
	var b strings.Builder
	for i := len(components) - 1; i >= 0; i-- {
		for j := range components[i] {
			switch {
			case j > 0:
				b.WriteByte('+')
			case b.Len() > 0:
				b.WriteByte(',')
			}
			if err := writeAttribute(&b, &components[i][j]); err != nil {
				return "", err
			}
		}
	}
	return b.String(), nil
}

func writeAttribute(b *strings.Builder, a *attribute) error {
	oid := a.Type.String()
	keyword, known := keywords[oid]
	value, isText, err := text(&a.Value)
	switch {
	case err != nil:
		return err
	case known && isText:
		b.WriteString(keyword + "=")
		writeEscaped(b, value)
	case known:
		b.WriteString(keyword + "=#" + hex.EncodeToString(a.Value.FullBytes))
	default:
		b.WriteString(oid + "=#" + hex.EncodeToString(a.Value.FullBytes))
	}
	return nil
}

const tagT61String = 20 // the only one that package asn1 does not name, and still occurs

// text returns the value of an attribute as text. isText is false if it is none.
func text(v *asn1.RawValue) (s string, isText bool, err error) {
	if v.Class != asn1.ClassUniversal || v.IsCompound {
		return "", false, nil
	}
	switch v.Tag {
	case asn1.TagUTF8String:
		if !utf8.Valid(v.Bytes) {
			return "", false, errName
		}
		return string(v.Bytes), true, nil
	case asn1.TagPrintableString, asn1.TagIA5String, asn1.TagGeneralString, tagT61String:
		return latin1(v.Bytes), true, nil
	case asn1.TagBMPString:
		if len(v.Bytes)%2 != 0 {
			return "", false, errName
		}
		units := make([]uint16, len(v.Bytes)/2)
		for i := range units {
			units[i] = uint16(v.Bytes[2*i])<<8 | uint16(v.Bytes[2*i+1])
			if utf16.IsSurrogate(rune(units[i])) {
				return "", false, errName // BMP has none
			}
		}
		return string(utf16.Decode(units)), true, nil
	}
	return "", false, nil
}

func latin1(b []byte) string {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}

func writeEscaped(b *strings.Builder, s string) {
	const blanks = " \r"
	lead := len(s) - len(strings.TrimLeft(s, blanks))
	trail := len(strings.TrimRight(s, blanks))
	for i, r := range s {
		switch {
		case r == 0:
			b.WriteString(`\00`)
			continue
		case i < lead, i >= trail, strings.ContainsRune(`,=+<>#;"\`, r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
}

// longKeywords are the attribute types, besides those of keywords, that Java knows by
// name when it reads a distinguished name.
var longKeywords = []string{
	"S", "T", "IP", "DNQUALIFIER", "DNQ", "SURNAME", "GIVENNAME", "INITIALS", "GENERATION", "EMAIL", "EMAILADDRESS",
	"SERIALNUMBER",
}

// validName reports whether s is a distinguished name as Java's X500Principal reads it:
// RFC 2253 and some older spellings. (It also takes the escaped carriage return, which Java
// writes and does not read.) The comparison with identities is by bytes, so only
// the spelling of nameString ever matches.
func validName(s string) bool {
	if s == "" {
		return true
	}
	p := nameParser{s}
	for p.attribute() {
		if p.rest == "" {
			return true
		}
		p.rest = p.rest[1:] // the separator
	}
	return false
}

// nameParser reads attributes of a distinguished name. Between the calls, rest is empty or
// begins with a separator.
type nameParser struct{ rest string }

const separators = "+,;"

func (p *nameParser) attribute() bool {
	key, rest, ok := strings.Cut(p.rest, "=")
	if !ok || !validType(strings.ToUpper(strings.TrimFunc(key, func(r rune) bool { return r <= ' ' }))) {
		return false
	}
	p.rest = strings.TrimLeft(rest, " \n")
	switch {
	case strings.HasPrefix(p.rest, "#"):
		return p.hexValue()
	case strings.HasPrefix(p.rest, `"`):
		return p.quotedValue()
	}
	return p.plainValue()
}

func validType(key string) bool {
	for _, known := range keywords {
		if key == known {
			return true
		}
	}
	if slices.Contains(longKeywords, key) {
		return true
	}
	return validOID(strings.TrimPrefix(key, "OID."))
}

// validOID reports whether s is an object identifier: numbers with dots between them, of
// which the first is at most 2, and the second at most 39 unless the first is 2.
func validOID(s string) bool {
	parts := strings.Split(s, ".")
	if len(parts) < 2 {
		return false
	}
	var numbers [2]uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 63)
		if err != nil || part[0] == '+' {
			return false
		}
		if i < 2 {
			numbers[i] = n
		}
	}
	return numbers[0] < 2 && numbers[1] < 40 || numbers[0] == 2
}

func (p *nameParser) hexValue() bool {
	digits := p.rest[1:]
	if end := strings.IndexAny(digits, separators); end >= 0 {
		digits = digits[:end]
	}
	der, err := hex.DecodeString(digits)
	if err != nil {
		return false
	}
	p.rest = p.rest[1+len(digits):]
	var v asn1.RawValue
	rest, err := asn1.Unmarshal(der, &v)
	return err == nil && len(rest) == 0
}

func (p *nameParser) quotedValue() bool {
	p.rest = p.rest[1:]
	for p.rest != "" && p.rest[0] != '"' {
		if !p.character(",=\n+<>#;\\\"", "") {
			return false
		}
	}
	if p.rest == "" {
		return false
	}
	p.rest = strings.TrimLeft(p.rest[1:], " \n")
	return p.rest == "" || strings.ContainsRune(separators, rune(p.rest[0]))
}

func (p *nameParser) plainValue() bool {
	for p.rest != "" && !strings.ContainsRune(separators, rune(p.rest[0])) {
		if !p.character(",=\r\n+<>#;\\\" ", "<>\"") {
			return false
		}
	}
	return true
}

// character reads a byte, or an escape: a backslash with two hexadecimal digits or with
// one of escapable. Bytes of forbidden must be escaped.
func (p *nameParser) character(escapable, forbidden string) bool {
	c := p.rest[0]
	p.rest = p.rest[1:]
	if c != '\\' {
		return strings.IndexByte(forbidden, c) < 0
	}
	if len(p.rest) >= 2 && isHex(p.rest[0]) && isHex(p.rest[1]) {
		p.rest = p.rest[2:]
		return true
	}
	if p.rest == "" || strings.IndexByte(escapable, p.rest[0]) < 0 {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
