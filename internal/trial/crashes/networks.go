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
	// url is where its node answers.
	url() string
	// mine makes one block, and every says how often the town does.
	mine(ctx context.Context) error
	every() time.Duration
	// ahead is how far the newest block may be from where the service has walked to until
	// the town waits with the next; 0: it never waits.
	ahead() uint64
	// head is the height of the newest block, and how far the final one is behind it.
	head(ctx context.Context) (height, behind uint64, err error)
	// height is that of the block which a transaction is in.
	height(ctx context.Context, tx string) (uint64, error)
	// readied waits, in a service that has begun, until it can pay at once.
	readied(ctx context.Context, t *town) error

	// nobody is an address that nothing was ever sent to, the same for the same seed.
	nobody(seed []byte) string
	// stranger is somebody with coin and so many units of the town's token, who never
	// paid before.
	stranger(ctx context.Context, token string, units *big.Int) (stranger, error)
	// pay pays units of the town's mint from the account that has plenty.
	pay(ctx context.Context, t *town, to string, units *big.Int) (tx string, err error)
	// holds is what an address has of a token, as the node says.
	holds(ctx context.Context, token, who string) (*big.Int, error)
	// refuse has the token refuse every payment to an address from now on.
	refuse(ctx context.Context, token, who string) error

	// together is how many payments a scene asks for at once where it needs one: those that
	// share a transaction. letGo lets all go that were asked for.
	together() int
	letGo(ctx context.Context, t *town) error

	// pool has what the service sends wait before it is mined, or go on.
	pool(t *town, waits bool)
	// instead mines a transaction that waits, and not the other one in its slot.
	instead(ctx context.Context, raw []byte, other string) error
	// fork puts another block in the place of the newest, which has these transactions alone;
	// what the one before had is in none until it is sent again or waits again.
	fork(ctx context.Context, with ...[]byte) error
	// raw are the bytes of a transaction in a block, and again sends them again.
	raw(ctx context.Context, tx string) ([]byte, error)
	again(ctx context.Context, raw []byte) error

	// sends is the method that a transaction is sent with, and id the answer to it: what
	// identifies the transaction, of which text is the first parameter.
	sends() string
	id(text string) (string, error)
	// ran does what a chain would have done with a transaction that the node took, as far as
	// the node does not; nobody has heard yet that it was taken.
	ran(ctx context.Context, text string) error
	// spoil makes the answer to a question nonsense, if it is a block with something for an
	// address in it.
	spoil(method string, answer []byte, address string) (json.RawMessage, bool)

	// truth is the oracle, which reads from now on.
	truth() truth
	// topUp is coin for fees that the operator adds where it is that of the town's mint,
	// and beside what our addresses have of the mint that no customer brought, as the
	// oracle says that has walked.
	topUp(ctx context.Context, t *town) error
	beside(ours map[string]bool) *big.Int
	// agrees compares what is kept of a chain beside the books with the oracle that has
	// walked.
	agrees(ctx context.Context, t *town, ours map[string]bool) error
}

// plain is a chain whose fees are not paid in the town's mint, and where each payment has
// a transaction of its own.
type plain struct{}

func (plain) together() int                                        { return 1 }
func (plain) letGo(context.Context, *town) error                   { return nil }
func (plain) topUp(context.Context, *town) error                   { return nil }
func (plain) beside(map[string]bool) *big.Int                      { return new(big.Int) }
func (plain) ran(context.Context, string) error                    { return nil }
func (plain) agrees(context.Context, *town, map[string]bool) error { return nil }

func (plain) pay(ctx context.Context, t *town, to string, units *big.Int) (string, error) {
	return t.world.Info.Pay(ctx, t.mint, to, units)
}

// stranger is somebody who pays from an account of their own.
type stranger struct {
	address string
	pay     func(ctx context.Context, token, to string, units *big.Int) (tx string, err error)
}

// truth is what an oracle is asked.
type truth interface {
	Walk(ctx context.Context) (height uint64, err error)
	Judge(claims []oracle.Claim, ours map[string]bool) (wrong []string)
	// Holds is asked at the height that Walk stands at.
	Holds(ctx context.Context, asset, holder string, height uint64) (*big.Int, error)
}

// site is a chain that points are played on.
type site struct {
	chain    chain.Name
	mint     string // the symbol of what is paid
	rich     int64  // units of it that the payments are made from
	open     func(w *localworld.World) network
	families string            // the letters of the points that are played there
	without  map[string]string // those of them that are not, and why
	other    map[string]point  // those that are played in another way there
}

// sites are all of them, in the order of the table. What belongs to no chain, such as an
// approval or a webhook, is played on the first alone.
var sites = []site{
	{chain: chain.Ethereum, mint: "USDC", rich: 1_000_000_000_000, open: openEthereum, families: "WQADFTVSKO"},
	{chain: chain.Solana, mint: "USDC", rich: 1_000_000_000_000, open: openSolana, families: "WDVS", without: map[string]string{
		"V07": "no flagged deposit is played there",
		"W25": "surfpool has no forks; internal/chain/solana plays them against a node of its own making",
		"D12": "surfpool has no forks", "D13": "surfpool has no forks",
		"S02": "the treasury pays for what is swept: there are no top-ups", "S03": "there are no top-ups", "S07": "it stands where a top-up ends",
	}},
	{
		chain: chain.Bitcoin, mint: "BTC", rich: 1_000_000_000, open: openBitcoin, families: "WDFVS",
		without: map[string]string{
			"S01": noSweeps, "S02": noSweeps, "S03": noSweeps, "S04": noSweeps, "S05": noSweeps, "S06": noSweeps, "S05b": noSweeps, "S06b": noSweeps,
			"S07": noSweeps, "S09": noSweeps, "F10": noSweeps,
			"F03": "a return needs no gas at its address: the treasury's coins pay for it",
			"F06": "nobody can refuse a payment there",
		},
		other: map[string]point{
			"W28": {what: "cancel final, before the release", play: taken, via: "W26"},
			"W29": {what: "release's commit: answer lost", play: taken},
			"F11": {what: "cancel of a return final, before the books", play: cancelledReturn, via: "W26"},
		},
	},
}

const noSweeps = "nothing is swept there: what is credited pays from the address where it is"

// as is a point as it is played there.
func (s site) as(p point) point {
	if o, is := s.other[p.name]; is {
		p.what, p.play, p.via = o.what, o.play, o.via
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

// plays tells whether a point is played there.
func (s site) plays(p point) bool {
	return strings.Contains(s.families, p.name[:1]) && s.without[p.name] == ""
}
