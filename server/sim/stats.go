package sim

import (
	"fmt"
	"reflect"
	"strings"
)

// Stats counts events, to show that they occurred.
type Stats struct {
	VirtualMs                                         uint64
	Starts, Crashes, Inside                           int
	Elections, Leads, Epochs, Renewals                int
	Proposals, Commits, Forwards                      int
	Truncations, Installs                             int
	Snapshots, Purges, LogReads, SnapSends            int
	Wipes, Damages, Rollbacks, OldCopies, Admits      int
	TornRecords                                       int
	RefusedStarts, NewLogs, BadSnaps                  int
	MemberChanges, Reconfigs, Joins, Pilots           int
	Moves, Stuck, Ahead                               int
	Links, Breaks, Cut, Messages, Dropped, Duplicates int
	Connects, Answered, Syncs, Fences, Guarded        int
	Expired, ToldExpired, Renegotiated                int
	Replays, Refused                                  int
	Owners, MovedAway                                 int
	Interludes, Kept, Again, Passed, LostRefusal      int
	Replayed, Resent, Gathered, Closings, Short       int
	LogWaits, MadeRoom, RoomGiven                     int // logs that began to wait, and snapshots that were to make room
	Busy                                              int // turns that took time
	Between                                           int // requests between two slices of a transaction
	ProposedBetween                                   int // times that a leader has evaluated requests between two slices
	Fatal                                             int // writes at which a leader panicked
	WatchesSet, Events                                int
	Subscribed, Fed, Levels, Compacted                int
	Displaced, FeedsRefused                           int
	Streams, Streamed                                 int
	Views, ViewsLost, Pages                           int
	Locals, Upgrades                                  int
	Deaf, Slow                                        int
	Retires, Retirements                              int
	StandbyStarts, States, Copied, Complete           int // of standbys
	Promotions, GivenUp, Emptied                      int // of them; entries that they lack; copies of earlier ensembles
	Relays, RelayResumes, RelayReplays, RelayEnds     int
	HandOvers                                         int
	Carriers, CarriedStreams, CarriedWaits            int // of edges; times that bytes of a stream had to wait
	CarriersDumb, CarriersSilent                      int // that said nothing, and of which an edge noticed it
	CarriersStalled, CarriersQuit                     int
	Remembers, Remembered, LocalEvents, WentUpstream  int // subtrees that edges have read; reads, events and watches of their memories
	AwaySessions, AwayReads, AwayEvents               int // of edges without a server
	Faults                                            [numFaults]int
}

// Add adds the counts of another run.
func (s *Stats) Add(o *Stats) {
	a, b := reflect.ValueOf(s).Elem(), reflect.ValueOf(o).Elem()
	for i := range a.NumField() {
		switch f := a.Field(i); f.Kind() {
		case reflect.Int:
			f.SetInt(f.Int() + b.Field(i).Int())
		case reflect.Uint64:
			f.SetUint(f.Uint() + b.Field(i).Uint())
		}
	}
	for i := range s.Faults {
		s.Faults[i] += o.Faults[i]
	}
}

// String renders the counts in a few lines.
func (s *Stats) String() string {
	var b strings.Builder
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() != reflect.Array {
			fmt.Fprintf(&b, "%s=%v ", v.Type().Field(i).Name, f)
		}
	}
	b.WriteString("\nfaults:")
	for f, k := range s.Faults {
		fmt.Fprintf(&b, " %v=%d", Fault(f), k)
	}
	return b.String()
}
