// Package surfpool starts and controls surfpool, a local Solana chain. It makes blocks on a clock
// or on demand, and sets accounts where a test needs them. It has USDC and USDT at the addresses of
// the main network, and a faucet account that mints them.
//
// The node is an addon of Node.js and listens on loopback ports that the system chooses. It never
// outlives the process that started it: it ends with the context, with Stop, and on Linux with the
// death of its parent, however that happens. Its state is then lost; it writes nothing to disk.
//
// Without help, surfpool makes blocks whose hashes form no chain. So MineBlocks makes every block,
// also for the clock, as its comment describes.
//
// The package serves the local world and tests. The faucet's key is public in this file; no part of
// this is for a chain that carries value.
package surfpool

import (
	"bytes"
	"context"
	"crypto/ed25519"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/tied"
)

// FaucetKey is the secret key, 64 bytes in base58, of the account that starts with
// plenty of lamports and may mint and freeze the tokens.
const FaucetKey = "3HqWx77ZzJzARr6UYxtW9RVt91M2VNZHGevJAtxtGv4aTCTZ6Ma9LXufbzXiHwjYqXZv6wtrZy8sHXUTfE6jygqD"

// Finality is how many slots the final slot is behind the slot that is being filled, which is the
// one after the newest block.
const Finality = 31

const (
	faucetLamports = 1_000_000 * LamportsPerSOL
	startTimeout   = 60 * time.Second
	stopTimeout    = 10 * time.Second
	outputBytesMax = 16 << 10
)

// LamportsPerSOL is one SOL in the chain's smallest unit.
const LamportsPerSOL = 1_000_000_000

//go:embed launch.js
var launcher string

// Config says how the chain makes blocks. With the zero value only MineBlocks makes them.
type Config struct {
	// Addon is the folder of surfpool's Node package. Empty: the one that Find finds.
	Addon string
	// SlotTime makes blocks on a clock, with or without transactions.
	SlotTime time.Duration
	// BusySlotTime is the time between blocks from a transaction until its block is final. 0: SlotTime.
	BusySlotTime time.Duration
}

// Node is a running chain. Its methods are safe for concurrent use.
type Node struct {
	// URL and WSURL are the addresses of the chain's JSON-RPC.
	URL, WSURL string
	// RPC is a client of the chain, closed by Stop.
	RPC *rpc.Client
	// Genesis is the hash of the chain's first block.
	Genesis string

	faucet    ed25519.PrivateKey
	sent      atomic.Uint64
	ticking   sync.Mutex // held while the clock makes a block, and by HoldClock
	mining    sync.Mutex // protects the three fields below
	slot      uint64     // the slot that is being filled; 0 if unknown
	chainTime int64      // the chain's own time, in Unix seconds
	busySlot  uint64     // of the newest block with transactions
	process   *os.Process
	cancel    context.CancelFunc
	ended     chan struct{}
	clock     sync.WaitGroup
	err       error // why it ended; valid once ended is closed
}

