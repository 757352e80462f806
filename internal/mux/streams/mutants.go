package streams

import "github.com/zkd-project/zkd/internal/mutant"

// Faults that tests plant.
var (
	noCredit     = mutant.New("mux-no-credit")     // what is read gives no credit
	beyondCredit = mutant.New("mux-beyond-credit") // more is sent than there is credit for
	endOvertakes = mutant.New("mux-end-overtakes") // what came before the end is lost
	silentKept   = mutant.New("mux-silent-kept")   // a connection that answers nothing gets more streams
	pingUnheard  = mutant.New("mux-ping-unheard")  // a ping counts as heard where data has to tell it
	neverMoved   = mutant.New("mux-never-moved")   // what was read of a stream that is never read to its end keeps its memory
)
