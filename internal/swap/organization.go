package swap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/turn"
)

// Kind says whose balance a swap converts.
type Kind string

// The kinds.
const (
	CustomerSwap     Kind = "CUSTOMER"     // of a customer; the output is credited to it
	OrganizationSwap Kind = "ORGANIZATION" // of a product; the output is paid to an entry of the whitelist
)

// Times and bounds of organizations' swaps.
const (
	// approvalWindow is how long after its creation a swap can be approved, and payoutWindow until when
	// its approvals cover the payment of its output.
	approvalWindow = 24 * time.Hour
	payoutWindow   = 48 * time.Hour
	// payoutMaxBps is the most that its approvals let go, in basis points of the estimate.
	payoutMaxBps = 11_000
)

// OrganizationQuoteRequest asks what a swap of the organization's own money would bring.
type OrganizationQuoteRequest struct {
	Product     string // whose balance would pay; "" for none in particular
	FromMintID  int
	ToMintID    int
	AmountIn    string
	SlippageBps *int
}

// OrganizationRequest is a swap of the organization's own money as the caller asks for it.
type OrganizationRequest struct {
	IdempotencyKey       string
	Product              string // CUSTODIAL, CHECKOUT or BATCH_PAYOUT: whose balance pays; "" means CUSTODIAL
	FromMintID           int
	ToMintID             int
	AmountIn             string  // atomic units of the source mint
	MinAmountOut         *string // atomic units of the destination mint: the least that the caller accepts
	SlippageBps          *int
	WhitelistedAddressID string         // the whitelist entry that the output is paid to
	Person               *member.Member // who asks; nil: a program with an API key
	Actor                audit.Actor    // who asks, for the audit log and the approvals
	// Limit, unless nil, is called once the key is known to be new, before anything else can refuse
	// the request.
	Limit func() error
}

// parsedOrganization holds the values of a request that follow its form.
type parsedOrganization struct {
	parsed
	product string
	entry   WhitelistEntry
}

// organizationKeyHash returns the hash by which a row and the signer's journal know a key of an
// organization's swap. No key has a space, so no customer's swap has the same hash.
func organizationKeyHash(key string) string { return keyHash("ORGANIZATION " + key) }

// OrganizationID returns the id of the organization's swap of an idempotency key, like ID.
func OrganizationID(org, key string) string { return id.Derive(organizationPrefix, org, key) }

// ApprovableUntil returns until when the swap can be approved, or nil if it does not wait for approval.
func (w Swap) ApprovableUntil() *time.Time {
	if w.Status != AwaitingApproval {
		return nil
	}
	end := w.CreatedAt.Add(approvalWindow)
	return &end
}

// payout returns what people approve of an organization's swap: the swap and the payment of its output.
func (w Swap) payout() signer.SwapPayout {
	p := signer.SwapPayout{
		OrgID: w.OrgID, SwapID: w.ID, Product: w.Product, FromMintID: w.From.ID, ToMintID: w.To.ID,
		AmountIn: w.AmountIn, MinOut: w.MinOut, WhitelistedID: w.WhitelistedID, To: w.PayoutAddress,
	}
	if w.PayoutMax != nil && w.PayoutUntil != nil {
		p.MaxOut, p.NotAfter = *w.PayoutMax, signer.FormatMicros(*w.PayoutUntil)
	}
	return p
}

// CheckOrganizationEnabled refuses every call while swaps of the organization's own money are switched
// off, and while the organization is frozen. Errors: faults ORGANIZATION_SWAPS_DISABLED,
// ORGANIZATION_FROZEN.
func (s *Service) CheckOrganizationEnabled(ctx context.Context, orgID string) error {
	return s.checkSwitch(ctx, orgID, checkOrganizationEnabled)
}

func checkOrganizationEnabled(settings org.Settings) error {
	if !settings.OrganizationSwapsEnabled {
		return fault.New(fault.Forbidden, fault.OrgSwapsDisabled, fault.NothingHeld,
			"Swaps of your organization's own money are not enabled.").
			WithAdvice("Ask the operator of this service to switch them on.")
	}
	return nil
}

