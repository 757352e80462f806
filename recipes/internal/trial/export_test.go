package trial

// Command is how to run a test alone.
var Command = command
