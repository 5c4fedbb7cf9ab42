package crashes

import (
	"context"
	"encoding/json"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

// network is the chain of a scenario: it steers and reads the chain, and knows the methods of its
// node. Everything else in a scenario is the same on all chains.
type network interface {
	// nodeURL returns the URL of the node.
	nodeURL() string
	// mineBlock mines one block. The scenario mines one every blockInterval.
	mineBlock(ctx context.Context) error
	blockInterval() time.Duration
	// blocksAheadMax is how far the newest block may be ahead of the service's walk before the
	// scenario mines more slowly. stopsAhead says that it stops mining then: a scene on such a chain
	// waits for no block while the service is down.
	blocksAheadMax() uint64
	stopsAhead() bool
	// readHead returns the height of the newest block, and how far the final one is behind it.
	readHead(ctx context.Context) (height, lag uint64, err error)
	// waitHeight waits until a transaction is in a block, and returns its height.
	waitHeight(ctx context.Context, tx string) (uint64, error)
	// waitReady waits, after the service has started, until it can pay at once.
	waitReady(ctx context.Context, t *scenario) error

	// unusedAddress returns an address that never received anything, the same for the same seed.
	unusedAddress(seed []byte) string
	// newStranger returns a new external account with coin and so many units of the scenario's
	// token.
	newStranger(ctx context.Context, token string, units *big.Int) (externalAccount, error)
	// payUnits pays units of the scenario's mint from the account with a large balance.
	payUnits(ctx context.Context, t *scenario, recipient string, units *big.Int) (tx string, err error)
	// readBalance returns the balance of an address in a token, as the node reports it.
	readBalance(ctx context.Context, token, account string) (*big.Int, error)
	// refuseRecipient lets the token refuse every payment to an address from now on.
	refuseRecipient(ctx context.Context, token, account string) error

	// paymentsPerTx is how many payments a scene requests at once where it needs one: those share a
	// transaction. releasePayments releases all that were requested.
	paymentsPerTx() int
	releasePayments(ctx context.Context, t *scenario) error

	// prepareGroups prepares the chain for rows of batches that share a transaction, where that needs something.
	prepareGroups(ctx context.Context, t *scenario) error
	// preparePayees prepares payees for rows in a token that share a transaction, where that needs something.
	preparePayees(ctx context.Context, token string, payees []string) error

	// holdPool holds what the service sends before it is mined, or releases it.
	holdPool(t *scenario, waits bool)
	// mineInstead mines a transaction that waits, and not the other one in its slot.
	mineInstead(ctx context.Context, raw []byte, replacedHash string) error
	// forkBlock replaces the newest block by one with these transactions alone. The other
	// transactions of the old block are in no block until they are sent again or wait again.
	forkBlock(ctx context.Context, rawTxs ...[]byte) error
	// rawTransaction returns the bytes of a transaction in a block; resendTransaction sends them
	// again.
	rawTransaction(ctx context.Context, tx string) ([]byte, error)
	resendTransaction(ctx context.Context, raw []byte) error

	// sendMethod is the method that sends a transaction. transactionID returns its answer, the id
	// of the transaction whose text is the first parameter.
	sendMethod() string
	transactionID(text string) (string, error)
	// settleRun does what a real chain does with an accepted transaction and the node does not. It
	// runs before the service sees that the transaction was accepted.
	settleRun(ctx context.Context, text string) error
	// corruptAnswer corrupts an answer if it is a block with something for an address.
	corruptAnswer(method string, answer []byte, address string) (json.RawMessage, bool)

	// openOracle opens the oracle, which reads from now on.
	openOracle() truth
	// topUpFees adds coin for fees, where that is the scenario's mint. operatorFunds returns what
	// our addresses have of the mint that no customer paid in, by the oracle after its walk.
	topUpFees(ctx context.Context, t *scenario) error
	operatorFunds(ownAddresses map[string]bool) *big.Int
	// compareOutputs compares what the database has of a chain apart from the books with the oracle
	// after its walk.
	compareOutputs(ctx context.Context, t *scenario, ownAddresses map[string]bool) error
}

// simpleNetwork is a chain whose fees are not paid in the scenario's mint, and where each payment
// has its own transaction.
type simpleNetwork struct{}

func (simpleNetwork) paymentsPerTx() int                               { return 1 }
func (simpleNetwork) releasePayments(context.Context, *scenario) error { return nil }

func (simpleNetwork) prepareGroups(context.Context, *scenario) error { return nil }

func (simpleNetwork) preparePayees(context.Context, string, []string) error { return nil }

func (simpleNetwork) topUpFees(context.Context, *scenario) error { return nil }

func (simpleNetwork) operatorFunds(map[string]bool) *big.Int { return new(big.Int) }

func (simpleNetwork) settleRun(context.Context, string) error { return nil }

func (simpleNetwork) compareOutputs(context.Context, *scenario, map[string]bool) error { return nil }

func (simpleNetwork) payUnits(ctx context.Context, t *scenario, recipient string, units *big.Int) (string, error) {
	return t.world.Info.PayAddress(ctx, t.mint, recipient, units)
}

// externalAccount is an account outside of Coffer that can pay.
type externalAccount struct {
	address string
	pay     func(ctx context.Context, token, recipient string, units *big.Int) (tx string, err error)
}

// truth is the interface of an oracle.
type truth interface {
	Walk(ctx context.Context) (height uint64, err error)
	Judge(claims []oracle.Claim, ownAddresses map[string]bool) (wrong []string)
	// Holds returns a balance at the height that Walk returned.
	Holds(ctx context.Context, asset, holder string, height uint64) (*big.Int, error)
}

// site is a chain that points are played on.
type site struct {
	chain       chain.Name
	mintSymbol  string   // the symbol of what is paid
	richUnits   *big.Int // units of it that the payments are made from
	swaps       swapSite
	withSwaps   bool // its customers swap
	openNetwork func(w *localworld.World) network
	families    string            // the letters of the points that are played on this chain
	excluded    map[string]string // points that are not played, and why
	overrides   map[string]point  // points that are played in another way
}

// swapSite is what the customers of a chain swap into ETH on Ethereum.
type swapSite struct {
	symbol    string
	richUnits *big.Int // units of it that a world's swaps are made from
	units     *big.Int // of one swap
}

// sites are all chains, in the order of the table. A point that belongs to no chain, such as an
// approval or a webhook, is played on the first alone.
var sites = []site{
	{
		chain: chain.Ethereum, mintSymbol: "USDC", richUnits: big.NewInt(1_000_000_000_000),
		openNetwork: openEthereum, families: "WPADFTVSKOQCBLE",
		// USDC is swapped on Solana alone.
		swaps:    swapSite{"DAI", wholeCoins(10_000), wholeCoins(50)},
		excluded: map[string]string{"Q25": onSolanaAlone, "Q26": onSolanaAlone, "C16": noSharedAddress},
	},
	{
		chain: chain.Solana, mintSymbol: "USDC", richUnits: big.NewInt(1_000_000_000_000),
		openNetwork: openSolana, families: "WDVSQCB",
		swaps: swapSite{"USDC", big.NewInt(1_000_000_000_000), big.NewInt(50_000_000)},
		excluded: map[string]string{
			"QW25": "surfpool has no forks",
			"V07":  "no flagged deposit is played there",
			"W25":  "surfpool has no forks; internal/chain/solana plays them against a node of its own making",
			"D12":  "surfpool has no forks", "D13": "surfpool has no forks",
			"C10": "surfpool has no forks",
			"C15": "no flagged deposit is played there",
			"S02": "the treasury pays for what is swept: there are no top-ups", "S03": "there are no top-ups",
			"S07": "it stands where a top-up ends",
		},
	},
	{
		chain: chain.Bitcoin, mintSymbol: "BTC", richUnits: big.NewInt(1_000_000_000), openNetwork: openBitcoin,
		families: "WDFVSQCB",
		swaps:    swapSite{"BTC", big.NewInt(1_000_000_000), big.NewInt(200_000)},
		excluded: map[string]string{
			"Q25": onSolanaAlone, "Q26": onSolanaAlone, "C16": noSharedAddress,
			"S01": noSweeps, "S02": noSweeps, "S03": noSweeps, "S04": noSweeps, "S05": noSweeps, "S06": noSweeps,
			"S05b": noSweeps, "S06b": noSweeps,
			"S07": noSweeps, "S09": noSweeps, "F10": noSweeps,
			"F03": "a return needs no gas at its address: the treasury's coins pay for it",
			"F06": "nobody can refuse a payment there",
			"B11": "no payee can refuse a payment there, so no group reverts",
		},
		overrides: map[string]point{
			"W28": {title: "cancel final, before the release", play: playMinedCancel, sourcePoint: "W26"},
			"W29": {title: "release's commit: answer lost", play: playMinedCancel},
			"F11": {title: "cancel of a return final, before the books", play: playCancelledReturn, sourcePoint: "W26"},
		},
	},
}

// noSharedAddress says why no payment is unmatched on the other chains.
const noSharedAddress = "checkouts share an address on Solana alone"

const onSolanaAlone = "what a deposit swap brings arrives on Solana, and is played there"

const noSweeps = "nothing is swept there: what is credited pays from the address where it is"

// wholeCoins returns the units of an amount of a token with 18 decimals.
func wholeCoins(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(params.Ether)) }

// forPoint returns the site as the world of a point needs it: the customers of its world swap, or they do not.
func (s site) forPoint(p point) site {
	if p.isOfSwap() {
		s.withSwaps, s.mintSymbol, s.richUnits = true, s.swaps.symbol, s.swaps.richUnits
	}
	return s
}

// adaptPoint returns a point as it is played on this chain.
func (s site) adaptPoint(p point) point {
	if o, ok := s.overrides[p.name]; ok {
		p.title, p.play, p.sourcePoint = o.title, o.play, o.sourcePoint
	}
	return p
}

// playsPoint reports whether a point is played on this chain.
func (s site) playsPoint(p point) bool {
	return strings.Contains(s.families, p.name[:1]) && s.excluded[p.name] == ""
}
