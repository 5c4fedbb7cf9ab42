package swap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/policy"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/swap/turn"
)

// Request is a swap as the caller asks for it.
type Request struct {
	IdempotencyKey string
	CustomerID     string
	CustomerEmail  *string // checked and never written: an unknown customer has no balance
	FromMintID     int
	ToMintID       int
	AmountIn       string  // atomic units of the source mint
	MinAmountOut   *string // atomic units of the destination mint: the least that the caller accepts
	SlippageBps    *int
	Metadata       map[string]string
	Actor          audit.Actor // who asks, for the audit log
	// Limit, unless nil, is called once the key is known to be new, before anything else can refuse
	// the request.
	Limit func() error
}

// parsed holds the values of a request that follow its form.
type parsed struct {
	from, to    mint.Mint
	amountIn    money.Amount
	minOut      money.Amount // zero: the caller names none
	slippageBps int
}

// The prefixes of the ids of swaps, by kind.
const (
	customerPrefix     = "cs"
	organizationPrefix = "os"
)

// ID returns the id of the swap of an idempotency key. A request that is repeated after a crash, or
// against a restored database, therefore finds the same wallets.
func ID(org, key string) string { return id.Derive(customerPrefix, org, key) }

// keyHash returns the hash by which a row and the signer's journal know a key.
func keyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// FindByKey returns the swap of an idempotency key. Whatever a repeated request contains, its swap is
// the answer. Rule SWAP-1.
func (s *Service) FindByKey(ctx context.Context, org, key string) (w Swap, isKnown bool, err error) {
	if !request.IsKey(key) {
		return w, false, nil
	}
	return s.findByHash(ctx, org, keyHash(key))
}

func (s *Service) findByHash(ctx context.Context, org, hash string) (w Swap, isKnown bool, err error) {
	err = s.DB.ReadOrgBatch(ctx, org, func(b *pgx.Batch) {
		b.Queue(selectIsKnown, org, hash).QueryRow(func(row pgx.Row) error { return row.Scan(&isKnown) })
	})
	if err != nil {
		return w, false, fmt.Errorf("look up a swap by its key: %w", err)
	}
	if !isKnown {
		return w, false, nil
	}
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		w, isKnown, err = loadByKey(ctx, tx, org, hash)
		return err
	})
	return w, isKnown, err
}

// selectIsKnown asks whether a key has a swap. Most keys are new, and a swap itself takes much longer to read.
// Only the key's index provides this order. On small tables any index that begins with the organization looks as
// good, and a session keeps its plans.
const selectIsKnown = `
	SELECT coalesce((SELECT key_hash FROM swaps WHERE org_id = $1 AND key_hash >= $2
		ORDER BY key_hash LIMIT 1) = $2, false)`

// loadByKey looks a swap up by the hash of its key.
func loadByKey(ctx context.Context, tx pg.Tx, org, hash string) (w Swap, isKnown bool, err error) {
	err = tx.QueryRow(ctx, selectIsKnown, org, hash).Scan(&isKnown)
	if err == nil && !isKnown {
		return w, false, nil
	}
	if err == nil {
		var rows pgx.Rows
		if rows, err = tx.Query(ctx, selectSwaps+` WHERE s.org_id = $1 AND `+pg.ByKey("s.key_hash", "$2"), org,
			hash); err == nil {
			w, err = pgx.CollectExactlyOneRow(rows, scanSwap(tx.Now))
		}
	}
	if err != nil {
		return Swap{}, false, fmt.Errorf("look up a swap by its key: %w", err)
	}
	return w, true, nil
}

// Differs reports whether a request has other parameters than the one that made the swap. E-mail and
// metadata are no parameters. A swap that was restored from the journal is never said to differ.
func (w Swap) Differs(r Request) bool {
	return w.digest != nil && string(w.digest) != string(r.digest())
}

