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
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/failpoint"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// Limits of the fields of a Request.
const (
	keyBytesMax           = 255
	addressBytesMax       = 128
	referenceBytesMax     = 255
	metadataKeysMax       = 20
	metadataKeyRunesMax   = 40
	metadataValueRunesMax = 500
	travelRuleBytesMax    = 4096
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

	// orgRequest marks a withdrawal of the organization's own money. Only
	// OrganizationRequest.toRequest sets it; the API cannot, whatever its caller sends.
	orgRequest *orgRequest
}

// payer returns the owner of the balance that pays: a customer, or a product of the organization
// that pays to a whitelist entry.
func (r Request) payer() owner {
	if r.orgRequest != nil {
		return r.orgRequest.owner
	}
	return owner{customerID: r.CustomerID}
}

// parsed holds the values of a request that was parsed.
type parsed struct {
	mint   mint.Mint
	amount money.Amount
	to     chain.Address

	deductsFee bool
	isMax      bool // withdrawal of the organization: the amount follows from its balance
	noAmount   bool // estimate without an amount
	feeMax     *money.Amount
	travelRule *string // canonical JSON, or nil

	// chainRuns is false when the mint's chain is not configured; to is then as the caller wrote
	// it.
	chainRuns bool
	digest    []byte
	// restorableDigest covers the parameters of the payment that the signer's journal knows. A row
	// that was restored from the journal has this digest.
	restorableDigest []byte
}

// parseRequest parses and validates a request. It is pure; its refusals depend on nothing that can
// change for a mint that exists.
func parseRequest(r Request, mints mint.Catalogue, chains chain.Chains) (parsed, error) {
	if r.orgRequest != nil {
		return parseOrgRequest(r, mints, chains)
	}
	var p parsed
	if err := customer.CheckID(r.CustomerID); err != nil {
		return p, err
	}
	m, err := parseMint(r.MintID, mints)
	if err != nil {
		return p, err
	}
	p.mint = m
	if p.amount, err = parseAmount(r.Amount, r.UseDecimal, m); err != nil {
		return p, err
	}
	if r.Memo != nil {
		return p, fault.New(fault.Invalid, fault.InvalidRequest,
			"Payments on %s have no memo. Nothing was held and nothing was sent. Leave memo out or send null.",
			m.Chain).
			WithParam("memo")
	}
	if p.deductsFee, err = parseFeeMode(r.FeeMode, m); err != nil {
		return p, err
	}
	if r.MaxNetworkFee != nil {
		feeMax, err := money.Parse(*r.MaxNetworkFee)
		if err != nil || feeMax.IsZero() {
			return p, fault.New(fault.Invalid, fault.InvalidAmount,
				"maxNetworkFee has to be a whole number of atomic units of the native coin, above zero, such as "+
					"\"5000000\". Nothing was held and nothing was sent. Correct it, or leave it out.").
				WithParam("maxNetworkFee")
		}
		p.feeMax = &feeMax
	}
	if p.travelRule, err = parseTravelRule(r.TravelRule); err != nil {
		return p, err
	}
	if err := checkHandles(r); err != nil {
		return p, err
	}
	if p.to, p.chainRuns, err = parseAddress(r.ToAddress, m, chains); err != nil {
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
		return false, fault.New(fault.Invalid, fault.InvalidRequest,
			"The network takes its fee in the native coin, so it cannot be deducted from %s. Nothing was held and "+
				"nothing was sent. Use ORGANIZATION, which bills the fee to your organization.", m.Symbol).
			WithParam("feeMode")
	}
	return false, fault.New(fault.Invalid, fault.InvalidRequest,
		"feeMode has to be ORGANIZATION or DEDUCTED. Nothing was held and nothing was sent. Leave feeMode out or "+
			"send one of them.").
		WithParam("feeMode")
}

