package limits

import (
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// failureBurst is the number of failures that an address or a name may have at once, in
	// seconds of its rate.
	failureBurst = 10 * time.Second
	// failurePatience is how long an attempt may be delayed. One that would have to wait
	// longer is refused.
	failurePatience = 10 * time.Second
	// nameShare is how many times the rate of an address a name has: one address alone can't
	// use up what others need to prove that name.
	nameShare = 4
	// provedFor is how long an address that has proved a name is not delayed by what other
	// addresses try with that name.
	provedFor = 24 * time.Hour
	// maxOrigins bounds the addresses, and the names, that are told apart. Further ones
	// share a rate.
	maxOrigins = 1 << 16
	// maxFailureName bounds what is kept of a name, in bytes.
	maxFailureName = 64
)

// Failures limits how often credentials may be wrong (zkd.authFailuresPerSecond), by the
// address that presents them and by the name that they are for, so that nobody can try many
// passwords. All ways to present a credential share one Failures. An attempt waits for its
// turn before it is checked, since a client that is answered at once when it is right need
// not wait for the answer when it is wrong. What is right does not count.
//
// Each address, and each name, has a token bucket of failureBurst. An attempt takes a token
// of its address when it begins, and gets it back if it was right. A name is often used by
// many clients that begin at the same moment, so an attempt takes a token of its name only
// when it was wrong, or when there are none left and it has to wait.
//
// It is safe for concurrent use.
type Failures struct {
	every atomic.Int64 // see interval

	mu        sync.Mutex
	addresses origins
	names     origins
	proved    map[provedName]time.Duration // when it was
}

// origins are the buckets of addresses, or of names.
type origins struct {
	share   time.Duration // how many times the rate of an address
	buckets map[string]failures
	swept   time.Duration // when full buckets were last removed
}

// failures is a bucket.
type failures struct {
	full    time.Duration // when it is full again
	delayed bool          // an attempt had to wait since it was full
}

type provedName struct{ network, name string }

// NewFailures limits each address to perSecond failures per second; 0 is no limit.
func NewFailures(perSecond int) *Failures {
	f := &Failures{
		addresses: origins{share: 1, buckets: make(map[string]failures)},
		names:     origins{share: nameShare, buckets: make(map[string]failures)},
		proved:    make(map[provedName]time.Duration),
	}
	f.SetRate(perSecond)
	return f
}

// SetRate changes the limit.
func (f *Failures) SetRate(perSecond int) {
	every := time.Duration(0)
	if perSecond > 0 {
		every = time.Second / time.Duration(perSecond)
	}
	f.every.Store(int64(every))
}

// interval returns the time between two failures of an address; 0 means no limit.
func (f *Failures) interval() time.Duration { return time.Duration(f.every.Load()) }

// Attempt is an attempt to prove an identity.
type Attempt struct {
	Delay time.Duration // until it may be checked
	First bool          // it is the first of its address, or of its name, that has to wait

	of            *Failures
	network, name string
	interval      time.Duration
	charged       bool // its name has been charged
}

// Begin begins an attempt from an address. name is whom the credential is for, by scheme and
// name; "" if it names nobody who could be guessed. ok is false if the attempt would have to
// wait for too long; it must not be checked then. Otherwise End must follow.
func (f *Failures) Begin(address, name string, now time.Duration) (a Attempt, ok bool) {
	a = Attempt{of: f, network: Network(address), name: name[:min(len(name), maxFailureName)], interval: f.interval()}
	if a.interval == 0 {
		return a, true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	byName := time.Duration(0)
	if at, known := f.proved[provedName{a.network, a.name}]; a.name != "" && (!known || now-at > provedFor) {
		byName = f.names.wait(a.name, a.interval, now)
	}
	delay := max(byName, f.addresses.wait(a.network, a.interval, now))
	if delay > failurePatience {
		return a, false
	}
	a.Delay = delay
	a.First = f.addresses.take(a.network, a.interval, now)
	if a.charged = byName > 0; a.charged {
		a.First = f.names.take(a.name, a.interval, now) || a.First
	}
	return a, true
}

// End says whether the credential was wrong.
func (a *Attempt) End(wrong bool, now time.Duration) {
	f := a.of
	if a.interval == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case wrong && a.name != "" && !a.charged:
		f.names.take(a.name, a.interval, now)
	case !wrong:
		f.addresses.giveBack(a.network, a.interval, now)
		if a.charged {
			f.names.giveBack(a.name, a.interval, now)
		}
		f.noteProvedLocked(a, now)
	}
}

