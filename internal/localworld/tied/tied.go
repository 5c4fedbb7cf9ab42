// Package tied starts programs that must not outlive this one. On Linux the
// kernel ends them with it, however it ends; elsewhere only an orderly stop does.
package tied

import (
	"os/exec"
	"runtime"
)

// Start starts a command whose process dies with this one and which Ctrl-C at
// the terminal does not reach: this program stops it in order. ended is closed
// when the process is gone; err, valid then, is how.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err func() error, failed error) {
	cmd.SysProcAttr = attributes()
	started := make(chan error, 1)
	exited := make(chan struct{})
	var exitError error
	go func() {
		// The kernel's signal comes when the thread that started the process
		// ends, so one thread stays with it for all its life.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			exitError = cmd.Wait()
		}
	}()
	if failed := <-started; failed != nil {
		return nil, nil, failed
	}
	return exited, func() error { return exitError }, nil
}
