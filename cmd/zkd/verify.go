package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
)

// newVerify returns the command that checks data without a server.
func newVerify() *cobra.Command {
	var logDir string
	cmd := &cobra.Command{
		Use:   "verify [PATH]",
		Short: "Check the data of a server, or backups",
		Long: "Read all of the data, with every checksum, and load each snapshot. PATH is a zoo.cfg\n" +
			"(without PATH that of this machine's server, " + installedConfig + "), a dataDir, one snapshot, such as a backup, or a directory\n" +
			"of zkcli backup. It changes nothing. It exits 0 if all is sound, else 1 after a line for each fault. The end of a\n" +
			"log that a server is writing may look incomplete.",
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := localConfig(os.Getenv)
			if len(args) > 0 {
				path = args[0]
			}
			if !exists(path) {
				return usageError{fmt.Errorf("verify needs PATH, a zoo.cfg, a dataDir or a backup: there is no %s", path)}
			}
			return verify(cmd.Context(), cmd.OutOrStdout(), path, logDir)
		},
	}
	cmd.Flags().StringVar(&logDir, "log-dir", "", "the dataLogDir, if PATH is a dataDir and they differ")
	return cmd
}

func verify(ctx context.Context, w io.Writer, path, logDir string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		a, err := archive.Read(ctx, archive.Dir(path))
		if err != nil {
			return err
		}
		if len(a.Bases) > 0 {
			return data.VerifyArchive(ctx, w, a)
		}
		if logDir == "" {
			logDir = path
		}
		return data.Verify(ctx, w, path, logDir)
	}
	if logDir != "" {
		return usageError{errors.New("--log-dir goes with a dataDir")}
	}
	if strings.HasSuffix(path, archive.ZstdSuffix) {
		a, err := archive.One(ctx, path)
		if err != nil {
			return err
		}
		return data.VerifyArchive(ctx, w, a)
	}
	text, err := isText(path)
	switch {
	case err != nil:
		return err
	case !text:
		return data.VerifySnapshot(ctx, w, path)
	}
	cfg, _, err := config.Load(path)
	if err != nil {
		return usageError{err}
	}
	return data.VerifyConfigured(ctx, w, cfg)
}

// isText reports whether a file is text, as a configuration is: a snapshot has zeros in its
// first page, or nothing if it was never written.
func isText(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() // it was only read
	page := make([]byte, 4096)
	n, err := io.ReadFull(f, page)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, err
	}
	return n > 0 && !bytes.Contains(page[:n], []byte{0}), nil
}