// QuoteOrganization returns the best offer for a swap of the organization's own money. It writes nothing.
// Errors: the faults of RequestOrganization that do not depend on a balance or on the whitelist.
func (s *Service) QuoteOrganization(
	ctx context.Context, orgID string, r OrganizationQuoteRequest,
) (Quote, error) {
	var f facts
	err := s.DB.ReadOrgBatch(ctx, orgID, func(b *pgx.Batch) {
		f = queueFacts(b, orgID, "", r.FromMintID, r.ToMintID)
	})
	if err != nil {
		return Quote{}, err
	}
	settings, err := f.loadSettings()
	if err != nil {
		return Quote{}, err
	}
	if err := checkOrganizationEnabled(settings); err != nil {
		return Quote{}, err
	}
	if err := f.checkFrozen(); err != nil {
		return Quote{}, err
	}
	if r.Product != "" {
		if err := checkProduct(r.Product); err != nil {
			return Quote{}, err
		}
	}
	p, err := s.parsePair(r.FromMintID, r.ToMintID, r.AmountIn, nil, r.SlippageBps, *f.mints, settings)
	if err != nil {
		return Quote{}, err
	}
	if err := f.checkStopped(p.from); err != nil {
		return Quote{}, err
	}
	return s.quoteBest(ctx, f.treasuries(), p, 0)
}

func checkProduct(product string) error {
	if !slices.Contains(ledger.Products, product) {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"A product has to be CUSTODIAL, CHECKOUT or BATCH_PAYOUT.").
			WithAdvice("Name the product whose balance pays.").WithParam("product")
	}
	return nil
}

// FindOrganizationByKey returns the swap of an idempotency key, like FindByKey.
func (s *Service) FindOrganizationByKey(
	ctx context.Context, org, key string,
) (w Swap, isKnown bool, err error) {
	if !request.IsKey(key) {
		return w, false, nil
	}
	return s.findByHash(ctx, org, organizationKeyHash(key))
}

// DiffersOrganization reports whether a request has other parameters than the one that made the swap. A
// swap that was restored from the journal is never said to differ.
func (w Swap) DiffersOrganization(r OrganizationRequest) bool {
	return w.digest != nil && string(w.digest) != string(r.digest())
}

func (r OrganizationRequest) product() string {
	if r.Product == "" {
		return ledger.Products[0] // CUSTODIAL
	}
	return r.Product
}

// digest hashes every parameter that makes a request another swap.
func (r OrganizationRequest) digest() []byte {
	parts := []string{
		"coffer-own-swap-1", r.product(), strconv.Itoa(r.FromMintID), strconv.Itoa(r.ToMintID),
		canonicalAmount(r.AmountIn), r.WhitelistedAddressID,
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

// RequestOrganization makes a swap of the organization's own money. Below the organization's threshold it
// takes an offer, holds the amount and submits the payment, like Request. Above it, it holds the amount, and
// people decide. isReplayed is true when the key was known; w is then the swap as it is now. After a fault
// nothing was written. After any other error the swap may exist or not, and the same request resolves that.
//
// Errors: the faults of Request with ORGANIZATION_SWAPS_DISABLED for its switch, SCOPE_MISSING for a person
// without the role, and ADDRESS_NOT_WHITELISTED.
func (s *Service) RequestOrganization(
	ctx context.Context, orgID string, r OrganizationRequest,
) (w Swap, isReplayed bool, err error) {
	if r.Person != nil {
		if err := requireOwnMoney(*r.Person, orgID); err != nil {
			return w, false, err
		}
		r.Actor = r.Person.Actor()
	}
	var f facts
	return s.requestOnce(ctx, orgID, r.IdempotencyKey, organizationKeyHash(r.IdempotencyKey), organizationPrefix,
		func(b *pgx.Batch) { f = queueOrganizationFacts(b, orgID, r) },
		func(ctx context.Context, t turn.Turn) (Swap, error) { return s.createOrganization(ctx, orgID, r, t, f) })
}

// requireOwnMoney refuses a person who may not move the organization's own money.
func requireOwnMoney(person member.Member, orgID string) error {
	if person.OrgID != orgID || !person.IsAllowed(identity.WithdrawOwnMoney) {
		return fault.New(fault.Forbidden, fault.ScopeMissing, fault.NothingHeld,
			"Only a person with the role OWNER, ADMIN or FINANCE can swap the organization's own money.").
			WithAdvice("Ask a person with one of these roles.")
	}
	return nil
}

// createOrganization makes the swap of a new key, in its turn. Nothing but two addresses and a deposit address that is
// never paid exists before its one transaction.
func (s *Service) createOrganization(
	ctx context.Context, orgID string, r OrganizationRequest, t turn.Turn, f facts,
) (Swap, error) {
	if r.Limit != nil {
		if err := r.Limit(); err != nil {
			return Swap{}, err
		}
	}
	p, settings, err := s.checkOrganization(ctx, r, f)
	if err != nil {
		return Swap{}, err
	}
	offers, refusal, err := s.compareAll(ctx, f.treasuries(), p.parsed)
	if err != nil {
		return Swap{}, err
	}
	draft := organizationDraft{
		orgID: orgID, swapID: OrganizationID(orgID, r.IdempotencyKey), request: r, parsed: p, offers: offers,
		value: s.valueIn(ctx, p.parsed),
	}
	if draft.wallets, err = s.issueWallets(ctx, orgID, draft.swapID, p.parsed); err != nil {
		return Swap{}, err
	}
	failpoint.Hit("Q02")
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		draft.people, err = s.peopleByRule(ctx, tx, orgID, p.to, draft.payoutMax())
		return err
	})
	if err != nil {
		return Swap{}, err
	}
	if draft.people > 0 || needsApproval(settings, draft.value) {
		return s.commitOrganization(ctx, draft, t)
	}
	return s.makeOfOffers(ctx, p.parsed, offers, refusal, draft.wallets, draft.swapID,
		func(firm firmOffer) (Swap, error) {
			draft.firm = &firm
			return s.commitOrganization(ctx, draft, t)
		})
}

