package deposit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// Status is what the books say of a deposit.
type Status string

// The statuses that a deposit can have.
const (
	Confirming   Status = "CONFIRMING"    // in a block that is not final
	Screening    Status = "SCREENING"     // final, and not decided yet; of a mint under quarantine until that ends
	Credited     Status = "CREDITED"      // in the balance; in question while the chain says REORGED
	Reversed     Status = "REVERSED"      // was in the balance, and finality itself broke
	Orphaned     Status = "ORPHANED"      // its block is not on the chain any more
	Unsupported  Status = "UNSUPPORTED"   // final, and nothing that is credited; see the reason
	BelowMinimum Status = "BELOW_MINIMUM" // final, and less than the mint's minimum
)

// Why a deposit is UNSUPPORTED. scan.BalanceDelta is another.
const UnknownToken = "UNKNOWN_TOKEN" // not in the catalogue

// What the chain says of a deposit.
const (
	included  = "INCLUDED"
	finalized = "FINALIZED"
	reorged   = "REORGED"
)

// transition is a change that may happen to a deposit.
type transition struct {
	from, to Status // from "": the deposit is new
	when     string
	event    webhook.Type // of a customer's; an organization's has its own, see told
}

// transitions are all that may happen; become refuses the rest.
var transitions = []transition{
	{"", Confirming, "a recent block shows it", ""},
	{"", Screening, "a final block shows it first", ""},
	{"", Unsupported, "a final block shows it, and it cannot be credited", ""},
	{"", BelowMinimum, "a final block shows it, and it is too little", ""},
	{Confirming, Confirming, "another block has it now", ""},
	{Confirming, Orphaned, "its block is forked away, or another became final", ""},
	{Confirming, Screening, "its block is final", ""},
	{Confirming, Unsupported, "its block is final, and it cannot be credited", ""},
	{Confirming, BelowMinimum, "its block is final, and it is too little", ""},
	{Orphaned, Confirming, "a recent block shows it again", ""},
	{Orphaned, Screening, "a final block shows it again", ""},
	{Orphaned, Unsupported, "a final block shows it again, and it cannot be credited", ""},
	{Orphaned, BelowMinimum, "a final block shows it again, and it is too little", ""},
	{Screening, Credited, "screening lets it through", webhook.CustomerDeposit},
	{Screening, Orphaned, "finality broke, and its block is gone", ""},
	{Unsupported, Orphaned, "finality broke, and its block is gone", ""},
	{BelowMinimum, Orphaned, "finality broke, and its block is gone", ""},
	{Credited, Credited, "finality broke and its block is gone, or a final block of the new fork has it again", ""},
	{Credited, Reversed, "finality broke, and the new fork does not have it", webhook.CustomerDepositReversed},
	{Reversed, Reversed, "more of the loss is taken from a frozen customer", ""},
}

func allowed(from, to Status) bool {
	return slices.ContainsFunc(transitions, func(t transition) bool { return t.from == from && t.to == to })
}

// row is a deposit as the table has it.
type row struct {
	id, orgID, walletID, purpose string
	customerID                   string // "" for a treasury and for an organization
	product                      string // of an organization's own deposit, else ""
	mintID                       *int
	chain                        chain.Name
	contract, address, from      chain.Address
	amount                       money.Amount
	tx                           chain.TxHash
	kind                         chain.Kind
	position                     string
	logIndex                     uint64
	height                       uint64
	blockHash                    string
	proofID                      *int64
	status                       Status
	chainStatus                  string
	reason                       string
	usd                          *money.USD
	screening                    json.RawMessage
	createdAt                    time.Time
	confirmedAt, creditedAt      *time.Time
	reversedAt                   *time.Time
	takenBack                    *money.Amount // of what was credited, since it was reversed
	claims                       int           // how often something of the loss was taken later
}

