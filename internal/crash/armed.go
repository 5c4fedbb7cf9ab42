//go:build crash

// Package crash, armed: see crash.go.
package crash

import (
	"os"
	"syscall"
)

// Point kills the process as kill -9 does when it is the place that
// COFFER_CRASH_AT names and, with COFFER_CRASH_ONCE set to a file's path, when
// that file does not exist yet: it is made first, so that the restarted process
// passes the same place alive.
func Point(name string) {
	if os.Getenv("COFFER_CRASH_AT") != name {
		return
	}
	if once := os.Getenv("COFFER_CRASH_ONCE"); once != "" {
		f, err := os.OpenFile(once, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		f.Close()
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic("crash: a process that cannot kill itself: " + err.Error())
	}
	select {}
}
