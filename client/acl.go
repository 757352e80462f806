package client

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"strings"
)

// permLetters are the letters of the permissions, in the order in which
// ZooKeeper's tools print them.
var permLetters = [...]struct {
	letter byte
	perm   Perms
}{{'c', PermCreate}, {'d', PermDelete}, {'r', PermRead}, {'w', PermWrite}, {'a', PermAdmin}}

// DigestID returns the identity that {"digest", "user:password"} in Options.Auth
// gives: the user's name, a colon, and the SHA-1 hash of "user:password" in
// base64. The user's name must not contain a colon. Servers with another
// DigestAuthenticationProvider.digestAlg want another hash.
func DigestID(user, password string) ID {
	sum := sha1.Sum([]byte(user + ":" + password))
	return ID{Scheme: "digest", ID: user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// DigestACL grants perms to clients that authenticate with this user and password: see
// DigestID.
func DigestACL(perms Perms, user, password string) ACL {
	return ACL{Perms: perms, ID: DigestID(user, password)}
}

// ParseACL reads an ACL as ZooKeeper's tools write it: scheme:id:perms, and commas
// between entries, such as "world:anyone:r,auth::cdrwa". The permissions are
// letters of "cdrwa": create, delete, read, write, admin. The id may contain
// colons, and, if it is a certificate's distinguished name, commas:
// "x509:CN=app,O=Example:rw".
func ParseACL(s string) ([]ACL, error) {
	var acl []ACL
	for _, entry := range splitACL(s) {
		e, err := parseACLEntry(entry)
		if err != nil {
			return nil, fmt.Errorf("ACL entry %q %w; it should look like world:anyone:cdrwa", entry, err)
		}
		acl = append(acl, e)
	}
	return acl, nil
}

// splitACL splits at commas, except those within a distinguished name.
func splitACL(s string) []string {
	var entries []string
	for part := range strings.SplitSeq(s, ",") {
		if n := len(entries); n > 0 && insideName(entries[n-1], part) {
			entries[n-1] += "," + part
			continue
		}
		entries = append(entries, part)
	}
	return entries
}

// insideName reports whether the comma between before and after belongs to a distinguished
// name: before has no permissions yet, and the comma is escaped or an attribute such as
// O=Example follows.
func insideName(before, after string) bool {
	if strings.Count(before, ":") != 1 {
		return false
	}
	word, _, _ := strings.Cut(after, ":")
	return strings.Contains(word, "=") || strings.HasSuffix(before, `\`)
}

func parseACLEntry(s string) (ACL, error) {
	scheme, rest, _ := strings.Cut(s, ":")
	last := strings.LastIndexByte(rest, ':')
	if scheme == "" || last < 0 {
		return ACL{}, fmt.Errorf("is not scheme:id:permissions")
	}
	perms, err := ParsePerms(rest[last+1:])
	if err != nil {
		return ACL{}, fmt.Errorf("has %w", err)
	}
	return ACL{Perms: perms, ID: ID{Scheme: scheme, ID: rest[:last]}}, nil
}

// ParsePerms reads permissions as letters of "cdrwa", in any order. The empty string means no
// permissions.
func ParsePerms(s string) (Perms, error) {
	var perms Perms
letters:
	for i := range len(s) {
		for _, p := range permLetters {
			if s[i] == p.letter {
				perms |= p.perm
				continue letters
			}
		}
		return 0, fmt.Errorf("permissions %q, of which %q is none of c, d, r, w, a", s, s[i:i+1])
	}
	return perms, nil
}

// FormatPerms writes permissions as ZooKeeper's tools do: "cdrwa".
func FormatPerms(perms Perms) string {
	var b []byte
	for _, p := range permLetters {
		if perms&p.perm != 0 {
			b = append(b, p.letter)
		}
	}
	return string(b)
}

// FormatACL writes an ACL in the form that ParseACL reads.
func FormatACL(acl []ACL) string {
	var b strings.Builder
	for i, e := range acl {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(e.ID.Scheme + ":" + e.ID.ID + ":" + FormatPerms(e.Perms))
	}
	return b.String()
}
