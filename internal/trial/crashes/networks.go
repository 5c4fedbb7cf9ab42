package crashes

import (
	"context"
	"encoding/json"
	"math/big"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/trial/oracle"
)

// network is the chain of a town: how it is steered and looked at, and what its node
// is asked in what words. Everything else of a town is the same on all.
type network interface {
	// nodeURL is where its node answers.
	nodeURL() string
	// mineBlock makes one block, and every says how often the town does.
	mineBlock(ctx context.Context) error
	blockInterval() time.Duration
	// blocksAheadMax is how far the newest block may be from where the service has walked to until
	// the town waits with the next; 0: it never waits.
	blocksAheadMax() uint64
	// readHead is the height of the newest block, and how far the final one is behind it.
	readHead(ctx context.Context) (height, lag uint64, err error)
	// waitHeight is that of the block which a transaction is in.
	waitHeight(ctx context.Context, tx string) (uint64, error)
	// waitReady waits, in a service that has begun, until it can pay at once.
	waitReady(ctx context.Context, t *scenario) error

	// unusedAddress is an address that nothing was ever sent to, the same for the same seed.
	unusedAddress(seed []byte) string
	// newStranger is somebody with coin and so many units of the town's token, who never
	// paid before.
	newStranger(ctx context.Context, token string, units *big.Int) (externalAccount, error)
	// payUnits pays units of the town's mint from the account that has plenty.
	payUnits(ctx context.Context, t *scenario, recipient string, units *big.Int) (tx string, err error)
	// readBalance is what an address has of a token, as the node says.
	readBalance(ctx context.Context, token, account string) (*big.Int, error)
	// refuseRecipient has the token refuse every payment to an address from now on.
	refuseRecipient(ctx context.Context, token, account string) error

	// paymentsPerTx is how many payments a scene asks for at once where it needs one: those that
	// share a transaction. releasePayments lets all go that were asked for.
	paymentsPerTx() int
	releasePayments(ctx context.Context, t *scenario) error

	// holdPool has what the service sends wait before it is mined, or go on.
	holdPool(t *scenario, waits bool)
	// mineInstead mines a transaction that waits, and not the other one in its slot.
	mineInstead(ctx context.Context, raw []byte, replacedHash string) error
	// forkBlock puts another block in the place of the newest, which has these transactions alone;
	// what the one before had is in none until it is sent again or waits again.
	forkBlock(ctx context.Context, rawTxs ...[]byte) error
	// rawTransaction are the bytes of a transaction in a block, and again sends them again.
	rawTransaction(ctx context.Context, tx string) ([]byte, error)
	resendTransaction(ctx context.Context, raw []byte) error

	// sendMethod is the method that a transaction is sent with, and id the answer to it: what
	// identifies the transaction, of which text is the first parameter.
	sendMethod() string
	transactionID(text string) (string, error)
	// settleRun does what a chain would have done with a transaction that the node took, as far as
	// the node does not; nobody has heard yet that it was taken.
	settleRun(ctx context.Context, text string) error
	// corruptAnswer makes the answer to a question nonsense, if it is a block with something for an
	// address in it.
	corruptAnswer(method string, answer []byte, address string) (json.RawMessage, bool)

	// openOracle is the oracle, which reads from now on.
	openOracle() truth
	// topUpFees is coin for fees that the operator adds where it is that of the town's mint,
	// and beside what our addresses have of the mint that no customer brought, as the
	// oracle says that has walked.
	topUpFees(ctx context.Context, t *scenario) error
	operatorFunds(ownAddresses map[string]bool) *big.Int
	// compareOutputs compares what is kept of a chain beside the books with the oracle that has
	// walked.
	compareOutputs(ctx context.Context, t *scenario, ownAddresses map[string]bool) error
}

// simpleNetwork is a chain whose fees are not paid in the town's mint, and where each payment has
// a transaction of its own.
type simpleNetwork struct{}

func (simpleNetwork) paymentsPerTx() int                               { return 1 }
func (simpleNetwork) releasePayments(context.Context, *scenario) error { return nil }

