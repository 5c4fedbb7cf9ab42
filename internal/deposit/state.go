package deposit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// Status is the state of a deposit in Coffer. What the chain says of it is its chain status.
type Status string

// These are the statuses of a deposit.
const (
	Confirming   Status = "CONFIRMING"    // in a block that is not final
	Screening    Status = "SCREENING"     // final and undecided, or waits for its mint's release or for confirmations
	Credited     Status = "CREDITED"      // in the balance; in question while the chain status is REORGED
	Reversed     Status = "REVERSED"      // was in the balance until finality itself broke
	Orphaned     Status = "ORPHANED"      // its block is no longer on the chain
	Unsupported  Status = "UNSUPPORTED"   // final, and never credited; see the reason
	BelowMinimum Status = "BELOW_MINIMUM" // final, and below the mint's minimum

	Flagged         Status = "FLAGGED"          // held on its address until a person decides
	Rejecting       Status = "REJECTING"        // on its way to the sender
	Redirecting     Status = "REDIRECTING"      // on its way to the operator's address
	ResolutionStuck Status = "RESOLUTION_STUCK" // its transfer failed or is overdue; the operator completes it
	Rejected        Status = "REJECTED"         // returned to its sender, final
	Redirected      Status = "REDIRECTED"       // sent to the operator's address, final
)

// bookedStatuses are the statuses of deposits in the ledger. A broken finality puts these deposits
// in question and does not undo their postings.
var bookedStatuses = map[Status]bool{
	Credited: true, Flagged: true, Rejecting: true, Redirecting: true, ResolutionStuck: true, Rejected: true,
	Redirected: true,
}

// IsDecided reports whether a deposit is credited or flagged, or was.
func (s Status) IsDecided() bool { return bookedStatuses[s] || s == Reversed }

// These are the reasons of an UNSUPPORTED deposit. scan.DoubtBalanceDelta is another.
const (
	UnknownToken  = "UNKNOWN_TOKEN"  // not in the catalogue
	ChangeAddress = "CHANGE_ADDRESS" // a foreign payment to a change wallet of ours
)

// These are the chain statuses of a deposit.
const (
	chainIncluded  = "INCLUDED"
	chainFinalized = "FINALIZED"
	chainReorged   = "REORGED"
)

// transition is an allowed change of a deposit's status.
type transition struct {
	from, to Status // from "": the deposit is new
	trigger  string
	event    event.Type // of a customer's deposit; orgEventTypes has an organization's
}

