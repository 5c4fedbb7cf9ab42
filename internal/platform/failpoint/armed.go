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

// Actions that a file of COFFER_CRASH_DIR may name.
const (
	actionKill = "kill" // the process dies, as by kill -9
	actionWait = "wait" // the goroutine waits until the file NAME.go appears
)

const pollInterval = 2 * time.Millisecond

// Hit kills the process, as kill -9 does, if COFFER_CRASH_AT names this failpoint.
//
// With COFFER_CRASH_DIR it reads the files of a folder instead, so that a running process can be
// armed. NAME.armed contains "kill" or "wait". The first process that reaches the failpoint takes
// the action by renaming the file to NAME.reached, and the next one passes unharmed.
func Hit(name string) {
	if os.Getenv("COFFER_CRASH_AT") == name {
		killProcess()
	}
	runAction(name)
}

// HitBeforeCommit is a failpoint inside a transaction that is about to be committed, for a
// failpoint of Hit that follows the commit. It is armed as NAME.commit. A test that stops the
// process there can remove the answer to the COMMIT.
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
		return // another goroutine or process was first
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