func (simpleNetwork) topUpFees(context.Context, *scenario) error { return nil }

func (simpleNetwork) operatorFunds(map[string]bool) *big.Int { return new(big.Int) }

func (simpleNetwork) settleRun(context.Context, string) error { return nil }

func (simpleNetwork) compareOutputs(context.Context, *scenario, map[string]bool) error { return nil }

func (simpleNetwork) payUnits(ctx context.Context, t *scenario, recipient string, units *big.Int) (string, error) {
	return t.world.Info.PayAddress(ctx, t.mint, recipient, units)
}

// externalAccount is somebody who pays from an account of their own.
type externalAccount struct {
	address string
	pay     func(ctx context.Context, token, recipient string, units *big.Int) (tx string, err error)
}

// truth is what an oracle is asked.
type truth interface {
	Walk(ctx context.Context) (height uint64, err error)
	Judge(claims []oracle.Claim, ownAddresses map[string]bool) (wrong []string)
	// Holds is asked at the height that Walk stands at.
	Holds(ctx context.Context, asset, holder string, height uint64) (*big.Int, error)
}

// site is a chain that points are played on.
type site struct {
	chain       chain.Name
	mintSymbol  string // the symbol of what is paid
	richUnits   int64  // units of it that the payments are made from
	openNetwork func(w *localworld.World) network
	families    string            // the letters of the points that are played there
	excluded    map[string]string // those of them that are not, and why
	overrides   map[string]point  // those that are played in another way there
}

// sites are all of them, in the order of the table. What belongs to no chain, such as an
// approval or a webhook, is played on the first alone.
var sites = []site{
	{
		chain: chain.Ethereum, mintSymbol: "USDC", richUnits: 1_000_000_000_000, openNetwork: openEthereum,
		families: "WQADFTVSKO",
	},
	{
		chain: chain.Solana, mintSymbol: "USDC", richUnits: 1_000_000_000_000, openNetwork: openSolana, families: "WDVS",
		excluded: map[string]string{
			"V07": "no flagged deposit is played there",
			"W25": "surfpool has no forks; internal/chain/solana plays them against a node of its own making",
			"D12": "surfpool has no forks", "D13": "surfpool has no forks",
			"S02": "the treasury pays for what is swept: there are no top-ups", "S03": "there are no top-ups",
			"S07": "it stands where a top-up ends",
		},
	},
	{
		chain: chain.Bitcoin, mintSymbol: "BTC", richUnits: 1_000_000_000, openNetwork: openBitcoin, families: "WDFVS",
		excluded: map[string]string{
			"S01": noSweeps, "S02": noSweeps, "S03": noSweeps, "S04": noSweeps, "S05": noSweeps, "S06": noSweeps,
			"S05b": noSweeps, "S06b": noSweeps,
			"S07": noSweeps, "S09": noSweeps, "F10": noSweeps,
			"F03": "a return needs no gas at its address: the treasury's coins pay for it",
			"F06": "nobody can refuse a payment there",
		},
		overrides: map[string]point{
			"W28": {title: "cancel final, before the release", play: playMinedCancel, sourcePoint: "W26"},
			"W29": {title: "release's commit: answer lost", play: playMinedCancel},
			"F11": {title: "cancel of a return final, before the books", play: playCancelledReturn, sourcePoint: "W26"},
		},
	},
}

const noSweeps = "nothing is swept there: what is credited pays from the address where it is"

// adaptPoint is a point as it is played there.
func (s site) adaptPoint(p point) point {
	if o, ok := s.overrides[p.name]; ok {
		p.title, p.play, p.sourcePoint = o.title, o.play, o.sourcePoint
	}
	return p
}

// siteOf is the site of a chain.
func siteOf(name chain.Name) site {
	for _, s := range sites {
		if s.chain == name {
			return s
		}
	}
	panic("crashes: no site is on " + string(name))
}

// playsPoint tells whether a point is played there.
func (s site) playsPoint(p point) bool {
	return strings.Contains(s.families, p.name[:1]) && s.excluded[p.name] == ""
}
