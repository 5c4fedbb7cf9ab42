// Package anvil starts and controls anvil, a local Ethereum chain. It makes blocks on a clock, on
// demand or for each transaction, reorganizations and snapshots. Its faucet account owns the local
// tokens.
//
// The node listens on a loopback port that the system chooses. It never outlives the process that
// started it: it ends with the context, with Stop, and on Linux with the death of its parent,
// however that happens. Its state is then lost, unless Config.State names a file for it. A killed
// process may leave the node's cache folder in the system's temporary directory, which nothing
// reads again.
//
// The package serves the local world and tests. The faucet's key is published in anvil's manual; no
// part of this is for a chain that carries value.
package anvil

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/localworld/tied"
)

// FaucetKey is the private key, in hex, of the account that starts with a million coins and deploys
// the tokens: the first of anvil's own accounts.
const FaucetKey = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

// DefaultChainID is the chain id of a node whose Config does not set one.
const DefaultChainID = 31337

const (
	faucetCoins    = 1_000_000
	defaultSlots   = 2
	startTimeout   = 30 * time.Second
	stopTimeout    = 30 * time.Second // to write the state of hundreds of blocks
	outputBytesMax = 16 << 10
)

// Config says how the chain makes blocks. The zero value mines a block for each transaction.
type Config struct {
	// Program is the anvil to start. Empty: the one that Find finds.
	Program string
	// BlockTime makes blocks on a clock, with or without transactions. Zero: a block as soon as
	// there is a transaction.
	BlockTime time.Duration
	// Manual makes blocks only when MineBlocks is called; BlockTime has no effect then.
	Manual bool
	// SlotsInEpoch sets finality: the safe block is so many blocks behind the latest one, the
	// finalized block twice as many. Zero: 2.
	SlotsInEpoch int
	// ChainID is 31337 when it is zero.
	ChainID uint64
	// Port is the loopback port. Zero: a free one.
	Port int
	// State is a file from which the chain is loaded, if it exists, and to which a clean stop saves
	// it. Empty: a new chain that is deleted at its end.
	State string
}

// Node is a running chain. Its methods are safe for concurrent use.
type Node struct {
	// URL and WSURL are the addresses of the chain's JSON-RPC.
	URL, WSURL string
	// ChainID is the chain id in signed transactions.
	ChainID *big.Int
	// Eth and RPC are clients of the chain, closed by Stop.
	Eth *ethclient.Client
	RPC *rpc.Client

	faucet  *ecdsa.PrivateKey
	sending sync.Mutex // held between reading a nonce and using it
	process *os.Process
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // why it ended; valid once ended is closed
}

