// Package btcd starts and steers btcd, a real Bitcoin node, as a local chain: blocks
// on demand, forks, and a faucet that every block pays.
//
// The node listens on a loopback port that the system chooses and knows no other
// node. It never outlives the process that started it: it ends with the context, with
// Stop, and on Linux with the death of its parent, however that came about. What it
// held is gone then, unless Config.State names a file for it; a process that was killed
// may leave a folder in the system's temporary directory, which nothing reads again.
//
// For the local world and for tests. The faucet's key is here for all to read; nothing
// is for a chain that carries value.
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

// User is who may call the node.
const User = "coffer"

// Maturity is how many blocks have to follow a block before what it paid to its miner
// can be spent, less one: what the block at height h paid may be spent in h + Maturity.
const Maturity = 100

const (
	// startBlocks are there from the beginning, so that the faucet has what to pay
	// with.
	startBlocks    = Maturity + 20
	startTimeout   = 30 * time.Second
	stopTimeout    = 10 * time.Second
	callTimeout    = 30 * time.Second
	outputBytesMax = 16 << 10
)

// A Config says how the node is started. The zero value is a chain that is thrown
// away.
type Config struct {
	// Program is the btcd to start. Empty: the one that Find finds.
	Program string
	// State is a file that the chain's blocks are loaded from, when it exists, and
	// written to by Stop. Empty: a fresh chain that is thrown away. The node itself
	// begins every local chain anew.
	State string
	// BlockTime makes a block on a clock while there is reason to: a transaction waits,
	// or one is in a block that is not yet deep. A chain where nothing happens stands
	// still, since each 150 blocks halve what a block pays. Zero: blocks are made by Mine
	// alone.
	BlockTime time.Duration
}

// A Node is a running node. Its methods may be called at the same time from several
// goroutines.
type Node struct {
	// URL is where the node answers JSON-RPC, for User with Password (HTTP Basic).
	URL, Password string

	client  http.Client
	state   string
	faucet  faucet
	process *os.Process
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // why it ended; valid once ended is closed

	whole     atomic.Bool // the chain is loaded: what is there may be saved
	clock     sync.WaitGroup
	stopClock context.CancelFunc // stops the clock
	stopping  sync.Once
	unsaved   error // why the chain could not be saved; valid after stopping
}

// Start runs a node and returns when it answers and the faucet can pay. It lives until
// Stop is called or ctx ends. The error says what to do when there is no btcd.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	program := cfg.Program
	if program == "" {
		if program, err = Find(ctx); err != nil {
			return nil, err
		}
	}
	// The node writes its own files below its home, whatever it is told.
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
			// A chain that ends by itself is a defect that has to be seen.
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

// Dial is a node that another process of this program runs, for paying from its faucet.
// It is neither saved nor ended here.
func Dial(url, password string) *Node {
	return &Node{URL: url, Password: password, client: http.Client{Timeout: callTimeout}}
}

// prepareChain loads the blocks that were saved and makes those that are missing.
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

// Stop saves the chain where Config.State says, ends the node and waits until it is
// gone. The end of the context that it was started with does the same. It returns an error when the node had ended before anyone asked it to. It may
// be called more than once.
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

// saveBlocks writes the blocks of the chain into the state file, whole or not at all.
func (n *Node) saveBlocks(ctx context.Context) error {
	if n.state == "" || !n.whole.Load() {
		return nil
	}
	// The file has blocks alone, so a transaction that waits goes into one.
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

// Done is closed when the node has ended, for whatever reason.
func (n *Node) Done() <-chan struct{} { return n.ended }

// PID is the process id of the node.
func (n *Node) PID() int { return n.process.Pid }

// found is the program of the source tree, which the go command is asked for once.
var found = struct {
	sync.Mutex
	path string
}{}

// Find looks for the btcd program: where COFFER_BTCD says, then among the tools of the
// source tree that the working directory or the running program is in, where the go
// command builds it when it is used for the first time, then in PATH.
func Find(ctx context.Context) (string, error) {
	if named := os.Getenv("COFFER_BTCD"); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("COFFER_BTCD names %q, which is no program: %w", named, err)
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
	return "", errors.New("btcd, the local Bitcoin node, is not installed: start from the source tree, where the go command builds it, " +
		"or install it (https://github.com/btcsuite/btcd) and have btcd in PATH or named by COFFER_BTCD")
}

// sourceTree is the folder above the working directory or the program that has the
// tools' module.
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

// buildProgram asks the go command for the program, which it has in its cache or builds.
func buildProgram(ctx context.Context, tree string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile="+filepath.Join("tools", "go.mod"), "-n", "btcd")
	cmd.Dir = tree
	// As the Makefile has it, so that there are not two of it.
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath"))
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

// An output reads what btcd prints until it names its address, and keeps the end of it
// for an error message. Later lines are dropped: nobody reads them and the pipe must
// not fill up.
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
