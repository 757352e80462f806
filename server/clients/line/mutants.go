package line

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of lines.
var (
	replyUnordered        = mutant.New("reply-unordered")         // answers leave in another order than requests came
	readOvertakes         = mutant.New("read-overtakes")          // a read is answered before the requests that came before it
	servedAlone           = mutant.New("served-alone")            // requests are answered without the leader's confirmation, although it is needed
	eventLate             = mutant.New("event-late")              // an event leaves after the answer that shows the change
	restUntold            = mutant.New("rest-untold")             // the first of an event's many watchers are told alone
	partShown             = mutant.New("part-shown")              // a read between two slices of a transaction shows a part of it
	firesTwice            = mutant.New("fires-twice")             // each event is sent twice
	persistentOnce        = mutant.New("persistent-once")         // a persistent watch that has fired is removed
	relativeIgnored       = mutant.New("relative-ignored")        // setWatches does not look for what the client has missed
	persistentNotRestored = mutant.New("persistent-not-restored") // setWatches forgets persistent watches
	connsKept             = mutant.New("conns-kept")              // lines survive a snapshot that replaces the tree
	movedKept             = mutant.New("moved-kept")              // a line survives at its server when another one becomes the owner of its session
	movedAnswered         = mutant.New("moved-answered")          // a line whose session is elsewhere gets the refusal as an answer, and continues
	otherKept             = mutant.New("other-kept")              // a line stays when another one resumes its session at the same server
	closerKilled          = mutant.New("closer-killed")           // the line that closes its session ends before it has the answer
	closedOpen            = mutant.New("closed-open")             // the line of a closed session is open after the answer
	boundKept             = mutant.New("bound-kept")              // a line waits for the next service with a request that can't be repeated
	silentEnded           = mutant.New("silent-ended")            // a connection that has asked for nothing ends with an interlude
	earlierAdmitted       = mutant.New("earlier-admitted")        // a connection from before an interlude may open a session before the fence has passed
	endedAgain            = mutant.New("ended-again")             // requests of a line that has ended, of which some are done, are submitted again
	notAgain              = mutant.New("not-again")               // requests are not submitted again in the next service
	againBackwards        = mutant.New("again-backwards")         // they are, in another order
	notPassed             = mutant.New("not-passed")              // an answer that was lost is not made up for
	refusedWaits          = mutant.New("refused-waits")           // a request whose refusal was lost waits on
	unownedKept           = mutant.New("unowned-kept")            // lines wait for the next service although the history does not say that their sessions are theirs
	waitsLonger           = mutant.New("waits-longer")            // connections that wait get another interlude when a service ends whose fence has not passed
	waitsOn               = mutant.New("waits-on")                // connections wait for the next service without a limit
	changeAgain           = mutant.New("change-again")            // a change of the members is submitted again although another list is there
	aheadServed           = mutant.New("ahead-served")            // a session is given to a client that has seen a later state
	closingServed         = mutant.New("closing-served")          // a session that is being closed is given to a client
	takenServed           = mutant.New("taken-served")            // a client that was refused a local session gets it when it has become a global one of another line
	requestedTimeout      = mutant.New("requested-timeout")       // a client that resumes a session is told the timeout that it has requested, and not the session's
	notReplayed           = mutant.New("not-replayed")            // outcomes of writes are not sent to the next line
	doneBehind            = mutant.New("done-behind")             // a client is told that its last write is not done
	doneEarly             = mutant.New("done-early")              // a client is told what was done in the last state that it has seen, and not when its session was resumed
	replayOfAnother       = mutant.New("replay-of-another")       // a client is told the outcomes of another session
	confirmedReplayed     = mutant.New("confirmed-replayed")      // outcomes that a client has confirmed are sent again
	outcomesCut           = mutant.New("outcomes-cut")            // outcomes that the response has promised are left out if they are long
	reportTwice           = mutant.New("report-twice")            // a report looks at live and at ended lines at different times: those that end meanwhile are in neither
	touchesForgotten      = mutant.New("touches-forgotten")       // the last touches of lines that end with the role are not reported
	touchedNow            = mutant.New("touched-now")             // a report says that all sessions were heard of just now
	arrivingMissed        = mutant.New("arriving-missed")         // a report leaves out a touch while the clock is read for it
	refusedHeard          = mutant.New("ping-refused-heard")      // a ping that is not enough makes the request for it an early one
	pingMissed            = mutant.New("ping-missed")             // the client of a gathered ping was not heard of
	localReported         = mutant.New("local-reported")          // touches of local sessions are reported
	notUpgraded           = mutant.New("not-upgraded")            // a local session stays one when its client creates an ephemeral
	visitorUpgraded       = mutant.New("visitor-upgraded")        // the session of a visitor becomes a global one, and outlives the visit
	staysLocal            = mutant.New("stays-local")             // a session that has become a global one is taken for a local one
	upgradeMissed         = mutant.New("upgrade-missed")          // a local session that is a global one in a snapshot stays a local one, too
	undecidedResumed      = mutant.New("undecided-resumed")       // a local session is resumed as one while the leader makes it a global one
	claimedUpgraded       = mutant.New("claimed-upgraded")        // a line makes its local session a global one after another line has claimed it
	localKept             = mutant.New("local-kept")              // a local session outlives its closing
	slowKept              = mutant.New("slow-kept")               // a client that does not take its events stays connected
	slowReadsKept         = mutant.New("slow-reads-kept")         // a client that does not take replies stays connected
	feedLate              = mutant.New("feed-late")               // feeds do not precede what shows their changes
	feederAsleep          = mutant.New("feeder-asleep")           // nobody looks at feeds when there are changes
	viewKept              = mutant.New("view-kept")               // views stay open when their lines end
	resetForgotten        = mutant.New("reset-forgotten")         // the history of changes does not end with a snapshot that replaces the tree
)