// parseAddress parses a destination. isRunning is false when the mint's chain is not configured;
// the address is then as the caller wrote it. Rule WD-11.
func parseAddress(s string, m mint.Mint, chains chain.Chains) (to chain.Address, isRunning bool, err error) {
	if len(s) > addressBytesMax {
		return "", false, fault.New(fault.Invalid, fault.InvalidAddress,
			"An address may have at most %d characters. Nothing was held and nothing was sent. Check toAddress.",
			addressBytesMax).
			WithParam("toAddress")
	}
	codec := chains.AddressCodec(m.Chain.Family())
	if _, isRunning := chains[m.Chain]; !isRunning || codec == nil {
		return chain.Address(s), false, nil
	}
	if to, err = codec.Parse(s); err != nil {
		return "", true, fault.New(fault.Invalid, fault.InvalidAddress,
			"This is not an address on %s: %v. Nothing was held and nothing was sent. Check toAddress with your "+
				"customer.", m.Chain, err).
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
		!isPlainText(string(canonical)) ||
		strings.Contains(string(canonical), `\u0000`) {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest,
			"travelRule has to be a JSON object of at most %d bytes without zero characters. Nothing was held and "+
				"nothing was sent. Shorten or correct it, or leave it out.", travelRuleBytesMax).
			WithParam("travelRule")
	}
	text := string(canonical)
	return &text, nil
}

func parseMint(mintID int, mints mint.Catalogue) (mint.Mint, error) {
	m, ok := mints.ByID(mintID)
	if !ok {
		return m, fault.New(fault.Invalid, fault.MintNotFound,
			"Mint %d does not exist. Nothing was held and nothing was sent. GET /mints lists the mints.", mintID).
			WithParam("mintId")
	}
	return m, nil
}

func parseAmount(s string, decimal bool, m mint.Mint) (money.Amount, error) {
	refuse := func(format string, args ...any) error {
		return fault.New(
			fault.Invalid, fault.InvalidAmount, format+" Nothing was held and nothing was sent.", args...,
		).WithParam("amount")
	}
	read := money.Parse
	if decimal {
		read = func(s string) (money.Amount, error) { return money.ParseDecimal(s, m.Decimals) }
	}
	a, err := read(s)
	switch {
	case errors.Is(err, money.ErrFraction):
		return a, refuse(
			"%s has %d decimals and the amount has more; the service never rounds. Send at most %d digits after the "+
				"point.",
			m.Symbol, m.Decimals, m.Decimals,
		)
	case errors.Is(err, money.ErrRange):
		return a, refuse("The amount is larger than the largest possible amount (2^256-1 atomic units). Send a " +
			"smaller one.")
	case err != nil && !decimal && strings.Contains(s, "."):
		return a, refuse(
			"Without useDecimal the amount is a whole number of atomic units and has no point. Send atomic units, or " +
				"set useDecimal to true.",
		)
	case err != nil && decimal:
		return a, refuse("The amount is not a decimal number of whole tokens such as \"1.5\". Use ASCII digits with " +
			"at most one point, and no sign, exponent, separator or leading zero.")
	case err != nil:
		return a, refuse("The amount is not a whole number of atomic units such as \"5000000\". Use ASCII digits " +
			"only, without sign, point, exponent, separator or leading zero.")
	case a.IsZero():
		return a, refuse("The amount is zero. Send at least one atomic unit.")
	}
	return a, nil
}

func checkKey(key *string) error {
	if key == nil {
		return nil
	}
	ok := len(*key) >= 1 && len(*key) <= keyBytesMax
	for i := range len(*key) {
		ok = ok && (*key)[i] > ' ' && (*key)[i] < 0x7f
	}
	if !ok {
		return fault.New(fault.Invalid, fault.InvalidRequest,
			"An idempotency key has to have 1 to %d printable ASCII characters and no space. Nothing was held and "+
				"nothing was sent. Send such a key, or none.", keyBytesMax).
			WithParam("idempotencyKey")
	}
	return nil
}

