package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zkd-project/zkd/server/config"
)

// fileRemarks returns remarks on the files that the configuration names.
func fileRemarks(cfg *config.Config) (remarks []string) {
	secrets := []struct{ key, file string }{
		{"zkd.quorumSecretFile", cfg.QuorumSecretFile},
		{"ssl.quorum.keyStore.location", cfg.QuorumTLS.KeyStore},
	}
	for _, s := range secrets {
		if info, err := os.Stat(s.file); s.file != "" && err == nil && info.Mode().Perm()&0o077 != 0 {
			remarks = append(remarks, fmt.Sprintf("%s: %s is a secret that other users can get at (mode %04o): chmod 600 %s",
				s.key, s.file, info.Mode().Perm(), s.file))
		}
	}
	if !cfg.DBAutoCreate && missing(cfg.DataLogDir, "journal") && missing(cfg.DataDir, "initialize") {
		remarks = append(remarks, fmt.Sprintf("db.autocreate: %s has neither data nor the file initialize, so the server will not start: "+
			"mount the right directory, or, for a new server, touch %s", cfg.DataDir, filepath.Join(cfg.DataDir, "initialize")))
	}
	return remarks
}

func missing(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return errors.Is(err, fs.ErrNotExist)
}
