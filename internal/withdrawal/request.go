package withdrawal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// Bounds of what a caller may hand over.
const (
	keyBytesMax           = 255
	addressBytesMax       = 128
	referenceBytesMax     = 255
	metadataKeysMax       = 20
	metadataKeyRunesMax   = 40
	metadataValueRunesMax = 500
)

// FeeOrganization bills the network fee to the organization: the customer pays
// the amount and the destination receives the amount.
const FeeOrganization = "ORGANIZATION"

const feeDeducted = "DEDUCTED"

// Request is a withdrawal as a surface hands it over: the caller's own words.
type Request struct {
	MintID          int
	CustomerID      string
	Amount          string // atomic units; whole tokens with UseDecimal
	UseDecimal      bool
	ToAddress       string
	RequireApproval bool
	IdempotencyKey  *string // nil: every call is a payment of its own
	Memo            *string
	FeeMode         string // "" means ORGANIZATION
	Reference       *string
	Metadata        map[string]string
	Actor           audit.Actor // who asks, for the audit log
	// Limit, unless nil, is asked once the key is known to be new, before
	// anything else can refuse: a replay is answered whatever the rate.
	Limit func() error
}

// parsed is a request that was understood.
type parsed struct {
	mint   mint.Mint
	amount money.Amount
	to     chain.Address
	// runs is false when the mint's chain is not configured; to is then as the
	// caller wrote it.
	runs   bool
	digest []byte
	// bare is the digest of the same payment asked for without approval: what a
	// row can have that was restored from the signer's journal.
	bare []byte
}

// parse reads a request's words. It is pure; what it refuses depends on nothing
// that can change for a mint that exists.
func parse(r Request, mints mint.Catalogue, chains chain.Chains) (parsed, error) {
	var p parsed
	if err := customer.CheckID(r.CustomerID); err != nil {
		return p, err
	}
	m, ok := mints.ByID(r.MintID)
	if !ok {
		return p, fault.New(fault.Invalid, fault.MintNotFound,
			"There is no mint %d. Nothing was held and nothing was sent. GET /mints lists the ones there are.", r.MintID).On("mintId")
	}
	p.mint = m
	amount, err := parseAmount(r.Amount, r.UseDecimal, m)
	if err != nil {
		return p, err
	}
	p.amount = amount
	if r.Memo != nil {
		return p, fault.New(fault.Invalid, fault.InvalidRequest,
			"Payments on %s carry no memo. Nothing was held and nothing was sent. Leave memo out or send null.", m.Chain).On("memo")
	}
	switch r.FeeMode {
	case "", FeeOrganization:
	case feeDeducted:
		return p, fault.New(fault.Invalid, fault.InvalidRequest,
			"This installation does not deduct the network fee from the amount. Nothing was held and nothing was sent. Use ORGANIZATION, which bills the fee to your organization.").On("feeMode")
	default:
		return p, fault.New(fault.Invalid, fault.InvalidRequest,
			"The only feeMode is ORGANIZATION. Nothing was held and nothing was sent. Leave feeMode out or send ORGANIZATION.").On("feeMode")
	}
	if err := checkHandles(r); err != nil {
		return p, err
	}
	if len(r.ToAddress) > addressBytesMax {
		return p, fault.New(fault.Invalid, fault.InvalidAddress,
			"An address has at most %d characters. Nothing was held and nothing was sent. Check toAddress.", addressBytesMax).On("toAddress")
	}
	p.to = chain.Address(r.ToAddress)
	grammar := chains.GrammarOf(m.Chain.Family())
	if _, runs := chains[m.Chain]; runs && grammar != nil {
		p.runs = true
		if p.to, err = grammar.Parse(r.ToAddress); err != nil {
			return p, fault.New(fault.Invalid, fault.InvalidAddress,
				"This is no address on %s: %v. Nothing was held and nothing was sent. Check toAddress with your customer.", m.Chain, err).On("toAddress")
		}
	}
	p.digest = digest(r, p)
	r.RequireApproval = false
	p.bare = digest(r, p)
	return p, nil
}

