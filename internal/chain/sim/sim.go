// Package sim simulates a chain in memory that does what a script says. The chain mines, forks,
// drops and re-includes transactions. Its providers lag, lie, lose answers and refuse. It
// implements the ports of package chain with accounts, nonces, tokens and real signed bytes. So a
// test can drive everything above the ports through the worst days of a chain without a network.
//
// The package has no clock that runs by itself, no goroutine and no random choice: the same script
// gives the same hashes. It stores nothing durably.
package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

// Config describes the chain. A zero value means the default that its comment ends with.
type Config struct {
	Name                chain.Name    // ETHEREUM; any chain of the EVM family, or SOLANA
	PaymentsPerTx       int           // payments that a transaction makes, on SOLANA; 1
	ChainID             uint64        // 31337
	FinalityDepth       uint64        // blocks from the latest to the final one; 3
	BlockTime           time.Duration // 1 s of virtual time
	Start               time.Time     // time of block 0; 2026-01-01
	Providers           int           // 1
	Quorum              int           // providers that must agree on a final block; all of them
	BaseFee             uint64        // per gas; 1,000,000,000
	FeeCap              uint64        // most that is paid per gas; 100,000,000,000
	TracesOff           bool          // internal movements are not looked for
	UTXO                bool          // the chain has outputs; BaseFee is then the cost of a transaction
	ConsolidationMin    int           // so many outputs of at most 100 units each are consolidated; 0 for none
	ConsolidationFeeMax uint64        // while BaseFee is at most this
	InputsMax           int           // outputs that one transaction spends at most; 0 for any number
	MempoolSlots        int           // transactions of one account that the pool keeps; 0 for any number
	// MinPayment is the smallest payment of the native coin to an address that holds nothing; 0
	// allows any.
	MinPayment uint64
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = chain.Ethereum
	}
	if c.ChainID == 0 {
		c.ChainID = 31337
	}
	if c.FinalityDepth == 0 {
		c.FinalityDepth = 3
	}
	if c.BlockTime == 0 {
		c.BlockTime = time.Second
	}
	if c.Start.IsZero() {
		c.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if c.Providers == 0 {
		c.Providers = 1
	}
	if c.PaymentsPerTx == 0 {
		c.PaymentsPerTx = 1
	}
	if c.Quorum == 0 {
		c.Quorum = c.Providers
	}
	if c.BaseFee == 0 {
		c.BaseFee = 1_000_000_000
	}
	if c.FeeCap == 0 {
		c.FeeCap = 100_000_000_000
	}
	return c
}

// Chain is a simulated chain. It is safe for concurrent use.
type Chain struct {
	conf Config

	mu            sync.Mutex
	blocks        []*block          // the canonical chain, by height
	byHash        map[string]*block // including the blocks of other forks
	mempool       []*tx             // in the order of arrival
	swallowed     map[chain.TxHash]*tx
	owners        map[chain.Address]chain.Address // owners of token accounts, which are all that the bytes name
	providers     []*Provider
	firstProvider int // the first one asked for blocks that are not final
	baseFee       uint64
	skipped       time.Duration // added to the time of the next block
	forks         uint64        // makes the hashes of another fork differ
	scriptCount   uint64        // makes scripted transactions differ

	undecodable  map[uint64]bool
	balanceLies  map[chain.Holding]money.Amount
	silent       map[chain.Address]bool
	signers      map[chain.Address]ContractSigner
	transferMaxs map[chain.Address]money.Amount // by token, in one transfer
	transferMins map[chain.Address]money.Amount // by token, in one transfer
}

// block is a block with the whole state after it. Small chains can afford that, and a fork is then
// only a shorter slice.
type block struct {
	chain.Contents
	txs      []*tx
	receipts map[chain.TxHash]*receipt
	state    *state
	senders  map[movementKey][]chain.Address // of transfers that do not name them
}

// movementKey identifies a transfer of a block.
type movementKey struct {
	tx       chain.TxHash
	kind     chain.Kind
	position string
}

type receipt struct {
	succeeded bool
	fee       money.Amount
	transfers []chain.Transfer
}

type state struct {
	nonces       map[chain.Address]uint64
	balances     map[chain.Holding]money.Amount
	refusals     map[chain.Holding]string // payees that a token refuses, with the reason
	programs     map[chain.Address]bool   // addresses of contracts
	coins        map[string]chain.Output  // by outpoint, with Config.UTXO
	spent        map[string]bool
	nonceParents map[chain.Address]string // of used nonce accounts: the hash of the block from which the value follows
	valueParents map[string]string        // by nonce value: the hash from which it follows, on any fork
}

