package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// property is one key=value of a file.
type property struct {
	key, value string
	origin     Origin
}

// blank are the bytes that .properties files treat as white space.
const blank = " \t\f"

var errUnicodeEscape = errors.New(`bad escape: \u needs four hexadecimal digits (write a backslash as \\)`)

// readProperties splits text as java.util.Properties does:
//
//   - A line ends with LF, CR or CR LF. Blank lines, and lines that begin with
//     # or ! after white space, are skipped.
//   - An odd number of backslashes at the end of a line continues it with the
//     next line, whose leading white space is dropped. A line with nothing but
//     a backslash counts as blank.
//   - The key ends at the first = or : or white space without a backslash
//     before it. White space around the separator is dropped.
//   - \t \n \r \f and \uXXXX mean what they do in Java; a backslash before any
//     other character is dropped.
//   - Bytes are ISO-8859-1 characters.
//
// Like ZooKeeper's server, it then trims keys and values. A line with a bad escape is
// reported and left out.
func readProperties(text []byte, file string) (props []property, bad Errors) {
	s := lineScanner{rest: text}
	for {
		line, at, ok := s.logical()
		if !ok {
			return props, bad
		}
		origin := Origin{File: file, Line: at}
		key, value, err := parseProperty(line)
		if err != nil {
			bad = append(bad, &Error{Origin: origin, Text: err.Error()})
			continue
		}
		props = append(props, property{key, value, origin})
	}
}

// parseProperty returns the key and the value of a logical line.
func parseProperty(line []byte) (key, value string, err error) {
	rawKey, rawValue := splitProperty(line)
	if key, err = unescape(rawKey); err == nil {
		value, err = unescape(rawValue)
	}
	return trimJava(key), trimJava(value), err
}

// lineScanner cuts text into lines.
type lineScanner struct {
	rest []byte
	line int // number of the last natural line read
	left int // length of the text from the beginning of the last logical line
}

// natural returns the next line without its end and without leading white space.
func (s *lineScanner) natural() []byte {
	s.line++
	i := bytes.IndexAny(s.rest, "\r\n")
	line := s.rest
	if i < 0 {
		s.rest = nil
		return bytes.TrimLeft(line, blank)
	}
	line = s.rest[:i]
	if bytes.HasPrefix(s.rest[i:], []byte("\r\n")) {
		i++
	}
	s.rest = s.rest[i+1:]
	return bytes.TrimLeft(line, blank)
}

// logical returns the next line with a property, with continuations joined, and the
// number of its first natural line.
func (s *lineScanner) logical() (line []byte, at int, ok bool) {
	for len(s.rest) > 0 {
		s.left = len(s.rest)
		part := s.natural()
		at = s.line
		if len(part) == 0 || part[0] == '#' || part[0] == '!' || string(part) == `\` {
			continue
		}
		line = nil
		for continues(part) {
			line = append(line, part[:len(part)-1]...)
			part = nil
			if len(s.rest) > 0 {
				part = s.natural()
			}
		}
		line = append(line, part...)
		if len(line) > 0 {
			return line, at, true
		}
	}
	return nil, 0, false
}

// continues reports whether line ends in an odd number of backslashes.
func continues(line []byte) bool {
	return (len(line)-len(bytes.TrimRight(line, `\`)))%2 == 1
}

// splitProperty cuts a logical line into key and value, both still escaped.
func splitProperty(line []byte) (key, value []byte) {
	end, escaped := len(line), false
	for i, b := range line {
		if !escaped && strings.IndexByte("=:"+blank, b) >= 0 {
			end = i
			break
		}
		escaped = b == '\\' && !escaped
	}
	value = bytes.TrimLeft(line[end:], blank)
	if len(value) > 0 && (value[0] == '=' || value[0] == ':') {
		value = bytes.TrimLeft(value[1:], blank)
	}
	return line[:end], value
}

// unescape decodes ISO-8859-1 text with backslash escapes. Escapes name UTF-16
// units, so a character beyond U+FFFF is written as two of them.
func unescape(raw []byte) (string, error) {
	units := make([]uint16, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			units = append(units, uint16(raw[i]))
			continue
		}
		i++
		switch raw[i] {
		case 't':
			units = append(units, '\t')
		case 'n':
			units = append(units, '\n')
		case 'r':
			units = append(units, '\r')
		case 'f':
			units = append(units, '\f')
		case 'u':
			if len(raw) < i+5 {
				return "", errUnicodeEscape
			}
			u, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16)
			if err != nil {
				return "", errUnicodeEscape
			}
			units = append(units, uint16(u))
			i += 4
		default:
			units = append(units, uint16(raw[i]))
		}
	}
	return string(utf16.Decode(units)), nil
}

// trimJava trims the characters that Java's String.trim trims: those up to U+0020.
func trimJava(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}

// escapeValue is the opposite of unescape, for values. It fails if text is no UTF-8.
func escapeValue(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", fmt.Errorf("%q has bytes that are no characters", text)
	}
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		switch {
		case unit == '\\':
			b.WriteString(`\\`)
		case unit < ' ' || unit > '~':
			fmt.Fprintf(&b, `\u%04X`, unit)
		default:
			b.WriteByte(byte(unit))
		}
	}
	return b.String(), nil
}
