package sasl

import "fmt"

// Users are the names and passwords of those who log in with a password. They are
// immutable.
type Users struct{ passwords map[string]string }

// NewUsers returns users with these passwords. It keeps the map.
func NewUsers(passwords map[string]string) *Users { return &Users{passwords} }

// String shows no passwords.
func (u *Users) String() string { return fmt.Sprintf("%d users", len(u.passwords)) }

// GoString shows no passwords.
func (u *Users) GoString() string { return u.String() }
