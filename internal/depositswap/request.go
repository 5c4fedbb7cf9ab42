package depositswap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/turn"
	"github.com/cofferpay/coffer/internal/wallet"
)

// idPrefix begins the ids of deposit swaps.
const idPrefix = "ds"

// ID returns the id of the deposit swap of an idempotency key. A request that is repeated after a crash, or
// against a restored database, therefore finds the same wallet, and what arrived there.
func ID(orgID, key string) string { return id.Derive(idPrefix, orgID, key) }

func keyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Differs reports whether a request has other parameters than the one that made the deposit swap. The e-mail is
// no parameter.
func (d DepositSwap) Differs(r Request) bool { return string(d.stored.digest) != string(r.digest()) }

// digest hashes every parameter that makes a request another deposit swap.
func (r Request) digest() []byte {
	parts := []string{"coffer-deposit-swap-1", r.CustomerID, r.OriginTokenID, r.RefundAddress}
	if r.AmountIn != nil {
		amount := *r.AmountIn
		if parsedAmount, err := money.Parse(amount); err == nil {
			amount = parsedAmount.String()
		}
		parts = append(parts, "amountIn", amount)
	}
	return request.Digest(parts...)
}

// FindByKey returns the deposit swap of an idempotency key. Whatever a repeated request contains, its deposit swap
// is the answer. Rule DSW-4.
func (s *Service) FindByKey(ctx context.Context, orgID, key string) (d DepositSwap, isKnown bool, err error) {
	if !request.IsKey(key) {
		return d, false, nil
	}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		d, isKnown, err = loadByKey(ctx, tx, orgID, key)
		return err
	})
	if err != nil || !isKnown {
		return DepositSwap{}, false, err
	}
	if err := s.verify(ctx, &d); err != nil {
		return DepositSwap{}, false, err
	}
	return d, true, nil
}

func loadByKey(ctx context.Context, tx pg.Tx, orgID, key string) (d DepositSwap, isKnown bool, err error) {
	rows, err := tx.Query(ctx, selectDepositSwaps+` WHERE s.org_id = $1 AND `+pg.ByKey("s.key_hash", "$2"), orgID,
		keyHash(key))
	if err != nil {
		return d, false, fmt.Errorf("look up a deposit swap by its key: %w", err)
	}
	d, err = pgx.CollectExactlyOneRow(rows, scanDepositSwap)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return DepositSwap{}, false, nil
	case err != nil:
		return DepositSwap{}, false, fmt.Errorf("look up a deposit swap by its key: %w", err)
	}
	return d, true, nil
}

// Request makes a deposit swap: it takes an offer of the best provider to a wallet of its own. isReplayed is true
// when the key was known; d is then the deposit swap as it is now. isEmailIgnored says that the customer keeps
// another e-mail. After a fault, other than one that says "not now", no deposit swap was written: with a key by no
// caller. After any other error it may exist or not, and the same request resolves that if it has a key. Rules DSW-3
// and DSW-4.
func (s *Service) Request(
	ctx context.Context, orgID string, r Request,
) (d DepositSwap, isReplayed, isEmailIgnored bool, err error) {
	if r.IdempotencyKey == nil {
		d, isEmailIgnored, err = s.create(ctx, orgID, id.New(idPrefix, s.DB.Clock()()), r, nil)
		if err == nil {
			err = s.verify(ctx, &d)
		}
		if err != nil {
			return DepositSwap{}, false, false, err
		}
		return d, false, isEmailIgnored, nil
	}
	key := *r.IdempotencyKey
	if !request.IsKey(key) {
		return d, false, false, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"idempotencyKey has to be 1 to %d printable ASCII characters without a space.", request.KeyBytesMax).
			WithAdvice("Send one key for each deposit swap that you intend.").WithParam("idempotencyKey")
	}
	queue := turn.Queue{DB: s.DB, Gate: &s.gate, Hold: s.TurnHold, Noun: "deposit swap", Log: s.Log}
	d, isReplayed, err = turn.MakeOnce(ctx, queue, orgID, ID(orgID, key),
		func(ctx context.Context, tx pg.Tx) (DepositSwap, bool, error) { return loadByKey(ctx, tx, orgID, key) },
		func(ctx context.Context, t turn.Turn) (created DepositSwap, err error) {
			created, isEmailIgnored, err = s.create(ctx, orgID, ID(orgID, key), r, &t)
			return created, err
		})
	if err == nil {
		// Whichever caller made it, every reader checks it.
		err = s.verify(ctx, &d)
	}
	if err != nil {
		return DepositSwap{}, false, false, err
	}
	return d, isReplayed, isEmailIgnored && !isReplayed, nil
}

