package config

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/secret"
)

// value binds a key to its field of one Config, and parses and formats it.
type value struct {
	unit    string                 // "ms", "KiB", ... or ""
	allowed string                 // description of the valid values, for errors and docs
	set     func(text string) bool // stores text in the field; false if it is invalid
	get     func() string          // returns the field in the syntax of the file
	samples []string               // a value of each kind; nil if they depend on the machine
	secret  bool                   // get masks the value, and errors must not show it
	lo, hi  int64                  // the bounds of a number
}

const maxInt = math.MaxInt32 // Apache's limit for most numbers

// parseNumber parses a decimal number, or a hexadecimal one that begins with 0x, as
// Java's Integer.getInteger does, with which Apache reads many of the keys. Leading zeros
// do not make it octal, because nobody means that.
func parseNumber(text string) (int64, bool) {
	digits := strings.TrimLeft(text, "+-")
	base := 10
	if strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X") {
		base = 16
		text = text[:len(text)-len(digits)] + digits[2:]
	}
	n, err := strconv.ParseInt(text, base, 64)
	return n, err == nil
}

// scaled is a number from lo to hi that is stored multiplied by unit.
func scaled[T ~int | ~int64](field *T, unitName string, unit T, lo, hi int64) value {
	samples := []string{strconv.FormatInt(hi, 10)}
	for n := int64(1); n >= lo && n >= -1; n-- {
		samples = append(samples, strconv.FormatInt(n, 10)) // the value that turns the key off, and the least that does not
	}
	if lo > 1 {
		samples = append(samples, strconv.FormatInt(lo, 10))
	}
	return value{
		unit:    unitName,
		allowed: fmt.Sprintf("a number from %d to %d", lo, hi),
		samples: samples,
		lo:      lo,
		hi:      hi,
		set: func(text string) bool {
			n, ok := parseNumber(text)
			if !ok || n < lo || n > hi {
				return false
			}
			*field = T(n) * unit
			return true
		},
		get: func() string { return strconv.FormatInt(int64(*field/unit), 10) },
	}
}

// number is a plain number from lo to hi.
func number(field *int, lo, hi int64) value { return scaled(field, "", 1, lo, hi) }

// count is a number of things called unit.
func count(field *int, unit string, lo, hi int64) value { return scaled(field, unit, 1, lo, hi) }

// bytesOf is a size from lo to hi bytes.
func bytesOf(field *int, lo, hi int64) value { return scaled(field, "bytes", 1, lo, hi) }

// bytesOf64 is a size from lo to hi.
func bytesOf64(field *int64, lo, hi int64) value { return scaled(field, "bytes", 1, lo, hi) }

// kib is a size from lo to hi KiB, stored in bytes.
func kib(field *int64, lo, hi int64) value { return scaled(field, "KiB", 1024, lo, hi) }

// span is a time from lo to hi units. Like newer ZooKeeper versions for
// autopurge.purgeInterval, it also accepts 500ms, 30s, 5m, 12h and 7d.
func span(field *time.Duration, unitName string, unit time.Duration, lo, hi int64) value {
	plain := scaled(field, unitName, unit, lo, hi)
	plain.allowed += fmt.Sprintf(" (%s), or a time such as 30s", unitName)
	setPlain, getPlain := plain.set, plain.get
	plain.set = func(text string) bool {
		if setPlain(text) {
			return true
		}
		d, ok := suffixed(text)
		if !ok || d < time.Duration(lo)*unit || d/unit > time.Duration(hi) {
			return false
		}
		*field = d
		return true
	}
	plain.get = func() string {
		if *field%unit != 0 {
			return field.String()
		}
		return getPlain()
	}
	return plain
}

// millis is a time from lo to hi milliseconds.
func millis(field *time.Duration, lo, hi int64) value {
	return span(field, "ms", time.Millisecond, lo, hi)
}

