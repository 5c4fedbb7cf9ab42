// Package freeport finds addresses of this machine for servers that must know their address before
// they listen: a local world, a trial, a test's database.
//
// For "any port" the kernel returns a port of the range that it also gives to outgoing connections.
// Another connection may then have the port before the server listens. So this package chooses
// ports below that range, which the kernel assigns to no connection. It reserves nothing: a crash
// leaves no trace, and two calls at the same moment collide about once in ten thousand times.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
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
			port = portMin + rand.IntN(end-portMin)
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
