// Package child is about processes that must not outlive the one that starts them.
package child
