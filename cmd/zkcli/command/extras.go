package command

// extraCommands lists what Apache's zkCli.sh does not have.
func extraCommands() []Command {
	return []Command{
		treeCommand(), findCommand(), duCommand(), exportCommand(), importCommand(), diffCommand(),
		watchCommand(), topCommand(), ensembleCommand(), benchCommand(),
		lockCommand(), electCommand(),
	}
}
