// Package golden compares formats with bytes that are kept in files: what is stored or sent today must be read by each later version,
// and no change of a format may pass unseen.
//
// A file is a scenario (internal/testing/scenario) whose commands are the name of a format and bytes in hexadecimal,
// with spaces where they help; 0*90 stands for 90 zero bytes. The output is the value that is in the bytes. If
// today's code would write others, it has these, too.
//
//	digest 4d 0*7 0100000000000000 0*7 80
//	----
//	{Zxid:0x4d Hi:1 Lo:9223372036854775808}
package golden

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
)

// Format reads a value, and says what today's code would write for it: nil if it writes another version.
type Format func(b []byte) (value any, again []byte, err error)

// Run checks the values of a file. Each of the formats must be there.
func Run(t *testing.T, file string, formats map[string]Format) {
	t.Helper()
	seen := make(map[string]bool)
	scenario.Run(t, file, func(*testing.T) scenario.Command {
		return func(words []string) (string, error) {
			f := formats[words[0]]
			if f == nil {
				return "", scenario.Unknown(words)
			}
			seen[words[0]] = true
			return show(f, words[1:])
		}
	})
	for name := range formats {
		if !seen[name] {
			t.Errorf("%s has no %s", file, name)
		}
	}
}

func show(f Format, words []string) (string, error) {
	b, err := parse(words)
	if err != nil {
		return "", err
	}
	value, again, err := f(b)
	if err != nil {
		return "", err
	}
	text := Text(value)
	if again != nil && !slices.Equal(again, b) {
		text += "\nwritten " + format(again)
	}
	return text, nil
}

func parse(words []string) (b []byte, err error) {
	for _, w := range words {
		if n, ok := strings.CutPrefix(w, "0*"); ok {
			zeros, err := strconv.Atoi(n)
			if err != nil {
				return nil, err
			}
			b = append(b, make([]byte, zeros)...)
			continue
		}
		part, err := hex.DecodeString(w)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", w, err)
		}
		b = append(b, part...)
	}
	return b, nil
}

// run of zeros that is shortened.
const long = 16

// format is the inverse of parse.
func format(b []byte) string {
	var words []string
	from := 0
	for i := 0; i < len(b); {
		n := 0
		for i+n < len(b) && b[i+n] == 0 {
			n++
		}
		if n < long {
			i += n + 1
			continue
		}
		if i > from {
			words = append(words, hex.EncodeToString(b[from:i]))
		}
		words = append(words, fmt.Sprintf("0*%d", n))
		i += n
		from = i
	}
	if from < len(b) {
		words = append(words, hex.EncodeToString(b[from:]))
	}
	return strings.Join(words, " ")
}

// Text shows a value: fields that are not zero, with what pointers lead to.
func Text(v any) string { return text(reflect.ValueOf(v)) }

func text(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return text(v.Elem())
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				fields = append(fields, v.Type().Field(i).Name+":"+text(f))
			}
		}
		return "{" + strings.Join(fields, " ") + "}"
	case reflect.Slice, reflect.Array:
		return list(v)
	case reflect.Map:
		var items []string
		for _, key := range v.MapKeys() {
			items = append(items, text(key)+":"+text(v.MapIndex(key)))
		}
		slices.Sort(items)
		return "{" + strings.Join(items, " ") + "}"
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Int64:
		if v.Type().Name() == "Zxid" {
			return fmt.Sprintf("%#x", v.Int())
		}
	}
	return fmt.Sprint(plain(v))
}

func list(v reflect.Value) string {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		b := make([]byte, v.Len())
		for i := range b {
			b[i] = byte(v.Index(i).Uint())
		}
		if q := strconv.Quote(string(b)); !strings.Contains(q, `\`) {
			return q
		}
		return format(b)
	}
	var items []string
	for i := range v.Len() {
		items = append(items, text(v.Index(i)))
	}
	return "[" + strings.Join(items, " ") + "]"
}

// plain is the value without the methods of its type, which may print it otherwise.
func plain(v reflect.Value) any {
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return v.Uint()
	case v.Kind() == reflect.Bool:
		return v.Bool()
	}
	return v.String()
}
