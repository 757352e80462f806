package line

// Stem is a new place's name without its number.
var Stem = (*Layout).stem

// Deadline is until when something is held.
var Deadline = (*Hold).deadline
