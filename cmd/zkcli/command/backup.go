package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/cmd/zkcli/backup"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/archive/source"
)

// envAdmin is the environment variable that is used without --admin.
const envAdmin = "ZKCLI_ADMIN"

// backupOptions are the flags of backup.
type backupOptions struct {
	admin, rate string
	zstd        bool
	keep        int
	age         time.Duration
	every, base time.Duration
}

func backupCommand() Command {
	return Command{
		Name: "backup", Synopsis: "create FILE|DIR|- | follow DIR | list DIR | verify FILE|DIR | prune DIR | fetch S3 DIR", Short: "Back up a running server",
		Long: "create fetches a snapshot of the present state from the AdminServer of --admin, of the\n" +
			"first one that does not lead if there are several. In a directory the backup gets a\n" +
			"name with the time, the zxid and a checksum. A name that is not there and has no\n" +
			"extension becomes a directory; a file is replaced. It is verified before it has its name;\n" +
			"- is stdout, and is not verified. follow compresses with zstd, create if --zstd or the end of\n" +
			"FILE, .zst, says so; all commands read both. follow keeps a directory up to date until it is\n" +
			"stopped: a backup each --base-every, and within --every what was committed since, in\n" +
			"segments. It continues where it was, and with another server if one fails. verify\n" +
			"reads a backup, or all of a directory, and compares the checksums. prune removes old\n" +
			"backups, and segments that only these need: the newest --keep stay, and all that are\n" +
			"younger than --age; nothing is removed unless the newest is sound.\n" +
			"For each DIR there may be s3://BUCKET/PREFIX, with the credentials of AWS's own tools and\n" +
			"AWS_ENDPOINT_URL, AWS_REGION; fetch copies such a place into a directory, for zkd restore,\n" +
			"which makes data of a backup. A backup holds all data: keep it as a secret.",
		Examples: []Example{
			{"backup create --admin http://localhost:8080 /backup", "into a directory, as --auth says"},
			{"backup create --admin http://zk1:8080,http://zk2:8080 --rate 20M now.db", "a file, from a follower, at 20 MiB a second"},
			{"backup follow --admin http://zk1:8080,http://zk2:8080 /backup", "until it is stopped: run it as a service"},
			{"backup verify /backup", "all backups there"},
			{"backup prune --keep 7 --age 720h /backup", "a week's, and all of the last 30 days"},
		},
		Args: []Arg{
			{Name: "create, follow, list, verify, prune or fetch", Kind: Word, Words: []string{"create", "follow", "list", "verify", "prune", "fetch"}},
			{Name: "file or directory", Kind: File}, {Name: "directory to fetch into", Kind: File},
		},
		Required: 2,
		Setup: func(flags *cobra.Command) Run {
			var o backupOptions
			f := flags.Flags()
			f.StringVar(&o.admin, "admin", "", "URLs of AdminServers, with commas ($"+envAdmin+")")
			f.StringVar(&o.rate, "rate", "", "read at most this many bytes a second, such as 20M")
			f.BoolVar(&o.zstd, "zstd", false, "create compresses, as it also does for a FILE.zst")
			f.IntVar(&o.keep, "keep", 7, "how many of the newest backups prune keeps")
			f.Var((*waitFlag)(&o.age), "age", "prune keeps what is younger than this")
			o.every, o.base = time.Second, 24*time.Hour
			f.Var((*millis)(&o.every), "every", "follow writes at least so often")
			f.Var((*waitFlag)(&o.base), "base-every", "follow fetches a whole backup so often; 0 is once")
			return func(ctx context.Context, c *Call) error { return c.backup(ctx, &o) }
		},
	}
}

