// Package banktest gives a test the bank of a Solana validator: what decides which
// transactions are run, and runs them. It is the runtime of Solana 1.18 (npm
// solana-bankrun), and checks in the order of Agave today: the queue of recent blockhashes
// first, a nonce account only when the hash is not there
// (runtime/src/bank/check_transactions.rs, Bank::check_transaction_age); the system program
// advances a nonce without comparing it with the message
// (programs/system/src/system_instruction.rs, advance_nonce_account). surfpool refuses what
// differs there before it runs anything.
//
// It has no JSON-RPC, no forks and no history. It is imported by tests only, and a bank ends
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

// A Bank is one chain of blocks. Next makes one, and a new hash comes a few times a second by
// itself.
type Bank struct {
	tb     testing.TB
	mu     sync.Mutex
	in     io.Writer
	out    *bufio.Scanner
	blocks []string // the hashes that were the newest before and after what was sent
}

// An Account is what lies at an address.
type Account struct {
	Lamports uint64
	Data     []byte
}

// Start runs a bank.
func Start(tb testing.TB) *Bank {
	tb.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		tb.Fatalf("the bank of a validator needs Node.js in PATH: run scripts/setup --test: %v", err)
	}
	cmd := exec.CommandContext(tb.Context(), node, "-e", launcher, addon(tb))
	cmd.Env = append(os.Environ(), "RUST_LOG=off")
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	read, write, err := os.Pipe() // one that Wait does not close before it is read
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stdout = write
	ended, _, err := tied.Start(cmd)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		<-ended
		read.Close()
	})
	if err := write.Close(); err != nil {
		tb.Fatal(err)
	}
	out := bufio.NewScanner(read)
	out.Buffer(nil, lineBytesMax)
	return &Bank{tb: tb, in: in, out: out}
}

// addon is the file of the Node package, in the source tree that the test runs in.
func addon(tb testing.TB) string {
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
		up := filepath.Dir(dir)
		if up == dir {
			tb.Fatal("the bank of a validator is not installed: run scripts/setup --test")
		}
		dir = up
	}
}

func (b *Bank) do(what string, args map[string]any, result any) {
	b.tb.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if args == nil {
		args = map[string]any{}
	}
	args["what"] = what
	line, err := json.Marshal(args)
	if err == nil {
		_, err = b.in.Write(append(line, '\n'))
	}
	if err != nil {
		b.tb.Fatalf("ask the bank: %v", err)
	}
	if !b.out.Scan() {
		b.tb.Fatalf("the bank ended: %v", b.out.Err())
	}
	var answer struct {
		Result json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(b.out.Bytes(), &answer); err != nil {
		b.tb.Fatalf("the bank said %.200q: %v", b.out.Bytes(), err)
	}
	if answer.Error != "" {
		b.tb.Fatalf("%s: the bank said %s", what, answer.Error)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result, result); err != nil {
			b.tb.Fatalf("%s: the bank said %.200q: %v", what, answer.Result, err)
		}
	}
}

// Blockhash is the newest one.
func (b *Bank) Blockhash() (hash string) {
	b.tb.Helper()
	b.do("blockhash", nil, &hash)
	return hash
}

// Next ends the block that is being filled.
func (b *Bank) Next() {
	b.tb.Helper()
	b.do("next", nil, nil)
}

// Set places an account.
func (b *Bank) Set(at chain.Address, lamports uint64, owner chain.Address, data []byte) {
	b.tb.Helper()
	b.do("set", map[string]any{"at": b.key(at), "lamports": lamports, "owner": b.key(owner), "data": data}, nil)
}

// Get is the account at an address, nil when there is none.
func (b *Bank) Get(at chain.Address) (a *Account) {
	b.tb.Helper()
	b.do("get", map[string]any{"at": b.key(at)}, &a)
	return a
}

// Lamports are what lies at an address.
func (b *Bank) Lamports(at chain.Address) uint64 {
	b.tb.Helper()
	if a := b.Get(at); a != nil {
		return a.Lamports
	}
	return 0
}

// Send gives the bank a signed transaction, which is run in the block that is being filled or
// is refused. why is "" when it succeeded.
func (b *Bank) Send(raw []byte) (ran bool, why string) {
	b.tb.Helper()
	var got struct {
		Err    string
		Ran    bool
		Blocks []string
	}
	b.do("send", map[string]any{"raw": raw}, &got)
	b.blocks = append(b.blocks, got.Blocks...)
	return got.Ran, got.Err
}

// Proof is the block that was the newest when a nonce account got its value, by what was sent.
func (b *Bank) Proof(value string) string {
	b.tb.Helper()
	for _, hash := range b.blocks {
		if v, err := solanatx.Durable(hash); err != nil {
			b.tb.Fatal(err)
		} else if v == value {
			return hash
		}
	}
	b.tb.Fatalf("value %s follows from none of the blocks that were the newest when something was sent", value)
	return ""
}

func (b *Bank) key(a chain.Address) string {
	b.tb.Helper()
	k, err := solanatx.Bytes(a)
	if err != nil {
		b.tb.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(k[:])
}
