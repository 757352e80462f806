package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
)

// Format is a format of a server's data: the newest version of it on the disk, 0 if nothing
// there has it.
type Format struct {
	format.Format
	Found uint32
}

// Waits reports whether a newer version of the format is written only when all servers read it.
func (f Format) Waits() bool { return f.Format == format.History }

// Older reports whether this version of zkd writes a newer format by itself. The version that
// wrote the data can't read it then.
func (f Format) Older() bool { return f.Found != 0 && f.Found < f.Writes() && !f.Waits() }

// String says what becomes of an older format.
func (f Format) String() string {
	return fmt.Sprintf("%s %d becomes %d", f.Format, f.Found, f.Writes())
}

// Formats returns the formats of the data in the configured directories, that of transactions
// last. It reads the log, changes nothing, and may be called while a server runs.
func Formats(ctx context.Context, cfg *config.Config) ([]Format, error) {
	needs, ident, err := readFormats(vfs.OS{}, LogDir(cfg.DataLogDir))
	if err != nil {
		return nil, err
	}
	found, err := readHeaders(ctx, vfs.OS{}, cfg, ident)
	return append(found, Format{format.History, needs}), err
}

// readHeaders returns the formats that headers show, and that of the identity in the log.
func readHeaders(ctx context.Context, fsys vfs.FS, cfg *config.Config, ident []byte) ([]Format, error) {
	log, err := wal.Identify(fsys, LogDir(cfg.DataLogDir))
	if err != nil {
		return nil, err
	}
	found := []Format{{format.Segment, log.Version}}
	if ident != nil {
		id, err := datadirs.DecodeIdentity(ident)
		if err != nil {
			return nil, err
		}
		found = append(found, Format{format.Identity, uint32(id.Format)})
	}
	store := snapshot.Reading(fsys, cfg.DataDir)
	files, err := store.List() // the newest first
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(files) == 0 {
		return append(found, Format{format.Snapshot, 0}), nil
	} else if err != nil {
		return nil, err
	}
	version, err := store.Format(ctx, files[0].Name)
	return append(found, Format{format.Snapshot, version}), err
}

// readFormats returns the version of format.History that a server must read to share the history in
// the log, 0 if there is none, and the identity in the log.
func readFormats(fsys vfs.FS, dir string) (needs uint32, ident []byte, err error) {
	rec, err := wal.Verify(wal.Options{FS: fsys, Dir: dir, CheckEntry: func(r *wal.Record) error {
		e := EntryOf(r)
		needs = max(needs, history.FormatOf(&e))
		return nil
	}})
	if errors.Is(err, fs.ErrNotExist) || err == nil && rec.New {
		return 0, nil, nil
	} else if err != nil {
		return 0, nil, err
	}
	return needs, rec.Ident, nil
}

// announceFormats logs, before anything is written, that an earlier version of zkd can't read the data
// after this start.
func (d *Dirs) announceFormats(ctx context.Context, ident []byte) {
	found, err := readHeaders(ctx, d.fs, d.cfg, ident)
	if err != nil {
		return // what it is comes to light with a better message
	}
	if text := OlderFormats(found); text != "" {
		d.log.Warn("the data is of an earlier version of zkd, and this start writes newer formats: that version can't read the data from now on, so going back needs a copy from before",
			zap.String("formats", text))
	}
}

// OlderFormats describes the formats that the first start replaces by newer ones, "" if there are none.
func OlderFormats(found []Format) string {
	var list []string
	for _, f := range found {
		if f.Older() {
			list = append(list, f.String())
		}
	}
	return strings.Join(list, ", ")
}

// UpgradeRemark says that the first start of this version is final for the data in the configured
// directories, "" if it is not, as far as headers show it.
func UpgradeRemark(ctx context.Context, cfg *config.Config) string {
	found, err := readHeaders(ctx, vfs.OS{}, cfg, nil)
	text := OlderFormats(found)
	if err != nil || text == "" {
		return ""
	}
	return fmt.Sprintf("%s: the data is of an earlier version of zkd, which can't read it after the first start of this one (%s): copy the directories before, and see zkd upgrade-check",
		cfg.DataDir, text)
}
