package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server/auth/sasl"
)

func newSASLUser() *cobra.Command {
	mechanism := "SCRAM-SHA-256"
	cmd := &cobra.Command{
		Use:   "sasl-user NAME",
		Short: "Print the line of a user for the file of zkd.sasl.users",
		Long: "Print the line of a user for the file of zkd.sasl.users. The password is asked for,\n" +
			"or is the first line of the standard input. The line has a verifier of it, from which the password can only be guessed.",
		Example: "  zkd sasl-user bob <password.txt >>/etc/zkd/users",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usageError{errors.New("the name is empty")}
			}
			password, err := readPassword(cmd)
			if err != nil {
				return err
			}
			v, err := sasl.NewVerifier(mechanism, password)
			if err != nil {
				return usageError{err}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), sasl.UserLine(args[0], v))
			return err
		},
	}
	cmd.Flags().StringVar(&mechanism, "mechanism", mechanism, "SCRAM-SHA-256 or SCRAM-SHA-512")
	return cmd
}
