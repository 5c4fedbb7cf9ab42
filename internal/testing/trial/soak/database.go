package soak

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// The faults of a statement or a commit. Connection and server are real; only their messages are
// changed.
const (
	faultDeadlock      = "db: deadlock"         // the transaction is rolled back and run again
	faultStatement     = "db: statement failed" // one statement is refused
	faultCut           = "db: connection cut"
	faultCommitAnswer  = "db: commit, answer lost" // committed, and the client does not learn it
	faultCommitRequest = "db: commit lost"         // never reached the server
)

var databaseFaults = []string{faultDeadlock, faultStatement, faultCut, faultCommitAnswer, faultCommitRequest}

// databaseProxy is a proxy in front of PostgreSQL. It understands enough of the protocol to disturb
// exactly one exchange and to leave everything else as a server would.
type databaseProxy struct {
	listener    net.Listener
	databaseURL string
	pumps       sync.WaitGroup

	mu        sync.Mutex
	kind      string // the fault that is armed, or ""
	passFirst int    // exchanges of its kind that pass before it strikes
	fired     map[string]int
	wrote     int // commits that reached the server, of writing transactions with statements
	total     *counter
}

// openDatabaseProxy starts a proxy in front of the server of a URL and returns the URL that leads
// through it.
func openDatabaseProxy(t testing.TB, databaseURL string, total *counter) (*databaseProxy, string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &databaseProxy{listener: listener, databaseURL: databaseURL, fired: map[string]int{}, total: total}
	l.pumps.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			l.pumps.Go(func() { l.serveConn(client) })
		}
	})
	proxyURL, err := pgtest.ThroughProxy(databaseURL, listener.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return l, proxyURL
}

func (l *databaseProxy) closeProxy() {
	l.listener.Close()
	l.pumps.Wait()
}

// armFault arms a fault that strikes once, after passFirst exchanges of its kind.
func (l *databaseProxy) armFault(kind string, passFirst int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kind, l.passFirst = kind, passFirst
}

// disarmFault disarms a fault that has not struck, and reports whether it had.
func (l *databaseProxy) disarmFault() (struck bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	struck = l.kind == ""
	l.kind = ""
	return struck
}

func (l *databaseProxy) countFired(kind string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fired[kind]
}

// countCommits counts the commits that may have changed the database.
func (l *databaseProxy) countCommits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrote
}

func (l *databaseProxy) addCommit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrote++
}

// drawFault returns what happens to an exchange: a statement inside a transaction, or the commit of
// one that writes.
func (l *databaseProxy) drawFault(commit bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kind == "" || commit != (l.kind == faultCommitAnswer || l.kind == faultCommitRequest) {
		return ""
	}
	if l.passFirst > 0 {
		l.passFirst--
		return ""
	}
	kind := l.kind
	l.kind = ""
	l.fired[kind]++
	l.total.addOne(kind)
	return kind
}

// connection is one session through the proxy.
type connection struct {
	proxy          *databaseProxy
	client, server net.Conn

	mu            sync.Mutex
	drop          bool // drops the next answer
	inTransaction bool // in a transaction
	writing       bool
	failed        bool // the client sees the transaction as failed
}

func (l *databaseProxy) serveConn(client net.Conn) {
	server, err := pgtest.DialServer(l.databaseURL)
	if err != nil {
		client.Close()
		return
	}
	c := &connection{proxy: l, client: client, server: server}
	closeBoth := func() { client.Close(); server.Close() }
	var pumps sync.WaitGroup
	pumps.Go(func() { defer closeBoth(); c.pumpRequests() })
	pumps.Go(func() { defer closeBoth(); c.pumpAnswers() })
	pumps.Wait()
}

func (c *connection) pumpAnswers() {
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

func (c *connection) pumpRequests() {
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
			if !c.passExchange(group, text, executes) {
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

// passExchange passes one group on, or applies the armed fault. It returns false when the session
// is over.
func (c *connection) passExchange(group []byte, text string, executes bool) bool {
	pass := func() bool { _, err := c.server.Write(group); return err == nil }
	switch {
	case len(text) >= 5 && text[:5] == "begin":
		c.inTransaction, c.failed = true, false
		c.writing = bytes.Contains(group, []byte("read write"))
		return pass()
	case text == "rollback\x00":
		c.inTransaction = false
		return pass()
	case text == "commit\x00":
		if c.failed {
			// A server answers the commit of a failed transaction with ROLLBACK.
			group = encodeMessage('Q', []byte("rollback\x00"))
			c.inTransaction = false
			return pass()
		}
		c.inTransaction = false
		if !c.writing {
			return pass()
		}
		switch c.proxy.drawFault(true) {
		case faultCommitAnswer:
			c.mu.Lock()
			c.drop = true
			c.mu.Unlock()
			c.proxy.addCommit()
			return pass()
		case faultCommitRequest:
			return false
		}
		c.proxy.addCommit()
		return pass()
	case !c.inTransaction:
		return pass()
	case c.failed:
		return c.refuseStatement("25P02", "current transaction is aborted")
	case !executes:
		return pass()
	}
	switch c.proxy.drawFault(false) {
	case faultDeadlock:
		return c.refuseStatement("40P01", "deadlock detected")
	case faultStatement:
		return c.refuseStatement("53200", "out of memory")
	case faultCut:
		return false
	}
	return pass()
}

// refuseStatement answers instead of the server; for the client the transaction is over.
func (c *connection) refuseStatement(code, words string) bool {
	c.failed = true
	answer := encodeMessage('E', []byte("SERROR\x00VERROR\x00C"+code+"\x00M"+words+"\x00\x00"))
	_, err := c.client.Write(append(answer, encodeMessage('Z', []byte("E"))...))
	return err == nil
}

func encodeMessage(kind byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}
