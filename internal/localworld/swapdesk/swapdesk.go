// Package swapdesk is the swap provider of the local world: a third party that only the chains and HTTP
// connect with the service.
//
// It answers as NEAR Intents 1Click does and signs its quotes in the same way, with a key of its own. It has
// its own wallets on the local chains, from its own seed. A firm quote gets a deposit address that no other
// quote had. When a deposit is final, the desk pays the output to the recipient. A short deposit, a late one
// and what exceeds the quoted amount go back to the refund address, less the refund fee.
//
// A second listener controls the desk: Behaviour makes it fail, lie or cheat in the ways of Mode. The same
// listener says what the desk received, delivered and refunded, so that a trial can compare the sums.
//
// The desk reads the chains by itself and shares no code with the service's own walk and payments. It never
// runs on a chain that carries value: its assets begin with AssetPrefix, which a main network refuses.
//
// Its file has every record before the desk acts on it, and the signed bytes of a payment before it sends
// them. After a crash the desk sends the same bytes again, so it pays nothing twice.
package swapdesk

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// AssetPrefix begins the id of every asset of the desk. No provider of a main network has such ids.
const AssetPrefix = "local:"

// KeyPrefix begins a key and a signature as 1Click writes them.
const KeyPrefix = "ed25519:"

const (
	usualInterval      = 200 * time.Millisecond
	usualSpreadBps     = 20
	usualDepositWindow = 72 * time.Hour
	readTimeout        = 10 * time.Second
	stopTimeout        = 5 * time.Second
	windowMax          = 50 // blocks that one step reads of a chain
)

// Asset is a coin or token that the desk takes and pays.
type Asset struct {
	Mint       int        // the id in the service's catalogue; 0: the catalogue does not have it
	Chain      chain.Name //
	Blockchain string     // the chain as 1Click calls it: eth, sol, btc
	Contract   string     // empty: the native coin
	Symbol     string
	Decimals   int
	Price      money.USD // of a whole token
}

// ID returns the asset's id as the API names it.
func (a Asset) ID() string { return AssetID(a.Chain, a.Contract) }

// AssetID returns the id of the asset with a contract on a chain; the empty contract is the native coin.
func AssetID(name chain.Name, contract string) string {
	if contract == "" {
		contract = "native"
	}
	return AssetPrefix + strings.ToLower(string(name)) + ":" + contract
}

// Config says how a desk works.
type Config struct {
	State  string // the desk's own file, made if it does not exist
	Assets []Asset
	// Chains makes the chains of the assets with wallets from the desk's seed.
	Chains func(Seed) ([]Chain, error)
	// Fund sends an amount from the faucet of the asset's chain to the desk's wallet.
	Fund func(ctx context.Context, a Asset, recipient string, amount money.Amount) error

	Listen, ControlListen string // addresses of the two listeners of Start; empty: free loopback ports

	Interval      time.Duration // between two looks at the chains; zero: 200 ms
	SpreadBps     uint64        // what the desk keeps of each swap; zero: 20
	DepositWindow time.Duration // how long a deposit may come after the deadline asked for; zero: 72 h, as 1Click

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: no log
}