// checkHandles checks the limits of the caller's own reference and metadata. Rule REQ-7.
func checkHandles(r Request) error {
	if r.Reference != nil &&
		(len(*r.Reference) == 0 || len(*r.Reference) > referenceBytesMax || !isPlainText(*r.Reference)) {
		return fault.New(fault.Invalid, fault.InvalidRequest,
			"A reference has to have 1 to %d bytes of text without control characters. Nothing was held and nothing "+
				"was sent. Shorten or clean it, or leave it out.", referenceBytesMax).
			WithParam("reference")
	}
	ok := len(r.Metadata) <= metadataKeysMax
	for k, v := range r.Metadata {
		ok = ok && k != "" && utf8.RuneCountInString(k) <= metadataKeyRunesMax &&
			utf8.RuneCountInString(v) <= metadataValueRunesMax && isPlainText(k) && isPlainText(v)
	}
	if !ok {
		return fault.New(fault.Invalid, fault.InvalidRequest,
			"Metadata may have at most %d keys of 1 to %d characters with values of at most %d characters, without "+
				"control characters. Nothing was held and nothing was sent. Make it smaller.",
			metadataKeysMax, metadataKeyRunesMax, metadataValueRunesMax).WithParam("metadata")
	}
	return nil
}

func isPlainText(s string) bool {
	return utf8.ValidString(s) &&
		strings.IndexFunc(s, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }) < 0
}

// requestDigest hashes every parameter that makes a request another payment. These are the same
// payment:
//
//   - an amount in decimals and in atomic units,
//   - an address in another letter case,
//   - an omitted default and the default.
//
// Parameters that were added to requests later are hashed only if they are given, because a key
// never expires. answerReplay compares the reference separately. Metadata is never compared.
// Rule IDEM-2.
func requestDigest(r Request, p parsed) []byte {
	parts := []string{
		"coffer-withdraw-1", fmt.Sprint(p.mint.ID), r.CustomerID, p.amount.String(), string(p.to),
		fmt.Sprint(r.RequireApproval), "", p.feeMode(),
	}
	if p.feeMax != nil {
		parts = append(parts, "maxNetworkFee", p.feeMax.String())
	}
	if p.travelRule != nil {
		parts = append(parts, "travelRule", *p.travelRule)
	}
	h := sha256.New()
	for _, s := range parts {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return h.Sum(nil)
}

func (p parsed) feeMode() string {
	if p.deductsFee {
		return FeeDeducted
	}
	return FeeOrganization
}

func keyHash(key *string) string {
	if key == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(*key))
	return hex.EncodeToString(sum[:])
}

// loadedRequest holds a parsed request before its gates run.
type loadedRequest struct {
	parsed
	parseErr     error          // why parsing failed, or nil
	activeFreeze *freeze.Freeze // of the customer or the organization
	entry        WhitelistEntry // the whitelist entry, for the organization's own money
	existing     existingRow    // the row that has the request's key
	isKnown      bool           // existing is set
}

// loadRequest looks the key up and parses the request. It writes nothing.
func (s *Service) loadRequest(ctx context.Context, org string, r Request) (loadedRequest, error) {
	var q loadedRequest
	var mints mint.Catalogue
	err := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if q.existing, q.isKnown, err = lookupKey(ctx, tx, org, r.IdempotencyKey); err != nil || q.isKnown {
			return errors.Join(err, loadMints(ctx, tx, &mints))
		}
		if r.orgRequest != nil {
			if q.entry, _, err = s.loadEntry(ctx, tx, org, r.orgRequest.listedID); err != nil {
				return err
			}
		}
		scope := freeze.Target{OrgID: org}
		if customer.CheckID(r.CustomerID) == nil {
			scope.CustomerID = r.CustomerID
		}
		if q.activeFreeze, err = freeze.Active(ctx, tx, scope); err != nil {
			return err
		}
		return loadMints(ctx, tx, &mints)
	})
	if err != nil {
		return q, fmt.Errorf("prepare withdrawal: %w", err)
	}
	q.parsed, q.parseErr = parseRequest(r, mints, s.Chains)
	if r.orgRequest != nil {
		// The caller does not choose the address. An entry that may not be used has none, and
		// checkWhitelist refuses it.
		q.to = q.entry.Address
	}
	return q, nil
}