func (s *state) cloneState() *state {
	return &state{
		nonces: maps.Clone(s.nonces), balances: maps.Clone(s.balances), refusals: maps.Clone(s.refusals),
		programs: maps.Clone(s.programs), coins: maps.Clone(s.coins), spent: maps.Clone(s.spent),
		nonceParents: maps.Clone(s.nonceParents), valueParents: s.valueParents,
	}
}

func (s *state) addBalance(h chain.Holding, a money.Amount) error {
	sum, err := s.balances[h].Add(a)
	if err == nil {
		s.balances[h] = sum
	}
	return err
}

func (s *state) subBalance(h chain.Holding, a money.Amount) error {
	remainder, err := s.balances[h].Sub(a)
	if err == nil {
		s.balances[h] = remainder
	}
	return err
}

// New returns a chain with its block 0.
func New(conf Config) *Chain {
	c := &Chain{
		conf: conf.withDefaults(), byHash: map[string]*block{}, swallowed: map[chain.TxHash]*tx{},
		undecodable: map[uint64]bool{}, balanceLies: map[chain.Holding]money.Amount{},
		silent: map[chain.Address]bool{}, signers: map[chain.Address]ContractSigner{},
		owners:       map[chain.Address]chain.Address{},
		transferMaxs: map[chain.Address]money.Amount{}, transferMins: map[chain.Address]money.Amount{},
	}
	c.baseFee = c.conf.BaseFee
	for i := range c.conf.Providers {
		c.providers = append(c.providers, &Provider{c: c, index: i})
	}
	genesis := &block{state: &state{
		nonces: map[chain.Address]uint64{}, balances: map[chain.Holding]money.Amount{},
		refusals: map[chain.Holding]string{}, programs: map[chain.Address]bool{},
		coins: map[string]chain.Output{}, spent: map[string]bool{}, nonceParents: map[chain.Address]string{},
		valueParents: map[string]string{},
	}, receipts: map[chain.TxHash]*receipt{}}
	genesis.Block = chain.Block{
		Hash: hashWords("genesis", c.conf.ChainID), Parent: hashWords("nothing"), Time: c.conf.Start,
	}
	c.blocks = []*block{genesis}
	c.byHash[genesis.Hash] = genesis
	return c
}

// ToChain returns the chain as the program configures one.
func (c *Chain) ToChain() chain.Chain {
	if c.isSolana() {
		return chain.Chain{
			Name: c.conf.Name, Network: chain.Local, CAIP2: "solana:sim", SignerID: string(SolanaAddress("network")),
			AddressCodec: solanatx.AddressCodec{}, Reader: c, Sender: c, SeparateFeePayer: true, MinPayment: c,
			SlotProver: c,
		}
	}
	configured := chain.Chain{
		Name: c.conf.Name, Network: chain.Local, CAIP2: fmt.Sprintf("eip155:%d", c.conf.ChainID),
		SignerID: fmt.Sprint(c.conf.ChainID), AddressCodec: c.AddressCodec(), Reader: c, Sender: c, MinPayment: c,
	}
	if c.conf.UTXO {
		configured.Sender, configured.UTXO, configured.SeparateFeePayer = utxoSender{c}, utxoModel{
			c.conf.InputsMax,
		}, true
		if c.conf.ConsolidationMin > 0 {
			configured.Consolidator = consolidator{c}
		}
	}
	return configured
}

// Address returns the address that belongs to a name: an external account or a contract.
func Address(name string) chain.Address {
	sum := sha256.Sum256([]byte("sim address " + name))
	return evmtx.Canonical(common.Address(sum[:20]))
}

// Mint gives an address units of a token ("" for the native coin) as if it had them since the first
// block. So no block explains or lacks them, and no fork removes them.
func (c *Chain) Mint(to, contract chain.Address, units money.Amount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.byHash {
		if err := b.state.addBalance(chain.Holding{Address: to, Contract: contract}, units); err != nil {
			panic(fmt.Sprintf("sim: mint for %s: %v", to, err))
		}
		if contract != "" {
			b.state.programs[contract] = true
		}
	}
}

// RefuseTransfers makes a token revert every transfer to an address from the next block on, as a
// blacklist does; an empty reason ends that.
func (c *Chain) RefuseTransfers(contract, to chain.Address, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := chain.Holding{Address: to, Contract: contract}
	if reason == "" {
		delete(c.tipBlock().state.refusals, h)
		return
	}
	c.tipBlock().state.refusals[h] = reason
}

// DeployContract puts a contract at an address, in a block of its own.
func (c *Chain) DeployContract(address chain.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mineBlock(nil)
	c.tipBlock().state.programs[address] = true
}

