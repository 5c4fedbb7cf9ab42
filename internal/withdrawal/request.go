package withdrawal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/risk"
)

// Limits of the fields of a Request.
const (
	addressBytesMax    = 128
	travelRuleBytesMax = 4096
)

// Fee modes: they say who pays the network fee.
const (
	// FeeOrganization bills the network fee to the organization: the customer pays the amount and
	// the destination receives the amount.
	FeeOrganization = "ORGANIZATION"
	// FeeDeducted takes the fee out of the amount, for a chain's native coin only. The customer
	// pays the amount. The destination receives the amount less the fee that was fixed with the
	// order. The organization bears the difference to the fee that the network takes.
	FeeDeducted = "DEDUCTED"
)

// Request holds a withdrawal as the API hands it over, in the caller's own words.
type Request struct {
	MintID          int
	CustomerID      string
	Amount          string // atomic units; whole tokens with UseDecimal
	UseDecimal      bool
	ToAddress       string
	RequireApproval bool
	IdempotencyKey  *string // nil: every call is a payment of its own
	Memo            *string
	FeeMode         string  // "" means ORGANIZATION
	MaxNetworkFee   *string // atomic units of the chain's native coin; nil: the caller sets no limit
	Reference       *string
	Metadata        map[string]string
	TravelRule      json.RawMessage // a JSON object, stored in canonical form; nil for none
	Actor           audit.Actor     // who asks, for the audit log
	// Limit, unless nil, is called once the key is known to be new, before anything else can refuse
	// the request. A replay is answered at any rate of requests.
	Limit func() error

	// owner is a product for a withdrawal of the organization's own money, which goes to a
	// whitelist entry. Only OrganizationRequest.toRequest sets it; the API cannot, whatever its caller sends.
	owner    ledger.Owner
	listedID string
	isMax    bool
	payout   *SwapPayoutRequest // it pays the output of a swap; nil for every other request
	refund   *RefundRequest     // it pays a refund of a checkout; nil for every other request
	batch    *BatchRequest      // it pays a row of a batch; nil for every other request
}

// parsed holds the values of a request that was parsed.
type parsed struct {
	owner       ledger.Owner // whose balance pays
	listedID    string       // the whitelist entry that the organization's own money goes to, or ""
	mint        mint.Mint
	amount      money.Amount
	destination chain.Address

	deductsFee bool
	isMax      bool // withdrawal of the organization: the amount follows from its balance
	isTotal    bool // withdrawal of the organization: the fee of a native coin comes out of the amount
	noAmount   bool // estimate without an amount
	feeMax     *money.Amount
	travelRule *string // canonical JSON, or nil

	// chainRuns is false when the mint's chain is not configured; destination is then as the caller
	// wrote it.
	chainRuns bool
	digest    []byte
	// restorableDigest covers the parameters of the payment that the signer's journal knows. A row
	// that was restored from the journal has this digest.
	restorableDigest []byte
}