// checkRefusal returns the refusal of a new request before its gates run, or nil.
func (q loadedRequest) checkRefusal(r Request) error {
	if r.Limit != nil {
		if err := r.Limit(); err != nil {
			return err
		}
	}
	if _, refusal := checkFreeze(facts{owner: r.payer(), activeFreeze: q.activeFreeze}); refusal != nil {
		return refusal
	}
	return q.parseErr
}

// Request accepts a withdrawal: it holds the amount, and it either submits the order or leaves the
// withdrawal for approval. replayed is true when the key was known; w is then the withdrawal as it
// is now. After a fault nothing was written. After any other error the withdrawal may exist or not;
// the same request with the same key resolves that. Rules IDEM-3 and IDEM-4.
func (s *Service) Request(ctx context.Context, org string, r Request) (w webhook.Withdrawal, replayed bool, err error) {
	if err := checkKey(r.IdempotencyKey); err != nil {
		return w, false, err
	}
	q, err := s.loadRequest(ctx, org, r)
	if err != nil {
		return w, false, err
	}
	if q.isKnown {
		w, err = s.answerReplay(ctx, org, q.existing, r, q.parsed, q.parseErr)
		return w, err == nil, err
	}
	if err := q.checkRefusal(r); err != nil {
		return w, false, err
	}
	failpoint.Hit("W01")
	w, err = s.createWithdrawal(ctx, org, r, q.parsed)
	if err == nil || r.IdempotencyKey == nil || fault.HasCode(err, fault.WithdrawalRiskBlocked) {
		return w, false, err
	}
	// A concurrent request with the same key may have been quicker: it took the key, or the balance
	// that this request then lacked. In both cases the answer is its row.
	lookErr := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		q.existing, q.isKnown, err = lookupKey(ctx, tx, org, r.IdempotencyKey)
		return err
	})
	if lookErr != nil {
		return w, false, errors.Join(err, lookErr)
	}
	if q.isKnown {
		w, err = s.answerReplay(ctx, org, q.existing, r, q.parsed, nil)
		return w, err == nil, err
	}
	return w, false, err
}

func loadMints(ctx context.Context, tx pg.Tx, catalogue *mint.Catalogue) (err error) {
	*catalogue, err = mint.LoadCatalogue(ctx, tx)
	return err
}

// existingRow holds the row that has a key.
type existingRow struct {
	id        string
	digest    []byte
	reference *string
	// restored is true when the row was made from the signer's journal: its digest is a
	// restorableDigest, and its reference is lost.
	restored bool
}

func lookupKey(ctx context.Context, tx pg.Tx, org string, key *string) (e existingRow, found bool, err error) {
	if key == nil {
		return e, false, nil
	}
	err = tx.QueryRow(ctx, `
		SELECT withdrawal_id, request_digest, reference, restored_at IS NOT NULL FROM withdrawals WHERE org_id = $1 AND key_hash = $2`,
		org, keyHash(key)).Scan(&e.id, &e.digest, &e.reference, &e.restored)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, false, nil
	}
	if err != nil {
		return e, false, fmt.Errorf("look up an idempotency key: %w", err)
	}
	return e, true, nil
}

// answerReplay answers a known key: with the row as it is now, or with a conflict when the request
// means another payment. A request that cannot be parsed is another payment. The reference is the
// caller's id of the order. It is compared with the row's column and is not part of the digest,
// because the digests of rows of earlier versions lack it. Rules IDEM-1 and IDEM-2.
func (s *Service) answerReplay(
	ctx context.Context, org string, e existingRow, r Request, p parsed, parseErr error,
) (webhook.Withdrawal, error) {
	wantDigest, sameReference := p.digest, r.Reference == e.reference ||
		r.Reference != nil && e.reference != nil && *r.Reference == *e.reference
	if e.restored {
		wantDigest, sameReference = p.restorableDigest, true
	}
	if parseErr != nil || string(e.digest) != string(wantDigest) || !sameReference {
		return webhook.Withdrawal{}, fault.New(fault.Conflict, fault.IdempotencyConflict,
			"This idempotencyKey belongs to %s, a withdrawal with other parameters. This request held nothing and "+
				"sent nothing. Repeat the original request to see that withdrawal, or use a new key for a new "+
				"payment.", e.id).
			WithParam("idempotencyKey").WithExtra("existingId", e.id)
	}
	return s.loadAnswer(ctx, org, e.id)
}