// Start starts a chain and returns when it answers. It runs until Stop is called or ctx ends. If
// there is no anvil, the error says what to do.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	program := cfg.Program
	if program == "" {
		var err error
		if program, err = Find(); err != nil {
			return nil, err
		}
	}
	if cfg.SlotsInEpoch == 0 {
		cfg.SlotsInEpoch = defaultSlots
	}
	if cfg.ChainID == 0 {
		cfg.ChainID = DefaultChainID
	}
	cache, err := os.MkdirTemp("", "coffer-anvil-")
	if err != nil {
		return nil, fmt.Errorf("make the cache folder of anvil: %w", err)
	}
	args := []string{
		"--host", "127.0.0.1",
		"--port", strconv.Itoa(cfg.Port),
		"--hardfork", "osaka",
		"--chain-id", strconv.FormatUint(cfg.ChainID, 10),
		"--slots-in-an-epoch", strconv.Itoa(cfg.SlotsInEpoch),
		"--accounts", "1",
		"--balance", strconv.Itoa(faucetCoins),
		"--cache-path", cache,
	}
	switch {
	case cfg.Manual:
		args = append(args, "--no-mining")
	case cfg.BlockTime > 0:
		args = append(args, "--block-time", formatSeconds(cfg.BlockTime))
	}
	if cfg.State != "" {
		// Historical states are necessary: the balances before and after a block prove who paid.
		args = append(args, "--state", cfg.State, "--preserve-historical-states")
	}

	run, end := context.WithCancel(ctx)
	n := &Node{
		ChainID: new(big.Int).SetUint64(cfg.ChainID),
		cancel:  end,
		ended:   make(chan struct{}),
	}
	if n.faucet, err = crypto.HexToECDSA(FaucetKey); err != nil {
		panic("the faucet's key is not a key: " + err.Error())
	}

	stdout := &output{address: make(chan string, 1)}
	cmd := exec.CommandContext(run, program, args...)
	cmd.Stdout, cmd.Stderr = stdout, stdout
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout // then it is killed

	ended, exitError, err := tied.Start(cmd)
	if err != nil {
		end()
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), os.RemoveAll(cache))
	}
	n.process = cmd.Process
	go func() {
		defer close(n.ended)
		defer os.RemoveAll(cache)
		<-ended
		if run.Err() == nil {
			// A chain that ends by itself is a defect that must be visible.
			n.err = fmt.Errorf("anvil ended by itself: %w\n%s", orClean(exitError()), stdout.lastText())
		}
	}()

	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	var address string
	select {
	case address = <-stdout.address:
	case <-n.ended:
		end()
		if n.err == nil {
			return nil, fmt.Errorf("start anvil: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("start anvil: %w", n.err)
	case <-timeout.C:
		end()
		<-n.ended
		return nil, fmt.Errorf("start anvil: no answer within %v\n%s", startTimeout, stdout.lastText())
	}
	n.URL, n.WSURL = "http://"+address, "ws://"+address
	if n.RPC, err = rpc.DialContext(ctx, n.URL); err != nil {
		end()
		<-n.ended
		return nil, fmt.Errorf("connect to anvil: %w", err)
	}
	n.Eth = ethclient.NewClient(n.RPC)
	return n, nil
}

// Stop ends the chain and waits for its end. It returns an error if the chain had ended before it
// was asked to. It may be called more than once.
func (n *Node) Stop() error {
	n.cancel()
	<-n.ended
	n.RPC.Close()
	return n.err
}

// Dial connects to a chain that another process of this program runs. CloseClient does not end that
// chain.
func Dial(ctx context.Context, url string) (*Node, error) {
	c, err := rpc.DialContext(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("reach anvil: %w", err)
	}
	return &Node{URL: url, RPC: c, Eth: ethclient.NewClient(c)}, nil
}

// CloseClient closes the connection of Dial.
func (n *Node) CloseClient() { n.RPC.Close() }

// Done is closed when the chain has ended, for any reason.
func (n *Node) Done() <-chan struct{} { return n.ended }

// PID returns the process id of the chain.
func (n *Node) PID() int { return n.process.Pid }

// FaucetPrivateKey returns the key of the faucet account, which has plenty of every coin and token.
func (n *Node) FaucetPrivateKey() *ecdsa.PrivateKey { return n.faucet }

// FaucetAddress returns the address of the faucet account.
func (n *Node) FaucetAddress() common.Address { return crypto.PubkeyToAddress(n.faucet.PublicKey) }

// Find looks for the anvil program: at COFFER_ANVIL, then in the Node packages of the source tree
// that contains the working directory or the running program, then in PATH.
func Find() (string, error) {
	if named := os.Getenv("COFFER_ANVIL"); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("COFFER_ANVIL names %q, which is not a program: %w", named, err)
		}
		return path, nil
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
			path := filepath.Join(dir, "localchain", "node_modules", "@foundry-rs", "anvil-linux-amd64", "bin", "anvil")
			if path, err := exec.LookPath(path); err == nil {
				return path, nil
			} else if !errors.Is(err, fs.ErrNotExist) {
				return "", fmt.Errorf("look for anvil: %w", err)
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	if path, err := exec.LookPath("anvil"); err == nil {
		return path, nil
	}
	return "", errors.New("anvil, the local Ethereum chain, is not installed: run scripts/setup in the source tree, " +
		"or install Foundry (https://getfoundry.sh) and have anvil in PATH or named by COFFER_ANVIL")
}

// formatSeconds formats d as anvil reads it, exactly, with a fraction.
func formatSeconds(d time.Duration) string {
	return fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
}

func orClean(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// output reads what anvil prints until it names its address, and stores the end of that for an
// error message. It drops later lines, one for each RPC call, so that the pipe does not fill up.
type output struct {
	address chan string

	mu    sync.Mutex
	found bool
	text  []byte
}

var listening = regexp.MustCompile(`Listening on (\S+)\s`)

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.found {
		return len(p), nil
	}
	o.text = append(o.text, p...)
	if m := listening.FindSubmatch(o.text); m != nil {
		o.found = true
		o.text = nil
		o.address <- string(m[1])
	}
	if len(o.text) > outputBytesMax {
		o.text = bytes.Clone(o.text[len(o.text)-outputBytesMax:])
	}
	return len(p), nil
}

func (o *output) lastText() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(bytes.TrimSpace(o.text))
}
