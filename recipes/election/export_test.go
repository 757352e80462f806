package election

// ServeAgain is the loop of RunAgain.
var ServeAgain = serveAgain
