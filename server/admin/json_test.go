package admin

import (
	"testing"
)

// The wanted text is what Apache's server prints for such values.
func TestJSON(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  string
	}{
		{object{}, "{ }"},
		{list{}, "[ ]"},
		{object{{"a", nil}, {"b", true}, {"c", "x<\"\n"}}, "{\n  \"a\" : null,\n  \"b\" : true,\n  \"c\" : \"x<\\\"\\n\"\n}"},
		{list{int64(1), 2.0, 2.5}, "[ 1, 2.0, 2.5 ]"},
		{object{{"a", list{object{{"b", 1}}, object{{"c", list{}}}}}}, "{\n  \"a\" : [ {\n    \"b\" : 1\n  }, {\n    \"c\" : [ ]\n  } ]\n}"},
	} {
		if got := string(appendJSON(nil, tt.value, 0)); got != tt.want {
			t.Errorf("%v:\n%s\nwant\n%s", tt.value, got, tt.want)
		}
	}
}
