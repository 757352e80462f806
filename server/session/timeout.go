package session

// Negotiate returns the timeout for a client that asked for requested: the nearest within
// the server's limits. All are in milliseconds, and 0 < lowest <= highest.
func Negotiate(requested, lowest, highest int32) int32 {
	return min(max(requested, lowest), highest)
}
