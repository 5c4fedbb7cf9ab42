// Package banktest gives a test the bank of a Solana validator, which decides which transactions
// run and runs them. It is the runtime of Solana 1.18 (npm solana-bankrun).
//
// The bank checks in the order of today's Agave. It looks for the blockhash among the recent ones
// first, and for a nonce account only if it is not there (runtime/src/bank/check_transactions.rs,
// Bank::check_transaction_age). The system program advances a nonce without comparing it with the
// message (programs/system/src/system_instruction.rs, advance_nonce_account). surfpool refuses a
// transaction whose nonce differs from the message before it runs anything.
//
// The bank has no JSON-RPC, no forks and no history. Only tests import the package, and a bank ends
// with its test.
package banktest

import (
	"bufio"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/tied"
)

//go:embed launch.js
var launcher string

const lineBytesMax = 1 << 20

// Bank is a chain of blocks. NextBlock makes one, and a new hash also appears a few times a second
// by itself.
type Bank struct {
	tb     testing.TB
	mu     sync.Mutex
	stdin  io.Writer
	stdout *bufio.Scanner
	blocks []string // the newest hashes before, during and after each sending
}

// Account is the account at an address.
type Account struct {
	Lamports uint64
	Data     []byte
}

// Start starts a bank.
func Start(tb testing.TB) *Bank {
	tb.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		tb.Fatalf("the bank of a validator needs Node.js in PATH: run scripts/setup --test: %v", err)
	}
	cmd := exec.CommandContext(tb.Context(), node, "-e", launcher, findAddon(tb))
	cmd.Env = append(os.Environ(), "RUST_LOG=off")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	read, write, err := os.Pipe() // a pipe that Wait does not close before it is read
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stdout = write
	ended, _, err := tied.Start(cmd)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		stdin.Close()
		<-ended
		read.Close()
	})
	if err := write.Close(); err != nil {
		tb.Fatal(err)
	}
	stdout := bufio.NewScanner(read)
	stdout.Buffer(nil, lineBytesMax)
	return &Bank{tb: tb, stdin: stdin, stdout: stdout}
}

// findAddon returns the file of the Node package in the source tree of the test.
func findAddon(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		path := filepath.Join(dir, "localchain", "bank", "node_modules", "solana-bankrun-linux-x64-gnu")
		if _, err := os.Stat(path); err == nil {
			return path
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("the bank of a validator is not installed: run scripts/setup --test")
		}
		dir = parent
	}
}

func (b *Bank) sendRequest(method string, args map[string]any, result any) {
	b.tb.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if args == nil {
		args = map[string]any{}
	}
	args["what"] = method
	line, err := json.Marshal(args)
	if err == nil {
		_, err = b.stdin.Write(append(line, '\n'))
	}
	if err != nil {
		b.tb.Fatalf("ask the bank: %v", err)
	}
	if !b.stdout.Scan() {
		b.tb.Fatalf("the bank ended: %v", b.stdout.Err())
	}
	var answer struct {
		Result json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(b.stdout.Bytes(), &answer); err != nil {
		b.tb.Fatalf("the bank said %.200q: %v", b.stdout.Bytes(), err)
	}
	if answer.Error != "" {
		b.tb.Fatalf("%s: the bank said %s", method, answer.Error)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result, result); err != nil {
			b.tb.Fatalf("%s: the bank said %.200q: %v", method, answer.Result, err)
		}
	}
}

// LatestBlockhash returns the newest blockhash.
func (b *Bank) LatestBlockhash() (hash string) {
	b.tb.Helper()
	b.sendRequest("blockhash", nil, &hash)
	return hash
}

// NextBlock ends the current block.
func (b *Bank) NextBlock() {
	b.tb.Helper()
	b.sendRequest("next", nil, nil)
}

// SetAccount sets the account at an address.
func (b *Bank) SetAccount(address chain.Address, lamports uint64, owner chain.Address, data []byte) {
	b.tb.Helper()
	b.sendRequest(
		"set",
		map[string]any{"at": b.encodeKey(address), "lamports": lamports, "owner": b.encodeKey(owner), "data": data},
		nil,
	)
}

// GetAccount returns the account at an address, or nil if there is none.
func (b *Bank) GetAccount(address chain.Address) (a *Account) {
	b.tb.Helper()
	b.sendRequest("get", map[string]any{"at": b.encodeKey(address)}, &a)
	return a
}

// LamportsAt returns the lamports at an address.
func (b *Bank) LamportsAt(address chain.Address) uint64 {
	b.tb.Helper()
	if a := b.GetAccount(address); a != nil {
		return a.Lamports
	}
	return 0
}

// SendRaw sends a signed transaction to the bank, which runs it in the current block or refuses it.
// reason is "" if it succeeded.
func (b *Bank) SendRaw(raw []byte) (ran bool, reason string) {
	b.tb.Helper()
	var got struct {
		Err    string
		Ran    bool
		Blocks []string
	}
	b.sendRequest("send", map[string]any{"raw": raw}, &got)
	b.blocks = append(b.blocks, got.Blocks...)
	return got.Ran, got.Err
}

// ProofBlock returns the hash of the block that was the newest when a nonce account got its value,
// among the hashes that the bank has recorded.
func (b *Bank) ProofBlock(value string) string {
	b.tb.Helper()
	for _, hash := range b.blocks {
		if v, err := solanatx.NonceValueAfter(hash); err != nil {
			b.tb.Fatal(err)
		} else if v == value {
			return hash
		}
	}
	b.tb.Fatalf("value %s follows from none of the blocks that were the newest when something was sent", value)
	return ""
}

func (b *Bank) encodeKey(a chain.Address) string {
	b.tb.Helper()
	k, err := solanatx.Bytes(a)
	if err != nil {
		b.tb.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(k[:])
}
