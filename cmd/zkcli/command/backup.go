package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/cmd/zkcli/backup"
)

// envAdmin is the environment variable that stands for --admin.
const envAdmin = "ZKCLI_ADMIN"

// backupOptions are the flags of backup.
type backupOptions struct {
	admin, rate string
	keep        int
	age         time.Duration
}

func backupCommand() Command {
	return Command{
		Name: "backup", Synopsis: "create FILE|DIR|- | list DIR | verify FILE|DIR | prune DIR", Short: "Back up a running server",
		Long: "create fetches a snapshot of the present state from the AdminServer of --admin, of the\n" +
			"first one that does not lead if there are several. In a directory the backup gets a\n" +
			"name with the time, the zxid and a checksum. It is verified before it has its name;\n" +
			"- is stdout, and is not verified. verify reads a backup, or all of a directory, and\n" +
			"compares the checksums. prune removes old backups: the newest --keep stay, and all\n" +
			"that are younger than --age; nothing is removed unless the newest is sound.\n" +
			"zkd restore makes data of a backup. A backup holds all data: keep it as a secret.",
		Examples: []Example{
			{"backup create --admin http://localhost:8080 /backup", "into a directory, as --auth says"},
			{"backup create --admin http://zk1:8080,http://zk2:8080 --rate 20M now.db", "a file, from a follower, at 20 MiB a second"},
			{"backup verify /backup", "all backups there"},
			{"backup prune --keep 7 --age 720h /backup", "a week's, and all of the last 30 days"},
		},
		Args: []Arg{
			{Name: "create, list, verify or prune", Kind: Word, Words: []string{"create", "list", "verify", "prune"}},
			{Name: "file or directory", Kind: File},
		},
		Required: 2,
		Setup: func(flags *cobra.Command) Run {
			var o backupOptions
			f := flags.Flags()
			f.StringVar(&o.admin, "admin", "", "URLs of AdminServers, with commas ($"+envAdmin+")")
			f.StringVar(&o.rate, "rate", "", "read at most so much a second, such as 20M")
			f.IntVar(&o.keep, "keep", 7, "prune keeps so many of the newest backups")
			f.Var((*millis)(&o.age), "age", "prune keeps what is younger than this")
			return func(ctx context.Context, c *Call) error { return c.backup(ctx, &o) }
		},
	}
}

func (c *Call) backup(ctx context.Context, o *backupOptions) error {
	at := c.Arg(1)
	switch strings.ToLower(c.Arg(0)) {
	case "create":
		return c.backupCreate(ctx, o, at)
	case "list":
		list, err := backup.List(at)
		if err != nil {
			return err
		}
		return c.backups(list)
	case "verify":
		return c.backupVerify(ctx, at)
	case "prune":
		if o.keep < 1 {
			return c.Usage("--keep is at least 1")
		}
		removed, err := backup.Prune(ctx, at, backup.Retention{Keep: o.keep, Age: o.age}, time.Now())
		return errors.Join(c.backups(removed), err)
	}
	return c.Usage("there is no %q", c.Arg(0))
}

// backupCreate fetches a backup to a file, a directory or stdout.
func (c *Call) backupCreate(ctx context.Context, o *backupOptions, at string) error {
	source, err := c.backupSource(o)
	if err != nil {
		return err
	}
	m := c.meter()
	source.Progress = m.showBytes
	var b *backup.Backup
	info, err := os.Stat(at)
	switch {
	case at == "-":
		if c.App.out.terminal() {
			return c.Usage("a backup is no text for a terminal: name a file, or use a pipe")
		}
		fetched, err := source.Fetch(ctx, c.App.out.file())
		m.clear()
		if err != nil {
			return err
		}
		c.App.say("zxid %v, %s", fetched.Zxid, bytesText(fetched.Bytes))
		return nil
	case err == nil && info.IsDir():
		b, err = backup.Create(ctx, source, at, time.Now())
	default:
		b, err = backup.CreateFile(ctx, source, at, time.Now())
	}
	m.clear()
	if err != nil {
		return err
	}
	return c.backups([]backup.Backup{*b})
}

// backupSource returns where the flags say that a backup comes from.
func (c *Call) backupSource(o *backupOptions) (*backup.Source, error) {
	source := &backup.Source{Auth: c.Options.Auth}
	admin := o.admin
	if admin == "" {
		admin = c.App.getenv(envAdmin)
	}
	if admin == "" {
		return nil, c.Usage("--admin is missing: the URL of an AdminServer (admin.serverPort), such as http://localhost:8080")
	}
	for one := range strings.SplitSeq(admin, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" {
			return nil, c.Usage("%q is no URL: it should look like http://localhost:8080", one)
		}
		source.Admins = append(source.Admins, strings.TrimSuffix(u.String(), "/"))
	}
	if o.rate != "" {
		rate, err := parseBytes(o.rate)
		if err != nil {
			return nil, c.Usage("--rate: %v", err)
		}
		source.Rate = rate
	}
	return source, nil
}

// backupVerify verifies a backup, or all of a directory.
func (c *Call) backupVerify(ctx context.Context, at string) error {
	info, err := os.Stat(at)
	if err != nil {
		return err
	}
	var list []backup.Backup
	if info.IsDir() {
		if list, err = backup.List(at); err == nil && len(list) == 0 {
			err = fmt.Errorf("there is no backup in %s", at)
		}
	} else {
		var b *backup.Backup
		if b, err = backup.Open(ctx, at); err == nil {
			list = append(list, *b)
		}
	}
	if err != nil {
		return err
	}
	var sound []backup.Backup
	for i := range list {
		if one := list[i].Verify(ctx); one != nil {
			err = errors.Join(err, one)
		} else {
			sound = append(sound, list[i])
		}
	}
	return errors.Join(c.backups(sound), err)
}

// backupDoc is a backup in JSON.
type backupDoc struct {
	File  string    `json:"file"`
	Time  time.Time `json:"time"`
	Zxid  string    `json:"zxid"`
	Bytes int64     `json:"bytes"`
}

// backups shows a list of backups.
func (c *Call) backups(list []backup.Backup) error {
	docs, rows := []backupDoc{}, [][]string{{"FILE", "TIME", "ZXID", "SIZE"}}
	var lines strings.Builder
	for _, b := range list {
		docs = append(docs, backupDoc{b.Path, b.Time.UTC(), b.Zxid.String(), b.Bytes})
		row := []string{b.Path, b.Time.UTC().Format(time.RFC3339), b.Zxid.String(), bytesText(b.Bytes)}
		rows = append(rows, row)
		fmt.Fprintln(&lines, strings.Join(row, "  "))
	}
	return c.Emit(Output{Text: lines.String(), Data: docs, Table: rows})
}
