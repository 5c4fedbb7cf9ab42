// Package btcd starts and controls btcd, a real Bitcoin node, as a local chain. It makes blocks on
// demand and forks, and every block pays its faucet.
//
// The node listens on a loopback port that the system chooses and knows no other node. It never
// outlives the process that started it: it ends with the context, with Stop, and on Linux with the
// death of its parent, however that happens. Its state is then lost, unless Config.State names a
// file for it. A killed process may leave a folder in the system's temporary directory, which
// nothing reads again.
//
// The package serves the local world and tests. The faucet's key is public in this file; no part of
// this is for a chain that carries value.
package btcd

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/localworld/tied"
)

// User is the user name for the node's RPC.
const User = "coffer"

// Maturity is how long a coinbase output has to wait: the output of the block at height h may be
// spent in the block at height h + Maturity.
const Maturity = 100

const (
	// startBlocks exist from the beginning, so that the faucet has outputs to spend.
	startBlocks    = Maturity + 20
	startTimeout   = 30 * time.Second
	stopTimeout    = 10 * time.Second
	callTimeout    = 30 * time.Second
	outputBytesMax = 16 << 10
)

// Config says how the node is started. The zero value is a chain that is deleted at its end.
type Config struct {
	// Program is the btcd to start. Empty: the one that Find finds.
	Program string
	// State is a file from which the chain's blocks are loaded, if it exists, and to which Stop
	// saves them. Empty: a new chain that is deleted at its end. The node itself begins every local
	// chain anew.
	State string
	// BlockTime makes blocks on a clock while there is a reason: a transaction waits, or its block
	// has few confirmations. A chain without activity makes no blocks, since every 150 blocks halve
	// the block reward. Zero: only MineBlocks makes blocks.
	BlockTime time.Duration
}

// Node is a running node. Its methods are safe for concurrent use.
type Node struct {
	// URL is the address of the node's JSON-RPC, for User with Password (HTTP Basic).
	URL, Password string

	client  http.Client
	state   string
	faucet  faucet
	process *os.Process
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // why it ended; valid once ended is closed

	whole     atomic.Bool // the chain is loaded, so it may be saved
	clock     sync.WaitGroup
	ticking   sync.Mutex         // held while the clock makes a block, and by HoldClock
	stopClock context.CancelFunc // stops the clock
	stopping  sync.Once
	unsaved   error // why the chain could not be saved; valid after stopping
}

// Start starts a node and returns when it answers and the faucet can pay. It runs until Stop is
// called or ctx ends. If there is no btcd, the error says what to do.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	program := cfg.Program
	if program == "" {
		if program, err = Find(ctx); err != nil {
			return nil, err
		}
	}
	// The node writes its own files below its home, and no option changes that.
	home, err := os.MkdirTemp("", "coffer-btcd-")
	if err != nil {
		return nil, fmt.Errorf("make the folder of btcd: %w", err)
	}
	n := &Node{
		Password: rand.Text(), state: cfg.State, ended: make(chan struct{}), client: http.Client{Timeout: callTimeout},
		stopClock: func() {},
	}
	settings := filepath.Join(home, "btcd.conf")
	if err := os.WriteFile(settings, []byte("rpcuser="+User+"\nrpcpass="+n.Password+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write the settings of btcd: %w", err), os.RemoveAll(home))
	}
	run, end := context.WithCancel(context.WithoutCancel(ctx))
	n.cancel = end
	stdout := &output{address: make(chan string, 1)}
	cmd := exec.CommandContext(run, program,
		"--configfile="+settings, "--datadir="+filepath.Join(home, "data"), "--logdir="+filepath.Join(home, "logs"),
		"--regtest", "--rpclisten=127.0.0.1:0", "--notls", "--rpcmaxclients=1000", "--rpcmaxconcurrentreqs=100",
		"--nolisten", "--nodnsseed", "--noonion", "--nocfilters",
		"--utxocachemaxsize=8", "--txindex", "--addrindex", "--blockprioritysize=0",
		"--miningaddr="+string(FaucetAddress()))
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.Stdout, cmd.Stderr = stdout, stdout
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout // then it is killed

	ended, exitError, err := tied.Start(cmd)
	if err != nil {
		end()
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), os.RemoveAll(home))
	}
	n.process = cmd.Process
	go func() {
		defer close(n.ended)
		defer os.RemoveAll(home)
		<-ended
		if run.Err() == nil {
			// A chain that ends by itself is a defect that must be visible.
			n.err = fmt.Errorf("btcd ended by itself: %w\n%s", orClean(exitError()), stdout.lastText())
		}
	}()
	go func() {
		select {
		case <-ctx.Done():
			n.Stop()
		case <-n.ended:
		}
	}()
	defer func() {
		if err != nil {
			end()
			<-n.ended
		}
	}()

	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case address := <-stdout.address:
		n.URL = "http://" + address
	case <-n.ended:
		if n.err == nil {
			return nil, fmt.Errorf("start btcd: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("start btcd: %w", n.err)
	case <-timeout.C:
		return nil, fmt.Errorf("start btcd: no answer within %v\n%s", startTimeout, stdout.lastText())
	}
	if err := n.prepareChain(ctx); err != nil {
		return nil, fmt.Errorf("start btcd: %w", err)
	}
	n.whole.Store(true)
	if cfg.BlockTime > 0 {
		ticking, stopClock := context.WithCancel(run)
		n.stopClock = stopClock
		n.clock.Go(func() { n.runClock(ticking, cfg.BlockTime) })
	}
	return n, nil
}

// Dial returns a node that another process of this program runs, for payments from its faucet. This
// process neither saves nor ends it.
func Dial(url, password string) *Node {
	return &Node{URL: url, Password: password, client: http.Client{Timeout: callTimeout}}
}

