package sasl

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/scram"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
)

// maxToken bounds the tokens of all mechanisms, in bytes. The largest are Kerberos tickets
// of Active Directory.
const maxToken = 64 << 10

// Config configures a Server.
type Config struct {
	// Users are those who log in with a password; nil means none.
	Users *Users
	// UsersFile has further ones, who go before Users; nil means none.
	UsersFile *UsersFile
	// Kerberos accepts tickets; nil means that there is no GSSAPI.
	Kerberos *Kerberos
	// Names makes ids of principals.
	Names Names
	// SuperUsers are the ids that also get the identity super.
	SuperUsers []string
}

// Server begins exchanges.
type Server struct {
	cfg      Config
	nonce    func() string
	secret   []byte     // of which the salts of unknown users are made
	checking sync.Mutex // held while a plain password is checked
}

// NewServer returns a server that keeps cfg.
func NewServer(cfg Config) *Server {
	s := &Server{cfg: cfg, nonce: rand.Text, secret: make([]byte, 32)}
	rand.Read(s.secret)
	return s
}

// Begin begins the exchange of a connection. encrypted means that nobody can read what the
// client sends; PLAIN needs that.
func (s *Server) Begin(encrypted bool) *Exchange { return &Exchange{server: s, encrypted: encrypted} }

// users returns those who log in with a password.
func (s *Server) users() (all []*Users) {
	if f := s.cfg.UsersFile; f != nil {
		all = append(all, f.current(time.Now()))
	}
	if s.cfg.Users != nil {
		all = append(all, s.cfg.Users)
	}
	return all
}

// Exchange is the server's side of one exchange.
type Exchange struct {
	server    *Server
	encrypted bool
	mechanism mechanism // nil before the first token
	over      bool
}

// mechanism is an exchange by one mechanism. step takes a token of the client and returns
// the reply, and, once the client has proved it, its principal, which is not empty. No
// step follows an error or a principal.
//
// user returns the name for which the next token has a password, or what proves that the
// client knows it. It is "" if the token has none, or nobody can guess it.
type mechanism interface {
	step(token []byte) (reply []byte, principal string, err error)
	user(token []byte) string
}

var (
	errOver     = errors.New("a SASL token after the end of the exchange")
	errTooLong  = fmt.Errorf("a SASL token of more than %d bytes", maxToken)
	errUnknown  = errors.New("the SASL token begins no mechanism that is configured; PLAIN needs TLS")
	errPassword = errors.New("wrong password")
)

// User returns the name whose password the next token proves or guesses, "" for none. It is
// called before Step.
func (e *Exchange) User(token []byte) string {
	m := e.mechanism
	switch {
	case e.over, len(token) > maxToken:
		return ""
	case m == nil: // PLAIN alone has a password in its first token
		var plain bool
		if token, plain = bytes.CutPrefix(token, []byte("PLAIN\x00")); !plain {
			return ""
		}
		m = &plainExchange{}
	}
	return m.user(token)
}

// Step takes the next token of the client and returns the reply, which may be nil. When
// the client has authenticated, proof has its identities; before, proof has none. After
// that, or an error, every further token is an error. Errors are for the log, not for the
// client.
func (e *Exchange) Step(token []byte) (reply []byte, proof auth.Proof, err error) {
	reply, principal, err := e.step(token)
	if err != nil || principal != "" {
		e.over, e.mechanism = true, nil
	}
	if err == nil && principal != "" {
		proof, err = e.server.identify(principal)
	}
	if err != nil {
		return nil, auth.Proof{}, err
	}
	return reply, proof, nil
}

func (e *Exchange) step(token []byte) (reply []byte, principal string, err error) {
	switch {
	case e.over:
		return nil, "", errOver
	case len(token) > maxToken:
		return nil, "", errTooLong
	case e.mechanism == nil:
		if e.mechanism, token = e.choose(token); e.mechanism == nil {
			return nil, "", errUnknown
		}
	}
	return e.mechanism.step(token)
}

// choose returns the mechanism that the first token begins, or nil, and what the token
// says to it. A token that names the mechanism is our client's: the name, a zero, and what
// the mechanism has to say.
func (e *Exchange) choose(first []byte) (mechanism, []byte) {
	s := e.server
	if len(first) > 0 && first[0] == gssTag {
		if s.cfg.Kerberos == nil {
			return nil, nil
		}
		return &gssapi{kerberos: s.cfg.Kerberos}, first
	}
	users := s.users()
	if len(users) == 0 {
		return nil, nil
	}
	name, rest, _ := bytes.Cut(first, []byte{0})
	switch string(name) {
	case "":
		if len(first) > 0 {
			return nil, nil
		}
		return &digestMD5{users: users, nonce: s.nonce()}, nil
	case scram.SHA256.Mechanism:
		return &scramExchange{hash: scram.SHA256, server: s, users: users}, rest
	case scram.SHA512.Mechanism:
		return &scramExchange{hash: scram.SHA512, server: s, users: users}, rest
	case "PLAIN":
		if e.encrypted {
			return &plainExchange{server: s, users: users}, rest
		}
	}
	return nil, nil
}

// identify returns the identities of a principal.
func (s *Server) identify(principal string) (auth.Proof, error) {
	id, err := s.cfg.Names.id(principal)
	if err != nil {
		return auth.Proof{}, err
	}
	proof := auth.Proof{IDs: []jute.ID{{Scheme: Scheme, ID: id}}}
	if slices.Contains(s.cfg.SuperUsers, id) {
		proof.IDs = append(proof.IDs, jute.ID{Scheme: "super"})
	}
	return proof, nil
}