// loadAnswer returns the answer to a request and to its replays: the withdrawal as it is now. For a
// blocked withdrawal it returns the fault WITHDRAWAL_RISK_BLOCKED as it was decided at the time.
// Rule WD-31.
func (s *Service) loadAnswer(ctx context.Context, org, withdrawalID string) (w webhook.Withdrawal, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if w, err = LoadObject(ctx, tx, org, withdrawalID); err != nil || w.Status != string(Blocked) {
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
		return webhook.Withdrawal{}, err
	}
	return w, nil
}

// requestFacts returns the facts that the request itself states.
func (p parsed) requestFacts(r Request) facts {
	return facts{
		owner: r.payer(), isMax: p.isMax, mint: p.mint, amount: p.amount, chainRuns: p.chainRuns, destination: p.to,
		requireApproval: r.RequireApproval, keyGiven: r.IdempotencyKey != nil,
		deductsFee: p.deductsFee, feeMax: p.feeMax,
	}
}

// evaluateRequest decides about a request, for Request and for Preview alike: it loads the
// organization's own rows as this transaction sees them and runs the gates.
func (s *Service) evaluateRequest(ctx context.Context, tx pg.Tx, org string, f facts) (facts, Decision, error) {
	if err := s.loadFacts(ctx, tx, org, &f); err != nil {
		return f, Decision{}, err
	}
	return f, runGates(f), nil
}

// createWithdrawal decides and writes. The decision that counts is made on what the writing
// transaction sees. Before an organization's first payment, and where screening is configured, a
// decision without writing comes first. So no refused request creates the treasury's wallet.
func (s *Service) createWithdrawal(ctx context.Context, org string, r Request, p parsed) (webhook.Withdrawal, error) {
	var empty webhook.Withdrawal
	f := p.requestFacts(r)
	paidBefore, err := s.loadExternalFacts(ctx, org, &f, f.deductsFee || f.feeMax != nil)
	if err != nil {
		return empty, err
	}
	mayPay := true // a prediction until the row is written
	if !paidBefore || s.Risk.Configured() {
		d, err := s.evaluateWithScreening(ctx, org, &f)
		if err != nil {
			return empty, err
		}
		if mayPay = d.Status != Blocked; mayPay && d.refusal != nil {
			return empty, d.refusal
		}
	}
	var treasury wallet.Wallet
	if mayPay {
		if treasury, err = s.loadTreasury(ctx, org, p.mint.Chain); err != nil {
			return empty, err
		}
	}

	failpoint.Hit("W02")
	withdrawalID := id.New("wd", s.DB.Clock()())
	var created webhook.Withdrawal
	err = s.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if created, err = s.insertWithdrawal(ctx, tx, org, withdrawalID, r, p, f, treasury); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("W03")
		return nil
	})
	switch {
	case errors.Is(err, ledger.ErrOverdraft):
		return empty, newInsufficient(f.owner, p.mint)
	// Rule IDEM-7.
	case errors.Is(err, pg.ErrCommitUnknown):
		// The row exists or it does not. Coffer chose its id, so a read tells.
		if found, lookErr := s.loadAnswer(ctx, org, withdrawalID); lookErr == nil ||
			fault.HasCode(lookErr, fault.WithdrawalRiskBlocked) {
			return found, lookErr
		}
		return empty, fmt.Errorf("withdrawal %s: %w", withdrawalID, err)
	case err != nil:
		return empty, err
	}
	failpoint.Hit("W03")
	failpoint.Hit("W04")
	if created.Status == string(Blocked) {
		return s.loadAnswer(ctx, org, withdrawalID)
	}
	return created, nil
}