// Server is a running provider. Its methods are safe for concurrent use, except that one goroutine calls
// Advance.
type Server struct {
	cfg    Config
	chains map[chain.Name]Chain
	assets map[string]Asset
	key    ed25519.PrivateKey

	mu        sync.Mutex // protects all below
	store     *store
	swaps     map[string]*swap       // by deposit address
	unsettled map[string]*swap       // those of swaps that still have work
	watches   map[chain.Name][]Watch // of all deposit addresses
	cursors   map[chain.Name]uint64  // the last block that was read
	wallets   uint32                 // the last wallet number in use
	settings  settings

	// Of the goroutine of Advance alone.
	sent   map[string]time.Time // when a payment was last sent
	funded map[string]time.Time // when the faucet was last asked for an asset

	servers []*http.Server
	urls    [2]string
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// New opens a desk with its state, without listeners: the caller serves API and Control and calls Advance.
// CloseState ends it.
func New(cfg Config) (*Server, error) {
	if cfg.Interval == 0 {
		cfg.Interval = usualInterval
	}
	if cfg.SpreadBps == 0 {
		cfg.SpreadBps = usualSpreadBps
	}
	if cfg.DepositWindow == 0 {
		cfg.DepositWindow = usualDepositWindow
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	d := &Server{
		cfg: cfg, chains: map[chain.Name]Chain{}, assets: map[string]Asset{},
		swaps: map[string]*swap{}, unsettled: map[string]*swap{}, watches: map[chain.Name][]Watch{},
		cursors: map[chain.Name]uint64{}, sent: map[string]time.Time{}, funded: map[string]time.Time{},
	}
	var identity identity
	var err error
	if d.store, identity, err = openStore(cfg.State, d.restoreRecord); err != nil {
		return nil, err
	}
	d.key = ed25519.NewKeyFromSeed(identity.Key[:])
	chains, err := cfg.Chains(identity.Seed)
	if err != nil {
		return nil, errors.Join(err, d.store.closeFile())
	}
	for _, c := range chains {
		d.chains[c.Name()] = c
	}
	for _, a := range cfg.Assets {
		if d.chains[a.Chain] == nil {
			return nil, errors.Join(fmt.Errorf("no chain has the asset %s", a.ID()), d.store.closeFile())
		}
		d.assets[a.ID()] = a
	}
	return d, nil
}

// restoreRecord takes a record of the state file.
func (d *Server) restoreRecord(r record) {
	if r.Swap != nil {
		d.addSwap(r.Swap)
	}
	if r.Cursor != nil {
		d.cursors[r.Cursor.Chain] = r.Cursor.Height
	}
	if r.Settings != nil {
		d.settings = *r.Settings
	}
}

// addSwap puts a swap, or its newer record, in its places.
func (d *Server) addSwap(s *swap) {
	if d.swaps[s.DepositAddress] == nil {
		d.watches[s.Origin.Chain] = append(
			d.watches[s.Origin.Chain], Watch{Address: s.DepositAddress, Contract: s.Origin.Contract},
		)
	}
	d.swaps[s.DepositAddress] = s
	d.wallets = max(d.wallets, s.Wallet)
	delete(d.unsettled, s.DepositAddress)
	if s.hasWork() {
		d.unsettled[s.DepositAddress] = s
	}
}

// CloseState closes the state file and the connections to the chains.
func (d *Server) CloseState() error {
	for _, c := range d.chains {
		c.CloseClient()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.store.closeFile()
}

// Start opens a desk, serves its two listeners and works until Stop.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	d, err := New(cfg)
	if err != nil {
		return nil, err
	}
	// The first look fixes where the desk begins to read, before it gives out an address.
	if err := d.Advance(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("look at the local chains: %w", err), d.CloseState())
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d.cancel = cancel
	for i, part := range []struct {
		address string
		handler http.Handler
	}{{cfg.Listen, d.API()}, {cfg.ControlListen, d.Control()}} {
		if part.address == "" {
			part.address = "127.0.0.1:0"
		}
		l, err := net.Listen("tcp", part.address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen for swaps: %w", err), d.Stop())
		}
		d.urls[i] = "http://" + l.Addr().String()
		server := &http.Server{Handler: part.handler, ReadHeaderTimeout: readTimeout}
		d.servers = append(d.servers, server)
		d.running.Go(func() { _ = server.Serve(l) }) // it returns when the server is closed
	}
	d.running.Go(func() { d.runWork(run) })
	return d, nil
}

// runWork looks at the chains until ctx ends.
func (d *Server) runWork(ctx context.Context) {
	clock := time.NewTicker(d.cfg.Interval)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
			if err := d.Advance(ctx); err != nil && ctx.Err() == nil {
				d.cfg.Log.WarnContext(ctx, "the local swap provider could not do a step", "error", err)
			}
		}
	}
}

