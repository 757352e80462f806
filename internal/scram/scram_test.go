package scram

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// TestVector is the example of RFC 7677 section 3.
func TestVector(t *testing.T) {
	const messages = "n=user,r=rOprNGfwEbeRWgbNEkqO," +
		"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096," +
		"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	proof, signature, err := SHA256.ClientProof("pencil", salt, 4096, messages)
	if err != nil || base64.StdEncoding.EncodeToString(proof) != "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=" ||
		base64.StdEncoding.EncodeToString(signature) != "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" {
		t.Errorf("proof %x, signature %x, %v", proof, signature, err)
	}
	v, err := New(SHA256, "pencil", salt, 4096)
	if err != nil || !v.Check(proof, messages) || !bytes.Equal(v.Signature(messages), signature) {
		t.Errorf("the verifier %s does not take the proof, %v", v.Text(), err)
	}
	if v.Check(proof, messages+"x") || v.Check(nil, messages) || v.Check(append(proof, 0), messages) {
		t.Error("the verifier takes another proof")
	}
	if !v.CheckPassword("pencil") || v.CheckPassword("Pencil") {
		t.Error("the verifier does not tell passwords apart")
	}
}

func TestParse(t *testing.T) {
	for _, h := range []Hash{SHA256, SHA512} {
		v, err := New(h, "pw", []byte("12345678"), 4096)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(v.Text()); err != nil || again.Text() != v.Text() {
			t.Errorf("%s is read as %s, %v", v.Text(), again.Text(), err)
		}
		for _, form := range []string{"%v", "%+v", "%#v"} {
			if text := fmt.Sprintf(form, v); strings.Contains(text, "storedKey") || !strings.Contains(text, "(not shown)") {
				t.Errorf("%s: %s", form, text)
			}
		}
		whole := v.Text()
		for _, bad := range []string{
			"", "x", strings.Replace(whole, "4096", "4095", 1), strings.Replace(whole, "4096", "99999999", 1),
			strings.Replace(whole, "SHA-", "SHB-", 1), whole[:len(whole)-8], whole + "$", strings.Replace(whole, "$", "$$", 1),
			strings.Replace(whole, "MTIzNDU2Nzg=", "MTIz", 1), strings.Replace(whole, "MTIzNDU2Nzg=", "!", 1),
		} {
			if _, err := Parse(bad); err == nil {
				t.Errorf("%s is a verifier", bad)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"bob", "a,b=c", "=2C", ",,", "Жук"} {
		if back, err := UnescapeName(EscapeName(name)); err != nil || back != name {
			t.Errorf("%q comes back as %q, %v", name, back, err)
		}
	}
	for _, sent := range []string{"=", "a=b", "=2c", "=3"} {
		if name, err := UnescapeName(sent); err == nil {
			t.Errorf("%q is the name %q", sent, name)
		}
	}
}

func TestPrepare(t *testing.T) {
	for password, want := range map[string]string{"pw": "pw", "a\u00a0b": "a b", "p\u0061\u0308": "pä"} {
		if got, err := Prepare(password); err != nil || got != want {
			t.Errorf("%q: %q, %v", password, got, err)
		}
	}
	for _, password := range []string{"", "a\x00b", "\xff"} {
		if got, err := Prepare(password); err == nil {
			t.Errorf("%q: %q", password, got)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	f.Add("n=user,r=x", "nr")
	f.Add("c=biws,r=x,p=y", "crp")
	f.Fuzz(func(t *testing.T, message, names string) {
		list, err := ParseMessage(message, names)
		if err != nil {
			return
		}
		var parts []string
		for _, a := range list {
			parts = append(parts, string([]byte{a.Name, '='})+a.Value)
		}
		if again := strings.Join(parts, ","); again != message {
			t.Errorf("%q is %q", message, again)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := Parse(text); err == nil {
			if again, err := Parse(v.Text()); err != nil || again.Text() != v.Text() {
				t.Errorf("%q is %q, %v", text, v.Text(), err)
			}
		}
	})
}