// ContractSigner is what a contract says about a signature of a digest.
type ContractSigner func(digest [32]byte, signature []byte) bool

// DeploySigner puts a contract that signs at an address, in a block of its own.
func (c *Chain) DeploySigner(address chain.Address, accepts ContractSigner) {
	c.DeployContract(address)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.signers[address] = accepts
}

// SilenceBalance makes a token revert when a provider reads a balance of it, in any block.
func (c *Chain) SilenceBalance(contract chain.Address, enabled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent[contract] = enabled
}

// Move is one transfer inside a scripted transaction.
type Move struct {
	Kind     chain.Kind // "" is Token if Contract is set, else Native
	Contract chain.Address
	From, To chain.Address // From: "" is the sender of the transaction
	Amount   money.Amount  // that the chain's event or trace shows
	// ActualAmount is the amount that the token moves when its event lies; nil is Amount.
	ActualAmount *money.Amount
	// NoEvent moves the amount without an event, as a rebase does.
	NoEvent bool
	// Reverted says that the call reverted inside a transaction that succeeded.
	Reverted bool
	// MultiSender says that the transfer does not name one sender. A request for its senders
	// returns Senders; if that is empty, the senders are unknown.
	MultiSender bool
	Senders     []chain.Address
	// References are accounts that the transaction only names, see chain.Contents.
	References []chain.Address
}

// SubmitTx puts a transaction of an account into the pool, in its next free nonce, without a fee.
// It needs no key.
func (c *Chain) SubmitTx(from chain.Address, moves ...Move) chain.TxHash {
	c.mu.Lock()
	defer c.mu.Unlock()
	nonce := c.tipBlock().state.nonces[from]
	for _, t := range c.mempool {
		if t.from == from && t.nonce >= nonce {
			nonce = t.nonce + 1
		}
	}
	return c.submitScripted(from, nonce, false, moves)
}

// SubmitFailing is SubmitTx for a transaction that reverts as a whole.
func (c *Chain) SubmitFailing(from chain.Address, moves ...Move) chain.TxHash {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.submitScripted(from, c.tipBlock().state.nonces[from], true, moves)
}

// SubmitForeign puts a transaction into the next nonce of an account, as a thief with its key
// would. It removes the transactions that wait in that nonce from the pool.
func (c *Chain) SubmitForeign(from chain.Address, moves ...Move) chain.TxHash {
	c.mu.Lock()
	defer c.mu.Unlock()
	nonce := c.tipBlock().state.nonces[from]
	c.mempool = slices.DeleteFunc(c.mempool, func(t *tx) bool { return t.from == from && t.nonce == nonce })
	return c.submitScripted(from, nonce, false, moves)
}

// ResubmitTx is SubmitTx for a transaction of another fork that does something else on this one, as
// a contract does that depends on its block.
func (c *Chain) ResubmitTx(hash chain.TxHash, from chain.Address, moves ...Move) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.submitScripted(from, c.tipBlock().state.nonces[from], false, moves)
	c.mempool[len(c.mempool)-1].hash = hash
}

func (c *Chain) submitScripted(from chain.Address, nonce uint64, fails bool, moves []Move) chain.TxHash {
	c.scriptCount++
	t := &tx{from: from, nonce: nonce, fails: fails, scripted: true, moves: slices.Clone(moves)}
	t.hash = chain.TxHash(hashWords("scripted", string(from), nonce, c.scriptCount))
	natives := 0
	for i := range t.moves {
		m := &t.moves[i]
		if m.From == "" {
			m.From = from
		}
		if m.Kind == "" {
			m.Kind = chain.Native
			if m.Contract != "" {
				m.Kind = chain.Token
			}
		}
		if m.Kind == chain.Native {
			natives++
		}
	}
	if natives > 1 && !c.conf.UTXO {
		panic("sim: a transaction has one value of its own; the others are internal")
	}
	c.mempool = append(c.mempool, t)
	return t.hash
}

// Pay is SubmitTx with one transfer.
func (c *Chain) Pay(from, to, contract chain.Address, units uint64) chain.TxHash {
	return c.SubmitTx(from, Move{Contract: contract, To: to, Amount: money.Units(units)})
}

// Mine makes n blocks; the first contains every transaction of the pool that can run.
func (c *Chain) Mine(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.mineBlock(c.mempool)
	}
}

// MineOnly makes one block of these transactions of the pool, in this order.
func (c *Chain) MineOnly(hashes ...chain.TxHash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var txs []*tx
	for _, h := range hashes {
		i := slices.IndexFunc(c.mempool, func(t *tx) bool { return t.hash == h })
		if i < 0 {
			panic(fmt.Sprintf("sim: %s is not in the pool", h))
		}
		txs = append(txs, c.mempool[i])
	}
	c.mineBlock(txs)
}

