package jute

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"testing"
)

// TestTextIsJavas compares Text with what Java 17's new String(b, UTF_8).getBytes(UTF_8) gives.
func TestTextIsJavas(t *testing.T) {
	for in, want := range map[string]string{
		"a\x00b":               "a\x00b",
		"ü":                    "ü",
		"\xff\xfe:p":           "��:p",
		"\xc2":                 "�",
		"\xc2A":                "�A",
		"\xe0\xa0":             "�", // the beginning of a character
		"\xe0\xa0A":            "�A",
		"\xe0\x80\x80":         "���",
		"\xed\xa0":             "�", // a part of a surrogate
		"\xed\xa0A":            "�A",
		"\xed\xa0\xbd":         "�",
		"\xed\xa0\xbd\xed\xb8": "��",
		"\xed\x9f\xbf":         "\ud7ff",
		"\xf0\x90\x80":         "�",
		"\xf0\x80\x90\x80":     "����",
		"\xf4\x90\x80\x80":     "����",
		"\xe1\xa0\xc2":         "��",
		"A\xf0\x90A":           "A�A",
		"𐀀":                    "𐀀",
	} {
		if got := Text([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestTextOfAllBeginnings compares Text with Java 17 for all sequences of up to four of the bytes that
// UTF-8 tells apart: the sum is that of lines with the bytes and the text, both in hex.
func TestTextOfAllBeginnings(t *testing.T) {
	bytes := []byte{
		0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
		0xe0, 0xe1, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xf8, 0xfc, 0xff,
	}
	const java17 = "9dd00b5596a5627ea3237cc9be91da1fdee04134b08ef931dd8b676b21d6fd52"
	sum := sha256.New()
	addTexts(sum, nil, bytes)
	if got := fmt.Sprintf("%x", sum.Sum(nil)); got != java17 {
		t.Errorf("the sum is %s, want %s", got, java17)
	}
}

// addTexts writes the lines of text and of what continues it.
func addTexts(sum hash.Hash, text, bytes []byte) {
	if len(text) > 0 {
		fmt.Fprintf(sum, "%x %x\n", text, Text(text))
	}
	if len(text) < 4 {
		for _, b := range bytes {
			addTexts(sum, append(text[:len(text):len(text)], b), bytes)
		}
	}
}

// TestDecoderReadsText checks that strings of requests are read as Java reads them, also where
// they would share the memory of the request.
func TestDecoderReadsText(t *testing.T) {
	b := AppendStrings(nil, []string{"a\xffb", "ü", ""})
	for _, d := range []Decoder{NewDecoder(b), NewAliasDecoder(b)} {
		if got := d.Strings(); d.Err() != nil || len(got) != 3 || got[0] != "a\ufffdb" || got[1] != "ü" || got[2] != "" {
			t.Errorf("got %q, %v", got, d.Err())
		}
	}
	acl := []ACL{{Perms: PermAll, ID: ID{Scheme: "digest", ID: "\xff:x"}}}
	d := NewAliasDecoder(AppendACLs(nil, acl))
	if got := d.ACLs(); len(got) != 1 || got[0].ID.ID != "\ufffd:x" {
		t.Errorf("an ACL: got %q", got)
	}
}
