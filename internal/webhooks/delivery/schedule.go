package delivery

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	answerTimeout = 15 * time.Second // limit of a whole attempt
	// Bytes of an answer that are read, so that its connection can be used again.
	answerBytesMax       = 64 << 10
	responseKeptBytesMax = 1 << 10 // bytes of an answer that the organization can read
	errorBytesMax        = 300
	// How long an event waits for its predecessor, from that one's first attempt.
	orderWaitMax  = 10 * time.Minute
	retryAfterMax = 24 * time.Hour
	jitterPercent = 20
	leaseLength   = time.Minute
	// How much of its lease a post must still have when it starts.
	leaseRemainingMin = answerTimeout + 10*time.Second
)

// delays are the pauses before each attempt, 3.2 days in total. After the last attempt the delivery
// has failed. Rule EVT-16.
var delays = [...]time.Duration{
	0, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const attemptsMax = len(delays)

// retryDelay returns how long to wait after that many attempts, at least as long as the receiver
// asked for. elapsed is the time from the first to the last of them. ok is false if there is no
// further attempt.
//
// The jitter is symmetric, except that it never makes an early delivery earlier. A delivery ahead
// of the schedule waits longer, and the last attempt is never early. With any jitter, the last
// attempt comes more than 71 hours after the first, so an endpoint that is down for less loses
// nothing. Rule EVT-16.
func retryDelay(attempts int, elapsed, retryAfter time.Duration) (d time.Duration, ok bool) {
	if attempts >= attemptsMax {
		return 0, false
	}
	nominal := time.Duration(0)
	for _, step := range delays[:attempts] {
		nominal += step
	}
	d = delays[attempts]
	spread := d * jitterPercent / 100
	earliest := d - spread
	if elapsed < nominal || attempts == attemptsMax-1 {
		earliest = d
	}
	d = earliest + rand.N(d+spread-earliest+1)
	return max(d, min(retryAfter, retryAfterMax)), true
}

// parseRetryAfter reads Retry-After of an answer that may carry one: seconds or a date. It returns
// 0 if there is none or if it is unreadable. Rule EVT-16.
func parseRetryAfter(status int, header http.Header, now time.Time) time.Duration {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return 0
	}
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, retryAfterMax)
	}
	if retryAt, err := http.ParseTime(value); err == nil {
		return min(max(retryAt.Sub(now), 0), retryAfterMax)
	}
	return 0
}