// Stop ends the listeners and the work. The state remains in its file.
func (d *Server) Stop() error {
	d.cancel()
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for _, server := range d.servers {
		if err := server.Shutdown(ctx); err != nil {
			errs = append(errs, server.Close())
		}
	}
	d.running.Wait()
	return errors.Join(append(errs, d.CloseState())...)
}

// URL returns the base of the API, as the configuration of the provider has it.
func (d *Server) URL() string { return d.urls[0] }

// ControlURL returns the base of the control listener.
func (d *Server) ControlURL() string { return d.urls[1] }

// PublicKey returns the key of the quotes as 1Click publishes its own.
func (d *Server) PublicKey() string {
	return KeyPrefix + base58.Encode(d.key.Public().(ed25519.PublicKey))
}

// strangerKey signs the quotes of BadSignature.
func (d *Server) strangerKey() ed25519.PrivateKey {
	seed := sha256.Sum256(append([]byte("a stranger"), d.key.Seed()...))
	return ed25519.NewKeyFromSeed(seed[:])
}

// Advance looks at the chains once: it reads final blocks, decides what follows and makes payments. A chain
// that does not answer does not stop the others.
func (d *Server) Advance(ctx context.Context) error {
	d.mu.Lock()
	err := d.store.err
	d.mu.Unlock()
	if err != nil {
		return err // a payment must not leave before its record
	}
	var errs []error
	for _, name := range d.chainNames() {
		errs = append(errs, d.readBlocks(ctx, d.chains[name]))
	}
	errs = append(errs, d.decideSwaps())
	for _, name := range d.chainNames() {
		errs = append(errs, d.makePayments(ctx, d.chains[name]))
	}
	// A payment that ended may end its swap.
	return errors.Join(append(errs, d.decideSwaps())...)
}

func (d *Server) chainNames() []chain.Name {
	var names []chain.Name
	for name := range d.chains {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// readBlocks takes the deposits of the final blocks that were not read yet.
func (d *Server) readBlocks(ctx context.Context, c Chain) error {
	final, err := c.FinalHeight(ctx)
	if err != nil {
		return fmt.Errorf("final block of %s: %w", c.Name(), err)
	}
	d.mu.Lock()
	last, hasCursor := d.cursors[c.Name()]
	hasWatches := len(d.watches[c.Name()]) > 0
	d.mu.Unlock()
	if !hasCursor || !hasWatches && last < final {
		// Every address of the desk is newer than this block.
		return d.saveCursor(c.Name(), final, nil)
	}
	for last < final {
		end := min(last+windowMax, final)
		d.mu.Lock()
		watches := slices.Clone(d.watches[c.Name()])
		d.mu.Unlock()
		arrivals, err := c.Arrivals(ctx, last, end, watches)
		if err != nil {
			return fmt.Errorf("blocks %d to %d of %s: %w", last+1, end, c.Name(), err)
		}
		if err := d.saveCursor(c.Name(), end, arrivals); err != nil {
			return err
		}
		last = end
	}
	return nil
}

// saveCursor stores deposits and the block up to which they were read.
func (d *Server) saveCursor(name chain.Name, height uint64, arrivals []Arrival) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var records []record
	for _, arrival := range arrivals {
		s := d.swaps[arrival.Address]
		if s == nil || !s.addDeposit(arrival) {
			continue
		}
		d.unsettled[s.DepositAddress] = s
		records = append(records, record{Swap: s})
	}
	last, hasCursor := d.cursors[name]
	d.cursors[name] = height
	// Blocks without deposits are read again after a restart, so that they do not fill the file.
	if hasCursor && len(records) == 0 && height/windowMax == last/windowMax {
		return nil
	}
	return d.store.appendRecords(append(records, record{Cursor: &cursor{name, height}})...)
}

// decideSwaps decides what follows from what arrived and from payments that ended.
func (d *Server) decideSwaps() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Now()
	var records []record
	for address, s := range d.unsettled {
		if d.decideSwap(s, now) {
			s.UpdatedAt = now
			records = append(records, record{Swap: s})
		}
		if !s.hasWork() {
			delete(d.unsettled, address)
		}
	}
	if len(records) == 0 {
		return nil
	}
	return d.store.appendRecords(records...)
}
