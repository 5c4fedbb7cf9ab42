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
	// holds is what an address has of a token, as the node says.
	holds(ctx context.Context, token, who string) (*big.Int, error)
	// refuse has the token refuse every payment to an address from now on.
	refuse(ctx context.Context, token, who string) error

	// pool has what the service sends wait before it is mined, or go on.
	pool(t *town, waits bool)
	// instead mines a transaction that waits, and not the other one in its slot.
	instead(ctx context.Context, raw []byte, other string) error

	// sends is the method that a transaction is sent with, and id the answer to it: what
	// identifies the transaction, of which text is the first parameter.
	sends() string
	id(text string) (string, error)
	// spoil makes the answer to a question nonsense, if it is a block with something for an
	// address in it.
	spoil(method string, answer []byte, address string) (json.RawMessage, bool)

	// truth is the oracle, which reads from now on.
	truth() truth
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
	open     func(w *localworld.World) network
	families string            // the letters of the points that are played there
	without  map[string]string // those of them that are not, and why
}

// sites are all of them, in the order of the table. What belongs to no chain, such as an
// approval or a webhook, is played on the first alone.
var sites = []site{
	{chain: chain.Ethereum, open: openEthereum, families: "WADFTSKO"},
	{chain: chain.Solana, open: openSolana, families: "WDS", without: map[string]string{
		"W25": "surfpool has no forks; internal/chain/solana plays them against a node of its own making",
		"W28": "surfpool leaves the nonce of a transaction that failed as it was, which a real chain advances: such a place never counts as used there; chaintest has what fails",
		"W29": "as W28",
		"D12": "surfpool has no forks", "D13": "surfpool has no forks",
		"S02": "the treasury pays for what is swept: there are no top-ups", "S03": "there are no top-ups", "S07": "it stands where a top-up ends",
	}},
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
