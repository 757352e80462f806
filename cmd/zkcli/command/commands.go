package command

// commands lists all commands, in the order of the help.
func commands() []Command {
	return append([]Command{
		lsCommand(), getCommand(), statCommand(), getACLCommand(), countCommand(), ephemeralsCommand(),
		createCommand(), setCommand(), setACLCommand(), deleteCommand(), deleteAllCommand(),
		addWatchCommand(), removeWatchesCommand(), printWatchesCommand(), syncCommand(),
		setQuotaCommand(), listQuotaCommand(), delQuotaCommand(),
		configCommand(), reconfigCommand(),
		addAuthCommand(), whoAmICommand(), connectCommand(), closeCommand(),
		historyCommand(), redoCommand(), helpCommand(), versionCommand(), quitCommand("quit"), quitCommand("exit"),
	}, extraCommands()...)
}