// transitions lists all allowed changes of status. applyChanges panics on any other.
var transitions = []transition{
	{"", Confirming, "a recent block shows it", event.CustomerDepositSeen},
	{"", Screening, "a final block shows it first", ""},
	{"", Credited, "a final block shows it first, and no screening is needed", event.CustomerDeposit},
	{"", Unsupported, "a final block shows it, and it cannot be credited", ""},
	{"", BelowMinimum, "a final block shows it, and the amount is below the minimum", ""},
	{Confirming, Confirming, "another block contains it now", ""},
	{Confirming, Orphaned, "its block was forked away, or another one became final", ""},
	{Confirming, Screening, "its block is final", ""},
	{Confirming, Credited, "its block is final, and no screening is needed", event.CustomerDeposit},
	{Confirming, Unsupported, "its block is final, and it cannot be credited", ""},
	{Confirming, BelowMinimum, "its block is final, and the amount is below the minimum", ""},
	{Orphaned, Confirming, "a recent block shows it again", ""},
	{Orphaned, Screening, "a final block shows it again", ""},
	{Orphaned, Credited, "a final block shows it again, and no screening is needed", event.CustomerDeposit},
	{Orphaned, Unsupported, "a final block shows it again, and it cannot be credited", ""},
	{Orphaned, BelowMinimum, "a final block shows it again, and the amount is below the minimum", ""},
	{Screening, Credited, "screening passes it, or its swap decides what it is", event.CustomerDeposit},
	{Screening, Flagged, "screening is above the threshold, or does not answer", event.CustomerDeposit},
	{Flagged, Credited, "a person approves it", event.CustomerDepositApproved},
	{Flagged, Rejecting, "a person rejects it", ""},
	{Flagged, Redirecting, "the operator redirects it", ""},
	{Flagged, Orphaned, "finality break, and the new fork does not have it", ""},
	{ResolutionStuck, Orphaned, "finality break, the new fork does not have it, and its transfer failed", ""},
	{Flagged, Flagged, "finality break, or a final block of the new fork has it again", ""},
	{Rejecting, Flagged, "the attempt failed before anything could reach the chain", ""},
	{Rejecting, ResolutionStuck, "the transfer failed, or is not final after an hour", ""},
	{Rejecting, Rejected, "the transfer is final", event.CustomerDepositRejected},
	{Redirecting, Flagged, "the attempt failed before anything could reach the chain", ""},
	{Redirecting, ResolutionStuck, "the transfer failed, or is not final after an hour", ""},
	{Redirecting, Redirected, "the transfer is final", event.CustomerDepositRedirected},
	{ResolutionStuck, Rejecting, "the operator has the transfer sent again", ""},
	{ResolutionStuck, Redirecting, "the operator has the transfer sent again", ""},
	{ResolutionStuck, Rejected, "the transfer became final after all", event.CustomerDepositRejected},
	{ResolutionStuck, Redirected, "the transfer became final after all", event.CustomerDepositRedirected},
	{Rejecting, Rejecting, "finality break, or a final block of the new fork has it again", ""},
	{Redirecting, Redirecting, "finality break, or a final block of the new fork has it again", ""},
	{ResolutionStuck, ResolutionStuck, "finality break, or a final block of the new fork has it again", ""},
	{
		Rejected, Rejected,
		"finality break, or a final block of the new fork has it again, or the operator bears the loss", "",
	},
	{
		Redirected, Redirected,
		"finality break, or a final block of the new fork has it again, or the operator bears the loss", "",
	},
	{Screening, Orphaned, "finality break, and its block is gone", ""},
	{Unsupported, Orphaned, "finality break, and its block is gone", ""},
	{BelowMinimum, Orphaned, "finality break, and its block is gone", ""},
	{
		Credited, Credited,
		"finality break and its block is gone, or a final block of the new fork has it again, or a person credits " +
			"a stray arrival", "",
	},
	{Credited, Reversed, "finality break, and the new fork does not have it", event.CustomerDepositReversed},
	{Reversed, Reversed, "the service takes more of the loss from a frozen customer", ""},
}

func isAllowed(from, to Status) bool {
	return slices.ContainsFunc(transitions, func(t transition) bool { return t.from == from && t.to == to })
}

// storedDeposit is a row of deposits.
type storedDeposit struct {
	id, orgID, walletID, purpose string
	customerID                   string // "" for a treasury, for an organization, and for a swap until the credit
	product                      string // set for an organization's own deposit only
	mintID                       *int
	chain                        chain.Name
	contract, address, from      chain.Address
	senders                      []chain.Address // all of them if there are several; from is "" then
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
	takenBack                    *money.Amount // the part of the credit that was taken back, since the reversal
	claimCount                   int           // how often a part of the loss was claimed later
	flag                         *flag         // why it was flagged; nil if it never was
	lostAt                       *time.Time    // when a returned or redirected deposit turned out to be gone
	depth                        uint64        // confirmations needed before a credit or a flag; 0: final is enough
	screenTries                  int           // how often no provider gave an answer
	swapID                       string        // set at a wallet of a swap only
	role                         ArrivalRole   // what it is for that swap; "" until it is credited
	completesSwap                bool
	isHidden                     bool            // organizations do not see it
	depositSwapID                string          // set at a wallet of a deposit swap only
	checkoutID                   string          // set at a wallet of one checkout only
	blockTime                    time.Time       // of the block that is applied; not stored
	references                   []chain.Address // of the block that is applied, see Update; not stored
	provider                     string          // of the swap; read for a refund only, see loadProvider
}

