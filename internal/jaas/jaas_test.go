package jaas

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// describe writes sections with everything quoted.
func describe(sections []Section) string {
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, "%s {\n", quote(s.Name))
		for _, m := range s.Modules {
			fmt.Fprintf(&b, "%s %s", quote(m.Class), m.Flag)
			for _, o := range m.Options {
				fmt.Fprintf(&b, " %s=%s", quote(o.Key), quote(o.Value))
			}
			b.WriteString(";\n")
		}
		b.WriteString("};\n")
	}
	return b.String()
}

// quote escapes everything that could mean something else.
func quote(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < ' ' || r == '"' || r == '\\' {
			fmt.Fprintf(&b, `\%03o`, r)
			continue
		}
		b.WriteRune(r)
	}
	return `"` + b.String() + `"`
}

func TestParse(t *testing.T) {
	const text = `// users
Server {
       org.apache.zookeeper.server.auth.DigestLoginModule required
       user_super="adminsecret" /* one
       and */ user_bob = secret
       "user_renée"="p\"ä\\\101\n"
       user_path="${/}etc";
       com.sun.security.auth.module.Krb5LoginModule Required
         useKeyTab=true / a comment, too
         keyTab="/etc/zk.keytab" refresh=1.5 principal="zookeeper/zk1@EXAMPLE.COM";
};
Client { };`
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	const want = `"Server" {
"org.apache.zookeeper.server.auth.DigestLoginModule" required "user_super"="adminsecret" "user_bob"="secret" "user_renée"="p\042ä\134A\012" "user_path"="/etc";
"com.sun.security.auth.module.Krb5LoginModule" required "useKeyTab"="true" "keyTab"="/etc/zk.keytab" "refresh"="1.5" "principal"="zookeeper/zk1@EXAMPLE.COM";
};
"Client" {
};
`
	if d := describe(got); d != want {
		t.Errorf("got\n%s\nwant\n%s", d, want)
	}
	s, _ := Find(got, "Server")
	if o, ok := s.Modules[1].Option("keyTab"); !ok || o.Line != 10 || s.Modules[1].Line != 8 || s.Line != 2 {
		t.Errorf("lines: section %d, module %d, option %d", s.Line, s.Modules[1].Line, o.Line)
	}
	if _, ok := Find(got, "server"); ok {
		t.Error("names of sections are found in other letters")
	}
}

func TestOptionTwice(t *testing.T) {
	got, err := Parse(`S { M optional a=1 b=2 a=3; };`)
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := got[0].Modules[0].Option("a"); !ok || o.Value != "3" {
		t.Errorf("option a is %v, %v", o, ok)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"Server", `line 1: '{' is missing after the name of the section`},
		{"\n= {", `line 2: the name of a section is missing`},
		{"Server {", `line 1: '}' is missing after the last module`},
		{"Server { }", `line 1: ';' is missing after the section`},
		{"Server {\nM\n};", `line 3: required, requisite, sufficient or optional is missing`},
		{"Server {\nM needed;\n};", `line 2: the class of a login module must be followed by one of required,`},
		{"Server { M required\nuser_bob\n};", `line 3: '=' is missing after the name of an option`},
		{"Server { M required user_bob=;\n};", `line 1: the value of option user_bob is missing`},
		{"Server { M required user_bob=\"secret\n\";\n};", `line 1: a quoted string has no end on its line`},
		{"Server { M required user_bob=\"secret\\", `line 1: a quoted string has no end on its line`},
		{"Server { M required user_bob='secret';\n};", `line 1: '\'' has no meaning here: quote the word`},
		{"Server { M required\n\nkeyTab=\"${user.home}/x\";\n};", `line 3: option keyTab: ${...} means a property of Java`},
		{"Server { M required user_bob=\"\xff\";\n};", `line 1: the file must be in UTF-8`},
		{"Server { M required user_bob=\xff;\n};", `line 1: the file must be in UTF-8`},
		{"/* \n\n Server", `line 1: the comment has no end`},
		{"S { };\nS { };", `line 2: there is another section "S" above`},
	} {
		_, err := Parse(c.text)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %s", c.text, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows the secret: %v", c.text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("Server { org.M required user_bob=\"a\\\"b\\101\" x=1; };\n// c\nClient { };")
	f.Add("A{B optional \"c\"=\"${/}\";};/*x*/")
	f.Fuzz(func(t *testing.T, text string) {
		sections, err := Parse(text)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Line < 1 || e.Line > 1+strings.Count(text, "\n") {
				t.Errorf("error %#v", err)
			}
			return
		}
		written := describe(sections)
		again, err := Parse(written)
		if err != nil || describe(again) != written {
			t.Errorf("%q is written %q, and read as %q, %v", text, written, describe(again), err)
		}
	})
}