// Blocked reports whether an address has failed so often that what it presents is not to be
// looked at. It is for those who can't make an attempt wait; Failed must follow a failure.
func (f *Failures) Blocked(address string, now time.Duration) bool {
	interval := f.interval()
	f.mu.Lock()
	defer f.mu.Unlock()
	return interval != 0 && f.addresses.wait(Network(address), interval, now) > 0
}

// Failed counts a failure of an address.
func (f *Failures) Failed(address string, now time.Duration) {
	interval := f.interval()
	f.mu.Lock()
	defer f.mu.Unlock()
	if interval != 0 {
		f.addresses.take(Network(address), interval, now)
	}
}

// noteProvedLocked remembers that an address has proved a name.
func (f *Failures) noteProvedLocked(a *Attempt, now time.Duration) {
	if a.name == "" {
		return
	}
	key := provedName{a.network, a.name}
	if _, known := f.proved[key]; !known && len(f.proved) >= maxOrigins {
		maps.DeleteFunc(f.proved, func(_ provedName, at time.Duration) bool { return now-at > provedFor })
		if len(f.proved) >= maxOrigins {
			return
		}
	}
	f.proved[key] = now
}

// wait returns how long an attempt has to wait for a token.
func (o *origins) wait(subject string, interval, now time.Duration) time.Duration {
	full := max(o.buckets[o.key(subject, now)].full, now)
	return max(0, full+interval/o.share-now-failureBurst)
}

// take takes a token. It reports whether that is the first one for which somebody waits.
func (o *origins) take(subject string, interval, now time.Duration) (first bool) {
	key := o.key(subject, now)
	b := o.buckets[key]
	if b.full <= now {
		b = failures{full: now}
	}
	b.full += interval / o.share
	first = b.full-now > failureBurst && !b.delayed
	b.delayed = b.delayed || first
	o.buckets[key] = b
	return first
}

// giveBack gives a token back.
func (o *origins) giveBack(subject string, interval, now time.Duration) {
	key := o.key(subject, now)
	b := o.buckets[key]
	if b.full -= interval / o.share; b.full <= now {
		delete(o.buckets, key)
		return
	}
	o.buckets[key] = b
}

// key returns the key of a subject's bucket.
func (o *origins) key(subject string, now time.Duration) string {
	if _, known := o.buckets[subject]; known || len(o.buckets) < maxOrigins {
		return subject
	}
	if now-o.swept >= time.Second {
		o.swept = now
		maps.DeleteFunc(o.buckets, func(_ string, b failures) bool { return b.full <= now })
	}
	if len(o.buckets) < maxOrigins {
		return subject
	}
	return "others"
}

// Network returns that by which the clients of an address are counted: the address, or of
// IPv6 the network of 64 bits that one customer has, in which anybody can have any number of
// addresses. What is no address is returned as it is.
func Network(address string) string {
	switch n, _ := network(address); {
	case n == netip.Prefix{}:
		return address
	case n.IsSingleIP():
		return n.Addr().String()
	default:
		return n.String()
	}
}

// network returns the prefix of Network and the address in its usual form, or nothing for what is no address.
func network(address string) (netip.Prefix, netip.Addr) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}, netip.Addr{}
	}
	bits := 64
	if ip = usual(ip); ip.Is4() {
		bits = 32
	}
	n, _ := ip.Prefix(bits)
	return n, ip
}
