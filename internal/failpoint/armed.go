//go:build crash

// Package failpoint, armed: see failpoint.go.
package failpoint

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// What a file of COFFER_CRASH_DIR may ask for.
const (
	actionKill = "kill" // the process dies there, as by kill -9
	actionWait = "wait" // the goroutine stands there until the file NAME.go appears
)

const pollInterval = 2 * time.Millisecond

// Hit kills the process as kill -9 does when it is the place that
// COFFER_CRASH_AT names.
//
// With COFFER_CRASH_DIR it obeys the files of a folder instead, so that a
// process that runs can be armed. NAME.armed holds "kill" or "wait"; the first
// process to pass the place takes it, by renaming it to NAME.reached, and the
// next passes unharmed.
func Hit(name string) {
	if os.Getenv("COFFER_CRASH_AT") == name {
		killProcess()
	}
	runAction(name)
}

// HitBeforeCommit is the place inside a transaction that is about to be committed,
// for a point whose Point stands after the commit. It is armed as NAME.commit:
// whoever holds the process there can take away the answer to the COMMIT.
func HitBeforeCommit(name string) { runAction(name + ".commit") }

func runAction(name string) {
	dir := os.Getenv("COFFER_CRASH_DIR")
	if dir == "" {
		return
	}
	path := func(state string) string { return filepath.Join(dir, name+"."+state) }
	if _, err := os.Lstat(path("armed")); err != nil {
		return
	}
	action, err := os.ReadFile(path("armed"))
	if err != nil {
		return
	}
	if err := os.Rename(path("armed"), path("reached")); err != nil {
		return // somebody else was first
	}
	switch strings.TrimSpace(string(action)) {
	case actionKill:
		killProcess()
	case actionWait:
		for {
			if _, err := os.Lstat(path("go")); err == nil {
				return
			}
			time.Sleep(pollInterval)
		}
	}
}

func killProcess() {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic("failpoint: a process that cannot kill itself: " + err.Error())
	}
	select {}
}
