package subtree

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/client"
)

// FormatACL renders an entry as scheme:id:perms, perms being letters of cdrwa, or
// a number if there are bits without a letter, or none.
func FormatACL(a client.ACL) string {
	perms := client.FormatPerms(a.Perms)
	if a.Perms&^client.PermAll != 0 || a.Perms == 0 {
		perms = strconv.Itoa(int(a.Perms))
	}
	return a.ID.Scheme + ":" + a.ID.ID + ":" + perms
}

// parseACL reads what FormatACL wrote.
func parseACL(s string) (client.ACL, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 0 {
		return client.ACL{}, fmt.Errorf("acl %q: want scheme:id:perms", s)
	}
	perms, err := parsePerms(rest[i+1:])
	if err != nil {
		return client.ACL{}, fmt.Errorf("acl %q: %w", s, err)
	}
	return client.ACL{Perms: perms, ID: client.ID{Scheme: scheme, ID: rest[:i]}}, nil
}

func parsePerms(s string) (client.Perms, error) {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return client.Perms(n), nil
	}
	return client.ParsePerms(s)
}

// masked reports whether a server has hidden a password hash in the ACL: it shows
// digest:user:x to clients that may read a node but not change its ACL.
func masked(list []client.ACL) bool {
	return slices.ContainsFunc(list, func(a client.ACL) bool {
		return a.ID.Scheme == "digest" && strings.HasSuffix(a.ID.ID, ":x")
	})
}
