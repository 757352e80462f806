package command

// historyShown is how many lines history prints, as zkCli.sh.
const historyShown = 11

// history has the lines of the session, numbered from 0.
type history struct{ lines []string }

func (h *history) add(line string) { h.lines = append(h.lines, line) }
