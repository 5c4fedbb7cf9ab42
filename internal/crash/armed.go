//go:build crash

// Package crash, armed: see crash.go.
package crash

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// What a file of COFFER_CRASH_DIR may ask for.
const (
	kill = "kill" // the process dies there, as by kill -9
	wait = "wait" // the goroutine stands there until the file NAME.go appears
)

const lookEvery = 2 * time.Millisecond

// Point kills the process as kill -9 does when it is the place that
// COFFER_CRASH_AT names.
//
// With COFFER_CRASH_DIR it obeys the files of a folder instead, so that a
// process that runs can be armed. NAME.armed holds "kill" or "wait"; the first
// process to pass the place takes it, by renaming it to NAME.reached, and the
// next passes unharmed.
func Point(name string) {
	if os.Getenv("COFFER_CRASH_AT") == name {
		die()
	}
	obey(name)
}

// Committing is the place inside a transaction that is about to be committed,
// for a point whose Point stands after the commit. It is armed as NAME.commit:
// whoever holds the process there can take away the answer to the COMMIT.
func Committing(name string) { obey(name + ".commit") }

func obey(name string) {
	dir := os.Getenv("COFFER_CRASH_DIR")
	if dir == "" {
		return
	}
	path := func(state string) string { return filepath.Join(dir, name+"."+state) }
	if _, err := os.Lstat(path("armed")); err != nil {
		return
	}
	what, err := os.ReadFile(path("armed"))
	if err != nil {
		return
	}
	if err := os.Rename(path("armed"), path("reached")); err != nil {
		return // somebody else was first
	}
	switch strings.TrimSpace(string(what)) {
	case kill:
		die()
	case wait:
		for {
			if _, err := os.Lstat(path("go")); err == nil {
				return
			}
			time.Sleep(lookEvery)
		}
	}
}

func die() {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic("crash: a process that cannot kill itself: " + err.Error())
	}
	select {}
}
