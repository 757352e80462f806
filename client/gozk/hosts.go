package zk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// HostProvider says which servers to connect to.
type HostProvider interface {
	// Init is called first, with the servers that Connect was given.
	Init(servers []string) error
	// Len returns the number of servers.
	Len() int
	// Next returns the next server to connect to. retryStart says that all have been tried
	// since the last call of Connected.
	Next() (server string, retryStart bool)
	// Connected is called when a server has taken the session.
	Connected()
}

// DNSHostProvider is a HostProvider that looks up the addresses of the servers once, in Init.
// Connect without a HostProvider looks them up before each connection. The zero value is ready for use.
type DNSHostProvider struct {
	lookupTimeout time.Duration // 0 means 3 s
	lookupHost    func(ctx context.Context, host string) ([]string, error)

	mu      sync.Mutex
	servers []string
	current int // the index of what Next has returned, -1 at first
	since   int // that of the last success, or of the first server once Next was called; -1 at first
}

// DNSHostProviderOption is an option of NewDNSHostProvider.
type DNSHostProviderOption interface{ apply(*DNSHostProvider) }

type lookupTimeout time.Duration

func (o lookupTimeout) apply(p *DNSHostProvider) { p.lookupTimeout = time.Duration(o) }

// WithLookupTimeout bounds the time of all lookups together. The default is 3 s.
func WithLookupTimeout(timeout time.Duration) DNSHostProviderOption { return lookupTimeout(timeout) }

// NewDNSHostProvider makes a DNSHostProvider.
func NewDNSHostProvider(options ...DNSHostProviderOption) *DNSHostProvider {
	p := &DNSHostProvider{}
	for _, o := range options {
		o.apply(p)
	}
	return p
}

// Init looks up the servers, and shuffles their addresses.
func (p *DNSHostProvider) Init(servers []string) error {
	lookup := p.lookupHost
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	within := p.lookupTimeout
	if within == 0 {
		within = 3 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var found []string
	for _, s := range servers {
		host, port, err := net.SplitHostPort(s)
		if err != nil {
			return err
		}
		addrs, err := lookup(ctx, host)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			found = append(found, net.JoinHostPort(a, port))
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("no addresses found for %q", servers)
	}
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers, p.current, p.since = found, -1, -1
	return nil
}

// Len returns the number of addresses.
func (p *DNSHostProvider) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.servers)
}

// Next returns the addresses one after the other, again and again.
func (p *DNSHostProvider) Next() (server string, retryStart bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = (p.current + 1) % len(p.servers)
	retryStart = p.current == p.since
	p.since = max(p.since, 0)
	return p.servers[p.current], retryStart
}

// Connected begins a new round over the addresses.
func (p *DNSHostProvider) Connected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = p.current
}