func (c *Call) backup(ctx context.Context, o *backupOptions) error {
	at := c.Arg(1)
	if c.Arg(2) != "" && !strings.EqualFold(c.Arg(0), "fetch") {
		return c.Usage("one argument too many")
	}
	switch strings.ToLower(c.Arg(0)) {
	case "create":
		return c.backupCreate(ctx, o, at)
	case "follow":
		return c.backupFollow(ctx, o, at)
	case "list":
		a, err := c.archive(ctx, at)
		if err != nil {
			return err
		}
		return c.backups(a)
	case "fetch":
		return c.backupFetch(ctx, at)
	case "verify":
		return c.backupVerify(ctx, at)
	case "prune":
		if o.keep < 1 {
			return c.Usage("--keep is at least 1")
		}
		a, err := c.archive(ctx, at)
		if err != nil {
			return err
		}
		removed, err := a.Prune(ctx, archive.Retention{Keep: o.keep, Age: o.age}, time.Now())
		return errors.Join(c.backups(&removed), err)
	}
	return c.Usage("there is no %q", c.Arg(0))
}

// archive lists an archive.
func (c *Call) archive(ctx context.Context, name string) (*archive.Archive, error) {
	s, err := backup.Storage(ctx, name, c.App.getenv, c.App.say)
	if err != nil {
		return nil, err
	}
	return archive.Read(ctx, s)
}

// backupFetch copies an archive into a directory.
func (c *Call) backupFetch(ctx context.Context, from string) error {
	to := c.Arg(2)
	if to == "" {
		return c.Usage("fetch needs a directory to copy to")
	}
	a, err := c.archive(ctx, from)
	if err == nil {
		err = os.MkdirAll(to, 0o700)
	}
	if err != nil {
		return err
	}
	copied, err := backup.Copy(ctx, a, archive.Dir(to))
	return errors.Join(c.backups(&copied), err)
}

// backupCreate fetches a backup to a file, a directory or stdout.
func (c *Call) backupCreate(ctx context.Context, o *backupOptions, at string) error {
	servers, err := c.backupSource(o)
	if err != nil {
		return err
	}
	m := c.meter()
	servers.Progress = m.showBytes
	var b *archive.Base
	dir, err := backup.Storage(ctx, at, c.App.getenv, c.App.say)
	if err != nil {
		return err
	}
	intoDir := at != "-"
	if _, local := dir.(archive.Dir); local && intoDir {
		if intoDir, err = namesDir(at); err != nil {
			return err
		}
	}
	switch {
	case at == "-":
		if o.zstd {
			return c.Usage("--zstd is for files: use a pipe into zstd")
		}
		if c.App.out.terminal() {
			return c.Usage("a backup is no text for a terminal: name a file, or use a pipe")
		}
		fetched, err := servers.Fetch(ctx, c.App.out.file())
		m.clear()
		if err != nil {
			return err
		}
		c.App.say("zxid %v, %s", fetched.Zxid, bytesText(fetched.Bytes))
		return nil
	case intoDir:
		b, err = backup.Create(ctx, servers, dir, o.zstd, time.Now())
	case o.zstd && !strings.HasSuffix(at, archive.ZstdSuffix):
		return c.Usage("the name of a compressed file ends in %s", archive.ZstdSuffix)
	default:
		dir = archive.Dir(filepath.Dir(at))
		b, err = backup.CreateFile(ctx, servers, at, time.Now())
	}
	m.clear()
	if err != nil {
		return err
	}
	return c.backups(&archive.Archive{Storage: dir, Bases: []archive.Base{*b}})
}

// namesDir reports whether a backup goes into a directory of this name. It makes the directory if nothing is there
// and the name has no extension: a second backup to a file of that name would replace the first.
func namesDir(at string) (bool, error) {
	info, err := os.Stat(at)
	if errors.Is(err, fs.ErrNotExist) && filepath.Ext(at) == "" {
		return true, os.MkdirAll(at, 0o700)
	}
	return err == nil && info.IsDir(), nil
}

// backupFollow keeps a directory up to date until ctx ends.
func (c *Call) backupFollow(ctx context.Context, o *backupOptions, at string) error {
	servers, err := c.backupSource(o)
	if err != nil {
		return err
	}
	to, err := backup.Storage(ctx, at, c.App.getenv, c.App.say)
	if err != nil {
		return err
	}
	f := backup.Follower{Servers: servers, Every: o.every, BaseEvery: o.base, Report: c.App.say}
	return f.Claim(ctx, to)
}

