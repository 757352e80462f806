package sasl

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/zkd-project/zkd/internal/scram"
)

// Users are those who log in with a password. They are immutable.
type Users struct{ table map[string]*user }

// user is what is known of a user: the password, or verifiers of it.
type user struct {
	password  string
	plain     bool // password is set
	verifiers []scram.Verifier

	derive  sync.Mutex
	derived []scram.Verifier // of the password, when they are first needed
}

// NewUsers returns users with these passwords.
func NewUsers(passwords map[string]string) *Users {
	u := &Users{make(map[string]*user)}
	for name, password := range passwords {
		u.table[name] = &user{password: password, plain: true}
	}
	return u
}

// String shows no passwords.
func (u *Users) String() string {
	if u == nil {
		return "no users"
	}
	return fmt.Sprintf("%d users", len(u.table))
}

// GoString shows no passwords.
func (u *Users) GoString() string { return u.String() }

// ParseUsers reads a file of users. A line is a name, in double quotes if it has a space,
// and either a verifier of SCRAM or plain: and the password. A user may have several
// lines. Empty lines and those that begin with # count for nothing. Errors name the line
// and show no secret.
func ParseUsers(text []byte) (*Users, error) {
	u := &Users{make(map[string]*user)}
	if !utf8.Valid(text) {
		return nil, errors.New("the file must be in UTF-8")
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line := strings.TrimSpace(string(line))
		if line == "" || line[0] == '#' {
			continue
		}
		if err := u.add(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return u, nil
}

func (u *Users) add(line string) error {
	name, secret, err := cutName(line)
	if err != nil {
		return err
	}
	known := u.table[name]
	if known == nil {
		known = &user{}
		u.table[name] = known
	}
	if password, plain := strings.CutPrefix(secret, "plain:"); plain {
		if known.plain {
			return fmt.Errorf("there is another password of %.64q above", name)
		}
		known.password, known.plain = password, true
		return nil
	}
	v, err := scram.Parse(secret)
	if err != nil {
		return err
	}
	if _, again := known.verifier(v.Hash); again && !known.plain {
		return fmt.Errorf("there is another %s of %.64q above", v.Hash.Mechanism, name)
	}
	known.verifiers = append(known.verifiers, v)
	return nil
}

// cutName cuts a line after the name.
func cutName(line string) (name, secret string, err error) {
	if line[0] == '"' {
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return "", "", errors.New("the name has no closing quote")
		}
		name, _ = strconv.Unquote(quoted)
		secret = line[len(quoted):]
	} else if i := strings.IndexAny(line, " \t"); i > 0 {
		name, secret = line[:i], line[i:]
	}
	if secret = strings.TrimSpace(secret); name == "" || secret == "" {
		return "", "", errors.New("want a name, a space, and a verifier of SCRAM or plain:password")
	}
	return name, secret, nil
}

// UserLine returns a line of a file of users.
func UserLine(name string, v scram.Verifier) string {
	if strings.ContainsAny(name, " \t\"#") || strconv.Quote(name) != `"`+name+`"` {
		name = strconv.Quote(name)
	}
	return name + " " + v.Text()
}

// verifier returns the verifier for a mechanism. That of a plain password is made when it is
// first asked for.
func (u *user) verifier(h scram.Hash) (scram.Verifier, bool) {
	for _, v := range u.verifiers {
		if v.Hash.Mechanism == h.Mechanism {
			return v, true
		}
	}
	if !u.plain {
		return scram.Verifier{}, false
	}
	u.derive.Lock()
	defer u.derive.Unlock()
	for _, v := range u.derived {
		if v.Hash.Mechanism == h.Mechanism {
			return v, true
		}
	}
	v, err := newVerifier(h, u.password)
	if err == nil {
		u.derived = append(u.derived, v)
	}
	return v, err == nil
}

// UsersFile is a file of users, which is read again when it has changed. It may be used
// from any goroutine.
type UsersFile struct{ file[*Users] }

// OpenUsers reads a file of users.
func OpenUsers(path string, read func(string) ([]byte, error)) (*UsersFile, error) {
	f := &UsersFile{file[*Users]{path: path, parse: ParseUsers}}
	return f, f.open(read)
}

// String names the file.
func (f *UsersFile) String() string { return f.path }