const columns = `deposit_id, org_id, wallet_id, purpose, coalesce(customer_id, ''), coalesce(product, ''), mint_id, chain, contract, address, from_address,
	amount, tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, coalesce(reason, ''),
	usd_value, screening, created_at, confirmed_at, credited_at, reversed_at, taken_back, claims`

func scanned(r pgx.CollectableRow) (d row, err error) {
	err = r.Scan(&d.id, &d.orgID, &d.walletID, &d.purpose, &d.customerID, &d.product, &d.mintID, &d.chain, &d.contract, &d.address, &d.from,
		&d.amount, &d.tx, &d.kind, &d.position, &d.logIndex, &d.height, &d.blockHash, &d.proofID, &d.status, &d.chainStatus, &d.reason,
		&d.usd, &d.screening, &d.createdAt, &d.confirmedAt, &d.creditedAt, &d.reversedAt, &d.takenBack, &d.claims)
	return d, err
}

// subject is what the wallet that receives it is for.
func (d row) subject() string { return d.customerID + d.product } // one of them is ""

// told is the event that tells an organization of a deposit what t tells of a
// customer's: the events of the interface are of customers alone. "" when nobody
// is told, as of what reached a treasury.
func (d row) told(t webhook.Type) webhook.Type {
	switch d.purpose {
	case wallet.CustomerDeposit:
		return t
	case wallet.OrganizationDeposit:
		return organizations[t]
	}
	return ""
}

// organizations are the events of an organization's own deposits, by a customer's.
var organizations = map[webhook.Type]webhook.Type{
	webhook.CustomerDeposit: webhook.OrganizationDeposit, webhook.CustomerDepositReversed: webhook.OrganizationDepositReversed,
}

func null(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// become changes a deposit from what it was to what it is, or inserts it when
// it was nothing. The row must still be as it was read: its state and what
// would be credited. Impossible transitions panic.
func become(ctx context.Context, tx pg.Tx, was, is row) error {
	if !allowed(was.status, is.status) {
		panic(fmt.Sprintf("deposit: %s cannot go from %q to %q", is.id, was.status, is.status))
	}
	if was.status == "" {
		_, err := tx.Exec(ctx, `
			INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, address, from_address,
				amount, tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, reason, screening, created_at, confirmed_at, product)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)`,
			is.id, is.orgID, is.walletID, is.purpose, null(is.customerID), is.mintID, is.chain, is.contract, is.address, is.from,
			is.amount, is.tx, is.kind, is.position, is.logIndex, is.height, is.blockHash, is.proofID, is.status, is.chainStatus,
			null(is.reason), is.screening, is.createdAt, is.confirmedAt, null(is.product))
		if err != nil {
			return fmt.Errorf("insert deposit %s of %s: %w", is.id, is.tx, err)
		}
		return nil
	}
	tag, err := tx.Exec(ctx, `
		UPDATE deposits SET mint_id = $6, from_address = $7, amount = $8, log_index = $9, height = $10, block_hash = $11, proof_id = $12,
			status = $13, chain_status = $14, reason = $15, usd_value = $16, screening = $17, confirmed_at = $18, credited_at = $19,
			reversed_at = $20, taken_back = $21, claims = $22
		WHERE deposit_id = $1 AND status = $2 AND amount = $3 AND block_hash = $4 AND proof_id IS NOT DISTINCT FROM $5
			AND chain_status = $23 AND claims = $24`,
		was.id, was.status, was.amount, was.blockHash, was.proofID,
		is.mintID, is.from, is.amount, is.logIndex, is.height, is.blockHash, is.proofID,
		is.status, is.chainStatus, null(is.reason), is.usd, is.screening, is.confirmedAt, is.creditedAt,
		is.reversedAt, is.takenBack, is.claims, was.chainStatus, was.claims)
	if err != nil {
		return fmt.Errorf("deposit %s from %s to %s: %w", was.id, was.status, is.status, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("deposit %s from %s to %s: it is not what it was", was.id, was.status, is.status)
	}
	return nil
}