// admins returns the URLs of AdminServers that a flag has, or the environment.
func (c *Call) admins(flag string) (list []string, err error) {
	if flag == "" {
		flag = c.App.getenv(envAdmin)
	}
	if flag == "" {
		return nil, c.Usage("--admin is missing: the URL of an AdminServer (admin.serverPort), such as http://localhost:8080")
	}
	for one := range strings.SplitSeq(flag, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" {
			return nil, c.Usage("%q is no URL: it should look like http://localhost:8080", one)
		}
		list = append(list, strings.TrimSuffix(u.String(), "/"))
	}
	return list, nil
}

// backupSource returns where the flags say that a backup comes from.
func (c *Call) backupSource(o *backupOptions) (*source.Servers, error) {
	admins, err := c.admins(o.admin)
	if err != nil {
		return nil, err
	}
	asker, err := c.Options.security.asker()
	if err != nil {
		return nil, err
	}
	servers := &source.Servers{Auth: c.Options.Auth, Admins: admins, HTTP: asker.Web()}
	if o.rate != "" {
		rate, err := parseBytes(o.rate)
		if err != nil {
			return nil, c.Usage("--rate: %v", err)
		}
		servers.Rate = rate
	}
	return servers, nil
}

// backupVerify verifies a backup, or all of a directory.
func (c *Call) backupVerify(ctx context.Context, at string) error {
	to, err := backup.Storage(ctx, at, c.App.getenv, c.App.say)
	if err != nil {
		return err
	}
	info, err := os.Stat(at)
	if _, local := to.(archive.Dir); local && err != nil {
		return err
	}
	if err == nil && !info.IsDir() {
		a, err := archive.One(ctx, at)
		if err == nil {
			err = a.VerifyBase(ctx, &a.Bases[0])
		}
		if err != nil {
			return err
		}
		return c.backups(a)
	}
	a, err := archive.Read(ctx, to)
	if err == nil && len(a.Bases) == 0 {
		err = fmt.Errorf("there is no backup in %s", at)
	}
	if err != nil {
		return err
	}
	sound := archive.Archive{Storage: a.Storage}
	for i := range a.Bases {
		if one := a.VerifyBase(ctx, &a.Bases[i]); one != nil {
			err = errors.Join(err, one)
		} else {
			sound.Bases = append(sound.Bases, a.Bases[i])
		}
	}
	for i := range a.Segments {
		if one := a.VerifySegment(ctx, &a.Segments[i]); one != nil {
			err = errors.Join(err, one)
		} else {
			sound.Segments = append(sound.Segments, a.Segments[i])
		}
	}
	err = errors.Join(append([]error{err}, a.Gaps(ctx)...)...)
	return errors.Join(c.backups(&sound), err)
}

// backupDoc is a backup or a segment in JSON.
type backupDoc struct {
	File  string    `json:"file"`
	Time  time.Time `json:"time"`
	After string    `json:"after,omitempty"` // a segment has what follows this zxid
	Zxid  string    `json:"zxid"`
	Bytes int64     `json:"bytes"`
}

// backups shows the files of an archive.
func (c *Call) backups(a *archive.Archive) error {
	docs, rows := []backupDoc{}, [][]string{{"FILE", "TIME", "ZXID", "SIZE"}}
	var lines strings.Builder
	add := func(d backupDoc) {
		d.File, d.Time = a.String()+"/"+d.File, d.Time.UTC()
		docs = append(docs, d)
		zxids := d.Zxid
		if d.After != "" {
			zxids = d.After + ".." + d.Zxid
		}
		row := []string{d.File, d.Time.Format(time.RFC3339), zxids, bytesText(d.Bytes)}
		rows = append(rows, row)
		fmt.Fprintln(&lines, strings.Join(row, "  "))
	}
	for _, b := range a.Bases {
		add(backupDoc{File: b.Name, Time: b.Time, Zxid: b.Zxid.String(), Bytes: b.Bytes})
	}
	for _, s := range a.Segments {
		add(backupDoc{File: s.Name, Time: s.Time, After: s.After.String(), Zxid: s.Last.String(), Bytes: s.Bytes})
	}
	return c.Emit(Output{Text: lines.String(), Data: docs, Table: rows})
}
