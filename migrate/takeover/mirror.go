package takeover

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/migrate/apachelink"
	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/migrate/moving"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/secure"
	"github.com/zkd-project/zkd/server/zab"
)

// Options are those of a mirror.
type Options struct {
	// From are the quorum ports of Apache's servers, of which only the leader's is open.
	From []string
	// Dir is where the copy is, and LogDir where its log is; Dir if it is empty.
	Dir, LogDir string
	// ID is the id of the member to be. A copy that exists has one; it must be the same, or 0.
	ID uint8
	// SegmentSize is that of the log's segments; 0 means the default.
	SegmentSize int64
	// InitLimit and SyncLimit bound the time of the synchronization, and of the leader's
	// silence: initLimit and syncLimit of Apache's configuration, times its tickTime.
	InitLimit, SyncLimit time.Duration
	// TLS are the settings of the link, as those between zkd's servers; nil for a plain one.
	TLS *secure.Settings
	// Login is the user to log in as, where Apache's servers want that; nil for none.
	Login *Login
	// Readers has the ports where clients may read the copy, and what those are allowed; nil for
	// none. Version is what srvr shows there.
	Readers *config.Config
	Version string
	Logger  *zap.Logger
}

const (
	dialTimeout = 2 * time.Second
	dialPause   = 300 * time.Millisecond
	// maxPause bounds the pause after a link that the leader has ended at once: it may be
	// sending the state to as many others as it can.
	maxPause = 5 * time.Second
	// unfitSpan is the time after which a copy that did not fit no longer counts.
	unfitSpan = 10 * time.Minute
)

// follower is a running mirror: it follows the leader of Apache's servers.
type follower struct {
	o      Options
	log    *zap.Logger
	data   *mirror.Mirror
	copy   *apachelink.Copy
	tls    *secure.TLS // nil for a plain link
	status *reporter
	// startOver is set after a link that showed that the copy can't be continued.
	startOver bool
	// unfit counts the links that have ended with a transaction that did not fit, each within
	// unfitSpan of the one before. The last one was at unfitAt.
	unfit   int
	unfitAt time.Time
}

// Mirror keeps a copy of a running ensemble until ctx is done, or an operator is needed.
func Mirror(ctx context.Context, o Options) (err error) {
	place := data.Place{DataDir: o.Dir, LogDir: cmp.Or(o.LogDir, o.Dir), Server: zab.SID(o.ID), SegmentSize: o.SegmentSize}
	of, err := data.MirrorOf(place)
	if err != nil {
		return err
	}
	if of == 0 {
		if err := place.CheckEmpty(); err != nil {
			return err
		}
		if o.ID == 0 {
			return fmt.Errorf("there is no copy in %s yet: --sid has to say which id the new server has", o.Dir)
		}
		if err := data.CreateMirror(place, datadirs.OfApache); err != nil {
			return err
		}
	}
	data, err := mirror.Open(ctx, place, datadirs.OfApache, o.Logger)
	if err != nil {
		return err
	}
	m := &follower{o: o, log: o.Logger, data: data}
	defer func() {
		err = errors.Join(err, data.Close())
		if m.status != nil {
			m.status.copied(m)
			m.status.close()
		}
	}()
	defer context.AfterFunc(ctx, data.Stop)()
	if data.Founding() != nil {
		return fmt.Errorf("zkd takeover finish has decided that %s is the data of a member: repeat that command", o.Dir)
	}
	id := uint8(data.ID())
	if o.ID != 0 && o.ID != id {
		return fmt.Errorf("the copy in %s is of server %d, not %d", o.Dir, id, o.ID)
	}
	m.o.ID = id
	if o.Readers != nil {
		if err := data.ServeReaders(mirror.Options{Config: o.Readers, Version: o.Version, Logger: o.Logger}); err != nil {
			return err
		}
	}
	m.copy = apachelink.NewCopy(data.Tree())
	m.status = newReporter(m)
	switch {
	case o.TLS != nil:
		if m.tls, err = secure.New(*o.TLS, "quorum", m.log); err != nil {
			return err
		}
	case o.Login != nil:
		m.log.Warn("the link to Apache's servers is not encrypted: use it in a network that you trust")
	default:
		m.log.Warn("the link to Apache's servers is not encrypted, and neither side proves who it is: use it in a network that you trust")
	}
	return m.run(ctx)
}