// commitOrganization writes a swap in one transaction, with its offer unless people decide first.
func (s *Service) commitOrganization(
	ctx context.Context, d organizationDraft, t turn.Turn,
) (created Swap, err error) {
	r := d.request
	var settings func() (org.Settings, error)
	var mints *mint.Catalogue
	err = s.DB.InOrgPipelined(ctx, d.orgID,
		func(b *pgx.Batch) {
			org.QueueLockSettingsShared(b, d.orgID)
			settings = org.QueueSettings(b, d.orgID)
			mints = mint.QueueCatalogue(b, []int{r.FromMintID, r.ToMintID})
		},
		func(ctx context.Context, tx pg.Tx, b *pgx.Batch) error {
			f := facts{orgID: d.orgID, settings: settings, mints: mints}
			settings, err := s.lockOrganization(ctx, tx, r, f)
			if err != nil {
				return err
			}
			draft := d
			if draft.people, err = s.peopleByRule(ctx, tx, d.orgID, d.parsed.to, d.payoutMax()); err != nil {
				return err
			}
			draft.quorum = max(settings.ApprovalQuorum, draft.people)
			// Also if the threshold has fallen, or a rule came, since.
			if draft.people > 0 || needsApproval(settings, d.value) {
				draft.firm = nil
			}
			if draft.firm != nil {
				if err := s.checkInside(ctx, tx, draft.firm.limit); err != nil {
					return err
				}
				if err := checkSuspended(ctx, tx, draft.firm.Provider); err != nil {
					return err
				}
			}
			if err := t.End(ctx, tx); err != nil {
				return err
			}
			if created, err = s.queueOrganization(b, tx.Now, draft); err != nil {
				return err
			}
			failpoint.HitBeforeCommit("Q05")
			return nil
		})
	err = ledger.MapRefusal(err)
	switch {
	case errors.Is(err, ledger.ErrOverdraft):
		return Swap{}, newInsufficientProduct(d.parsed.product, d.parsed.from)
	case err != nil:
		return Swap{}, fmt.Errorf("create swap %s: %w", d.swapID, err)
	}
	failpoint.Hit("Q05")
	return created, nil
}

// needsApproval reports whether people have to approve a swap: its value is above the organization's
// threshold, or it has no value that could be compared with it. Rule SWAP-35.
func needsApproval(settings org.Settings, value *money.USD) bool {
	threshold := settings.TwoFactorUSDThreshold
	return threshold != nil && (value == nil || value.Cmp(*threshold) > 0)
}

