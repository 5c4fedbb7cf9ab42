package freeport

import (
	"net"
	"testing"
)

// An outgoing connection never has a port of this package.
func TestAPortIsNoneOfThoseThatConnectionsGet(t *testing.T) {
	t.Parallel()
	for range 20 {
		port, err := FindPort()
		if err != nil {
			t.Fatal(err)
		}
		if end := firstEphemeralPort(); end > portMin && (port < portMin || port >= end) {
			t.Fatalf("got port %d, want one from %d to below %d", port, portMin, end)
		}
	}
}

func TestAServerCanListenAtTheAddress(t *testing.T) {
	t.Parallel()
	address, err := FindAddress()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
