// Package tied starts programs that must not outlive this one. On Linux the kernel ends them with
// it, however it ends; on other systems only an orderly stop does.
package tied

import (
	"os/exec"
	"runtime"
)

// Start starts a command whose process dies with this one. Ctrl-C at the terminal does not reach
// it: this program stops it in order. ended is closed when the process has ended; err then returns
// its result.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err func() error, failed error) {
	cmd.SysProcAttr = attributes()
	started := make(chan error, 1)
	exited := make(chan struct{})
	var exitError error
	go func() {
		// The kernel sends its signal when the thread that started the process ends, so this
		// goroutine occupies one thread until the process ends.
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
