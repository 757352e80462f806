package pending

import (
	"slices"
	"testing"
)

type request struct {
	kind   Kind
	number int32
}

func (r request) Kind() Kind      { return r.kind }
func (r request) Number() int32   { return r.number }
func (r request) Members() uint64 { return 0x100000000 + uint64(r.number) }

func queueOf(list ...request) *Queue[request] {
	q := new(Queue[request])
	for _, r := range list {
		q.Push(r)
	}
	return q
}

// Requests are submitted again in their order, without the reads among them, and stay in the
// queue. Later ones belong to the new service.
func TestAgain(t *testing.T) {
	q := queueOf(request{Write, 1}, request{Read, 2}, request{Barrier, 3}, request{Read, 4}, request{Write, 5})
	for service := uint64(7); service < 9; service++ {
		var again []int32
		q.Again(service, func(r *request) { again = append(again, r.number) })
		if want := []int32{1, 3, 5}; !slices.Equal(again, want) || q.Len() != 5 {
			t.Errorf("service %d: submitted %v of %d, want %v of 5", service, again, q.Len(), want)
		}
		if got := queueOf().Push(request{}); got != 0 {
			t.Errorf("a new queue is of service %d", got)
		}
	}
	if got := q.Push(request{Write, 6}); got != 8 {
		t.Errorf("a later request is of service %d, want 8", got)
	}
}

// A connection does not survive its service if it waits for an outcome that can't be decided
// later, wherever in the queue.
func TestSurvives(t *testing.T) {
	for _, tt := range []struct {
		list []request
		want bool
	}{
		{nil, true},
		{[]request{{Write, 1}, {Read, 2}, {Barrier, 3}}, true},
		{[]request{{Bound, 1}}, false},
		{[]request{{Write, 1}, {Read, 2}, {Bound, 3}, {Write, 4}}, false},
	} {
		if got := queueOf(tt.list...).Survives(); got != tt.want {
			t.Errorf("%v survives: %v", tt.list, got)
		}
	}
}

// A change of the members is submitted again only if nothing has changed them since.
func TestRepeatable(t *testing.T) {
	for _, tt := range []struct {
		list []request
		want bool
	}{
		{nil, true},
		{[]request{{Write, 1}, {Barrier, 2}}, true},
		{[]request{{Write, 1}, {Change, 5}}, true},
		{[]request{{Change, 4}}, false},
		{[]request{{Change, 5}, {Read, 6}, {Change, 4}}, false},
		{[]request{{Bound, 5}}, false},
	} {
		if got := queueOf(tt.list...).Repeatable(0x100000005); got != tt.want {
			t.Errorf("%v, members of 0x100000005: repeatable %v, want %v", tt.list, got, tt.want)
		}
		if got := queueOf(tt.list...).Survives(); got != (len(tt.list) == 0 || tt.list[0].kind != Bound) {
			t.Errorf("%v survives the end of the service: %v", tt.list, got)
		}
	}
}

// TestOvertaken says what becomes of the oldest request when a transaction is about to be
// applied.
func TestOvertaken(t *testing.T) {
	for _, tt := range []struct {
		oldest request
		number int32
		want   Fate
	}{
		{request{Write, 5}, 5, Done},
		{request{Bound, 0}, 0, Done},
		{request{Barrier, 5}, 6, Passed},
		{request{Barrier, 5}, 5, Passed}, // two requests of a client with one number
		{request{Write, 5}, 6, Refused},
		{request{Change, 5}, 6, Refused},
		{request{Bound, 0}, 6, Refused},
	} {
		if got := queueOf(tt.oldest, request{Write, 6}).Overtaken(tt.number); got != tt.want {
			t.Errorf("%v, transaction of request %d: %v, want %v", tt.oldest, tt.number, got, tt.want)
		}
	}
}
