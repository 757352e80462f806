package streams

// Place chooses the connection to an address that gets another stream, of those that have so many each: the one with the fewest, or -1 if there is none.
// another says that there should be one more, of most: each has spread streams.
func Place(have []int, spread, most int) (i int, another bool) {
	i = -1
	for j, n := range have {
		if i < 0 || n < have[i] {
			i = j
		}
	}
	return i, i >= 0 && len(have) < most && have[i] >= spread
}