// queueOrganizationFacts queues what the rules decide about a request by, without a lock.
func queueOrganizationFacts(b *pgx.Batch, orgID string, r OrganizationRequest) facts {
	f := queueFacts(b, orgID, "", r.FromMintID, r.ToMintID)
	if checkProduct(r.product()) == nil {
		f.queueBalance(b, ledger.ProductOwner(r.product()), r.FromMintID)
	}
	return f
}

// checkOrganization applies every rule that reads the database alone, in the order of the interface,
// without a lock.
func (s *Service) checkOrganization(
	ctx context.Context, r OrganizationRequest, f facts,
) (p parsedOrganization, settings org.Settings, err error) {
	if settings, err = f.loadSettings(); err != nil {
		return p, settings, err
	}
	if err := checkOrganizationEnabled(settings); err != nil {
		return p, settings, err
	}
	if err := f.checkFrozen(); err != nil {
		return p, settings, err
	}
	if p, err = s.parseOrganization(r, *f.mints, settings); err != nil {
		return p, settings, err
	}
	err = s.DB.ReadOrg(ctx, f.orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		p.entry, err = s.loadEntry(ctx, tx, f.orgID, r.WhitelistedAddressID, p.to.Chain)
		return err
	})
	if err != nil {
		return p, settings, err
	}
	if err := f.checkStopped(p.from); err != nil {
		return p, settings, err
	}
	paying := ledger.ProductOwner(p.product).SpendingAccount(f.orgID, p.from.ID)
	if f.balances[paying].Balance.Less(p.amountIn) {
		return p, settings, newInsufficientProduct(p.product, p.from)
	}
	return p, settings, nil
}

// parseOrganization checks the form of a request and the rules about its pair.
func (s *Service) parseOrganization(
	r OrganizationRequest, mints mint.Catalogue, settings org.Settings,
) (p parsedOrganization, err error) {
	p.product = r.product()
	if err := checkProduct(p.product); err != nil {
		return p, err
	}
	p.parsed, err = s.parsePair(r.FromMintID, r.ToMintID, r.AmountIn, r.MinAmountOut, r.SlippageBps, mints, settings)
	return p, err
}

// loadEntry returns an entry of the whitelist that may be paid on a chain now. It stays usable until the
// transaction ends. Error: fault ADDRESS_NOT_WHITELISTED.
func (s *Service) loadEntry(
	ctx context.Context, tx pg.Tx, orgID, listedID string, name chain.Name,
) (WhitelistEntry, error) {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld, format, args...).
			WithAdvice("Choose a usable address of the whitelist, or ask the operator of this service to add one.").
			WithParam("whitelistedAddressId")
	}
	if s.Whitelist == nil || !id.IsValid("wla", listedID) {
		return WhitelistEntry{}, refuse("The output goes only to an address on your organization's whitelist, and " +
			"this one is not on it.")
	}
	entry, err := s.Whitelist.Usable(ctx, tx, orgID, listedID)
	switch f := fault.Find(err); {
	case f != nil:
		return WhitelistEntry{}, refuse(
			"The output goes only to a usable address on your organization's whitelist: %s.",
			strings.TrimSuffix(f.Reason, "."))
	case err != nil:
		return WhitelistEntry{}, fmt.Errorf("look up whitelist entry %s of %s: %w", listedID, orgID, err)
	case entry.Chain != name:
		return WhitelistEntry{}, refuse("This address is on %s, and the output of the swap is on %s.",
			entry.Chain, name)
	}
	return entry, nil
}

// lockOrganization checks again what may have changed since, under locks that last until the commit. f has the
// settings, which are locked, and the mints.
func (s *Service) lockOrganization(
	ctx context.Context, tx pg.Tx, r OrganizationRequest, f facts,
) (org.Settings, error) {
	settings, err := f.loadSettings()
	if err != nil {
		return settings, err
	}
	if err := checkOrganizationEnabled(settings); err != nil {
		return settings, err
	}
	p, err := s.parseOrganization(r, *f.mints, settings)
	if err != nil {
		return settings, err
	}
	if _, err := s.loadEntry(ctx, tx, f.orgID, r.WhitelistedAddressID, p.to.Chain); err != nil {
		return settings, err
	}
	var b pgx.Batch
	f.freezes = freeze.QueueActive(&b, f.orgID, []string{})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return settings, fmt.Errorf("look for freezes of %s: %w", f.orgID, err)
	}
	if err := f.checkFrozen(); err != nil {
		return settings, err
	}
	return settings, f.checkStopped(p.from)
}

