package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
)

// configRemarks returns remarks on values that the configuration has, but that only other
// packages and the disk can judge.
func configRemarks(cfg *config.Config) (remarks []string) {
	for _, s := range cfg.SecretFiles() {
		others, mode := fs.FileMode(0o077), "600"
		if s.Group {
			others, mode = 0o007, "640"
		}
		if info, err := os.Stat(s.File); err == nil && info.Mode().Perm()&others != 0 {
			remarks = append(remarks, fmt.Sprintf("%s: %s is a secret that other users can get at (mode %04o): chmod %s %s",
				s.Key, s.File, info.Mode().Perm(), mode, s.File))
		}
	}
	remarks = append(remarks, certificateRemarks(cfg, time.Now())...)
	if _, unknown := fourletter.ParseWhitelist(strings.Join(cfg.FourLetterWhitelist, ",")); len(unknown) > 0 {
		remarks = append(remarks, fmt.Sprintf("4lw.commands.whitelist: zkd has no command %s", strings.Join(unknown, ", ")))
	}
	if !cfg.DBAutoCreate && missing(cfg.DataLogDir, "journal") && missing(cfg.DataDir, "initialize") {
		remarks = append(remarks, fmt.Sprintf("db.autocreate: %s has neither data nor the file initialize, so the server will not start: "+
			"mount the right directory, or, for a new server, touch %s", cfg.DataDir, filepath.Join(cfg.DataDir, "initialize")))
	}
	if r := data.UpgradeRemark(context.Background(), cfg); r != "" {
		remarks = append(remarks, r)
	}
	return remarks
}

func missing(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return errors.Is(err, fs.ErrNotExist)
}
