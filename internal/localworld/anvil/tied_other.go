//go:build !linux

package anvil

import "syscall"

// tied keeps Ctrl-C at a terminal from reaching the chain: the program that
// uses it stops first. Only Linux can also tie its life to this process.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