// organizationDraft is what the row of an organization's swap is written from.
type organizationDraft struct {
	orgID, swapID string
	request       OrganizationRequest
	parsed        parsedOrganization
	offers        []judgedOffer // dry ones, the best one first
	firm          *firmOffer    // nil: people decide first
	wallets       swapWallets
	value         *money.USD
	quorum        int
	people        int // who have to sign it by the organization's rule
}

// payoutMax returns the most that the swap may bring by its best offer, and the largest amount where that has no sum.
func (d organizationDraft) payoutMax() money.Amount {
	best := d.offers[0].AmountOut
	if d.firm != nil && best.Less(d.firm.AmountOut) {
		best = d.firm.AmountOut
	}
	bound, err := best.Bps(payoutMaxBps)
	if err != nil {
		return best
	}
	return bound
}

// queueOrganization queues the inserts of the swap and the hold, and with an offer of the order. Without one, the
// least that is accepted is that of the best dry offer, or the caller's. It returns the swap as they make it.
func (s *Service) queueOrganization(b *pgx.Batch, now time.Time, d organizationDraft) (Swap, error) {
	p, r := d.parsed, d.request
	created := Swap{
		ID: d.swapID, OrgID: d.orgID, IdempotencyKey: r.IdempotencyKey, Kind: OrganizationSwap, Product: p.product,
		USDValue: d.value, Metadata: map[string]string{}, WhitelistedID: r.WhitelistedAddressID,
		PayoutAddress: p.entry.Address, Requester: r.Actor, digest: r.digest(), slippageBps: &p.slippageBps,
	}
	created.begin(p.parsed, d.wallets, now)
	var f firmOffer
	if d.firm != nil {
		f = *d.firm
		created.takeOffer(f)
	} else {
		created.EstimatedOut, created.MinOut = d.offers[0].AmountOut, d.offers[0].MinAmountOut
		if created.MinOut.Less(p.minOut) {
			created.MinOut = p.minOut
		}
		created.Status, created.ApprovalsRequired = AwaitingApproval, max(d.quorum, 1)
	}
	payoutMax, err := created.EstimatedOut.Bps(payoutMaxBps)
	if err != nil {
		return Swap{}, fmt.Errorf("the most that swap %s pays out: %w", d.swapID, err)
	}
	payoutUntil := now.Add(payoutWindow).UTC().Truncate(time.Microsecond)
	created.PayoutMax, created.PayoutUntil = &payoutMax, &payoutUntil
	payout := created.payout()
	created.mac = s.GrantKey.SwapRequestMAC(payout, created.ApprovalsRequired)
	offer := f.columns()
	b.Queue(`
		INSERT INTO swaps (swap_id, org_id, kind, product, idempotency_key, key_hash, request_digest,
			from_mint_id, to_mint_id, from_chain, to_chain, amount_in, estimated_out, min_out, provider,
			deposit_address, delivery_wallet_id, refund_wallet_id, refund_fee, pay_by, expires_at,
			estimated_seconds, usd_value, fee_bps, fee_amount, status, whitelisted_address_id, payout_address,
			payout_max, payout_until, slippage_bps, approvals_required, request_mac, requester_kind, requester_id,
			created_at, updated_at)
		VALUES ($1, $2, 'ORGANIZATION', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
			$20, $21, $22, 0, 0, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $33)`,
		d.swapID, d.orgID, p.product, r.IdempotencyKey, organizationKeyHash(r.IdempotencyKey), created.digest,
		p.from.ID, p.to.ID, p.from.Chain, p.to.Chain, p.amountIn, created.EstimatedOut, created.MinOut,
		offer.provider, offer.payee, d.wallets.delivery.ID, d.wallets.refund.ID, f.RefundFee, offer.payBy,
		offer.expiresAt, offer.seconds, d.value,
		created.Status, r.WhitelistedAddressID, p.entry.Address, payoutMax, payoutUntil, p.slippageBps,
		created.ApprovalsRequired, created.mac, r.Actor.Kind, r.Actor.ID, now)
	if d.firm != nil {
		queueOffer(b, now, d.orgID, d.swapID, f)
	}
	owner := ledger.ProductOwner(p.product)
	err = ledger.QueuePostings(b, now, newHoldPosting(d.orgID, d.swapID, owner, p.from.ID, p.amountIn))
	if err != nil {
		return Swap{}, fmt.Errorf("hold for swap %s: %w", d.swapID, err)
	}
	if d.firm != nil {
		order := s.newOrder(d.orgID, d.swapID, owner, organizationKeyHash(r.IdempotencyKey), p.parsed, f, d.wallets)
		order.Grant = s.GrantKey.MakePayoutGrant(order.terms, payout, money.Zero, 0, nil)
		if err := dispatch.QueueNew(b, now, order.Order); err != nil {
			return Swap{}, err
		}
	}
	return created, audit.QueueEntries(b, now, newEntry(created, r.Actor, "requested", map[string]any{
		"product": p.product, "provider": f.Provider, "amountIn": p.amountIn, "minOut": created.MinOut,
		"estimatedOut": created.EstimatedOut, "whitelistedAddressId": r.WhitelistedAddressID,
		"approvalsRequired": created.ApprovalsRequired,
	}))
}