func parseAmount(s string, decimal bool, m mint.Mint) (money.Amount, error) {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidAmount, format+" Nothing was held and nothing was sent.", args...).On("amount")
	}
	read := money.Parse
	if decimal {
		read = func(s string) (money.Amount, error) { return money.ParseDecimal(s, m.Decimals) }
	}
	a, err := read(s)
	switch {
	case errors.Is(err, money.ErrFraction):
		return a, refuse("%s has %d decimals and the amount has more; it is never rounded. Send at most %d digits after the point.", m.Symbol, m.Decimals, m.Decimals)
	case errors.Is(err, money.ErrRange):
		return a, refuse("The amount is larger than any amount can be (2^256-1 atomic units). Send a smaller one.")
	case err != nil && !decimal && strings.Contains(s, "."):
		return a, refuse("Without useDecimal the amount is a whole number of atomic units and has no point. Send atomic units, or set useDecimal to true.")
	case err != nil && decimal:
		return a, refuse("The amount is not a decimal number of whole tokens such as \"1.5\": ASCII digits with at most one point, no sign, exponent, separator or leading zero. Correct it.")
	case err != nil:
		return a, refuse("The amount is not a whole number of atomic units such as \"5000000\": ASCII digits only, no sign, point, exponent, separator or leading zero. Correct it.")
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
			"An idempotency key has 1 to %d printable ASCII characters and no space. Nothing was held and nothing was sent. Send such a key, or none.", keyBytesMax).On("idempotencyKey")
	}
	return nil
}

// checkHandles bounds what the caller gives along for itself.
func checkHandles(r Request) error {
	if r.Reference != nil && (len(*r.Reference) == 0 || len(*r.Reference) > referenceBytesMax || !plain(*r.Reference)) {
		return fault.New(fault.Invalid, fault.InvalidRequest,
			"A reference has 1 to %d bytes of text without control characters. Nothing was held and nothing was sent. Shorten or clean it, or leave it out.", referenceBytesMax).On("reference")
	}
	ok := len(r.Metadata) <= metadataKeysMax
	for k, v := range r.Metadata {
		ok = ok && k != "" && utf8.RuneCountInString(k) <= metadataKeyRunesMax && utf8.RuneCountInString(v) <= metadataValueRunesMax && plain(k) && plain(v)
	}
	if !ok {
		return fault.New(fault.Invalid, fault.InvalidRequest,
			"Metadata has at most %d keys of 1 to %d characters with values of at most %d characters, without control characters. Nothing was held and nothing was sent. Make it smaller.",
			metadataKeysMax, metadataKeyRunesMax, metadataValueRunesMax).On("metadata")
	}
	return nil
}

func plain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }) < 0
}

// digest covers everything that makes a request another payment. An amount said
// as a decimal or as units, an address in another letter case and an omitted
// default are the same payment.
func digest(r Request, p parsed) []byte {
	h := sha256.New()
	for _, s := range []string{
		"coffer-withdraw-1", fmt.Sprint(p.mint.ID), r.CustomerID, p.amount.String(), string(p.to),
		fmt.Sprint(r.RequireApproval), "", FeeOrganization,
	} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return h.Sum(nil)
}

func keyHash(key *string) string {
	if key == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(*key))
	return hex.EncodeToString(sum[:])
}

// Request takes a withdrawal in: it holds the amount and either orders the
// payment or leaves it for a person. replayed is true when the key was known;
// the withdrawal is then shown as it is now. Errors: a fault, after which
// nothing was written; anything else leaves open whether the withdrawal exists,
// and the same request with the same key tells.
func (s *Service) Request(ctx context.Context, org string, r Request) (w webhook.Withdrawal, replayed bool, err error) {
	if err := checkKey(r.IdempotencyKey); err != nil {
		return w, false, err
	}
	var (
		mints mint.Catalogue
		stop  *freeze.Freeze
		twin  existing
		known bool
	)
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if twin, known, err = lookup(ctx, tx, org, r.IdempotencyKey); err != nil || known {
			return errors.Join(err, loadMints(ctx, tx, &mints))
		}
		of := freeze.Of{OrgID: org}
		if customer.CheckID(r.CustomerID) == nil {
			of.CustomerID = r.CustomerID
		}
		if stop, err = freeze.Standing(ctx, tx, of); err != nil {
			return err
		}
		return loadMints(ctx, tx, &mints)
	})
	if err != nil {
		return w, false, fmt.Errorf("prepare withdrawal: %w", err)
	}
	p, wrong := parse(r, mints, s.Chains)
	if known {
		w, err = s.replay(ctx, org, twin, p, wrong)
		return w, err == nil, err
	}
	if r.Limit != nil {
		if err := r.Limit(); err != nil {
			return w, false, err
		}
	}
	if _, refusal := standing(facts{frozen: stop}); refusal != nil {
		return w, false, refusal
	}
	if wrong != nil {
		return w, false, wrong
	}
	crash.Point("W01")
	w, err = s.place(ctx, org, r, p)
	if err == nil || r.IdempotencyKey == nil {
		return w, false, err
	}
	// A twin with the same key may have been quicker: it took the key, or the
	// money that this one then missed. Whatever stopped us, its row is the answer.
	lookErr := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		twin, known, err = lookup(ctx, tx, org, r.IdempotencyKey)
		return err
	})
	if lookErr != nil {
		return w, false, errors.Join(err, lookErr)
	}
	if known {
		w, err = s.replay(ctx, org, twin, p, nil)
		return w, err == nil, err
	}
	return w, false, err
}