// prepareChain loads the saved blocks and makes the missing ones.
func (n *Node) prepareChain(ctx context.Context) error {
	if err := n.loadBlocks(ctx); err != nil {
		return err
	}
	height, err := n.TipHeight(ctx)
	if err == nil && height < startBlocks {
		_, err = n.MineBlocks(ctx, startBlocks-height)
	}
	return err
}

// Stop saves the chain to Config.State, ends the node and waits for its end. The end of the context
// of Start does the same. Stop returns an error if the node had ended before it was asked to. It
// may be called more than once.
func (n *Node) Stop() error {
	n.stopping.Do(func() {
		n.stopClock()
		n.clock.Wait()
		select {
		case <-n.ended:
		default:
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			defer cancel()
			n.unsaved = n.saveBlocks(ctx)
		}
	})
	n.cancel()
	<-n.ended
	n.client.CloseIdleConnections()
	return errors.Join(n.err, n.unsaved)
}

// loadBlocks gives the node the blocks of the state file, if there is one.
func (n *Node) loadBlocks(ctx context.Context) error {
	if n.state == "" {
		return nil
	}
	file, err := os.ReadFile(n.state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load the chain: %w", err)
	}
	for _, block := range strings.Fields(string(file)) {
		var refused *string
		if err := n.CallRPC(ctx, &refused, "submitblock", block); err != nil {
			return fmt.Errorf("load the chain from %s: %w", n.state, err)
		}
		if refused != nil {
			return fmt.Errorf("load the chain from %s: the node says %s", n.state, *refused)
		}
	}
	return nil
}

// saveBlocks writes the blocks of the chain to the state file, completely or not at all.
func (n *Node) saveBlocks(ctx context.Context) error {
	if n.state == "" || !n.whole.Load() {
		return nil
	}
	// The file contains blocks alone, so a waiting transaction is put into one.
	waiting, err := n.mempoolTxs(ctx)
	if err == nil && len(waiting) > 0 {
		_, err = n.MineBlocks(ctx, 1)
	}
	if err != nil {
		return fmt.Errorf("save the chain: %w", err)
	}
	height, err := n.TipHeight(ctx)
	if err != nil {
		return fmt.Errorf("save the chain: %w", err)
	}
	var blocks strings.Builder
	for h := 1; h <= height; h++ {
		hash, err := n.BlockHash(ctx, h)
		if err != nil {
			return fmt.Errorf("save the chain: %w", err)
		}
		var block string
		if err := n.CallRPC(ctx, &block, "getblock", hash.String(), 0); err != nil {
			return fmt.Errorf("save the chain: %w", err)
		}
		blocks.WriteString(block + "\n")
	}
	tempFile := n.state + ".new"
	if err := os.WriteFile(tempFile, []byte(blocks.String()), 0o600); err != nil {
		return fmt.Errorf("save the chain: %w", err)
	}
	return os.Rename(tempFile, n.state)
}

// Done is closed when the node has ended, for any reason.
func (n *Node) Done() <-chan struct{} { return n.ended }

// PID returns the process id of the node.
func (n *Node) PID() int { return n.process.Pid }

// found caches the program of the source tree, for which the go command is asked once.
var found = struct {
	sync.Mutex
	path string
}{}

// Find looks for the btcd program: at COFFER_BTCD, then among the tools of the source tree that
// contains the working directory or the running program, then in PATH. The go command builds the
// tool when it is first used.
func Find(ctx context.Context) (string, error) {
	if named := os.Getenv("COFFER_BTCD"); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("COFFER_BTCD names %q, which is not a program: %w", named, err)
		}
		return path, nil
	}
	found.Lock()
	defer found.Unlock()
	if found.path != "" {
		return found.path, nil
	}
	if tree := sourceTree(); tree != "" {
		path, err := buildProgram(ctx, tree)
		if err != nil {
			return "", err
		}
		found.path = path
		return path, nil
	}
	if path, err := exec.LookPath("btcd"); err == nil {
		return path, nil
	}
	return "", errors.New("btcd, the local Bitcoin node, is not installed: start from the source tree, where the go " +
		"command builds it, " +
		"or install it (https://github.com/btcsuite/btcd) and have btcd in PATH or named by COFFER_BTCD")
}

// sourceTree returns the folder above the working directory or the program that contains the module
// of the tools.
func sourceTree() string {
	var dirs []string
	if dir, err := os.Getwd(); err == nil {
		dirs = append(dirs, dir)
	}
	if program, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(program))
	}
	for _, dir := range dirs {
		for {
			if _, err := os.Stat(filepath.Join(dir, "tools", "go.mod")); !errors.Is(err, fs.ErrNotExist) {
				return dir
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return ""
}

// buildProgram asks the go command for the program, which is in its cache or gets built.
func buildProgram(ctx context.Context, tree string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile="+filepath.Join("tools", "go.mod"), "-n", "btcd")
	cmd.Dir = tree
	// As in scripts/setup, so that the program is built only once.
	cmd.Env = append(
		os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath"), "CGO_ENABLED=0",
	)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf(
			"build btcd, the local Bitcoin node, with the go command in %s: %w\n%s", tree, err,
			bytes.TrimSpace(stderr.Bytes()),
		)
	}
	return strings.TrimSpace(string(stdout)), nil
}

func orClean(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// output reads what btcd prints until it names its address, and stores the end of that for an error
// message. It drops later lines, so that the pipe does not fill up.
type output struct {
	address chan string

	mu    sync.Mutex
	found bool
	text  []byte
}

var listening = regexp.MustCompile(`RPC server listening on (\S+)\s`)

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if m := listening.FindSubmatch(o.text); m != nil && !o.found {
		o.found = true
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