// flag holds why a deposit was flagged, as known at that moment.
type flag struct {
	risk       string          // the severity, or UNKNOWN
	reason     json.RawMessage // a storedFlagReason
	flaggedAt  time.Time
	returnTo   string // the sender, "" if there is no single one
	returnRisk string
	mac        []byte // of the values of macInput; nil if it was flagged before MACs existed
}

const columns = `deposit_id, org_id, wallet_id, purpose, coalesce(customer_id, ''), coalesce(product, ''), mint_id, chain, contract, address, from_address, senders,
	amount, tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, coalesce(reason, ''),
	usd_value, screening, created_at, confirmed_at, credited_at, reversed_at, taken_back, claim_count,
	is_flagged, coalesce(risk_of_funds, ''), flag_reason, flagged_at, coalesce(return_to, ''), coalesce(return_risk, ''), return_mac, lost_at, screen_tries, depth_required,
	coalesce(swap_id, ''), coalesce(arrival_role, ''), completes_swap, is_hidden, coalesce(deposit_swap_id, ''),
	coalesce(checkout_id, '')`

func scanDeposit(r pgx.CollectableRow) (d storedDeposit, err error) {
	err = d.scanColumns(r)
	return d, err
}

// scanColumns reads columns, followed by the additional columns of a query.
func (d *storedDeposit) scanColumns(r pgx.CollectableRow, extra ...any) error {
	var flagged bool
	var f flag
	var flaggedAt *time.Time
	err := r.Scan(append([]any{
		&d.id, &d.orgID, &d.walletID, &d.purpose, &d.customerID, &d.product, &d.mintID, &d.chain, &d.contract,
		&d.address, &d.from, &d.senders,
		&d.amount, &d.tx, &d.kind, &d.position, &d.logIndex, &d.height, &d.blockHash, &d.proofID, &d.status,
		&d.chainStatus, &d.reason,
		&d.usd, &d.screening, &d.createdAt, &d.confirmedAt, &d.creditedAt, &d.reversedAt, &d.takenBack, &d.claimCount,
		&flagged, &f.risk, &f.reason, &flaggedAt, &f.returnTo, &f.returnRisk, &f.mac, &d.lostAt, &d.screenTries,
		&d.depth, &d.swapID, &d.role, &d.completesSwap, &d.isHidden, &d.depositSwapID,
		&d.checkoutID,
	}, extra...)...)
	if flagged && flaggedAt != nil {
		f.flaggedAt = *flaggedAt
		d.flag = &f
	}
	return err
}

// isDeepEnough reports whether the block of a final deposit has the confirmations that the amount
// needs, by the proofs in the transaction's snapshot. Rule DEP-43.
func (d storedDeposit) isDeepEnough(ctx context.Context, tx pg.Tx) (ok bool, err error) {
	if d.depth == 0 {
		return true, nil
	}
	if err := tx.QueryRow(
		ctx, `SELECT finality_depth($1, $2) >= $3`, d.chain, d.height, d.depth,
	).Scan(&ok); err != nil {
		return false, fmt.Errorf("look up the depth of the block of deposit %s: %w", d.id, err)
	}
	return ok, nil
}

// walletSubject returns the subject of the wallet that received the deposit.
func (d storedDeposit) walletSubject() string {
	switch {
	case d.swapID != "":
		return d.swapID
	case d.depositSwapID != "":
		return d.depositSwapID
	case d.checkoutID != "":
		return d.checkoutID
	}
	return d.ownerSubject()
}

// ownerSubject returns the customer or product that the deposit belongs to; "" if it has neither.
func (d storedDeposit) ownerSubject() string { return d.customerID + d.product } // one of them is ""

func emptyAsNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// joinAddresses joins addresses with spaces. No address contains a space.
func joinAddresses(addresses []chain.Address) string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = string(a)
	}
	return strings.Join(texts, " ")
}

// change is a deposit before and after a change. before is zero for a new deposit.
type change struct{ before, after storedDeposit }

