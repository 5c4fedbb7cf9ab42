//go:build unix

package pg

import (
	"net"
	"syscall"
)

// isQuiet reports whether a connection is open and the server has sent nothing that was not read. A server that stops
// says so on its idle connections, so a COMMIT is sent on quiet ones alone: its outcome would be unknown on others. It
// takes no round trip.
func isQuiet(conn net.Conn) bool {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	// Control takes no lock of the connection. Read would wait for the driver where that reads in the background.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
	})
	return err == nil && quiet
}