// suffixed parses a whole number with one of the units ms, s, m, h and d.
func suffixed(text string) (time.Duration, bool) {
	digits := strings.TrimRight(text, "mshd")
	units := map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}
	unit, known := units[text[len(digits):]]
	n, ok := parseNumber(digits)
	if !known || !ok || n < 0 || n > int64(math.MaxInt64/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// truth is true or false, in upper or lower case.
func truth(field *bool) value { return twoWords(field, "true", "false") }

// requested is true unless the text turns something off.
func requested(field *bool) value {
	v := truth(field)
	v.set = func(text string) bool {
		*field = Key{}.requestsFeature(text)
		return true
	}
	return v
}

// yesNo is yes or no, in upper or lower case.
func yesNo(field *bool) value { return twoWords(field, "yes", "no") }

func twoWords(field *bool, yes, no string) value {
	return value{
		allowed: yes + " or " + no,
		samples: []string{yes, no},
		set: func(text string) bool {
			*field = strings.EqualFold(text, yes)
			return *field || strings.EqualFold(text, no)
		},
		get: func() string {
			if *field {
				return yes
			}
			return no
		},
	}
}

// oneOf is one of words, in upper or lower case; it is stored as it is spelled here.
func oneOf(field *string, words ...string) value {
	return value{
		allowed: "one of " + strings.Join(words, ", "),
		samples: words,
		set: func(text string) bool {
			i := slices.IndexFunc(words, func(word string) bool { return strings.EqualFold(word, text) })
			if i < 0 {
				return false
			}
			*field = words[i]
			return true
		},
		get: func() string { return *field },
	}
}

// text is any text.
func text(field *string, samples ...string) value {
	return value{
		allowed: "text",
		samples: samples,
		set:     func(t string) bool { *field = t; return true },
		get:     func() string { return *field },
	}
}

// hidden is a text that must not be shown.
func hidden(field *secret.Text, samples ...string) value {
	return value{
		allowed: "text",
		samples: samples,
		secret:  true,
		set:     func(t string) bool { *field = secret.NewText(t); return true },
		get:     func() string { return field.String() },
	}
}

// path is the name of a file or directory.
func path(field *string) value {
	return value{
		allowed: "the path of a file or directory",
		set: func(t string) bool {
			*field = t
			return t != "" && !strings.ContainsRune(t, 0)
		},
		get: func() string { return *field },
	}
}

// host is a host name or an IP address; IPv6 addresses may be in brackets.
func host(field *string) value {
	return value{
		allowed: "a host name or an IP address",
		samples: []string{"localhost", "127.0.0.1", "0.0.0.0"},
		set: func(t string) (ok bool) {
			*field, ok = cutBrackets(t)
			return ok && validHost(*field)
		},
		get: func() string { return *field },
	}
}

// list is a list of words separated by commas.
func list(field *[]string, samples ...string) value {
	return value{
		allowed: "words with commas between them",
		samples: samples,
		set: func(text string) bool {
			*field = nil
			for word := range strings.SplitSeq(text, ",") {
				if word = strings.TrimSpace(word); word != "" {
					*field = append(*field, word)
				}
			}
			return true
		},
		get: func() string { return strings.Join(*field, ",") },
	}
}

// cutBrackets removes the brackets of an IPv6 address.
func cutBrackets(h string) (string, bool) {
	inner, open := strings.CutPrefix(h, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	return inner, open == closed
}

// validHost reports whether h is an IP address or looks like a host name. It does not
// resolve names: one without an address may get it later.
func validHost(h string) bool {
	if addr, err := netip.ParseAddr(h); err == nil {
		if addr.Zone() == "" {
			return true
		}
		h = addr.Zone()
	}
	return h != "" && strings.IndexFunc(h, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`:;|/\[]"'=,`, r)
	}) < 0
}

// port parses a TCP port of at least lo.
func port(text string, lo int64) (int, bool) {
	n, ok := parseNumber(text)
	return int(n), ok && n >= lo && n <= 65535
}
