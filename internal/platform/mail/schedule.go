package mail

import (
	"math/rand/v2"
	"time"
)

// pauses are the times between the attempts of a mail, 71 hours in total. After the attempt that
// follows the last pause the mail is given up. Rule MAIL-3.
var pauses = [...]time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour,
	12 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	attemptsMax = len(pauses) + 1
	// After that many attempts a permanent refusal ends the mail. Earlier ones are repeated for more
	// than an hour, because a server whose settings are wrong refuses with the same codes.
	refusedAttemptsMax = 5
	jitterPercent      = 20
)

// retryPause returns the pause after an attempt, counted from 1. It is never shorter than the
// schedule says, so the last attempt comes at least 71 hours after the first. ok is false if there
// is no further attempt. Rule MAIL-3.
func retryPause(attempts int, isRefused bool) (pause time.Duration, ok bool) {
	if attempts >= attemptsMax || isRefused && attempts >= refusedAttemptsMax {
		return 0, false
	}
	pause = pauses[attempts-1]
	return pause + rand.N(pause*jitterPercent/100+1), true
}
