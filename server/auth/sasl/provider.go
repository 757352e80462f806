package sasl

// Scheme is the name of the scheme of those who log in by SASL.
const Scheme = "sasl"

// anyACL is the id that every ACL entry of the scheme covers.
const anyACL = "super"

// Provider defines the identities of the scheme, as Apache's SASLAuthenticationProvider does. It is
// an auth.Provider.
type Provider struct {
	// EverybodyAs is an id. ACL entries with it cover all clients that have logged in
	// (letAnySaslUserDoX). "" means none.
	EverybodyAs string
}

// Scheme returns "sasl".
func (Provider) Scheme() string { return Scheme }

// Personal returns true.
func (Provider) Personal() bool { return true }

// Valid reports whether expr is the name of a principal, with the syntax of Kerberos, or
// that of a user.
func (Provider) Valid(expr string) bool {
	_, err := parsePrincipal(expr)
	return err == nil
}

// Match reports whether the entry expr covers id. The id "super" is covered by every entry.
func (p Provider) Match(id, expr string) bool {
	return id == expr || id == anyACL || p.EverybodyAs != "" && expr == p.EverybodyAs
}
