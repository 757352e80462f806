package takeover

import (
	"fmt"
	"os"

	"github.com/zkd-project/zkd/internal/jaas"
	"github.com/zkd-project/zkd/internal/secret"
)

// Login is a user as which Apache's servers log in to each other.
type Login struct {
	User     string
	Password secret.Text
}

// ReadLogin reads the user of a server that connects from the JAAS file of Apache's servers.
// The user is in the given section.
func ReadLogin(file, section string) (*Login, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	sections, err := jaas.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s, ok := jaas.Find(sections, section)
	if !ok {
		return nil, fmt.Errorf("%s has no section %q (quorum.auth.learner.saslLoginContext of Apache's servers)", file, section)
	}
	for _, m := range s.Modules {
		if m.Class != jaas.DigestLoginModule {
			return nil, fmt.Errorf("%s:%d: %s: a mirror logs in by DIGEST-MD5 only (%s), not by Kerberos", file, m.Line, m.Class, jaas.DigestLoginModule)
		}
		user, ok := m.Option("username")
		password, hasPassword := m.Option("password")
		if ok && hasPassword {
			return &Login{User: user.Value, Password: secret.NewText(password.Value)}, nil
		}
	}
	return nil, fmt.Errorf("%s:%d: section %q has no username and password", file, s.Line, section)
}
