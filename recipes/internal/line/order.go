package line

// Compare returns a negative number if a was there before b, a positive one if b was, and
// else 0: for slices.SortFunc.
func Compare(a, b Entry) int {
	switch {
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return 0
}
