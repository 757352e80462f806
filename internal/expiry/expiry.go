// Package expiry says how long before the end of what expires people are told of it: one rule for
// logs, checks of files, and what zkcli why finds.
package expiry

import "time"

// What is left of these when the first warning is due.
const (
	Certificate    = 30 * 24 * time.Hour
	RevocationList = 24 * time.Hour // it is replaced every few days, or every few hours
)
