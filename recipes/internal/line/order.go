package line

// Compare orders entries for slices.SortFunc: it is negative if a was created before b, and
// positive if b was created before a.
func Compare(a, b Entry) int {
	switch {
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return 0
}