// parseRequest parses and validates a request. It is pure; its refusals depend on nothing that can
// change for a mint that exists.
func parseRequest(r Request, mints mint.Catalogue, chains chain.Chains) (parsed, error) {
	switch {
	case r.refund != nil:
		return parseRefund(r, mints, chains)
	case r.batch != nil:
		return parseBatchRow(r, mints, chains)
	case r.owner.IsOrganization():
		return parseOrgRequest(r, mints, chains)
	}
	p := parsed{owner: ledger.CustomerOwner(r.CustomerID)}
	if err := customer.CheckID(r.CustomerID); err != nil {
		return p, err
	}
	m, err := request.ParseMint(r.MintID, mints, fault.NothingHeld)
	if err != nil {
		return p, err
	}
	p.mint = m
	if p.amount, err = request.ParseAmount(r.Amount, r.UseDecimal, m, fault.NothingHeld); err != nil {
		return p, err
	}
	if r.Memo != nil {
		return p, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"Payments on %s have no memo.", m.Chain).
			WithAdvice("Leave memo out or send null.").
			WithParam("memo")
	}
	if p.deductsFee, err = parseFeeMode(r.FeeMode, m); err != nil {
		return p, err
	}
	if r.MaxNetworkFee != nil {
		feeMax, err := money.Parse(*r.MaxNetworkFee)
		if err != nil || feeMax.IsZero() {
			return p, fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingHeld,
				"maxNetworkFee has to be a whole number of atomic units of the native coin, above zero, such "+
					"as \"5000000\".").
				WithAdvice("Correct it, or leave it out.").
				WithParam("maxNetworkFee")
		}
		p.feeMax = &feeMax
	}
	if p.travelRule, err = parseTravelRule(r.TravelRule); err != nil {
		return p, err
	}
	if err := request.CheckHandles(r.Reference, r.Metadata, fault.NothingHeld); err != nil {
		return p, err
	}
	if p.destination, p.chainRuns, err = parseAddress(r.ToAddress, m, chains); err != nil {
		return p, err
	}
	p.digest = requestDigest(r, p)
	journaled := p
	r.RequireApproval, journaled.feeMax, journaled.travelRule = false, nil, nil
	p.restorableDigest = requestDigest(r, journaled)
	return p, nil
}

func parseFeeMode(mode string, m mint.Mint) (deductsFee bool, err error) {
	switch {
	case mode == "" || mode == FeeOrganization:
		return false, nil
	case mode == FeeDeducted && m.Kind == mint.Native:
		return true, nil
	case mode == FeeDeducted:
		return false, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"The network takes its fee in the native coin, so it cannot be deducted from %s.", m.Symbol).
			WithAdvice("Use ORGANIZATION, which bills the fee to your organization.").
			WithParam("feeMode")
	}
	return false, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
		"feeMode has to be ORGANIZATION or DEDUCTED.").
		WithAdvice("Leave feeMode out or send one of them.").
		WithParam("feeMode")
}

// parseAddress parses a destination. isRunning is false when the mint's chain is not configured;
// the address is then as the caller wrote it. Rule WD-11.
func parseAddress(s string, m mint.Mint, chains chain.Chains) (to chain.Address, isRunning bool, err error) {
	if len(s) > addressBytesMax {
		return "", false, fault.New(fault.Invalid, fault.InvalidAddress, fault.NothingHeld,
			"An address may have at most %d characters.", addressBytesMax).
			WithAdvice("Check toAddress.").
			WithParam("toAddress")
	}
	codec := chains.AddressCodec(m.Chain.Family())
	if _, isRunning := chains[m.Chain]; !isRunning || codec == nil {
		return chain.Address(s), false, nil
	}
	if to, err = codec.Parse(s); err != nil {
		return "", true, fault.New(fault.Invalid, fault.InvalidAddress, fault.NothingHeld,
			"This is not an address on %s: %v.", m.Chain, err).
			WithAdvice("Check toAddress with your customer.").
			WithParam("toAddress")
	}
	return to, true, nil
}

// parseTravelRule returns the canonical JSON of the travel-rule data. Coffer stores the data and
// does not interpret it.
func parseTravelRule(raw json.RawMessage) (*string, error) {
	if raw == nil {
		return nil, nil
	}
	canonical := jsontext.Value(slices.Clone(raw))
	if canonical.Kind() != '{' || canonical.Canonicalize() != nil || len(canonical) > travelRuleBytesMax ||
		!request.IsPlainText(string(canonical)) ||
		strings.Contains(string(canonical), `\u0000`) {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"travelRule has to be a JSON object of at most %d bytes without zero characters.", travelRuleBytesMax).
			WithAdvice("Shorten or correct it, or leave it out.").
			WithParam("travelRule")
	}
	text := string(canonical)
	return &text, nil
}

