package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/container"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/config"
)

// newContainer returns the command that an image starts. f are the flags of the server.
func newContainer(stderr io.Writer) *cobra.Command {
	var f flags
	var show bool
	cmd := &cobra.Command{
		Use:   "container",
		Short: "Run the server of a container, configured by its environment",
		Long: "Run the server of a container. A file zoo.cfg in $ZOO_CONF_DIR (/conf) is used as it is.\n" +
			"Without one, zoo.cfg is made in $ZOO_DATA_DIR (/data) from the variables ZOO_* of the\n" +
			"official image of ZooKeeper, and from ZKD_*, which set any key. $ZOO_MY_ID, or in\n" +
			"Kubernetes the ordinal of the pod, is written to the file myid in $ZOO_DATA_DIR.",
		Example: "  ZOO_MY_ID=1 ZOO_SERVERS='server.1=zk1:2888:3888;2181 server.2=zk2:2888:3888;2181' zkd container",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := readContainer(os.Environ(), os.Getenv)
			if err != nil {
				return usageError{err}
			}
			if show {
				_, err := io.WriteString(cmd.OutOrStdout(), e.made.Text)
				return err
			}
			for _, r := range e.made.Remarks {
				fmt.Fprintln(stderr, "zkd:", r)
			}
			if err := e.save(); err != nil {
				return usageError{err}
			}
			f.config = e.file
			cfg, warnings, err := f.load(cmd, nil)
			if err != nil {
				return usageError{err}
			}
			f.reload = func(on ...config.Setting) (*config.Config, []config.Warning, error) { return f.load(cmd, nil, on...) }
			return serve(cmd.Context(), cfg, warnings, &f, stderr)
		},
	}
	f.addSettings(cmd)
	cmd.Flags().BoolVar(&show, "show", false, "print the configuration that the environment gives, and do nothing else")
	return cmd
}

// environment is the configuration of a container.
type environment struct {
	file    string // the zoo.cfg to start with
	mounted bool   // it is the user's, and stays as it is
	dataDir string
	made    container.Output
}

func readContainer(env []string, getenv func(string) string) (*environment, error) {
	e := &environment{file: containerConfig(getenv), dataDir: containerDir(getenv)}
	e.mounted = e.file == mountedConfig(getenv)
	in := container.Input{Env: env}
	for _, k := range config.Keys() {
		if !strings.Contains(k.Name, "*") {
			in.Keys = append(in.Keys, k.Name)
		}
	}
	if getenv("ZOO_DATA_DIR") == "" {
		in.Env = append(in.Env, "ZOO_DATA_DIR="+e.dataDir)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	in.Host = host
	earlier, err := os.ReadFile(e.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !e.mounted {
		in.Earlier = string(earlier)
		if len(earlier) > 0 && !container.Made(in.Earlier) {
			return nil, fmt.Errorf("%s is not from zkd container: move it to %s to start with it", e.file, mountedConfig(getenv))
		}
	}
	if e.made, err = container.Config(in); err != nil {
		return nil, err
	}
	if e.mounted {
		e.made.Text = string(earlier)
		e.made.Remarks = []string{e.file + " is there: of the variables ZOO_* and ZKD_* only ZOO_MY_ID is used"}
	}
	return e, nil
}

// save writes the files of the configuration.
func (e *environment) save() error {
	if err := os.MkdirAll(e.dataDir, 0o700); err != nil {
		return err
	}
	if e.made.ID != "" {
		if err := saveID(filepath.Join(e.dataDir, "myid"), e.made.ID); err != nil {
			return err
		}
	}
	if e.mounted {
		return nil
	}
	return vfs.Replace(vfs.OS{}, e.file, []byte(e.made.Text), "")
}

// saveID writes the id of the server, unless the file has it.
func saveID(file, id string) error {
	old, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.WriteFile(file, []byte(id+"\n"), 0o600)
	case err != nil:
		return err
	case strings.TrimSpace(string(old)) != id:
		return fmt.Errorf("%s has the id %s, and the environment says %s: the volume belongs to another server", file, strings.TrimSpace(string(old)), id)
	}
	return nil
}

func containerDir(getenv func(string) string) string {
	return cmp.Or(getenv("ZOO_DATA_DIR"), "/data")
}

func mountedConfig(getenv func(string) string) string {
	return filepath.Join(cmp.Or(getenv("ZOO_CONF_DIR"), "/conf"), "zoo.cfg")
}

// containerConfig returns the configuration of the server of a container.
func containerConfig(getenv func(string) string) string {
	if mounted := mountedConfig(getenv); exists(mounted) {
		return mounted
	}
	return filepath.Join(containerDir(getenv), "zoo.cfg")
}

// localConfig returns the configuration of the server of this machine: in a container, which
// has ZOO_CONF_DIR, that of zkd container, and else the installed one.
func localConfig(getenv func(string) string) string {
	if getenv("ZOO_CONF_DIR") == "" {
		return installedConfig
	}
	return containerConfig(getenv)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
