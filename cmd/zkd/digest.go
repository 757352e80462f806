package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/cmd/zkcli/shell"
	"github.com/zkd-project/zkd/server/auth"
)

func newDigest() *cobra.Command {
	alg := "SHA1"
	cmd := &cobra.Command{
		Use:   "digest USER",
		Short: "Print the identity of a user with a password, for ACLs and for the super user",
		Long: "Print the identity that a client has after addauth digest USER:PASSWORD, as ACLs have it: the\n" +
			"name and a hash. The password is asked for, or is the first line of the standard input.\n\n" +
			"The identity in DigestAuthenticationProvider.superDigest, on all servers, is the super user.",
		Example: "  echo DigestAuthenticationProvider.superDigest=$(zkd digest super) >>/etc/zkd/zoo.cfg\n" +
			"  zkcli setAcl /app digest:$(zkd digest bob <password.txt):cdrwa",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" || strings.Contains(args[0], ":") {
				return usageError{errors.New("give the name alone: the password is asked for, or read from the standard input")}
			}
			password, err := readPassword(cmd)
			if err != nil {
				return err
			}
			id, err := auth.DigestID(alg, args[0]+":"+password)
			if err != nil {
				return usageError{err}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), id)
			return err
		},
	}
	cmd.Flags().StringVar(&alg, "alg", alg, "the hash: what the servers' DigestAuthenticationProvider.digestAlg is")
	return cmd
}

// readPassword asks for a password at a terminal, and otherwise takes the first line of the input.
func readPassword(cmd *cobra.Command) (string, error) {
	password, err := shell.Password(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), "Password: ")
	if errors.Is(err, errors.ErrUnsupported) {
		if password, err = bufio.NewReader(cmd.InOrStdin()).ReadString('\n'); errors.Is(err, io.EOF) {
			err = nil
		}
		password = strings.TrimRight(password, "\r\n")
	}
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	if password == "" {
		return "", usageError{errors.New("the password is empty")}
	}
	return password, nil
}
