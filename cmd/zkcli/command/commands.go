package command

// commands returns all commands, in the order of the help.
func commands() []Command {
	return []Command{
		lsCommand(), getCommand(), statCommand(), getACLCommand(), countCommand(), ephemeralsCommand(),
		createCommand(), setCommand(), setACLCommand(), deleteCommand(), deleteAllCommand(),
		addWatchCommand(), removeWatchesCommand(), printWatchesCommand(), syncCommand(),
		setQuotaCommand(), listQuotaCommand(), delQuotaCommand(),
		configCommand(), reconfigCommand(), memberCommand(), sessionsCommand(), backupCommand(), restoreCommand(),
		addAuthCommand(), whoAmICommand(), featuresCommand(), connectCommand(), closeCommand(),
		historyCommand(), redoCommand(), helpCommand(), versionCommand(), quitCommand("quit"), quitCommand("exit"),

		// Apache's zkCli.sh does not have these.
		treeCommand(), findCommand(), duCommand(), exportCommand(), importCommand(), diffCommand(),
		watchCommand(), feedCommand(), topCommand(), ensembleCommand(), whyCommand(), consoleCommand(), benchCommand(), recordCommand(),
		lockCommand(), electCommand(),
	}
}