// MineEmpty makes n empty blocks.
func (c *Chain) MineEmpty(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.mineBlock(nil)
	}
}

// Fork removes the last n blocks. Their transactions are in the pool again, except the dropped
// ones. Blocks that are mined later have other hashes. A script may fork below the final block.
func (c *Chain) Fork(n int, dropped ...chain.TxHash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n >= len(c.blocks) {
		panic("sim: fork below the first block")
	}
	c.forks++
	var returned []*tx
	for _, b := range c.blocks[len(c.blocks)-n:] {
		for _, t := range b.txs {
			if !slices.Contains(dropped, t.hash) {
				returned = append(returned, t)
			}
		}
	}
	c.blocks = c.blocks[:len(c.blocks)-n]
	// A waiting transaction loses against the one with the same nonce that a block contained.
	c.mempool = slices.DeleteFunc(c.mempool, func(t *tx) bool {
		return slices.ContainsFunc(
			returned, func(b *tx) bool { return haveSameSlot(b, t) && b.inputs == nil || b.sharesInput(t) },
		)
	})
	c.mempool = append(returned, c.mempool...)
}

// DropTx removes a transaction from the pool.
func (c *Chain) DropTx(h chain.TxHash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mempool = slices.DeleteFunc(c.mempool, func(t *tx) bool { return t.hash == h })
}

// DeliverSwallowed puts a transaction that a provider swallowed into the pool after all.
func (c *Chain) DeliverSwallowed(h chain.TxHash) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.swallowed[h]
	if ok {
		delete(c.swallowed, h)
		_ = c.acceptTx(t)
	}
	return ok
}

// Mempool returns the hashes of the waiting transactions in the order of arrival.
func (c *Chain) Mempool() []chain.TxHash {
	c.mu.Lock()
	defer c.mu.Unlock()
	var hashes []chain.TxHash
	for _, t := range c.mempool {
		hashes = append(hashes, t.hash)
	}
	return hashes
}

// SkipTime makes the next block so much later than its parent as it would be otherwise.
func (c *Chain) SkipTime(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipped += d
}

// SetBaseFee sets the base fee per gas of the blocks to come.
func (c *Chain) SetBaseFee(perGas uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.baseFee = perGas
}

// SetUndecodable makes the block at a height one that cannot be decoded, or ends that.
func (c *Chain) SetUndecodable(height uint64, broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undecodable[height] = broken
}

// Latest returns the last block.
func (c *Chain) Latest() chain.Block {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tipBlock().Block
}

// BlockAt returns the true block at a height with all its transfers, regardless of the providers'
// faults. It serves witnesses that share no code with the ledger.
func (c *Chain) BlockAt(height uint64) chain.Contents {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.blocks[height].Contents
	b.Transfers, b.Fees = slices.Clone(b.Transfers), slices.Clone(b.Fees)
	return b
}

// Balance returns the balance of an address after the last block.
func (c *Chain) Balance(a, contract chain.Address) money.Amount {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tipBlock().state.balances[chain.Holding{Address: a, Contract: contract}]
}

// Transfers returns all successful transfers of a token ("" for the native coin) to an address on
// the canonical chain. It serves witnesses that share no code with the ledger.
func (c *Chain) Transfers(to, contract chain.Address) []chain.Transfer {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []chain.Transfer
	for _, b := range c.blocks {
		for _, t := range b.Transfers {
			if t.To == to && t.Contract == contract {
				found = append(found, t)
			}
		}
	}
	return found
}

// Received returns the sum of Transfers.
func (c *Chain) Received(to, contract chain.Address) money.Amount {
	sum := money.Zero
	for _, t := range c.Transfers(to, contract) {
		total, err := sum.Add(t.Amount)
		if err != nil {
			panic(fmt.Sprintf("sim: sum of what %s received: %v", to, err))
		}
		sum = total
	}
	return sum
}

// Provider returns one of the chain's providers, whose faults the script sets.
func (c *Chain) Provider(i int) *Provider { return c.providers[i] }

func (c *Chain) tipBlock() *block { return c.blocks[len(c.blocks)-1] }

// hashWords returns a hash in the form of the chain family.
func hashWords(words ...any) string {
	h := sha256.New()
	for _, w := range words {
		switch w := w.(type) {
		case string:
			h.Write(binary.AppendUvarint(nil, uint64(len(w))))
			h.Write([]byte(w))
		case uint64:
			h.Write(binary.BigEndian.AppendUint64(nil, w))
		default:
			panic("sim: cannot digest this")
		}
	}
	return "0x" + hex.EncodeToString(h.Sum(nil))
}