// applyChanges updates deposits, or inserts those whose before is zero, all or none. It fails if a
// row is not as it was read: its status and the values that would be credited. A transition that is
// not allowed panics. It reports the changes to the owners before it writes them.
//
// Deposits that leave the chain are updated first: that frees the unique key of their movement for
// another deposit. The caller has locked the rows, so their order within a group does not matter.
func (s *Service) applyChanges(ctx context.Context, tx pg.Tx, changes ...change) error {
	var leaving, moving, arriving []change
	for _, c := range changes {
		switch {
		case !isAllowed(c.before.status, c.after.status):
			panic(fmt.Sprintf("deposit: %s cannot go from %q to %q", c.after.id, c.before.status, c.after.status))
		case c.before.status == "":
			arriving = append(arriving, c)
		case c.after.chainStatus == chainReorged:
			leaving = append(leaving, c)
		default:
			moving = append(moving, c)
		}
	}
	if err := s.Owners.report(ctx, tx, changes); err != nil {
		return err
	}
	for _, group := range [][]change{leaving, moving} {
		if err := updateDeposits(ctx, tx, group); err != nil {
			return err
		}
	}
	return insertDeposits(ctx, tx, arriving)
}

func updateDeposits(ctx context.Context, tx pg.Tx, changes []change) error {
	n := len(changes)
	if n == 0 {
		return nil
	}
	var (
		ids, statuses, blocks, chains = make([]string, n), make([]string, n), make([]string, n),
			make([]string, n)
		amounts                                  = make([]money.Amount, n)
		proofs                                   = make([]*int64, n)
		claims                                   = make([]int, n)
		toMint                                   = make([]*int, n)
		toFrom, toBlock, toStatus, toChainStatus = make([]string, n), make([]string, n), make([]string, n),
			make([]string, n)
		toAmount                           = make([]money.Amount, n)
		toIndex, toHeight                  = make([]int64, n), make([]int64, n)
		toProof                            = make([]*int64, n)
		toReason                           = make([]*string, n)
		toUSD                              = make([]*money.USD, n)
		toScreening                        = make([]string, n)
		confirmed, credited, reversed      = make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n)
		toTaken                            = make([]*money.Amount, n)
		flagged                            = make([]bool, n)
		risks, flags, returns, returnRisks = make([]*string, n), make([]*string, n), make([]*string, n),
			make([]*string, n)
		flaggedAt = make([]*time.Time, n)
		macs      = make([][]byte, n)
		lost      = make([]*time.Time, n)
		toClaims  = make([]int, n)
		toSenders = make([]*string, n)
		toDepth   = make([]int64, n)

		toCustomers, toProducts, toRoles = make([]*string, n), make([]*string, n), make([]*string, n)
		toCompletes, toHides             = make([]bool, n), make([]bool, n)
	)
	for i, c := range changes {
		ids[i], statuses[i], blocks[i], chains[i] = c.before.id, string(c.before.status), c.before.blockHash,
			c.before.chainStatus
		amounts[i], proofs[i], claims[i] = c.before.amount, c.before.proofID, c.before.claimCount
		toMint[i], toFrom[i], toAmount[i], toIndex[i], toHeight[i] = c.after.mintID, string(c.after.from),
			c.after.amount, int64(c.after.logIndex), int64(c.after.height)
		toBlock[i], toProof[i], toStatus[i], toChainStatus[i] = c.after.blockHash, c.after.proofID,
			string(c.after.status), c.after.chainStatus
		toReason[i], toUSD[i], toScreening[i] = emptyAsNull(c.after.reason), c.after.usd, string(c.after.screening)
		confirmed[i], credited[i], reversed[i] = c.after.confirmedAt, c.after.creditedAt, c.after.reversedAt
		toTaken[i], toClaims[i], lost[i], toSenders[i] = c.after.takenBack, c.after.claimCount, c.after.lostAt,
			emptyAsNull(joinAddresses(c.after.senders))
		toDepth[i] = int64(c.after.depth)
		toCustomers[i], toRoles[i] = emptyAsNull(c.after.customerID), emptyAsNull(string(c.after.role))
		toProducts[i] = emptyAsNull(c.after.product)
		toCompletes[i], toHides[i] = c.after.completesSwap, c.after.isHidden
		if f := c.after.flag; f != nil {
			reason := string(f.reason)
			flagged[i], risks[i], flags[i], flaggedAt[i], returns[i], returnRisks[i] = true, &f.risk, &reason,
				&f.flaggedAt, emptyAsNull(f.returnTo), emptyAsNull(f.returnRisk)
			macs[i] = f.mac
		}
	}
	tag, err := tx.Exec(ctx, `
		UPDATE deposits d SET mint_id = c.mint_id, from_address = c.from_address, amount = c.amount, log_index = c.log_index, height = c.height,
			block_hash = c.block_hash, proof_id = c.proof_id, status = c.status, chain_status = c.chain_status, reason = c.reason,
			usd_value = c.usd_value, screening = c.screening::jsonb, confirmed_at = c.confirmed_at, credited_at = c.credited_at,
			reversed_at = c.reversed_at, taken_back = c.taken_back, claim_count = c.claim_count,
			is_flagged = c.is_flagged, risk_of_funds = c.risk_of_funds, flag_reason = c.flag_reason::jsonb, flagged_at = c.flagged_at,
			return_to = c.return_to, return_risk = c.return_risk, return_mac = c.return_mac, lost_at = c.lost_at,
			senders = string_to_array(c.senders, ' '), depth_required = c.depth,
			customer_id = c.customer_id, arrival_role = c.arrival_role, completes_swap = c.completes_swap,
			is_hidden = c.is_hidden, product = c.product
		FROM unnest($1::text[], $2::text[], $3::numeric[], $4::text[], $5::bigint[], $6::text[], $7::int[],
			$8::int[], $9::text[], $10::numeric[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::text[], $16::text[], $17::text[],
			$18::numeric[], $19::text[], $20::timestamptz[], $21::timestamptz[], $22::timestamptz[], $23::numeric[], $24::int[],
			$25::boolean[], $26::text[], $27::text[], $28::timestamptz[], $29::text[], $30::text[], $31::bytea[], $32::timestamptz[], $33::text[], $34::bigint[],
			$35::text[], $36::text[], $37::boolean[], $38::boolean[], $39::text[])
			AS c (deposit_id, was_status, was_amount, was_block, was_proof, was_chain_status, was_claims,
				mint_id, from_address, amount, log_index, height, block_hash, proof_id, status, chain_status, reason,
				usd_value, screening, confirmed_at, credited_at, reversed_at, taken_back, claim_count,
				is_flagged, risk_of_funds, flag_reason, flagged_at, return_to, return_risk, return_mac, lost_at, senders, depth,
				customer_id, arrival_role, completes_swap, is_hidden, product)
		WHERE d.deposit_id = c.deposit_id AND d.deposit_id = ANY ($1) AND d.status = c.was_status AND d.amount = c.was_amount
			AND d.block_hash = c.was_block AND d.proof_id IS NOT DISTINCT FROM c.was_proof
			AND d.chain_status = c.was_chain_status AND d.claim_count = c.was_claims`,
		ids, statuses, amounts, blocks, proofs, chains, claims,
		toMint, toFrom, toAmount, toIndex, toHeight, toBlock, toProof, toStatus, toChainStatus, toReason,
		toUSD, toScreening, confirmed, credited, reversed, toTaken, toClaims,
		flagged, risks, flags, flaggedAt, returns, returnRisks, macs, lost, toSenders, toDepth,
		toCustomers, toRoles, toCompletes, toHides, toProducts)
	description := fmt.Sprintf("deposit %s from %s to %s", ids[0], statuses[0], toStatus[0])
	if n > 1 {
		description += fmt.Sprintf(" and %d more", n-1)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", description, err)
	}
	if tag.RowsAffected() != int64(n) {
		return fmt.Errorf("%s: %d have changed since they were read", description, int64(n)-tag.RowsAffected())
	}
	return nil
}