// canonicalAmount writes an amount as all equal amounts are written, and leaves any other text.
func canonicalAmount(text string) string {
	if a, err := money.Parse(text); err == nil {
		return a.String()
	}
	return text
}

// digest hashes every parameter that makes a request another swap.
func (r Request) digest() []byte {
	parts := []string{
		"coffer-swap-1", r.CustomerID, strconv.Itoa(r.FromMintID), strconv.Itoa(r.ToMintID),
		canonicalAmount(r.AmountIn),
	}
	if r.MinAmountOut != nil {
		parts = append(parts, "minAmountOut", canonicalAmount(*r.MinAmountOut))
	}
	slippage := slippageBpsDefault
	if r.SlippageBps != nil {
		slippage = *r.SlippageBps
	}
	return request.Digest(append(parts, "slippageBps", strconv.Itoa(slippage))...)
}

// CheckEnabled refuses every call while customer swaps are switched off, and while the organization is
// frozen. Errors: faults SWAPS_DISABLED, ORGANIZATION_FROZEN. Rule SWAP-2.
func (s *Service) CheckEnabled(ctx context.Context, orgID string) error {
	return s.checkSwitch(ctx, orgID, checkEnabled)
}

// checkSwitch refuses every call while a switch is off, and while the organization is frozen.
func (s *Service) checkSwitch(ctx context.Context, orgID string, check func(org.Settings) error) error {
	var f facts
	err := s.DB.ReadOrgBatch(ctx, orgID, func(b *pgx.Batch) {
		f = facts{
			orgID: orgID, settings: org.QueueSettings(b, orgID), freezes: freeze.QueueLook(b, orgID, []string{}),
		}
	})
	if err != nil {
		return err
	}
	settings, err := f.loadSettings()
	if err != nil {
		return err
	}
	if err := check(settings); err != nil {
		return err
	}
	return f.checkFrozen()
}

func checkEnabled(settings org.Settings) error {
	if !settings.CustomerSwapsEnabled {
		return fault.New(fault.Forbidden, fault.SwapsDisabled, fault.NothingHeld,
			"Customer swaps are not enabled for your organization.").
			WithAdvice("Ask the operator of this service to switch them on.")
	}
	return nil
}

// Request makes a swap: it takes an offer of the best provider, holds the amount and submits the
// payment. isReplayed is true when the key was known; w is then the swap as it is now. After a fault
// nothing was written. After any other error the swap may exist or not, and the same request resolves
// that. Rules SWAP-1 and SWAP-4.
func (s *Service) Request(ctx context.Context, orgID string, r Request) (w Swap, isReplayed bool, err error) {
	var f facts
	return s.requestOnce(ctx, orgID, r.IdempotencyKey, keyHash(r.IdempotencyKey), customerPrefix,
		func(b *pgx.Batch) { f = queueCustomerFacts(b, orgID, r) },
		func(ctx context.Context, t turn.Turn) (Swap, error) { return s.create(ctx, orgID, r, t, f) })
}

// requestOnce makes the swap of a key, unless the key has one. hash is what a row has of the key, and prefix
// begins its id: both depend on the kind. queueReads queues what create reads first.
func (s *Service) requestOnce(
	ctx context.Context, orgID, key, hash, prefix string, queueReads func(*pgx.Batch),
	create func(context.Context, turn.Turn) (Swap, error),
) (w Swap, isReplayed bool, err error) {
	if !request.IsKey(key) {
		return w, false, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"idempotencyKey is needed: 1 to %d printable ASCII characters without a space.", request.KeyBytesMax).
			WithAdvice("Send one key for each swap that you intend.").WithParam("idempotencyKey")
	}
	queue := turn.Queue{
		DB: s.DB, Gate: &s.gate, Hold: s.conf.TurnHold, Noun: "swap", Log: s.Log, QueueReads: queueReads,
	}
	return turn.MakeOnce(ctx, queue, orgID, id.Derive(prefix, orgID, key),
		func(ctx context.Context, tx pg.Tx) (Swap, bool, error) { return loadByKey(ctx, tx, orgID, hash) },
		func(ctx context.Context, t turn.Turn) (Swap, error) {
			failpoint.Hit("Q01")
			return create(ctx, t)
		})
}

