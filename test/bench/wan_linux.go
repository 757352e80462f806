package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// wan is a wide-area network on this machine. Each of its sites is a network namespace with two
// devices: one for clients, which are beside it, and one to the other sites, whose packets go
// through this process. TCP is the kernel's on all ways, with its windows and retransmissions.
// It needs root, and ip(8).
type wan struct {
	sites []site
	lines *lines
}

// newWAN returns a network with a site for each of the client ports, which must be unique on this
// machine: names and addresses derive from them. A packet from one site to another takes the delay of these, by
// their places in ports, and the share lost of them never arrives.
func newWAN(ports []int, delay func(from, to int) time.Duration, lost float64) (*wan, error) {
	w := new(wan)
	var devices []io.ReadWriteCloser
	for i, port := range ports {
		s, device, err := newSite(i, port)
		if device != nil {
			w.sites, devices = append(w.sites, s), append(devices, device)
		}
		if err != nil {
			for _, d := range devices {
				err = errors.Join(err, d.Close())
			}
			return nil, errors.Join(fmt.Errorf("make a wide-area network, which needs root and ip(8): %w", err), w.leave())
		}
	}
	var err error
	if w.lines, err = newLines(devices, delay, lost); err != nil {
		return nil, errors.Join(err, w.leave())
	}
	return w, nil
}

// Close removes the network. The servers in it must have ended.
func (w *wan) Close() error { return errors.Join(w.lines.Close(), w.leave()) }

// leave removes the namespaces, and so the devices.
func (w *wan) leave() error {
	var err error
	for _, s := range w.sites {
		err = errors.Join(err, ip("netns del "+s.namespace))
	}
	return err
}

// newSite makes the namespace of the site with an index. If the device is not nil, the caller must
// remove the site after an error as well.
func newSite(index, port int) (site, *os.File, error) {
	// One of the 65,536 pairs of addresses in 198.18.0.0/15, which RFC 2544 reserves for benchmarks.
	near := netip.AddrFrom4([4]byte{198, byte(18 + port>>15), byte(port >> 7), byte(port << 1)})
	far := near.Next()
	peers := netip.AddrFrom4([4]byte{10, 0, 0, byte(index + 1)})
	link, tun := fmt.Sprintf("zkd%d", port), fmt.Sprintf("zkd%dt", port)
	namespace := fmt.Sprintf("zkd-bench-%d", port)
	s := site{clients: far.String(), peers: peers.String(), namespace: namespace}
	device, err := openTUN(tun)
	if err != nil {
		return s, nil, fmt.Errorf("TUN device: %w", err)
	}
	return s, device, ip(
		"netns add "+namespace,
		fmt.Sprintf("link add %s type veth peer name clients netns %s", link, namespace),
		fmt.Sprintf("addr add %v/31 dev %s", near, link),
		fmt.Sprintf("link set %s up", link),
		fmt.Sprintf("link set %s netns %s txqueuelen 10000", tun, namespace),
		fmt.Sprintf("-n %s addr add %v/31 dev clients", namespace, far),
		fmt.Sprintf("-n %s addr add %v/24 dev %s", namespace, peers, tun),
		fmt.Sprintf("-n %s link set clients up", namespace),
		fmt.Sprintf("-n %s link set %s up", namespace, tun),
		fmt.Sprintf("-n %s link set lo up", namespace),
	)
}

// ip runs ip(8) with each of the lines, until one fails.
func ip(lines ...string) error {
	for _, line := range lines {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return nil
}

// openTUN makes a TUN device, which is there until the file is closed. Reads and writes are
// packets.
func openTUN(name string) (*os.File, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// lines carry packets of IPv4 between devices: each to the one whose number, from 1, is the last
// byte of the packet's destination. There is no limit of the rate.
type lines struct {
	devices []io.ReadWriteCloser
	queues  [][]chan packet // from each device to each: those of one way keep their order
	delay   func(from, to int) time.Duration
	lost    float64 // share of the packets
	readers sync.WaitGroup
	writers sync.WaitGroup
}

type packet struct {
	b   []byte
	due time.Time
}

// newLines starts to carry packets, until Close.
func newLines(devices []io.ReadWriteCloser, delay func(from, to int) time.Duration, lost float64) (*lines, error) {
	l := &lines{devices: devices, delay: delay, lost: lost}
	for range devices {
		var queues []chan packet
		for _, d := range devices {
			t, err := newTimer()
			if err != nil {
				return nil, errors.Join(fmt.Errorf("timer: %w", err), l.Close())
			}
			queue := make(chan packet, 1<<16)
			queues = append(queues, queue)
			l.writers.Go(func() { deliver(d, queue, t) })
		}
		l.queues = append(l.queues, queues)
	}
	for i, d := range devices {
		l.readers.Go(func() { l.take(i, d) })
	}
	return l, nil
}

// take reads the packets of the device with an index until it is closed.
func (l *lines) take(from int, device io.Reader) {
	const destination = 16 // offset in the header
	b := make([]byte, 64<<10)
	for {
		n, err := device.Read(b)
		if err != nil {
			return
		}
		read := time.Now()
		if n < destination+4 || b[0]>>4 != 4 || rand.Float64() < l.lost {
			continue
		}
		if to := int(b[destination+3]); to >= 1 && to <= len(l.queues) {
			l.queues[from][to-1] <- packet{append([]byte(nil), b[:n]...), read.Add(l.delay(from, to-1))}
		}
	}
}

// deliver writes each packet when it is due.
func deliver(to io.Writer, queue <-chan packet, t *timer) {
	defer t.Close()
	for p := range queue {
		t.sleep(time.Until(p.due))
		_, _ = to.Write(p.b) // what a device refuses is lost
	}
}

// timer sleeps more precisely than time.Sleep, which is late by up to 1 ms in an idle process.
type timer struct {
	*os.File
	fd int
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &timer{os.NewFile(uintptr(fd), "timer"), fd}, nil
}

func (t *timer) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	if err := unix.TimerfdSettime(t.fd, 0, &spec, nil); err == nil { // as always with a valid time
		_, _ = t.Read(make([]byte, 8)) // how often it has fired
	}
}

// Close closes the devices.
func (l *lines) Close() error {
	var err error
	for _, d := range l.devices {
		err = errors.Join(err, d.Close())
	}
	l.readers.Wait()
	for _, queue := range slices.Concat(l.queues...) {
		close(queue)
	}
	l.writers.Wait()
	return err
}
