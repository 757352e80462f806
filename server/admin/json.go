package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// field is a field of an object. Its value is an object, a list, or whatever
// encoding/json turns into a string, a number, a truth value or null.
type field struct {
	name  string
	value any
}

// object is a JSON object whose fields have an order.
type object []field

// list is a JSON array.
type list []any

// appendJSON appends v in the layout of Apache's server: scripts search its text. Each
// field has a line, elements of an array have none, and an empty one has a blank inside.
func appendJSON(b []byte, v any, indent int) []byte {
	switch v := v.(type) {
	case object:
		if len(v) == 0 {
			return append(b, "{ }"...)
		}
		for i, f := range v {
			if i == 0 {
				b = append(b, '{')
			} else {
				b = append(b, ',')
			}
			b = append(b, '\n')
			b = append(b, strings.Repeat("  ", indent+1)...)
			b = append(appendScalar(b, f.name), " : "...)
			b = appendJSON(b, f.value, indent+1)
		}
		b = append(b, '\n')
		b = append(b, strings.Repeat("  ", indent)...)
		return append(b, '}')
	case list:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, ' ')
			b = appendJSON(b, e, indent)
		}
		return append(b, " ]"...)
	}
	return appendScalar(b, v)
}

func appendScalar(b []byte, v any) []byte {
	if f, ok := v.(float64); ok && f == float64(int64(f)) && f < 1e7 && f > -1e7 {
		return fmt.Appendf(b, "%.1f", f) // as Java writes a double
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // only values of the kinds above
	}
	return append(b, bytes.TrimSpace(text.Bytes())...)
}

// listOf makes a list of the elements of s.
func listOf[T any](s []T, convert func(T) any) list {
	l := list{}
	for _, e := range s {
		l = append(l, convert(e))
	}
	return l
}