// parse checks the form of a request and the rules about its pair, in the order of the interface. It
// is pure but for the state of the chains. Rule SWAP-4.
func (s *Service) parse(r Request, mints mint.Catalogue, settings org.Settings) (p parsed, err error) {
	if err := checkCustomer(r.CustomerID, r.CustomerEmail); err != nil {
		return p, err
	}
	if err := request.CheckMetadata(r.Metadata, fault.NothingHeld); err != nil {
		return p, err
	}
	return s.parsePair(r.FromMintID, r.ToMintID, r.AmountIn, r.MinAmountOut, r.SlippageBps, mints, settings)
}

func checkCustomer(customerID string, email *string) error {
	if err := customer.CheckID(customerID); err != nil {
		return err
	}
	if email != nil {
		return customer.CheckEmail(*email)
	}
	return nil
}

func (s *Service) parsePair(
	fromID, toID int, amountIn string, minOut *string, slippageBps *int, mints mint.Catalogue, settings org.Settings,
) (p parsed, err error) {
	p.slippageBps = slippageBpsDefault
	if slippageBps != nil {
		if p.slippageBps = *slippageBps; p.slippageBps < 1 || p.slippageBps > slippageBpsMax {
			return p, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
				"slippageBps has to be between 1 and %d basis points.", slippageBpsMax).WithParam("slippageBps")
		}
	}
	if p.from, err = parseMint(fromID, "fromMintId", mints); err != nil {
		return p, err
	}
	if p.to, err = parseMint(toID, "toMintId", mints); err != nil {
		return p, err
	}
	if err = s.checkPair(p.from, p.to, settings); err != nil {
		return p, err
	}
	if p.amountIn, err = parseAmount(amountIn, "amountIn", p.from); err != nil {
		return p, err
	}
	if minOut != nil {
		p.minOut, err = parseAmount(*minOut, "minAmountOut", p.to)
	}
	return p, err
}

func parseMint(mintID int, param string, mints mint.Catalogue) (mint.Mint, error) {
	m, ok := mints.ByID(mintID)
	if !ok {
		return m, request.NewUnknownMint(mintID, fault.NothingHeld).WithParam(param)
	}
	return m, nil
}

func parseAmount(text, param string, m mint.Mint) (money.Amount, error) {
	a, err := request.ParseAmount(text, false, m, fault.NothingHeld)
	if f := fault.Find(err); f != nil {
		return a, f.WithParam(param)
	}
	return a, err
}

// checkFrozen refuses a swap of a frozen customer or organization.
func checkFrozen(ctx context.Context, tx pg.Tx, orgID, customerID string) error {
	target := freeze.Target{OrgID: orgID}
	if customer.CheckID(customerID) == nil {
		target.CustomerID = customerID
	}
	active, err := freeze.Active(ctx, tx, target)
	if err != nil {
		return err
	}
	if refusal := policy.CheckFrozen(active, "customerId", fault.NothingHeld); refusal != nil {
		return refusal
	}
	return nil
}

// checkStopped refuses a swap while nothing may leave the balances of its mint.
func checkStopped(ctx context.Context, tx pg.Tx, orgID, customerID string, source mint.Mint) error {
	active, err := freeze.Active(ctx, tx, freeze.Target{OrgID: orgID, CustomerID: customerID, Chain: source.Chain})
	if err != nil {
		return err
	}
	return refuseStopped(active, source)
}

func newInsufficient(m mint.Mint) error {
	return fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingHeld,
		"The customer has less %s available than amountIn.", m.Symbol).
		WithStep(fault.LookAtCustomerBalances).WithParam("amountIn")
}
