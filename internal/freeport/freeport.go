// Package freeport finds addresses of this machine for servers that are told
// where to listen before they do: a world, a trial, a database of a test.
//
// The kernel's own answer to "any port" is one of those that it gives to
// outgoing connections, and somebody's connection has it before the server that
// was told of it listens. So the ports here lie below that range, where nobody
// is put by chance. Nothing is held: a crash leaves nothing, and two that look in the
// same moment meet once in some ten thousand times.
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

// portMin is where ports begin here: below it are the well-known ones of servers
// that people run beside a test.
const portMin = 20000

// triesMax is how many ports are looked at before it is said that there is none.
const triesMax = 100

// FindAddress is "127.0.0.1:port" of a port that nobody listens at now. The error is
// of a machine without a free one.
func FindAddress() (string, error) {
	port, err := FindPort()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// FindPort is the number in [Address].
func FindPort() (int, error) {
	end := firstEphemeralPort()
	for range triesMax {
		port := 0 // the kernel's, where its range leaves no room below
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
	return 0, fmt.Errorf("no free port of %d was found between %d and %d: end what listens there", triesMax, portMin, end)
}

// firstEphemeralPort is the first port that the kernel gives to outgoing connections:
// Linux's setting (ip(7)), and elsewhere the first of IANA's dynamic ports.
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