func loadMints(ctx context.Context, tx pg.Tx, into *mint.Catalogue) (err error) {
	*into, err = mint.All(ctx, tx)
	return err
}

// existing is the row that has a key.
type existing struct {
	id       string
	digest   []byte
	restored bool // its digest is a bare one
}

func lookup(ctx context.Context, tx pg.Tx, org string, key *string) (e existing, known bool, err error) {
	if key == nil {
		return e, false, nil
	}
	err = tx.QueryRow(ctx, `
		SELECT withdrawal_id, request_digest, restored_at IS NOT NULL FROM withdrawals WHERE org_id = $1 AND key_hash = $2`,
		org, keyHash(key)).Scan(&e.id, &e.digest, &e.restored)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, false, nil
	}
	if err != nil {
		return e, false, fmt.Errorf("look up an idempotency key: %w", err)
	}
	return e, true, nil
}

// replay answers a known key: the row as it is now, or a conflict when the
// request means another payment. A request that cannot even be read is another.
func (s *Service) replay(ctx context.Context, org string, e existing, p parsed, wrong error) (webhook.Withdrawal, error) {
	asked := p.digest
	if e.restored {
		asked = p.bare
	}
	if wrong != nil || string(e.digest) != string(asked) {
		return webhook.Withdrawal{}, fault.New(fault.Conflict, fault.IdempotencyConflict,
			"This idempotencyKey belongs to %s, a withdrawal with other parameters. Nothing was held and nothing was sent by this request. Repeat the original request to see that withdrawal, or use a new key for a new payment.", e.id).
			On("idempotencyKey").Beside("existingId", e.id)
	}
	return s.ByID(ctx, org, e.id)
}

// place decides and writes. The decision is made on what the writing transaction
// sees. Before an organization's first payment it is made once more without
// writing anything, so that no refused request makes the treasury's wallet.
func (s *Service) place(ctx context.Context, org string, r Request, p parsed) (webhook.Withdrawal, error) {
	var none webhook.Withdrawal
	f := facts{
		mint: p.mint, amount: p.amount, chainRuns: p.runs, destination: p.to,
		requireApproval: r.RequireApproval, keyGiven: r.IdempotencyKey != nil,
	}
	paidBefore, err := s.outside(ctx, org, &f)
	if err != nil {
		return none, err
	}
	if !paidBefore {
		err := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
			seen := f
			if err := gather(ctx, tx, org, r.CustomerID, &seen); err != nil {
				return err
			}
			if refusal := decide(seen).refusal; refusal != nil {
				return refusal
			}
			return nil
		})
		if err != nil {
			return none, err
		}
	}
	treasury, err := s.treasury(ctx, org, p.mint.Chain)
	if err != nil {
		return none, err
	}

	crash.Point("W02")
	withdrawalID := id.New("wd", s.DB.Clock()())
	var made webhook.Withdrawal
	err = s.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if made, err = write(ctx, tx, org, withdrawalID, r, p, f, treasury); err != nil {
			return err
		}
		crash.Committing("W03")
		return nil
	})
	switch {
	case errors.Is(err, ledger.ErrOverdraft):
		return none, insufficient(p.mint)
	case errors.Is(err, pg.ErrCommitUnknown):
		// It is there or it is not; the id is ours, so the row can tell.
		if found, lookErr := s.ByID(ctx, org, withdrawalID); lookErr == nil {
			return found, nil
		}
		return none, fmt.Errorf("withdrawal %s: %w", withdrawalID, err)
	case err != nil:
		return none, err
	}
	crash.Point("W03")
	crash.Point("W04")
	return made, nil
}

func (s *Service) treasury(ctx context.Context, org string, name chain.Name) (wallet.Wallet, error) {
	w, err := s.Wallets.Address(ctx, signer.WalletRef{OrgID: org, Family: name.Family(), Purpose: wallet.Treasury})
	if err != nil {
		return w, fmt.Errorf("treasury of %s on %s: %w", org, name, err)
	}
	return w, nil
}

