package command

// commands lists all commands, in the order of the help.
func commands() []Command {
	return []Command{
		createCommand(),
		getCommand(),
		lsCommand(),
		quitCommand(),
	}
}
