package secret

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const password = "hunter2hunter2hunter2hunter2-abc" // as long as a Key

// leaks reports whether out has the password in one of the ways in which Go shows bytes.
func leaks(out string) bool {
	part := password[:7]
	for _, form := range []string{part, fmt.Sprintf("%x", part), fmt.Sprintf("%X", part), "104 117 110", "0x68, 0x75", "[0x68 0x75"} {
		if strings.Contains(out, form) {
			return true
		}
	}
	return false
}

type exported struct {
	Text Text
	Key  Key
}

type hidden struct {
	text Text
	deep *struct{ text []Text }
}

func TestNeverShown(t *testing.T) {
	text, key := NewText(password), Key([]byte(password))
	values := map[string]any{
		"text": text, "pointer to a text": &text, "key": key, "pointer to a key": &key,
		"struct": exported{text, key}, "pointer to a struct": &exported{text, key},
		"unexported fields": hidden{text, &struct{ text []Text }{[]Text{text}}},
		"slice":             []any{text, key}, "map": map[string]Text{"x": text},
		"error": fmt.Errorf("bad password %v, %q, %x", text, text, key),
	}
	for name, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%c", "%U", "%e", "%t"} {
			if out := fmt.Sprintf(verb, v); leaks(out) {
				t.Errorf("%s with %s: %s", name, verb, out)
			}
		}
		if out, err := json.Marshal(v); err != nil || leaks(string(out)) {
			t.Errorf("%s as JSON: %s, %v", name, out, err)
		}
	}
}

func TestReveal(t *testing.T) {
	if got := NewText(password).Reveal(); got != password {
		t.Errorf("Reveal returns %q", got)
	}
	for _, empty := range []Text{{}, NewText("")} {
		if empty.IsSet() || empty.Reveal() != "" || empty.String() != "" {
			t.Error("an empty text is set")
		}
	}
	if NewText("x").String() != Mask {
		t.Error("a text is not masked")
	}
}
