package soak

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// What a database does to a statement or a commit. The line is real, the server is
// real; only what passes between them is tampered with.
const (
	deadlock      = "db: deadlock"         // the transaction is rolled back and run again
	failing       = "db: statement failed" // one statement is refused
	cut           = "db: connection cut"
	commitAnswer  = "db: commit, answer lost" // committed, and nobody hears
	commitRequest = "db: commit lost"         // never reached the server
)

var databaseFaults = []string{deadlock, failing, cut, commitAnswer, commitRequest}

// line is a proxy in front of PostgreSQL that understands enough of its protocol to
// spoil exactly one exchange and to leave everything else as a server would.
type line struct {
	listener net.Listener
	target   string
	pumps    sync.WaitGroup

	mu    sync.Mutex
	kind  string // the fault that is armed, or ""
	after int    // exchanges of its kind that pass before it strikes
	fired map[string]int
	wrote int // commits that reached the server, of transactions that could write and said something
	total *tally
}

// openLine puts a line in front of the server of a URL and returns the URL that
// leads through it.
func openLine(t testing.TB, databaseURL string, total *tally) (*line, string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{listener: listener, target: u.Host, fired: map[string]int{}, total: total}
	l.pumps.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			l.pumps.Go(func() { l.serve(client) })
		}
	})
	u.Host = listener.Addr().String()
	return l, u.String()
}

func (l *line) close() {
	l.listener.Close()
	l.pumps.Wait()
}

// arm makes a fault strike once, after so many exchanges that it could strike.
func (l *line) arm(kind string, after int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kind, l.after = kind, after
}

// disarm takes back a fault that has not struck, and tells whether it had.
func (l *line) disarm() (struck bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	struck = l.kind == ""
	l.kind = ""
	return struck
}

func (l *line) count(kind string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fired[kind]
}

// committed counts what may have changed the database.
func (l *line) committed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrote
}

func (l *line) passed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrote++
}

// strike tells what happens to an exchange: a statement inside a transaction, or
// the commit of one that writes.
func (l *line) strike(commit bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kind == "" || commit != (l.kind == commitAnswer || l.kind == commitRequest) {
		return ""
	}
	if l.after > 0 {
		l.after--
		return ""
	}
	kind := l.kind
	l.kind = ""
	l.fired[kind]++
	l.total.add(kind)
	return kind
}

// connection is one session through the line.
type connection struct {
	line           *line
	client, server net.Conn

	mu      sync.Mutex
	drop    bool // the next answer is for nobody
	inside  bool // a transaction
	writing bool
	failed  bool // the transaction, as far as the client knows
}

func (l *line) serve(client net.Conn) {
	server, err := net.Dial("tcp4", l.target)
	if err != nil {
		client.Close()
		return
	}
	c := &connection{line: l, client: client, server: server}
	both := func() { client.Close(); server.Close() }
	var pumps sync.WaitGroup
	pumps.Go(func() { defer both(); c.requests() })
	pumps.Go(func() { defer both(); c.answers() })
	pumps.Wait()
}

func (c *connection) answers() {
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.server.Read(buffer)
		c.mu.Lock()
		drop := c.drop
		c.mu.Unlock()
		if err != nil || drop {
			return
		}
		if _, err := c.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// login is the code of a start-up message; others of its form ask for encryption.
const login = 196608

func (c *connection) requests() {
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(c.client, head); err != nil {
			return
		}
		rest := make([]byte, binary.BigEndian.Uint32(head)-8)
		if _, err := io.ReadFull(c.client, rest); err != nil {
			return
		}
		if _, err := c.server.Write(append(head, rest...)); err != nil {
			return
		}
		code := binary.BigEndian.Uint32(head[4:])
		if code == login {
			break
		}
		if code>>16 == 1234 && code&0xffff == 5678 {
			return // a cancel: nothing follows
		}
	}
	var group []byte // messages up to the one that the server answers
	executes := false
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(c.client, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(c.client, body); err != nil {
			return
		}
		group = append(append(group, head...), body...)
		executes = executes || head[0] == 'E'
		switch head[0] {
		case 'S', 'Q':
			text := ""
			if head[0] == 'Q' {
				text = string(body)
			}
			if !c.exchange(group, text, executes) {
				return
			}
			group, executes = nil, false
		case 'p', 'X', 'H':
			if _, err := c.server.Write(group); err != nil {
				return
			}
			group = nil
		}
	}
}

// exchange passes one group on, or does to it what is armed. It is false when the
// session is over.
func (c *connection) exchange(group []byte, text string, executes bool) bool {
	pass := func() bool { _, err := c.server.Write(group); return err == nil }
	switch {
	case len(text) >= 5 && text[:5] == "begin":
		c.inside, c.failed = true, false
		c.writing = bytes.Contains(group, []byte("read write"))
		return pass()
	case text == "rollback\x00":
		c.inside = false
		return pass()
	case text == "commit\x00":
		if c.failed {
			// A server answers the commit of a failed transaction with ROLLBACK.
			group = message('Q', []byte("rollback\x00"))
			c.inside = false
			return pass()
		}
		c.inside = false
		if !c.writing {
			return pass()
		}
		switch c.line.strike(true) {
		case commitAnswer:
			c.mu.Lock()
			c.drop = true
			c.mu.Unlock()
			c.line.passed()
			return pass()
		case commitRequest:
			return false
		}
		c.line.passed()
		return pass()
	case !c.inside:
		return pass()
	case c.failed:
		return c.refuse("25P02", "current transaction is aborted")
	case !executes:
		return pass()
	}
	switch c.line.strike(false) {
	case deadlock:
		return c.refuse("40P01", "deadlock detected")
	case failing:
		return c.refuse("53200", "out of memory")
	case cut:
		return false
	}
	return pass()
}

// refuse answers in the server's place; the transaction is over for the client.
func (c *connection) refuse(code, words string) bool {
	c.failed = true
	said := message('E', []byte("SERROR\x00VERROR\x00C"+code+"\x00M"+words+"\x00\x00"))
	_, err := c.client.Write(append(said, message('Z', []byte("E"))...))
	return err == nil
}

func message(kind byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}