// evaluateWithScreening decides without writing. It screens the destination when no other gate
// refuses the request, and stores the providers' answer in f. No transaction is open during the
// screening.
func (s *Service) evaluateWithScreening(ctx context.Context, org string, f *facts) (d Decision, err error) {
	evaluated := *f
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		evaluated, d, err = s.evaluateRequest(ctx, tx, org, *f)
		return err
	})
	if err != nil || d.refusal != nil || evaluated.screening.Decision.Outcome != risk.ScreenDestination {
		return d, err
	}
	f.screening.Case.Answer = s.Risk.ScreenProviders(ctx, f.screening.Case.Subject)
	evaluated.screening.Case.Answer = f.screening.Case.Answer
	evaluated.screening.Decision = risk.DecideWithdrawal(evaluated.screening.Case)
	return runGates(evaluated), nil
}

func (s *Service) loadTreasury(ctx context.Context, org string, name chain.Name) (wallet.Wallet, error) {
	w, err := s.Wallets.Address(ctx, signer.WalletRef{OrgID: org, Family: name.Family(), Purpose: wallet.Treasury})
	if err != nil {
		return w, fmt.Errorf("treasury of %s on %s: %w", org, name, err)
	}
	return w, nil
}

// insertWithdrawal writes a request: row, hold, order, event and decision record in one
// transaction. Rule WD-2.
func (s *Service) insertWithdrawal(
	ctx context.Context, tx pg.Tx, org, withdrawalID string, r Request, p parsed, f facts,
	treasury wallet.Wallet,
) (webhook.Withdrawal, error) {
	var empty webhook.Withdrawal
	f, d, err := s.evaluateRequest(ctx, tx, org, f)
	if err != nil {
		return empty, err
	}
	switch {
	case d.refusal != nil && d.Status != Blocked:
		return empty, d.refusal
	case d.Status == Processing && treasury.ID == "":
		// Screening refused the destination a moment ago, and the organization's threshold has
		// changed since.
		return empty, fault.New(fault.Unavailable, fault.CodeUnavailable,
			"The organization's settings changed while the service decided about this withdrawal. Nothing was held "+
				"and nothing was sent. Repeat the request with the same idempotencyKey.")
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	// A customer's fee is fixed when the order is submitted: an approval may come days later, at
	// another fee. What an organization holds for the fee on top of its amount is fixed now.
	var deducted *money.Amount
	amount, charge := f.amount, f.charging.charge
	if d.Status == Blocked {
		charge.rent, charge.held, charge.failureMax = money.Zero, money.Zero, nil
	}
	switch {
	case d.Status == Processing && r.orgRequest == nil:
		deducted = f.deductedFee()
	case d.Status != Blocked && r.orgRequest != nil:
		deducted = f.deductedFee()
		if amount, err = f.debitAmount(); err != nil {
			return empty, fmt.Errorf("what withdrawal %s takes: %w", withdrawalID, err)
		}
	}
	quorum := 0
	if d.Status == AwaitingApproval {
		quorum = f.quorum
	}
	inserted := Withdrawal{
		id: withdrawalID, owner: f.owner, mintID: p.mint.ID, chain: p.mint.Chain, amount: amount, toAddress: p.to,
		key: r.IdempotencyKey, deductsFee: p.deductsFee, deductedFee: deducted, feeMax: p.feeMax,
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address,
			idempotency_key, request_digest, reference, metadata, status, requires_approval, approval_reasons,
			usd_value, created_at, fee_mode, fee_deducted, max_network_fee, travel_rule, screening, approvals_required, request_mac,
			product, whitelisted_address_id, cost_max, cost_rent, cost_price,
			charge_costs, charge_rent, charge_held, charge_failure_max, charge_coin_price, charge_mint_price)
		VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, nullif($24, ''), nullif($25, ''), $26, $27, $28,
			$29, $30, $31, $32, $33, $34)`,
		withdrawalID, org, f.owner.customerID, p.mint.ID, p.mint.Chain, amount, p.to,
		r.IdempotencyKey, p.digest, r.Reference, r.Metadata, d.Status, d.Status == AwaitingApproval, d.Reasons,
		f.usdValue, tx.Now, p.feeMode(), deducted, p.feeMax, p.travelRule, screeningObject(f.screening.Decision),
		quorum, s.GrantKey.RequestMAC(inserted.signedTerms(org, p.mint), quorum),
		f.owner.product, f.owner.listedID, f.costs.costMax, f.costs.recordedRent(), f.costs.recordedPrice(),
		f.charging.chargedCosts(), charge.rent, charge.held, charge.failureMax, charge.coinPrice, charge.mintPrice)
	if err != nil {
		return empty, fmt.Errorf("insert withdrawal %s: %w", withdrawalID, err)
	}
	// The row with the key comes before the balance. A request that waits for a key may wait for a
	// transaction that has that row and wants the balance, as endWithdrawal does.
	if d.Status != Blocked {
		held, err := amount.Add(charge.held)
		if err != nil {
			return empty, fmt.Errorf("what withdrawal %s takes: %w", withdrawalID, err)
		}
		if err := ledger.Post(ctx, tx, newHoldPosting(org, withdrawalID, f.owner, p.mint.ID, held)); err != nil {
			return empty, fmt.Errorf("hold for %s: %w", withdrawalID, err)
		}
	}
	if d.Status == Processing {
		if err := dispatch.Submit(ctx, tx, s.newOrder(org, inserted, p.mint, treasury, 0, nil)); err != nil {
			return empty, err
		}
	}
	w, err := LoadObject(ctx, tx, org, withdrawalID)
	if err != nil {
		return empty, err
	}
	if err := publishEvent(ctx, tx, org, findTransition("", d.Status), w); err != nil {
		return empty, err
	}
	action := "withdrawal.requested"
	if d.Status == Blocked {
		action = "withdrawal.blocked"
	}
	return w, recordDecision(ctx, tx, org, DecisionRecord{
		withdrawalID: withdrawalID, Act: ActRequested, Status: d.Status, Reasons: d.Reasons, Gates: d.Gates,
		Actor: r.Actor, Risk: &f.screening,
	}, action, d)
}

// screeningObject returns what the API shows of a screening decision.
func screeningObject(d risk.WithdrawalDecision) webhook.WithdrawalScreening {
	w := webhook.WithdrawalScreening{Status: string(d.Status)}
	if v := d.Verdict; v != nil && v.Severity != "" {
		severity, provider := string(v.Severity), v.Provider
		w.Severity, w.Provider = &severity, &provider
	}
	return w
}

func newHoldPosting(org, withdrawalID string, payer owner, mintID int, amount money.Amount) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.WithdrawalHold, ID: withdrawalID},
		Legs: []ledger.Leg{
			{Debit: payer.spendingAccount(org, mintID), Credit: payer.heldAccount(org, mintID), Amount: amount},
		},
	}
}

// loadExternalFacts collects the facts that no transaction of the organization can see:
//
//   - the price,
//   - the fee, if it is needed,
//   - the smallest payment that reaches the destination,
//   - whether the destination is a wallet of this installation.
//
// A tenant sees its own wallets only. A transfer to another tenant's wallet would be lost, because
// an arrival from a wallet of Coffer is never a deposit. paidBefore is true when the organization
// has its treasury already.
func (s *Service) loadExternalFacts(
	ctx context.Context, org string, f *facts, withFee bool,
) (paidBefore bool, err error) {
	if codec := s.Chains.AddressCodec(f.mint.Chain.Family()); codec != nil {
		f.isUnspendable = codec.IsUnspendable(f.destination)
	}
	var payerAddress chain.Address
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		wallets, err := wallet.ByAddresses(ctx, tx, f.mint.Chain.Family(), []chain.Address{f.destination})
		if err != nil {
			return err
		}
		f.isOwnAddress = len(wallets) > 0
		if err := s.loadCostSetting(ctx, tx, f); err != nil {
			return err
		}
		if err := s.loadChargeSetting(ctx, tx, org, f); err != nil {
			return err
		}
		if payerAddress, err = loadPayerAddress(ctx, tx, org, f.mint.Chain); err == nil && f.isMax {
			f.balance, err = loadSpendable(ctx, tx, org, f.owner, f.mint.ID)
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look up the owner of address %s: %w", f.destination, err)
	}
	if f.isMax {
		f.amount = f.balance
	}
	if withFee || f.charging.isCharged || f.costs.isCounted && !f.costs.isKnown {
		q := s.quoteCost(
			ctx,
			chain.Payment{From: payerAddress, To: f.destination, Contract: f.mint.Contract, Amount: f.amount},
			f.mint.Chain,
		)
		f.fee, f.costs.rent = q.costMax, q.rent
		s.loadChargePrices(ctx, f, q)
	}
	if fee := f.deductedFee(); f.isMax && fee != nil {
		f.amount = subOrZero(f.amount, *fee)
	}
	f.minReachable = s.minPayment(ctx, f.mint, f.destination)
	f.screening.Case = risk.WithdrawalCase{
		Subject: risk.Subject{
			Chain: f.mint.Chain, Address: f.destination, MintID: f.mint.ID, Symbol: f.mint.Symbol, Amount: f.amount,
			Direction: risk.Outgoing,
		},
		Configured: s.Risk.Configured(), UnknownAs: s.Risk.UnknownAs, Now: s.DB.Clock()(),
	}
	s.valueAmount(ctx, f)
	if f.costs.isCounted {
		if !f.costs.isKnown {
			f.costs.costMax = f.fee
		}
		if q := s.loadQuote(ctx, f.costs.native); q != nil && isFresh(*q, s.DB.Clock()(), s.priceAge(f.costs.native)) {
			f.costs.quote = q
		}
	}
	return payerAddress != "", nil
}

// loadCostSetting sets whether a customer's costs can be counted: the native coin, in which the
// network takes them, needs a price source here.
func (s *Service) loadCostSetting(ctx context.Context, tx pg.Tx, f *facts) error {
	if s.HasPriceSource == nil || f.owner.customerID == "" {
		return nil
	}
	var mints mint.Catalogue
	if err := loadMints(ctx, tx, &mints); err != nil {
		return err
	}
	native, ok := mints.Native(f.mint.Chain)
	f.costs.isCounted, f.costs.native, f.costs.decimals = ok && s.HasPriceSource(native.ID), native.ID, native.Decimals
	return nil
}

// loadPayerAddress returns the address of an organization's treasury from its row, or "" before its
// first payment. The address serves for fee quotes and is never shown.
func loadPayerAddress(
	ctx context.Context, tx pg.Tx, org string, name chain.Name,
) (payerAddress chain.Address, err error) {
	err = tx.QueryRow(ctx, `
		SELECT coalesce((SELECT address FROM wallets WHERE org_id = $1 AND family = $2 AND purpose = $3 AND subject = ''), '')`,
		org, name.Family(), wallet.Treasury).Scan(&payerAddress)
	return payerAddress, err
}

// valueAmount sets the dollar value of the amount. Every failure has the same effect: there is no
// fresh price, and so no value.
func (s *Service) valueAmount(ctx context.Context, f *facts) {
	f.quotedAt = s.DB.Clock()()
	if f.quote = s.loadQuote(ctx, f.mint.ID); f.quote == nil || !isFresh(*f.quote, f.quotedAt, s.priceAge(f.mint.ID)) {
		return
	}
	if v, err := money.ValueOf(f.amount, f.mint.Decimals, f.quote.Price); err == nil {
		f.usdValue = &v
	}
}

// loadQuote returns the source's current price of a mint, or nil if it has none or fails.
func (s *Service) loadQuote(ctx context.Context, mintID int) *price.Quote {
	if s.Prices == nil {
		return nil
	}
	q, err := s.Prices.USD(ctx, mintID)
	if err != nil {
		return nil
	}
	return &q
}
