package anvil

import "syscall"

// tied lets the chain die with this process, and keeps Ctrl-C at a terminal
// from reaching it: the program that uses the chain stops first.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