// requestDigest hashes every parameter that makes a request another payment. These are the same
// payment:
//
//   - an amount in decimals and in atomic units,
//   - an address in another letter case,
//   - an omitted default and the default.
//
// Parameters that were added to requests later are hashed only if they are given, because a key
// never expires. The reference is compared separately. Metadata is never compared.
// Rule IDEM-2.
func requestDigest(r Request, p parsed) []byte {
	parts := []string{
		"coffer-withdraw-1", fmt.Sprint(p.mint.ID), r.CustomerID, p.amount.String(), string(p.destination),
		fmt.Sprint(r.RequireApproval), "", p.feeMode(),
	}
	if p.feeMax != nil {
		parts = append(parts, "maxNetworkFee", p.feeMax.String())
	}
	if p.travelRule != nil {
		parts = append(parts, "travelRule", *p.travelRule)
	}
	return request.Digest(parts...)
}

func (p parsed) feeMode() string {
	if p.deductsFee {
		return FeeDeducted
	}
	return FeeOrganization
}

// hasOwnKey reports whether the key follows from what the request pays, so that no caller can take it.
func (r Request) hasOwnKey() bool { return r.payout != nil || r.refund != nil || r.batch != nil }

func keyHash(key *string) string {
	if key == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(*key))
	return hex.EncodeToString(sum[:])
}

// Request accepts a withdrawal: it holds the amount, and it either submits the order or leaves the
// withdrawal for approval. replayed is true when the key was known; w is then the withdrawal as it
// is now. After a fault nothing was written. After any other error the withdrawal may exist or not;
// the same request with the same key resolves that. Rules IDEM-3 and IDEM-4.
func (s *Service) Request(ctx context.Context, org string, r Request) (w Withdrawal, replayed bool, err error) {
	f, err := s.loadRequest(ctx, org, r, false)
	if err != nil {
		return w, false, err
	}
	plan, rejection := Decide(f)
	if rejection != nil {
		return w, false, rejection.Err
	}
	if plan.ExistingID == "" {
		failpoint.Hit("W01")
		w, err = s.createWithdrawal(ctx, org, f)
		if err == nil || r.IdempotencyKey == nil || fault.HasCode(err, fault.WithdrawalRiskBlocked) {
			return w, false, err
		}
		// A concurrent request with the same key may have been quicker: it took the key, or the
		// balance that this request then lacked. In both cases the answer is its row.
		lookErr := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
			f.existing, err = lookupKey(ctx, tx, org, r.IdempotencyKey)
			return err
		})
		if lookErr != nil {
			return w, false, errors.Join(err, lookErr)
		}
		if f.existing == nil {
			return w, false, err
		}
		if plan, rejection = Decide(f); rejection != nil {
			return w, false, rejection.Err
		}
	}
	w, err = s.loadAnswer(ctx, org, plan.ExistingID)
	return w, err == nil, err
}

// loadAnswer returns the answer to a request and to its replays: the withdrawal as it is now. For a
// blocked withdrawal it returns the fault WITHDRAWAL_RISK_BLOCKED as it was decided at the time.
// Rule WD-31.
func (s *Service) loadAnswer(ctx context.Context, org, withdrawalID string) (w Withdrawal, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if w, err = Load(ctx, tx, org, withdrawalID); err != nil || w.Status != Blocked {
			return err
		}
		var record risk.WithdrawalRecord
		err = tx.QueryRow(ctx,
			`SELECT risk FROM withdrawal_decisions WHERE org_id = $1 AND withdrawal_id = $2 AND status = 'BLOCKED'`,
			org, withdrawalID).Scan(&record)
		if err != nil {
			return fmt.Errorf("read why %s is blocked: %w", withdrawalID, err)
		}
		return newBlocked(record.Decision).WithExtra("withdrawalId", withdrawalID)
	})
	if err != nil {
		return Withdrawal{}, err
	}
	return w, nil
}