// create makes a deposit swap, in the turn of its key if it has one. Nothing but a wallet and an address at a provider
// that is never shown exists before its one transaction.
func (s *Service) create(
	ctx context.Context, orgID, depositSwapID string, r Request, t *turn.Turn,
) (created DepositSwap, isEmailIgnored bool, err error) {
	if r.Limit != nil {
		if err := r.Limit(); err != nil {
			return created, false, err
		}
	}
	if err := s.checkOrganization(ctx, orgID); err != nil {
		return created, false, err
	}
	if err := s.checkCustomer(ctx, orgID, r); err != nil {
		return created, false, err
	}
	p, err := s.parseQuestion(ctx, r.OriginTokenID, r.AmountIn)
	if err != nil {
		return created, false, err
	}
	refundTo, err := s.parseRefundAddress(ctx, p.asset.Chain, r.RefundAddress)
	if err != nil {
		return created, false, err
	}
	recipient, err := s.dryRecipient(ctx, orgID, p.delivered.Chain)
	if err != nil {
		return created, false, err
	}
	offers, err := s.compareFor(ctx, p, recipient, refundTo)
	if err != nil {
		return created, false, err
	}
	w, err := s.Wallets.Address(ctx, walletRef(orgID, depositSwapID, p.delivered.Chain))
	if err != nil {
		return created, false, fmt.Errorf("wallet of deposit swap %s: %w", depositSwapID, err)
	}
	return s.makeOfOffers(ctx, offers, draft{
		orgID: orgID, id: depositSwapID, request: r, turn: t, parsed: p, wallet: w, refundTo: refundTo,
	})
}

// draft is what a deposit swap is written from, besides an offer.
type draft struct {
	orgID, id string
	request   Request
	turn      *turn.Turn // nil: the request has no key
	parsed    parsed
	wallet    wallet.Wallet
	refundTo  chain.Address
}

// makeOfOffers makes a deposit swap of the first offer whose firm quote can be taken.
func (s *Service) makeOfOffers(
	ctx context.Context, offers []provider.Offer, d draft,
) (created DepositSwap, isEmailIgnored bool, err error) {
	var refusal error
	for len(offers) > 0 {
		offer, err := s.takeOffer(ctx, d.parsed, offers, d.wallet, d.refundTo, d.id)
		if err != nil {
			return DepositSwap{}, false, s.chooseRefusal(ctx, refusal, err)
		}
		created, isEmailIgnored, err = s.commit(ctx, d, offer)
		switch {
		case err == nil:
			failpoint.Hit("Q25")
			return created, isEmailIgnored, nil
		case isAddressTaken(err):
			// The provider gave the address to another one, which was written since it was checked.
			err = s.rejectAddress(ctx, offer, d.id, addressOfAnother)
		case !errors.Is(err, errSuspended):
			return DepositSwap{}, false, fmt.Errorf("create deposit swap %s: %w", d.id, err)
		}
		s.Log.WarnContext(ctx, "depositswap: an offer is not taken", "depositSwap", d.id, "provider", offer.Provider,
			"error", err)
		refusal = s.chooseRefusal(ctx, refusal, err)
		i := slices.IndexFunc(offers, func(o provider.Offer) bool { return o.Provider == offer.Provider })
		offers = offers[i+1:]
	}
	return DepositSwap{}, false, refusal
}

// isAddressTaken reports whether a deposit swap was not written because its provider gave the address to another one.
func isAddressTaken(err error) bool {
	return pg.ViolatesConstraint(err, "deposit_swaps_deposit_address_once")
}

// errSuspended says that a provider was suspended after its firm quote. It counts as one that cannot be asked now.
var errSuspended = fmt.Errorf("%w: it was suspended meanwhile", provider.ErrUnavailable)

