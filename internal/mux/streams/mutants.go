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

	creditTwice   = mutant.New("stream-credit-twice")   // what is read gives credit again and again
	heldUp        = mutant.New("stream-held-up")        // a stream waits while another one has no credit
	unreadMoved   = mutant.New("stream-unread-moved")   // what is not read is lost when memory is freed
	lateRefused   = mutant.New("stream-late-refused")   // what was sent before the other side knew of the end breaks the rules
	numberKept    = mutant.New("stream-number-kept")    // a number is kept that both sides have ended
	refusedKept   = mutant.New("stream-refused-kept")   // a stream that comes too late is not ended
	quitUnheard   = mutant.New("stream-quit-unheard")   // streams are opened after the other side takes none
	quitEnds      = mutant.New("stream-quit-ends")      // a connection that takes no more streams ends those that it has
	pingLate      = mutant.New("stream-ping-late")      // a ping waits for those that may be sent later
	pingForgotten = mutant.New("stream-ping-forgotten") // of the pings that wait, one is sent
	endedAnswered = mutant.New("stream-ended-answered") // an answer to pings names a stream that has ended meanwhile
)

func (c *Side) anyWithoutCredit() bool {
	for _, s := range c.streams {
		if s.credit == 0 {
			return true
		}
	}
	return false
}