// run follows one leader after the other.
func (m *follower) run(ctx context.Context) error {
	delay := dialPause
	for i := 0; ; i++ {
		addr := m.o.From[i%len(m.o.From)]
		began := time.Now()
		conn, err := m.dial(ctx, addr)
		if err == nil {
			err = m.follow(ctx, conn, addr)
			m.status.lost()
			m.log.Info("the link has ended", zap.String("leader", addr), zap.Error(err))
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case m.data.Failure() != nil:
			return m.data.Failure()
		case errors.Is(err, apachelink.ErrStop), errors.Is(err, errDisk):
			return err
		case errors.Is(err, apachelink.ErrStartOver):
			if !m.mayStartOver(time.Now()) {
				return fmt.Errorf("%w; the copy was made again, and the same has happened: Apache's servers may differ from each other", err)
			}
			m.startOver = true
			m.status.unfit()
		}
		if conn == nil || time.Since(began) > time.Minute {
			delay = dialPause
		} else {
			delay = min(2*delay, maxPause)
		}
		if (i+1)%len(m.o.From) == 0 || conn != nil {
			if pause.For(ctx, delay/2+rand.N(delay)) != nil {
				return nil
			}
		}
	}
}

// mayStartOver reports whether to make the copy again after a transaction that did not fit: at
// most twice, unless it fitted for a while.
func (m *follower) mayStartOver(now time.Time) bool {
	if now.Sub(m.unfitAt) > unfitSpan {
		m.unfit = 0
	}
	m.unfit, m.unfitAt = m.unfit+1, now
	return m.unfit <= 2
}

// dial opens a connection to a quorum port, if the server there leads, and logs in.
func (m *follower) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
	if err == nil && m.tls != nil {
		conn, err = m.encrypt(ctx, conn, addr)
	}
	if err == nil && m.o.Login != nil {
		if err = m.login(ctx, conn, addr); err != nil {
			m.log.Warn("no login to a server of Apache's", zap.String("address", addr), zap.String("user", m.o.Login.User), zap.Error(err))
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, err
}

// login logs in at the other end of a link that was just made.
func (m *follower) login(ctx context.Context, conn net.Conn, addr string) error {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	mechanism, err := m.o.Login.begin(host)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(m.o.SyncLimit)); err != nil {
		return err
	}
	if err := apachelink.Login(conn, mechanism); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// encrypt makes a connection one with TLS.
func (m *follower) encrypt(ctx context.Context, conn net.Conn, addr string) (net.Conn, error) {
	m.tls.Tick()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.SyncLimit)
	defer cancel()
	encrypted := tls.Client(conn, m.tls.Peer(host))
	if err := encrypted.HandshakeContext(ctx); err != nil {
		m.log.Warn("no TLS with a server of Apache's", zap.String("address", addr), zap.Error(err))
		return nil, errors.Join(err, conn.Close())
	}
	return encrypted, nil
}

// errDisk marks an error of the mirror's own data.
var errDisk = errors.New("the copy can't be written")

