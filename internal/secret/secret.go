// Package secret has the types of values that must not be shown: passwords, and the keys
// that servers share. Whatever prints, logs or marshals such a value writes "***".
package secret

import (
	"fmt"
	"io"
)

// Mask is shown instead of a secret.
const Mask = "***"

// Text is a secret text. The zero Text is empty. Two Texts can't be compared with ==.
//
// Package fmt calls no methods of unexported fields. Of a pointer in one it shows the
// address only.
type Text struct{ text *string }

// NewText returns text as a secret.
func NewText(text string) Text {
	if text == "" {
		return Text{}
	}
	return Text{&text}
}

// Reveal returns the text. Its callers are the places to look at in a review.
func (t Text) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// IsSet reports whether the text is not empty.
func (t Text) IsSet() bool { return t.text != nil }

// String returns Mask, or "" for an empty text.
func (t Text) String() string {
	if t.IsSet() {
		return Mask
	}
	return ""
}

// Format writes what String returns, whatever the verb.
func (t Text) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// MarshalText returns what String returns, as bytes.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Key is a secret of fixed size, made at random. It must not be kept in an unexported
// field of a value that is printed: see Text.
type Key [32]byte

// String returns Mask.
func (Key) String() string { return Mask }

// Format writes Mask, whatever the verb.
func (Key) Format(f fmt.State, _ rune) { io.WriteString(f, Mask) }

// MarshalText returns Mask.
func (Key) MarshalText() ([]byte, error) { return []byte(Mask), nil }