// write is the one transaction of a request.
func write(ctx context.Context, tx pg.Tx, org, withdrawalID string, r Request, p parsed, f facts, treasury wallet.Wallet) (webhook.Withdrawal, error) {
	var none webhook.Withdrawal
	if err := gather(ctx, tx, org, r.CustomerID, &f); err != nil {
		return none, err
	}
	d := decide(f)
	if d.refusal != nil {
		return none, d.refusal
	}
	decision, err := json.Marshal(d)
	if err != nil {
		return none, fmt.Errorf("record the decision on %s: %w", withdrawalID, err)
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address,
			idempotency_key, request_digest, reference, metadata, status, requires_approval, approval_reasons,
			decision, usd_value, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
		withdrawalID, org, r.CustomerID, p.mint.ID, p.mint.Chain, p.amount, p.to,
		r.IdempotencyKey, p.digest, r.Reference, r.Metadata, d.Status, d.Status == AwaitingApproval, d.Reasons,
		decision, f.value, tx.Now)
	if err != nil {
		return none, fmt.Errorf("insert withdrawal %s: %w", withdrawalID, err)
	}
	// The key before the balance: whoever waits for a key may wait for somebody who
	// has that row and wants the balance, as a removal does.
	if err := ledger.Post(ctx, tx, hold(org, withdrawalID, r.CustomerID, p)); err != nil {
		return none, fmt.Errorf("hold for %s: %w", withdrawalID, err)
	}
	if d.Status == Processing {
		err := dispatch.Place(ctx, tx, dispatch.Order{
			ID: withdrawalID, OrgID: org, Purpose: signer.Payment, Chain: p.mint.Chain, WalletID: treasury.ID,
			To: p.to, MintID: p.mint.ID, Contract: p.mint.Contract, Amount: p.amount,
			CustomerID: r.CustomerID, KeyHash: keyHash(r.IdempotencyKey),
		})
		if err != nil {
			return none, err
		}
	}
	w, err := Object(ctx, tx, org, withdrawalID)
	if err != nil {
		return none, err
	}
	if err := tell(ctx, tx, org, move("", d.Status), w); err != nil {
		return none, err
	}
	return w, audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: r.Actor, Action: "withdrawal.requested", ResourceKind: resourceKind, ResourceID: withdrawalID, Detail: d,
	})
}

func hold(org, withdrawalID, customerID string, p parsed) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.WithdrawalHold, ID: withdrawalID},
		Legs: []ledger.Leg{{
			Debit:  ledger.Account{OrgID: org, MintID: p.mint.ID, Kind: ledger.Customer, Subject: customerID},
			Credit: ledger.Account{OrgID: org, MintID: p.mint.ID, Kind: ledger.Withdrawing, Subject: customerID},
			Amount: p.amount,
		}},
	}
}

// outside collects the facts that no transaction of the organization can see:
// the price, and whether the destination is anybody's wallet here. A tenant
// sees its own wallets only, and a transfer to another tenant's would be lost,
// since what comes from a wallet of ours is never a deposit. paidBefore tells
// that the organization has its treasury already.
func (s *Service) outside(ctx context.Context, org string, f *facts) (paidBefore bool, err error) {
	if grammar := s.Chains.GrammarOf(f.mint.Chain.Family()); grammar != nil {
		f.burns = grammar.Burns(f.destination)
	}
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		known, err := wallet.Known(ctx, tx, f.mint.Chain.Family(), []chain.Address{f.destination})
		if err != nil {
			return err
		}
		f.ours = len(known) > 0
		return tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM wallets WHERE org_id = $1 AND family = $2 AND purpose = $3 AND subject = '')`,
			org, f.mint.Chain.Family(), wallet.Treasury).Scan(&paidBefore)
	})
	if err != nil {
		return false, fmt.Errorf("look whose address %s is: %w", f.destination, err)
	}
	f.value = s.value(ctx, f.mint, f.amount)
	return paidBefore, nil
}

// value is what an amount is worth, or nil without a price that is fresh. Every
// failure is the same here: no price.
func (s *Service) value(ctx context.Context, m mint.Mint, a money.Amount) *money.USD {
	if s.Prices == nil {
		return nil
	}
	q, err := s.Prices.USD(ctx, m.ID)
	if err != nil || !fresh(q, s.DB.Clock()(), s.priceAgeMax()) {
		return nil
	}
	v, err := money.ValueOf(a, m.Decimals, q.Price)
	if err != nil {
		return nil
	}
	return &v
}