func insertDeposits(ctx context.Context, tx pg.Tx, changes []change) error {
	n := len(changes)
	if n == 0 {
		return nil
	}
	var (
		ids, orgs, wallets, purposes    = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		customers, products             = make([]*string, n), make([]*string, n)
		mints                           = make([]*int, n)
		chains, contracts, addresses    = make([]string, n), make([]string, n), make([]string, n)
		froms, hashes, kinds, positions = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		amounts                         = make([]money.Amount, n)
		indexes, heights                = make([]int64, n), make([]int64, n)
		blocks, statuses, chainStatus   = make([]string, n), make([]string, n), make([]string, n)
		proofs                          = make([]*int64, n)
		reasons                         = make([]*string, n)
		screenings                      = make([]string, n)
		created                         = make([]time.Time, n)
		confirmed, credited             = make([]*time.Time, n), make([]*time.Time, n)
		values                          = make([]*money.USD, n)
		senders                         = make([]*string, n)
		depths                          = make([]int64, n)
		swaps                           = make([]*string, n)
		hides                           = make([]bool, n)
		depositSwaps, checkouts         = make([]*string, n), make([]*string, n)
	)
	for i, c := range changes {
		ids[i], orgs[i], wallets[i], purposes[i] = c.after.id, c.after.orgID, c.after.walletID, c.after.purpose
		customers[i], products[i], mints[i] = emptyAsNull(c.after.customerID), emptyAsNull(c.after.product),
			c.after.mintID
		chains[i], contracts[i], addresses[i], froms[i] = string(c.after.chain), string(c.after.contract),
			string(c.after.address), string(c.after.from)
		amounts[i], hashes[i], kinds[i], positions[i] = c.after.amount, string(c.after.tx), string(c.after.kind),
			c.after.position
		indexes[i], heights[i], blocks[i], proofs[i] = int64(c.after.logIndex), int64(c.after.height),
			c.after.blockHash, c.after.proofID
		statuses[i], chainStatus[i], reasons[i], screenings[i] = string(c.after.status), c.after.chainStatus,
			emptyAsNull(c.after.reason), string(c.after.screening)
		values[i], created[i], confirmed[i], credited[i] = c.after.usd, c.after.createdAt, c.after.confirmedAt,
			c.after.creditedAt
		senders[i], depths[i] = emptyAsNull(joinAddresses(c.after.senders)), int64(c.after.depth)
		swaps[i], hides[i] = emptyAsNull(c.after.swapID), c.after.isHidden
		depositSwaps[i], checkouts[i] = emptyAsNull(c.after.depositSwapID), emptyAsNull(c.after.checkoutID)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, product, mint_id, chain, contract, address, from_address,
			amount, tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, reason,
			usd_value, screening, created_at, confirmed_at, credited_at, senders, depth_required, swap_id, is_hidden,
			deposit_swap_id, checkout_id)
		SELECT deposit_id, org_id, wallet_id, purpose, customer_id, product, mint_id, chain, contract, address, from_address,
			amount, tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, reason,
			usd_value, screening::jsonb, created_at, confirmed_at, credited_at, string_to_array(senders, ' '), depth,
			swap_id, is_hidden, deposit_swap_id, checkout_id
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[], $8::text[], $9::text[], $10::text[], $11::text[],
			$12::numeric[], $13::text[], $14::text[], $15::text[], $16::bigint[], $17::bigint[], $18::text[], $19::bigint[], $20::text[], $21::text[],
			$22::text[], $23::numeric[], $24::text[], $25::timestamptz[], $26::timestamptz[], $27::timestamptz[], $28::text[], $29::bigint[],
			$30::text[], $31::boolean[], $32::text[], $33::text[])
			AS c (deposit_id, org_id, wallet_id, purpose, customer_id, product, mint_id, chain, contract, address, from_address,
				amount, tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, reason,
				usd_value, screening, created_at, confirmed_at, credited_at, senders, depth, swap_id, is_hidden,
				deposit_swap_id, checkout_id)`,
		ids, orgs, wallets, purposes, customers, products, mints, chains, contracts, addresses, froms,
		amounts, hashes, kinds, positions, indexes, heights, blocks, proofs, statuses, chainStatus, reasons,
		values, screenings, created, confirmed, credited, senders, depths, swaps, hides, depositSwaps,
		checkouts)
	if err != nil {
		return fmt.Errorf("insert %d deposits from %s of %s on: %w", n, ids[0], hashes[0], err)
	}
	return nil
}