// Start starts a chain and returns when it answers and has a final block. It runs until Stop is
// called or ctx ends. If there is no surfpool, the error says what to do.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	addon := cfg.Addon
	if addon == "" {
		var err error
		if addon, err = Find(); err != nil {
			return nil, err
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf(
			"surfpool, the local Solana chain, needs Node.js in PATH: run scripts/setup in the source tree: %w", err,
		)
	}
	run, end := context.WithCancel(ctx)
	n := &Node{faucet: mustKey(FaucetKey), cancel: end, ended: make(chan struct{})}

	stdout := &output{first: make(chan []byte, 1)}
	cmd := exec.CommandContext(run, node, "-e", launcher, addon, bytesOf(n.faucet))
	cmd.Stdout, cmd.Stderr = stdout, &stdout.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout // then it is killed

	ended, exitError, err := tied.Start(cmd)
	if err != nil {
		end()
		return nil, fmt.Errorf("start %s: %w", node, err)
	}
	n.process = cmd.Process
	go func() {
		defer close(n.ended)
		<-ended
		if run.Err() == nil {
			// A chain that ends by itself is a defect that must be visible.
			n.err = fmt.Errorf("surfpool ended by itself: %w\n%s", orClean(exitError()), stdout.stderr.lastText())
		}
	}()

	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	var addresses struct{ RPCURL, WSURL string }
	select {
	case line := <-stdout.first:
		if err := json.Unmarshal(line, &addresses); err != nil {
			end()
			<-n.ended
			return nil, fmt.Errorf("start surfpool: it said %.200q: %w", line, err)
		}
	case <-n.ended:
		end()
		if n.err == nil {
			return nil, fmt.Errorf("start surfpool: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("start surfpool: %w", n.err)
	case <-timeout.C:
		end()
		<-n.ended
		return nil, fmt.Errorf("start surfpool: no answer within %v\n%s", startTimeout, stdout.stderr.lastText())
	}
	n.URL, n.WSURL = addresses.RPCURL, addresses.WSURL
	if n.RPC, err = rpc.DialContext(ctx, n.URL); err == nil {
		err = n.prepareChain(ctx)
	}
	if err != nil {
		end()
		<-n.ended
		return nil, fmt.Errorf("start surfpool: %w", err)
	}
	if cfg.SlotTime > 0 {
		n.clock.Go(func() { n.runClock(run, cfg) })
	}
	return n, nil
}

// prepareChain sets up the accounts and tokens of every local chain.
func (n *Node) prepareChain(ctx context.Context) error {
	if err := n.alignHashes(ctx); err != nil {
		return err
	}
	if err := n.SetLamports(ctx, n.FaucetAddress(), faucetLamports); err != nil {
		return err
	}
	if err := n.placeTokens(ctx); err != nil {
		return err
	}
	if err := n.callRPC(ctx, &n.Genesis, "getGenesisHash"); err != nil {
		return err
	}
	// Accounts that were set are in no block. They are final with this one.
	return n.MineBlocks(ctx, Finality+1)
}

// Stop ends the chain and waits for its end. It returns an error if the chain had ended before it
// was asked to. It may be called more than once.
func (n *Node) Stop() error {
	n.cancel()
	n.clock.Wait()
	<-n.ended
	n.RPC.Close()
	return n.err
}

// Dial connects to a chain that another process of this program runs, for payments from its faucet
// until CloseClient. It does not end that chain.
func Dial(ctx context.Context, url string) (*Node, error) {
	c, err := rpc.DialContext(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("reach surfpool: %w", err)
	}
	n := &Node{URL: url, RPC: c, faucet: mustKey(FaucetKey)}
	n.sent.Store(uint64(time.Now().UnixMicro())) // makes its transactions differ from those of every earlier process
	return n, nil
}

// CloseClient closes the connection of Dial.
func (n *Node) CloseClient() { n.RPC.Close() }

// Done is closed when the chain has ended, for any reason.
func (n *Node) Done() <-chan struct{} { return n.ended }

// PID returns the process id of the chain.
func (n *Node) PID() int { return n.process.Pid }

// FaucetPrivateKey returns the key of the faucet account, which has plenty of every coin and token.
func (n *Node) FaucetPrivateKey() ed25519.PrivateKey { return n.faucet }

// FaucetAddress returns the address of the faucet account.
func (n *Node) FaucetAddress() chain.Address { return AddressOf(n.faucet) }

// AddressOf returns the address of a key.
func AddressOf(k ed25519.PrivateKey) chain.Address {
	return solanatx.Canonical([ed25519.PublicKeySize]byte(k.Public().(ed25519.PublicKey)))
}

// Find looks for surfpool's Node package: at COFFER_SURFPOOL, then in the Node packages of the
// source tree that contains the working directory or the running program.
func Find() (string, error) {
	if named := os.Getenv("COFFER_SURFPOOL"); named != "" {
		if _, err := os.Stat(filepath.Join(named, "package.json")); err != nil {
			return "", fmt.Errorf("COFFER_SURFPOOL names %q, which is no folder of a Node package: %w", named, err)
		}
		return named, nil
	}
	var dirs []string
	if dir, err := os.Getwd(); err == nil {
		dirs = append(dirs, dir)
	}
	if program, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(program))
	}
	for _, dir := range dirs {
		for {
			path := filepath.Join(dir, "localchain", "node_modules", "@solana", "surfpool-linux-x64-gnu")
			if _, err := os.Stat(filepath.Join(path, "package.json")); err == nil {
				return path, nil
			} else if !errors.Is(err, fs.ErrNotExist) {
				return "", fmt.Errorf("look for surfpool: %w", err)
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", errors.New("surfpool, the local Solana chain, is not installed: run scripts/setup in the source tree, " +
		"or have COFFER_SURFPOOL name the folder of its Node package")
}

func mustKey(secret string) ed25519.PrivateKey {
	b, err := base58.Decode(secret)
	if err != nil || len(b) != ed25519.PrivateKeySize {
		panic("the faucet's key is not a key")
	}
	return b
}

// bytesOf returns a key as the launcher reads it, a list of numbers.
func bytesOf(k ed25519.PrivateKey) string {
	numbers := make([]int, len(k))
	for i, b := range k {
		numbers[i] = int(b)
	}
	text, err := json.Marshal(numbers)
	if err != nil {
		panic("numbers that are no JSON: " + err.Error())
	}
	return string(text)
}

func orClean(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// output returns the first printed line. It drops later ones, so that the pipe does not fill up.
type output struct {
	first  chan []byte
	found  bool
	line   []byte
	stderr tail
}

// Write is called by one goroutine.
func (o *output) Write(p []byte) (int, error) {
	if o.found {
		return len(p), nil
	}
	o.line = append(o.line, p...)
	if line, _, whole := bytes.Cut(o.line, []byte("\n")); whole {
		o.found = true
		o.first <- line
	}
	return len(p), nil
}

// tail stores the end of the output for an error message.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > outputBytesMax {
		t.text = bytes.Clone(t.text[len(t.text)-outputBytesMax:])
	}
	return len(p), nil
}

func (t *tail) lastText() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