// offerColumns are the columns that a swap has from its offer; all nil without one.
type offerColumns struct {
	provider         *string
	payee            *chain.Address
	payBy, expiresAt *time.Time
	seconds          *int
}

func (f firmOffer) columns() offerColumns {
	if f.Provider == "" {
		return offerColumns{}
	}
	return offerColumns{&f.Provider, &f.payee, &f.payBy, &f.Signed.Deadline, estimatedSeconds(f.Estimate)}
}

func newInsufficientProduct(product string, m mint.Mint) error {
	return fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingHeld,
		"%s has less %s available than amountIn.", product, m.Symbol).
		WithStep(fault.LookAtBalances).WithParam("amountIn")
}

// loadOrganization returns a swap of an organization's own money as this transaction sees it. Error: fault
// NOT_FOUND.
func loadOrganization(ctx context.Context, tx pg.Tx, orgID, swapID string) (Swap, error) {
	return loadOf(ctx, tx, orgID, swapID, organizationPrefix)
}

// OrganizationByID returns a swap of the organization's own money as it is now. Error: fault NOT_FOUND,
// also for the id of another organization.
func (s *Service) OrganizationByID(ctx context.Context, orgID, swapID string) (w Swap, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		w, err = loadOrganization(ctx, tx, orgID, swapID)
		return err
	})
	return w, err
}

// OrganizationFilter narrows a list of an organization's swaps of its own money. A zero field does not
// narrow it.
type OrganizationFilter struct {
	Status, Product, IdempotencyKey string
	AwaitingApproval                bool
	CreatedAfter                    time.Time // exclusive
	CreatedBefore                   time.Time // exclusive
}

func (f OrganizationFilter) query(orgID string) *pagination.Query {
	q := pagination.NewQuery(selectSwaps+` WHERE s.org_id = ? AND s.kind = 'ORGANIZATION'`, orgID)
	if f.Status != "" {
		q.AddCondition("s.status = ?", f.Status)
	}
	if f.AwaitingApproval {
		q.AddCondition("s.status = ?", AwaitingApproval)
	}
	if f.Product != "" {
		q.AddCondition("s.product = ?", f.Product)
	}
	if f.IdempotencyKey != "" {
		q.AddCondition("s.key_hash = ?", organizationKeyHash(f.IdempotencyKey))
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	return q
}

// ListOrganization returns a page of the swaps of an organization's own money in the order of (creation
// time, id).
func (s *Service) ListOrganization(
	ctx context.Context, orgID string, f OrganizationFilter, p pagination.Page,
) (page pagination.Result[Swap], err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		page, err = listPage(ctx, tx, f.query(orgID), p)
		return err
	})
	return page, err
}

// ForEachOrganization calls fn for all swaps of an organization's own money that match the filter, in list
// order and from one snapshot. The first error of fn ends it.
func (s *Service) ForEachOrganization(
	ctx context.Context, orgID string, f OrganizationFilter, desc bool, fn func(Swap) error,
) error {
	sql, args := f.query(orgID).BuildAll(desc, "s.created_at", "s.swap_id")
	err := s.DB.SnapshotOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return pg.ForEachRow(ctx, tx, sql, args, scanSwap(tx.Now), fn)
	})
	if err != nil {
		return fmt.Errorf("read the own swaps of %s: %w", orgID, err)
	}
	return nil
}