// follow follows the leader at the other end of a link until it ends.
func (m *follower) follow(ctx context.Context, conn net.Conn, addr string) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := m.data.Sync(); err != nil {
		return fmt.Errorf("%w: %w", errDisk, err)
	}
	last := m.data.Last()
	if m.startOver {
		last = 0
	}
	l := apachelink.NewLearner(apachelink.Options{SID: m.o.ID, Accepted: m.data.Accepted(), Last: last})
	in := apachelink.NewStream(conn)
	greeting := l.Greeting()
	if err := m.send(conn, greeting); err != nil {
		return err
	}
	until := time.Now().Add(m.o.InitLimit) // of the synchronization
	synced := false
	if err := conn.SetReadDeadline(until); err != nil {
		return err
	}
	for {
		p, err := in.Next()
		if err != nil && l.Epoch() == 0 && ctx.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			m.log.Warn("a server of Apache's closed the link without an answer: perhaps it has just lost an election. Otherwise, "+
				"where it wants a login (quorum.auth.serverRequireSasl), name its JAAS file by --jaas; "+
				"where it wants TLS (sslQuorum), name a configuration with sslQuorum=true by --config", zap.String("address", addr))
		}
		if err != nil {
			return err
		}
		s, err := l.Step(p)
		if err != nil {
			return err
		}
		if s.ReadState {
			f, err := in.State(l.Label())
			if err != nil {
				return err
			}
			l.State(f)
		}
		carryOut := func() error { return m.carryOut(ctx, &s) }
		if s.Synced {
			err = m.pinging(conn, carryOut)
		} else {
			err = carryOut()
		}
		if err != nil {
			return err
		}
		if err := m.send(conn, s.Send...); err != nil {
			return err
		}
		m.status.followed(m, l, p, &s, addr)
		if s.Synced {
			synced = true
			m.log.Info("the copy is up to date", zap.String("leader", addr), zap.Uint32("epoch", l.Epoch()), zap.Stringer("zxid", m.data.Last()))
		}
		if now := time.Now(); synced && until.Sub(now) < m.o.SyncLimit/2 || s.Synced {
			until = now.Add(m.o.SyncLimit)
			if err := conn.SetReadDeadline(until); err != nil {
				return err
			}
		}
	}
}

// pinging does fn, which may take long, and pings the leader meanwhile. It counts on a learner since UPTODATE, one of 3.4 since
// NEWLEADER, and gives a silent one up.
func (m *follower) pinging(conn net.Conn, fn func() error) error {
	done := make(chan struct{})
	var pings sync.WaitGroup
	pings.Go(func() {
		tick := time.NewTicker(m.o.SyncLimit / 4)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.send(conn, apachelink.Packet{Type: apachelink.Ping, Data: []byte{}}) // fn's end comes first
			case <-done:
				return
			}
		}
	})
	err := fn()
	close(done)
	pings.Wait()
	return err
}

// carryOut does what a step says, but for sending.
func (m *follower) carryOut(ctx context.Context, s *apachelink.Step) error {
	disk := func(err error) error {
		if err != nil {
			return fmt.Errorf("%w: %w", errDisk, err)
		}
		return nil
	}
	if s.Accept != 0 {
		if err := disk(m.data.Accept(s.Accept)); err != nil {
			return err
		}
	}
	if s.Install != nil {
		tree, err := moving.Convert(s.Install)
		if err != nil {
			return err
		}
		for _, text := range s.Found.Dropped {
			m.log.Warn("the leader's state had something that the copy does not have", zap.String("what", text))
		}
		if text := moving.LongLists(tree); text != "" {
			m.log.Warn(text)
		}
		if err := disk(m.data.Install(ctx, tree)); err != nil {
			return err
		}
		m.copy, m.startOver = apachelink.NewCopy(tree), false
		m.log.Info("the leader's state was installed", zap.Stringer("zxid", tree.LastZxid()), zap.Int("znodes", tree.Stats().Nodes))
	}
	for _, x := range s.Txns {
		var unfit error
		err := m.data.Append(&x.Txn, func() ([]datatree.Event, error) {
			if unfit = m.copy.Follows(x); unfit == nil {
				unfit = m.copy.Apply(x)
			}
			return m.copy.Events(), unfit
		})
		if unfit != nil {
			return fmt.Errorf("%w: %w", apachelink.ErrStartOver, unfit)
		}
		if err := disk(err); err != nil {
			return err
		}
	}
	return nil
}

func (m *follower) send(conn net.Conn, packets ...apachelink.Packet) error {
	if len(packets) == 0 {
		return nil
	}
	var b []byte
	for i := range packets {
		b = packets[i].Append(b)
	}
	if err := conn.SetWriteDeadline(time.Now().Add(m.o.SyncLimit)); err != nil {
		return err
	}
	_, err := conn.Write(b)
	return err
}
