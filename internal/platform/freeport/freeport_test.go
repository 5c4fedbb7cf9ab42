package freeport

import (
	"net"
	"os"
	"path/filepath"
	"sync"
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

// Servers that start at the same time, in this process or in others, get different ports, though
// none listens yet.
func TestCallsAtOnceGetDifferentPorts(t *testing.T) {
	t.Parallel()
	const callers, calls = 8, 100
	var group sync.WaitGroup
	ports := make([][calls]int, callers)
	for i := range ports {
		group.Go(func() {
			for j := range ports[i] {
				port, err := FindPort()
				if err != nil {
					t.Error(err)
					return
				}
				ports[i][j] = port
			}
		})
	}
	group.Wait()
	seen := map[int]bool{}
	for _, of := range ports {
		for _, port := range of {
			if seen[port] {
				t.Fatalf("port %d was returned twice in %d calls", port, callers*calls)
			}
			seen[port] = true
		}
	}
}

// A file that has no port in it, and one that cannot be opened, keep no port from being found.
func TestAPortIsFoundWithoutTheFileOfTheTurn(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, text := range []string{"", "none", "99999", "1"} {
		if err := os.WriteFile(turnFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if port, err := FindPort(); err != nil || port < portMin {
			t.Errorf("with %q in the file: got %d %v, want a port", text, port, err)
		}
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "missing"))
	if port, err := FindPort(); err != nil || port < portMin {
		t.Errorf("without a folder: got %d %v, want a port", port, err)
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
