package clients

import (
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/limits"
)

// identity is who the client of a connection is. Only the connection's reader changes it. All may read it, except for ends.
type identity struct {
	credentials atomic.Pointer[auth.Credentials]
	ends        time.Duration // when some of the credentials end; 0 is never. Owned by the reader.
}

// init makes it that of a client which has proved nothing.
func (i *identity) init(nc net.Conn) {
	i.credentials.Store(auth.NewCredentials(jute.ID{Scheme: "ip", ID: remoteIP(nc)}))
}

// remoteIP returns the address of the client as Apache's server spells it, which is the id of the
// scheme ip.
func remoteIP(nc net.Conn) string {
	host, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err != nil {
		return nc.RemoteAddr().String()
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return fourletter.HostAddress(ip)
	}
	return host
}

func (i *identity) ids() []jute.ID { return i.credentials.Load().IDs() }

// ip returns the client's address without the port.
func (i *identity) ip() string { return i.ids()[0].ID }

// edge returns the identity of the edge that speaks for the client, or the zero ID.
func (i *identity) edge() jute.ID { return i.credentials.Load().Edge() }

// set replaces the credentials, for the requests that follow. now is the server's clock.
func (i *identity) set(creds *auth.Credentials, now time.Duration) {
	i.credentials.Store(creds)
	i.ends = 0
	if until := creds.Until(); until != 0 {
		i.ends = max(1, now+time.Until(time.UnixMilli(until)))
	}
}

// dropEnded removes credentials that have ended by now, and reports whether there were any.
func (i *identity) dropEnded(now time.Duration) bool {
	if i.ends == 0 || now < i.ends {
		return false
	}
	i.set(i.present(), now)
	return true
}

// present returns the credentials without those that have ended.
func (i *identity) present() *auth.Credentials {
	creds := i.credentials.Load()
	if creds.Until() == 0 {
		return creds
	}
	return creds.At(time.Now().UnixMilli())
}

// held returns those of the identities of a request that has waited which have not ended meanwhile.
func (i *identity) held(ids []jute.ID) []jute.ID {
	if i.credentials.Load().Until() == 0 {
		return ids
	}
	held := i.present().IDs()
	return slices.DeleteFunc(slices.Clone(ids), func(id jute.ID) bool { return !slices.Contains(held, id) })
}

// name returns the identity by which operators know the client, or "" if only its address is known.
func (i *identity) name() string { return nameOf(i.ids()) }

func nameOf(ids []jute.ID) string {
	if id, ok := auth.Principal(ids); ok {
		return auth.Name(id)
	}
	return ""
}

// Name returns the identity by which operators know a client, or "" if only its address is known.
func Name(creds *auth.Credentials) string { return nameOf(creds.IDs()) }

// Groups returns what a client has in common with others. See package fair.
func Groups(creds *auth.Credentials) []string { return limits.Groups(creds.IDs()) }