// checkSuspended looks in the transaction that writes a deposit swap whether its provider was suspended since the firm
// quote. It locks nothing: a suspension that commits between this look and the commit of the deposit swap counts for
// the next one. Error: errSuspended. Rule SWAP-28.
func checkSuspended(ctx context.Context, tx pg.Tx, name string) error {
	var isSuspended bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM swap_providers WHERE provider = $1 AND state = 'SUSPENDED')`, name).
		Scan(&isSuspended)
	switch {
	case err != nil:
		return fmt.Errorf("look whether swap provider %s is suspended: %w", name, err)
	case isSuspended:
		return errSuspended
	}
	return nil
}

// commit writes a deposit swap with its customer, in one transaction.
func (s *Service) commit(
	ctx context.Context, d draft, offer provider.Offer,
) (created DepositSwap, isEmailIgnored bool, err error) {
	err = s.DB.InOrg(ctx, d.orgID, func(ctx context.Context, tx pg.Tx) error {
		if err := freeze.LockShared(ctx, tx); err != nil {
			return err
		}
		if err := checkFrozen(ctx, tx, d.orgID, d.request.CustomerID); err != nil {
			return err
		}
		if err := checkSuspended(ctx, tx, offer.Provider); err != nil {
			return err
		}
		if d.turn != nil {
			if err := d.turn.End(ctx, tx); err != nil {
				return err
			}
		}
		if isEmailIgnored, err = ensureCustomer(ctx, tx, d.orgID, d.request); err != nil {
			return err
		}
		if created, err = s.write(ctx, tx, d, offer); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("Q25")
		return nil
	})
	return created, isEmailIgnored, err
}

func walletRef(orgID, depositSwapID string, destination chain.Name) signer.WalletRef {
	return signer.WalletRef{
		OrgID: orgID, Family: destination.Family(), Purpose: wallet.DepositSwap, Subject: depositSwapID,
	}
}

// checkOrganization refuses every call while the organization is frozen. Error: fault ORGANIZATION_FROZEN.
func (s *Service) checkOrganization(ctx context.Context, orgID string) error {
	return s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return checkFrozen(ctx, tx, orgID, "")
	})
}

// checkCustomer checks what a request says of its customer. A freeze is checked again with the row.
func (s *Service) checkCustomer(ctx context.Context, orgID string, r Request) error {
	if err := customer.CheckID(r.CustomerID); err != nil {
		return err
	}
	if r.CustomerEmail != nil {
		if err := customer.CheckEmail(*r.CustomerEmail); err != nil {
			return err
		}
	}
	return s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		if err := checkFrozen(ctx, tx, orgID, r.CustomerID); err != nil {
			return err
		}
		return checkNewCustomer(ctx, tx, orgID, r.CustomerID)
	})
}

// checkNewCustomer refuses an id that no new customer may have.
func checkNewCustomer(ctx context.Context, tx pg.Tx, orgID, customerID string) error {
	invalid := customer.CheckNewID(customerID)
	if invalid == nil {
		return nil
	}
	_, err := customer.ByID(ctx, tx, orgID, customerID)
	if fault.HasCode(err, fault.CodeNotFound) {
		return invalid
	}
	return err
}

// ensureCustomer makes the customer, and writes the e-mail only if there is none.
func ensureCustomer(ctx context.Context, tx pg.Tx, orgID string, r Request) (isEmailIgnored bool, err error) {
	if err := checkNewCustomer(ctx, tx, orgID, r.CustomerID); err != nil {
		return false, err
	}
	email := ""
	if r.CustomerEmail != nil {
		email = *r.CustomerEmail
	}
	_, isEmailIgnored, err = customer.EnsureBy(ctx, tx, orgID, r.CustomerID, email, r.Actor, !r.UntrustedEmail)
	return isEmailIgnored, err
}

// checkFrozen refuses a new deposit swap of a frozen customer or organization. What arrives for an earlier one is
// credited as before.
func checkFrozen(ctx context.Context, tx pg.Tx, orgID, customerID string) error {
	active, err := freeze.Active(ctx, tx, freeze.Target{OrgID: orgID, CustomerID: customerID})
	switch {
	case err != nil:
		return err
	case active == nil:
		return nil
	case active.Scope == freeze.ScopeCustomer:
		return fault.New(fault.Forbidden, fault.CustomerFrozen, fault.NothingHeld,
			"This customer is frozen, so no deposit swap is made.").
			WithAdvice("The party that froze the customer has to lift the freeze first.").WithParam("customerId")
	case active.Scope == freeze.ScopeOrganization:
		return fault.New(fault.Forbidden, fault.OrganizationFrozen, fault.NothingHeld,
			"Your organization is frozen, so no deposit swap is made.").
			WithAdvice("Ask the operator of this service.")
	}
	return nil
}

// refundBytesMax bounds a refund address of a chain whose form the service does not know.
const refundBytesMax = 200

// parseRefundAddress checks where a refund goes. Of a chain whose form the service knows it returns the canonical
// form. Errors: faults INVALID_ADDRESS, DESTINATION_NOT_ALLOWED. Rule DSW-3.
func (s *Service) parseRefundAddress(ctx context.Context, name chain.Name, text string) (chain.Address, error) {
	explain := func(f *fault.Fault) error {
		return f.WithAdvice("Give an address of the payer, to which the provider can return what it does not swap.").
			WithParam("refundAddress")
	}
	refuse := func(format string, args ...any) error {
		return explain(fault.New(fault.Invalid, fault.InvalidAddress, fault.NothingHeld, format, args...))
	}
	isPlain := text != "" && len(text) <= refundBytesMax && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	})
	if !isPlain {
		return "", refuse("refundAddress is no address: it has to be 1 to %d printable ASCII characters without a "+
			"space, a quotation mark or a backslash.", refundBytesMax)
	}
	refundTo := chain.Address(text)
	if codec := s.codecFor(name); codec != nil {
		var err error
		if refundTo, err = codec.Parse(text); err != nil {
			return "", refuse("refundAddress is no address on %s.", name)
		}
		if codec.IsUnspendable(refundTo) {
			return "", refuse("No one can spend from refundAddress.")
		}
	}
	isOwn, err := s.isOwnAddress(ctx, text)
	if err != nil {
		return "", err
	}
	if isOwn {
		return "", explain(fault.New(fault.Unprocessable, fault.DestinationNotAllowed, fault.NothingHeld,
			"refundAddress is an address of this service, so a refund would count as a deposit."))
	}
	return refundTo, nil
}

// write inserts the row. It does not show the address: the caller verifies the row like every reader.
func (s *Service) write(
	ctx context.Context, tx pg.Tx, d draft, offer provider.Offer,
) (DepositSwap, error) {
	q, r, p := offer.Signed, d.request, d.parsed
	made := DepositSwap{
		ID: d.id, OrgID: d.orgID, CustomerID: r.CustomerID, Token: newToken(p.asset), To: p.delivered,
		DepositAddress: q.DepositAddress, AmountIn: p.amountIn, RefundAddress: string(d.refundTo),
		Provider: offer.Provider, stored: stored{
			wallet: d.wallet, signedQuote: offer.Raw, originAsset: q.OriginAsset, destinationAsset: q.DestinationAsset,
		},
	}
	var hash *string
	if r.IdempotencyKey != nil {
		text := keyHash(*r.IdempotencyKey)
		hash = &text
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO deposit_swaps (deposit_swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest,
			origin_chain, origin_contract, origin_symbol, origin_decimals, to_mint_id, to_chain, amount_in,
			estimated_out, min_out, refund_address, wallet_id, provider, scheme, deposit_address, signed_quote,
			origin_asset, destination_asset, expires_at, mac, status, look_at, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
			$23, $24, $25, $26, $27, $27, $27)`,
		d.id, d.orgID, r.CustomerID, r.IdempotencyKey, hash, r.digest(), p.asset.Chain, p.asset.Contract,
		p.asset.Symbol, p.asset.Decimals, p.delivered.ID, p.delivered.Chain, p.amountIn, offer.AmountOut,
		offer.MinAmountOut, d.refundTo, d.wallet.ID, offer.Provider, string(q.Scheme), q.DepositAddress, offer.Raw,
		q.OriginAsset, q.DestinationAsset, q.Deadline, s.GrantKey.DepositSwapMAC(made.terms()), AwaitingDeposit, tx.Now)
	if err != nil {
		return DepositSwap{}, fmt.Errorf("insert deposit swap %s: %w", d.id, err)
	}
	if made, err = load(ctx, tx, d.id); err != nil {
		return DepositSwap{}, err
	}
	requester := r.Actor
	if requester == (audit.Actor{}) {
		requester = audit.APIKey(d.orgID)
	}
	return made, audit.Record(ctx, tx, newEntry(made, requester, "requested", map[string]any{
		"provider": offer.Provider, "originTokenId": made.Token.ID, "depositAddress": q.DepositAddress,
		"refundAddress": d.refundTo, "estimatedOut": offer.AmountOut, "minOut": offer.MinAmountOut,
	}))
}
