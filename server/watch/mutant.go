package watch

import "github.com/zkd-project/zkd/internal/mutant"

// cursorStays: the place of the next part of an event stays at a watch that is removed.
var cursorStays = mutant.New("cursor-stays")
