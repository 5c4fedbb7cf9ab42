// Package freeport finds addresses of this machine for servers that must know their address before
// they listen: a local world, a trial, a test's database.
//
// For "any port" the kernel returns a port of the range that it also gives to outgoing connections.
// Another connection may then have the port before the server listens. So this package chooses
// ports below that range, which the kernel assigns to no connection.
//
// A port is free between the call and the start of its server, which may be a second later. So calls
// take the ports in turn, those of other processes of the same user too: a file in the folder for
// temporary files has the next port. A port comes up again after all the others. A crash leaves that
// file alone, which the next call uses.
package freeport

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// portMin is the lowest port that is used. Below it are the well-known ports of servers that may
// run on the same machine.
const portMin = 20000

// triesMax is how many ports are tried before an error is returned.
const triesMax = 100

// FindAddress returns "127.0.0.1:port" with a port on which no server listens at present. Error:
// the machine has no free port.
func FindAddress() (string, error) {
	port, err := FindPort()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// FindPort returns the port of FindAddress as a number.
func FindPort() (int, error) {
	end := firstEphemeralPort()
	for range triesMax {
		port := 0 // chosen by the kernel if its range leaves no room below
		if end > portMin {
			port = takeTurn(end)
		}
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("look for a free port: %w", err)
		}
		return l.Addr().(*net.TCPAddr).Port, l.Close()
	}
	return 0, fmt.Errorf(
		"no free port of %d was found between %d and %d: end the programs that listen there", triesMax, portMin, end,
	)
}

// takeTurn returns the port whose turn it is, and moves the turn on. If the file of the turn cannot be
// used, the port is a random one, which another call may choose as well.
func takeTurn(end int) int {
	random := portMin + rand.IntN(end-portMin)
	f, err := os.OpenFile(turnFile(), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return random
	}
	defer func() { _ = f.Close() }() // frees the lock
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return random
	}
	text, err := io.ReadAll(io.LimitReader(f, 16))
	if err != nil {
		return random
	}
	port, err := strconv.Atoi(string(text))
	if err != nil || port < portMin || port >= end {
		port = random // the file is new, or the kernel's range has changed
	}
	following := port + 1
	if following == end {
		following = portMin
	}
	// Each port of the range has five digits, so the new text replaces the old one whole.
	if _, err := f.WriteAt([]byte(strconv.Itoa(following)), 0); err != nil {
		return random
	}
	return port
}

// turnFile is where the processes of this user keep the next port.
func turnFile() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("coffer-ports-%d", os.Getuid()))
}

// firstEphemeralPort returns the first port that the kernel gives to outgoing connections: Linux's
// setting (ip(7)), and elsewhere the first of IANA's dynamic ports.
func firstEphemeralPort() int {
	const dynamic = 49152 // RFC 6335
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return dynamic
	}
	var first int
	if _, err := fmt.Sscan(string(text), &first); err != nil {
		return dynamic
	}
	return first
}
