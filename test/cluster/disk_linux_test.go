package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/test/internal/process"
)

// disk is a small file system of its own in a file, for the data of one server. It
// can be filled up, hung and slowed down. Only root can make one.
type disk struct {
	dir, image string
	device     string // such as 7:3
	group      string // control group that slows down who is in it, "" before
}

// newDisk mounts a disk, or returns nil and says that this process may not.
func newDisk(t testing.TB, mib int) *disk {
	t.Helper()
	work := t.TempDir()
	d := &disk{dir: filepath.Join(work, "disk"), image: filepath.Join(work, "image")}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(d.image)
	if err == nil {
		err = f.Truncate(int64(mib) << 20)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	// Without a journal: the delays and refusals are to be those of the server's
	// own writes.
	for _, argv := range [][]string{
		{"mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", d.image},
		{"mount", "-o", "loop", d.image, d.dir},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Logf("NOT TESTED: no disk of its own for a server: %s: %v: %s", strings.Join(argv, " "), err, out)
			return nil
		}
	}
	t.Cleanup(func() { d.remove(t) })
	d.device = deviceOf(t, d.dir)
	return d
}

// deviceOf returns the numbers of the device that is mounted at a directory.
func deviceOf(t testing.TB, dir string) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == dir {
			return fields[2]
		}
	}
	t.Fatalf("%s is not mounted", dir)
	return ""
}

func (d *disk) remove(t testing.TB) {
	d.thaw() // or unmounting would hang; it fails if the disk does not hang
	if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil {
		t.Error(err)
	}
	if d.group != "" {
		if err := os.Remove(d.group); err != nil {
			t.Error(err)
		}
	}
}

// The requests that fsfreeze(8) makes.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

func (d *disk) control(request uintptr) error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, 0); errno != 0 {
		return errno
	}
	return nil
}

// freeze makes writes and syncs wait until thaw.
func (d *disk) freeze() error { return d.control(fiFreeze) }
func (d *disk) thaw() error   { return d.control(fiThaw) }

// fill leaves that many bytes free.
func (d *disk) fill(leave int64) error { return process.Fill(d.dir, leave) }
func (d *disk) empty() error {
	return errors.Join(process.Empty(d.dir), os.RemoveAll(d.inodes()))
}

// groups are where the control groups of the first version limit block devices.
const groups = "/sys/fs/cgroup/blkio"

// slow allows a process that many writes per second to the disk.
func (d *disk) slow(pid, perSecond int) error {
	d.group = filepath.Join(groups, "zkd-"+strings.ReplaceAll(d.device, ":", "-"))
	if err := os.Mkdir(d.group, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.group, "blkio.throttle.write_iops_device"), fmt.Appendf(nil, "%s %d", d.device, perSecond), 0); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.group, "cgroup.procs"), fmt.Append(nil, pid), 0)
}

// fast ends slow.
func (d *disk) fast(pid int) error {
	return os.WriteFile(filepath.Join(groups, "cgroup.procs"), fmt.Append(nil, pid), 0)
}

// diskMiB is the size of a server's disk.
const diskMiB = 96

// TestDisks gives each server a separate disk, and hangs, fills and slows down
// one of them at a time.
func TestDisks(t *testing.T) {
	if testing.Short() {
		return
	}
	t.Parallel()
	disks := make(map[int]*disk)
	for id := 1; id <= 3; id++ {
		if disks[id] = newDisk(t, diskMiB); disks[id] == nil {
			return
		}
	}
	c := newCampaign(t, shape{voters: 3, disk: func(id int) string { return disks[id].dir }})
	for _, f := range briefly(diskFaults(disks)) {
		c.round(f)
		if t.Failed() {
			return
		}
	}
	c.summary()
}

func diskFaults(disks map[int]*disk) []fault {
	on := func(name string, who func(c *campaign) *server, run func(c *campaign, s *server, d *disk)) fault {
		return fault{name, func(c *campaign) {
			s := who(c)
			run(c, s, disks[s.id])
		}}
	}
	leader := func(c *campaign) *server { return c.e.awaitLeader() }
	follower := func(c *campaign) *server { return c.pick(c.e.followers()) }
	return []fault{
		on("disk of follower hangs", follower, hang),
		on("disk of leader hangs", leader, hang),
		on("disk of follower is full", follower, fill),
		on("disk of leader is full", leader, fill),
		{"disks of majority are full", func(c *campaign) {
			c.shortage.from, c.shortage.quorum = c.now(), true
			for _, s := range c.e.voters()[1:] {
				c.must(disks[s.id].fill(0))
			}
			c.wait(c.between(time.Second, 2*time.Second))
			for _, s := range c.e.voters()[1:] {
				c.must(disks[s.id].empty())
			}
			c.wait(time.Second)
			c.shortage.to = c.now()
		}},
		on("disk is full at the start", follower, func(c *campaign, s *server, d *disk) {
			s.Kill()
			c.must(d.fill(int64(c.rng.IntN(3)) << 20))
			s.start()
			c.wait(c.between(time.Second, 2*time.Second))
			c.must(d.empty())
			c.wait(c.between(0, 2*time.Second))
		}),
		on("disk is full, and the data gone", follower, func(c *campaign, s *server, d *disk) {
			s.Kill()
			c.must(os.RemoveAll(s.Data))
			c.must(os.MkdirAll(s.Data, 0o755))
			s.identify(s.id)
			c.must(d.fill(int64(c.rng.IntN(6)) << 20))
			s.start()
			c.wait(c.between(time.Second, 2*time.Second))
			c.must(d.empty())
			c.wait(c.between(0, 2*time.Second))
		}),
		on("killed while its disk hangs", follower, func(c *campaign, s *server, d *disk) {
			c.must(d.freeze())
			c.wait(c.between(100*time.Millisecond, 2*time.Second))
			s.Signal(syscall.SIGKILL)
			c.wait(c.between(100*time.Millisecond, 500*time.Millisecond))
			c.must(d.thaw())
			s.Kill()
		}),
		on("disk of follower is slow", follower, slow),
		on("disk of leader is slow", leader, slow),
	}
}

func hang(c *campaign, s *server, d *disk) {
	c.must(d.freeze())
	c.wait(c.between(500*time.Millisecond, 8*time.Second))
	c.must(d.thaw())
}

// fill takes all room away for a while. A server may stop then; the campaign
// starts it again.
func fill(c *campaign, s *server, d *disk) {
	c.shortage.from = c.now()
	c.must(d.fill(int64(c.rng.IntN(2)) << 20))
	c.wait(c.between(time.Second, 8*time.Second))
	c.must(d.empty())
	c.wait(c.between(500*time.Millisecond, 2*time.Second))
	c.shortage.to = c.now()
	if !s.Running() {
		c.Logf("server %d has ended on a full disk: %s", s.id, lastLine(s.LogNow()))
	}
}

func slow(c *campaign, s *server, d *disk) {
	pid := s.ID()
	if err := d.slow(pid, 5+c.rng.IntN(40)); err != nil {
		c.Logf("NOT TESTED: slow disk: %v", err)
		return
	}
	c.wait(c.between(2*time.Second, 5*time.Second))
	c.must(d.fast(pid))
}

func lastLine(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return lines[max(0, len(lines)-1)]
}
