package deposit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Deposit is a transfer to a deposit address as an organization sees it. It has a customer or a
// product of the organization.
type Deposit struct {
	ID            string
	CustomerID    *string
	Product       *string
	CustomerEmail *string
	Mint          *mint.Mint // nil if the token is not in the catalogue
	Chain         chain.Name
	Contract      chain.Address // of the token of an UNSUPPORTED deposit; "" for native coin
	Amount        money.Amount
	USDValue      *money.USD // for display
	Address       chain.Address
	Memo          *string // the payer wrote it; nil if there is none or it was not read yet

	FromAddresses                        []chain.Address
	TxHash                               chain.TxHash
	LogIndex                             *uint64 // nil for native coin
	OutputIndex                          *int64  // nil on chains without outputs
	BlockNumber                          uint64
	Confirmations, ConfirmationsRequired uint64

	Source            string
	SwapID            string      // of the swap at whose wallet it arrived; "" for others
	Swap              *SwapCredit // nil unless it completes a swap
	DepositSwapID     string      // of the deposit swap at whose wallet it arrived; "" for others
	CheckoutID        string      // of the checkout at whose own wallet it arrived; "" for others
	Status            Status
	ChainStatus       string
	UnsupportedReason string // "" unless it is UNSUPPORTED
	SweepTxHash       *chain.TxHash
	Reversal          *Reversal // nil unless it is REVERSED

	Screening DepositScreening
	IsFlagged bool // screening held it; it stays true after a decision
	// The following are zero unless the deposit is flagged.
	RiskOfFunds        string // the severity that flagged it
	ReturnAddressRisk  string // how safe it is to send it back to its sender
	ReturnTo           string // where a rejection sends it; "" if there is no single sender
	FlagReason         *FlagReason
	FreshScreening     *FreshScreening // nil unless its sender was screened again; it decides nothing
	Resolution         *Resolution     // nil while no decision stands
	ResolutionAttempts []ResolutionAttempt

	CreatedAt               time.Time // when it was detected
	ConfirmedAt, CreditedAt *time.Time
}

// Reversal is how a credit was taken back. TakenBack and Loss are the deposit's amount together.
type Reversal struct {
	ReversedAt time.Time
	TakenBack  money.Amount // from the balance that was credited
	Loss       money.Amount // was not there any more
}

// SwapCredit is the customer swap that a deposit completes.
type SwapCredit struct {
	ID                string
	IdempotencyKey    string // "" if the swap was restored from the signer's journal
	FromMint, ToMint  mint.Mint
	AmountIn          money.Amount
	EstimatedOut      money.Amount
	AmountOut         *money.Amount // of all its deliveries
	OriginTxHash      *chain.TxHash
	DestinationTxHash *chain.TxHash
	CreatedAt         time.Time
}

// These are the sources of deposits. Other sources come with their features.
const (
	sourceExternal     = "EXTERNAL"
	sourceCustomerSwap = "CUSTOMER_SWAP" // a swap provider delivered it
	sourceDepositSwap  = "DEPOSIT_SWAP"  // a swap provider delivered it for what the customer paid it
	sourceCheckout     = "CHECKOUT"      // the payer of a checkout sent it
	sourceInternal     = "INTERNAL"      // no payer: an organization's swap brought it, or a person credited a stray
)

// selectViews selects deposits of customers and organizations with the values that their objects
// show in addition:
//   - the customer's e-mail
//   - the payer's memo
//   - the latest block of the chain
//   - the sweep that moved the credited amount
//   - the resolution and the failed attempts
//   - the worst verdict about its senders since it was flagged
//   - the swap that it completes
//
// It leaves out deposits to treasuries and change wallets, which are the operator's. It includes hidden
// ones, which the operator sees; see selectShown.
const selectViews = `
	SELECT ` + columns + `, email, memo, latest, sweep_hash, resolution, attempts, fresh, swap
	FROM (
		SELECT d.*, c.email,
			(SELECT m.memo FROM transaction_memos m WHERE m.chain = d.chain AND m.tx_hash = d.tx_hash) AS memo,
			greatest((SELECT max(h.height) FROM scan_heads h WHERE h.chain = d.chain),
			         (SELECT s.height FROM scan_cursors s WHERE s.chain = d.chain), d.height) AS latest,
			(SELECT s.tx_hash FROM sweeps s
			 WHERE s.wallet_id = d.wallet_id AND s.mint_id = d.mint_id AND s.chain = d.chain
			   AND s.status = 'DONE' AND s.created_at >= d.credited_at
			 ORDER BY s.created_at, s.sweep_id LIMIT 1) AS sweep_hash,
			CASE WHEN d.is_flagged THEN (SELECT ` + resolutionJSON + ` FROM deposit_resolutions r WHERE r.deposit_id = d.deposit_id AND r.status <> 'FAILED') END AS resolution,
			CASE WHEN d.is_flagged THEN (SELECT jsonb_agg(` + resolutionJSON + ` ORDER BY r.ended_at, r.resolution_id)
				FROM deposit_resolutions r WHERE r.deposit_id = d.deposit_id AND r.status = 'FAILED') END AS attempts,
			CASE WHEN d.is_flagged THEN (SELECT ` + freshVerdictJSON + ` FROM unnest(` + sendersExpr + `) AS s (address) CROSS JOIN LATERAL (
				SELECT * FROM sender_verdicts v
				WHERE v.org_id = d.org_id AND v.chain = d.chain AND v.address = s.address AND v.at > d.flagged_at
				  AND v.at <= coalesce((SELECT r.decided_at FROM deposit_resolutions r WHERE r.deposit_id = d.deposit_id AND r.status <> 'FAILED'), 'infinity')
				ORDER BY v.verdict_id DESC LIMIT 1) v
				ORDER BY array_position(ARRAY['SEVERE', 'HIGH', 'UNKNOWN', 'MEDIUM', 'LOW', 'NONE'], v.severity), v.verdict_id DESC LIMIT 1) END AS fresh,
			CASE WHEN d.completes_swap AND d.product IS NULL
				THEN (SELECT ` + swapCreditJSON + ` FROM swaps s WHERE s.swap_id = d.swap_id) END AS swap
		FROM deposits d LEFT JOIN customers c ON c.org_id = d.org_id AND c.customer_id = d.customer_id
	) shown
	WHERE purpose NOT IN ('TREASURY', 'CHANGE')`

// selectShown selects what organizations see.
const selectShown = selectViews + ` AND NOT is_hidden`

// swapCreditJSON is a storedSwapCredit of a row s of swaps. Amounts are text, because JSON numbers are not
// exact everywhere.
const swapCreditJSON = `jsonb_build_object('id', s.swap_id, 'idempotencyKey', coalesce(s.idempotency_key, ''),
	'fromMintId', s.from_mint_id, 'toMintId', s.to_mint_id, 'amountIn', s.amount_in::text,
	'estimatedOut', s.estimated_out::text, 'amountOut', s.amount_out::text, 'originTxHash', s.origin_tx_hash,
	'destinationTxHash', s.destination_tx_hash, 'createdAt', s.created_at)`

// storedSwapCredit is a SwapCredit as the query has it.
type storedSwapCredit struct {
	ID                string        `json:"id"`
	IdempotencyKey    string        `json:"idempotencyKey"`
	FromMintID        int           `json:"fromMintId"`
	ToMintID          int           `json:"toMintId"`
	AmountIn          string        `json:"amountIn"`
	EstimatedOut      string        `json:"estimatedOut"`
	AmountOut         *string       `json:"amountOut"`
	OriginTxHash      *chain.TxHash `json:"originTxHash"`
	DestinationTxHash *chain.TxHash `json:"destinationTxHash"`
	CreatedAt         time.Time     `json:"createdAt"`
}

// toSwapCredit returns the swap of a row.
func (s storedSwapCredit) toSwapCredit(catalogue mint.Catalogue) (*SwapCredit, error) {
	from, hasFrom := catalogue.ByID(s.FromMintID)
	to, hasTo := catalogue.ByID(s.ToMintID)
	if !hasFrom || !hasTo {
		return nil, fmt.Errorf("a mint of swap %s does not exist", s.ID)
	}
	c := SwapCredit{
		ID: s.ID, IdempotencyKey: s.IdempotencyKey, FromMint: from, ToMint: to, OriginTxHash: s.OriginTxHash,
		DestinationTxHash: s.DestinationTxHash, CreatedAt: s.CreatedAt,
	}
	var err, errOut error
	c.AmountIn, err = money.Parse(s.AmountIn)
	c.EstimatedOut, errOut = money.Parse(s.EstimatedOut)
	if err = errors.Join(err, errOut); err == nil && s.AmountOut != nil {
		var amountOut money.Amount
		amountOut, err = money.Parse(*s.AmountOut)
		c.AmountOut = &amountOut
	}
	if err != nil {
		return nil, fmt.Errorf("read the amounts of swap %s: %w", s.ID, err)
	}
	return &c, nil
}

// sendersExpr selects all senders of a row d of deposits.
const sendersExpr = `coalesce(d.senders, ARRAY[d.from_address])`

// depositView is a row with the additional values that an organization sees.
type depositView struct {
	storedDeposit
	email, memo          *string
	latestHeight         uint64
	sweepHash            *chain.TxHash
	resolution, attempts json.RawMessage // rows of deposit_resolutions
	freshVerdict         json.RawMessage // of sender_verdicts
	swap                 json.RawMessage // a storedSwapCredit
}

// Load returns a deposit as this transaction sees it. Error: a NOT_FOUND fault if the organization
// has no such deposit.
func Load(ctx context.Context, tx pg.Tx, org, depositID string) (Deposit, error) {
	notFound := fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"Your organization has no deposit with this id.").
		WithStep(fault.ListDeposits)
	if !id.IsValid("dep", depositID) {
		return Deposit{}, notFound
	}
	found, err := loadPage(
		ctx, tx, pagination.NewQuery(selectShown+` AND org_id = ? AND deposit_id = ?`, org, depositID),
		pagination.Page{Limit: 1},
	)
	if err != nil {
		return Deposit{}, fmt.Errorf("read deposit %s: %w", depositID, err)
	}
	if len(found.Items) == 0 {
		return Deposit{}, notFound
	}
	return found.Items[0], nil
}

// loadByID loads the objects of deposits of any organizations, by deposit id.
func loadByID(ctx context.Context, tx pg.Tx, deposits []storedDeposit) (map[string]Deposit, error) {
	if len(deposits) == 0 {
		return nil, nil
	}
	var ids []string
	for _, r := range deposits {
		ids = append(ids, r.id)
	}
	found, catalogue, err := queryViews(ctx, tx, selectViews+` AND deposit_id = ANY ($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read %d deposits: %w", len(ids), err)
	}
	objects := make(map[string]Deposit, len(found))
	for _, s := range found {
		if objects[s.id], err = s.toDeposit(catalogue); err != nil {
			return nil, fmt.Errorf("deposit %s: %w", s.id, err)
		}
	}
	return objects, nil
}

// freshDeposits returns the objects of deposits that this transaction has just written and that no
// sweep has moved. It takes the row from memory and reads the additional values only.
func freshDeposits(ctx context.Context, tx pg.Tx, deposits []storedDeposit) (map[string]Deposit, error) {
	if len(deposits) == 0 {
		return nil, nil
	}
	customers := map[string][]string{} // by organization
	latestHeights := map[chain.Name]uint64{}
	hashes := map[chain.Name][]chain.TxHash{}
	for _, r := range deposits {
		if r.customerID != "" {
			customers[r.orgID] = append(customers[r.orgID], r.customerID)
		}
		hashes[r.chain] = append(hashes[r.chain], r.tx)
	}
	emails := map[string]map[string]string{}
	for org, ids := range customers {
		var err error
		if emails[org], err = customer.LoadEmails(ctx, tx, org, ids); err != nil {
			return nil, err
		}
	}
	memos := map[chain.Name]map[chain.TxHash]string{}
	for ch, txs := range hashes {
		var height uint64
		var read map[chain.TxHash]string
		err := tx.QueryRow(ctx, `
			SELECT greatest((SELECT max(h.height) FROM scan_heads h WHERE h.chain = $1), (SELECT s.height FROM scan_cursors s WHERE s.chain = $1), 0),
				(SELECT jsonb_object_agg(m.tx_hash, m.memo) FROM transaction_memos m WHERE m.chain = $1 AND m.tx_hash = ANY ($2) AND m.memo IS NOT NULL)`,
			ch, txs).Scan(&height, &read)
		if err != nil {
			return nil, fmt.Errorf("ask for the progress of %s: %w", ch, err)
		}
		latestHeights[ch], memos[ch] = height, read
	}
	catalogue, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return nil, err
	}
	objects := make(map[string]Deposit, len(deposits))
	for _, r := range deposits {
		s := depositView{storedDeposit: r, latestHeight: max(latestHeights[r.chain], r.height)}
		if email, ok := emails[r.orgID][r.customerID]; ok {
			s.email = &email
		}
		if memo, ok := memos[r.chain][r.tx]; ok {
			s.memo = &memo
		}
		if objects[r.id], err = s.toDeposit(catalogue); err != nil {
			return nil, fmt.Errorf("deposit %s: %w", r.id, err)
		}
	}
	return objects, nil
}

// Filter narrows a list. A zero value matches everything.
type Filter struct {
	CustomerID    string
	Product       string
	Status        string
	MintID        int
	Chain         string
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
	TxHash        string
	Address       string
	IsFlagged     *bool // whether screening ever flagged it; nil: either
}

func (f Filter) orgQuery(org string) *pagination.Query {
	return f.addConditions(pagination.NewQuery(selectShown+` AND org_id = ?`, org))
}

// addConditions adds the conditions that are set.
func (f Filter) addConditions(q *pagination.Query) *pagination.Query {
	for column, value := range map[string]string{
		"customer_id": f.CustomerID, "product": f.Product, "status": f.Status, "chain": f.Chain, "address": f.Address,
	} {
		if value != "" {
			q.AddCondition(column+` = ?`, value)
		}
	}
	if f.MintID != 0 {
		q.AddCondition(`mint_id = ?`, f.MintID)
	}
	if f.TxHash != "" {
		// for the index on (chain, tx_hash)
		q.AddCondition(`tx_hash = ?`, f.TxHash).AddCondition(`chain = ANY (?)`, chain.Names)
	}
	// The partial index of flagged deposits is used for these literal conditions.
	if f.IsFlagged != nil && *f.IsFlagged {
		q.AddCondition(`is_flagged`)
	} else if f.IsFlagged != nil {
		q.AddCondition(`NOT is_flagged`)
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	return q
}

// List returns one page of the organization's deposits, sorted by the time at which they were first
// seen.
func List(
	ctx context.Context, tx pg.Tx, org string, f Filter, p pagination.Page,
) (pagination.Result[Deposit], error) {
	found, err := loadPage(ctx, tx, f.orgQuery(org), p)
	if err != nil {
		return pagination.Result[Deposit]{}, fmt.Errorf("list deposits: %w", err)
	}
	return found, nil
}

// ProductAmount is an amount of a mint that belongs to a product.
type ProductAmount struct {
	Product string
	MintID  int
	Amount  money.Amount
}

// PendingByProduct sums the organization's own deposits that were seen and are in no balance yet,
// by product and mint.
func PendingByProduct(ctx context.Context, tx pg.Tx, org string) ([]ProductAmount, error) {
	rows, err := tx.Query(ctx, `
		SELECT product, mint_id, sum(amount) FROM deposits
		WHERE org_id = $1 AND product IS NOT NULL AND status IN ('DETECTED', 'CONFIRMING', 'SCREENING') AND mint_id IS NOT NULL
		GROUP BY 1, 2 ORDER BY 1, 2`, org)
	if err != nil {
		return nil, fmt.Errorf("sum up the organization's pending deposits: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ProductAmount])
	if err != nil {
		return nil, fmt.Errorf("sum up the organization's pending deposits: %w", err)
	}
	return found, nil
}

// ForEach calls fn with each of the organization's deposits that match the filter, in the order of
// a list. The first error of fn ends it.
func ForEach(ctx context.Context, tx pg.Tx, org string, f Filter, desc bool, fn func(Deposit) error) error {
	catalogue, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return err
	}
	sql, args := f.orgQuery(org).BuildAll(desc, "created_at", "deposit_id")
	err = pg.ForEachRow(ctx, tx, sql, args, scanView, func(s depositView) error {
		object, err := s.toDeposit(catalogue)
		if err != nil {
			return fmt.Errorf("deposit %s: %w", s.id, err)
		}
		return fn(object)
	})
	if err != nil {
		return fmt.Errorf("read the deposits of %s: %w", org, err)
	}
	return nil
}

// UncreditedAmounts sums deposits of a customer that are in no balance.
type UncreditedAmounts struct {
	Pending money.Amount // seen, and not credited yet
	Flagged money.Amount // flagged and not resolved, or on its way back or elsewhere
}

// UncreditedByMint sums, for each mint, the deposits of a customer that were seen and are not in
// the balance. Every mint that reached the customer has an entry, also if its amounts are zero.
func UncreditedByMint(ctx context.Context, tx pg.Tx, org, customerID string) (map[int]UncreditedAmounts, error) {
	rows, err := tx.Query(ctx, `
		SELECT mint_id, coalesce(sum(amount) FILTER (WHERE status IN ('DETECTED', 'CONFIRMING', 'SCREENING')), 0),
			coalesce(sum(amount) FILTER (WHERE status IN ('FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK')), 0)
		FROM deposits
		WHERE org_id = $1 AND customer_id = $2 AND status <> 'ORPHANED' AND mint_id IS NOT NULL AND NOT is_hidden
		GROUP BY mint_id`, org, customerID)
	if err != nil {
		return nil, fmt.Errorf("sum up pending deposits: %w", err)
	}
	sums := map[int]UncreditedAmounts{}
	var mintID int
	var sum UncreditedAmounts
	_, err = pgx.ForEachRow(rows, []any{&mintID, &sum.Pending, &sum.Flagged}, func() error {
		sums[mintID] = sum
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sum up pending deposits: %w", err)
	}
	return sums, nil
}

func scanView(r pgx.CollectableRow) (s depositView, err error) {
	err = s.storedDeposit.scanColumns(
		r, &s.email, &s.memo, &s.latestHeight, &s.sweepHash, &s.resolution, &s.attempts, &s.freshVerdict, &s.swap,
	)
	return s, err
}

func loadPage(
	ctx context.Context, tx pg.Tx, q *pagination.Query, p pagination.Page,
) (pagination.Result[Deposit], error) {
	var empty pagination.Result[Deposit]
	sql, args := q.BuildPage(p, "created_at", "deposit_id")
	found, catalogue, err := queryViews(ctx, tx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return empty, err
	}
	cut := pagination.CutPage(
		p, found, func(s depositView) pagination.Cursor { return pagination.Cursor{CreatedAt: s.createdAt, ID: s.id} },
	)
	result := pagination.Result[Deposit]{NextCursor: cut.NextCursor}
	for _, s := range cut.Items {
		object, err := s.toDeposit(catalogue)
		if err != nil {
			return empty, fmt.Errorf("deposit %s: %w", s.id, err)
		}
		result.Items = append(result.Items, object)
	}
	return result, nil
}

// queryViews reads rows of selectViews and the mints that their objects name.
func queryViews(ctx context.Context, tx pg.Tx, sql string, args ...any) ([]depositView, mint.Catalogue, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, mint.Catalogue{}, err
	}
	found, err := pgx.CollectRows(rows, scanView)
	if err != nil {
		return nil, mint.Catalogue{}, err
	}
	catalogue, err := mint.LoadCatalogue(ctx, tx)
	return found, catalogue, err
}

// toDeposit returns the deposit as an organization sees it.
func (s depositView) toDeposit(catalogue mint.Catalogue) (Deposit, error) {
	d := Deposit{
		ID: s.id, CustomerID: emptyAsNull(s.customerID), Product: emptyAsNull(s.product), CustomerEmail: s.email,
		Chain: s.chain, Amount: s.amount, USDValue: s.usd, Address: s.address, Memo: s.memo, FromAddresses: s.senders,
		TxHash: s.tx, BlockNumber: s.height, Source: sourceExternal, Status: s.status, ChainStatus: s.chainStatus,
		SwapID: s.swapID, DepositSwapID: s.depositSwapID, CheckoutID: s.checkoutID, SweepTxHash: s.sweepHash,
		CreatedAt: s.createdAt, ConfirmedAt: s.confirmedAt, CreditedAt: s.creditedAt,
	}
	if s.mintID != nil {
		m, ok := catalogue.ByID(*s.mintID)
		if !ok {
			return Deposit{}, errors.New("its mint does not exist")
		}
		d.Mint, d.ConfirmationsRequired = &m, max(uint64(m.ConfirmationsRequired), s.depth)
	}
	switch {
	case s.role == Delivery && s.product != "":
		d.Source = sourceInternal // the output of a swap of the organization's own money
	case s.role == Delivery:
		d.Source = sourceCustomerSwap
	case s.depositSwapID != "":
		d.Source = sourceDepositSwap
	case s.purpose == wallet.Checkout, s.purpose == wallet.CheckoutShared:
		d.Source = sourceCheckout
	case s.role == Stray && !s.isHidden:
		d.Source = sourceInternal
	}
	if len(s.swap) > 0 {
		var stored storedSwapCredit
		if err := json.Unmarshal(s.swap, &stored); err != nil {
			return Deposit{}, fmt.Errorf("read the swap that it completes: %w", err)
		}
		var err error
		if d.Swap, err = stored.toSwapCredit(catalogue); err != nil {
			return Deposit{}, err
		}
	}
	if s.from != "" {
		d.FromAddresses = append([]chain.Address{s.from}, s.senders...)
	}
	if s.kind == chain.Token {
		d.LogIndex = &s.logIndex
	}
	// Rule DEP-53.
	if s.chain.IsUTXO() {
		if n, err := strconv.ParseInt(s.position, 10, 64); err == nil {
			d.OutputIndex = &n
		}
	}
	if s.chainStatus != chainReorged {
		d.Confirmations = s.latestHeight - s.height + 1
	}
	if s.status == Unsupported {
		d.UnsupportedReason, d.Contract = s.reason, s.contract
	}
	if s.status == Reversed {
		lost, err := s.amount.Sub(*s.takenBack)
		if err != nil {
			return Deposit{}, fmt.Errorf("read what was reversed of it: %w", err)
		}
		d.Reversal = &Reversal{ReversedAt: *s.reversedAt, TakenBack: *s.takenBack, Loss: lost}
	}
	if f := s.flag; f != nil {
		var reason storedFlagReason
		if err := json.Unmarshal(f.reason, &reason); err != nil {
			return Deposit{}, fmt.Errorf("read why it was flagged: %w", err)
		}
		flagReason := FlagReason(reason)
		d.IsFlagged, d.RiskOfFunds, d.FlagReason, d.ReturnAddressRisk = true, f.risk, &flagReason, f.returnRisk
		d.ReturnTo = f.returnTo
		if len(s.freshVerdict) > 0 {
			var fresh storedFreshScreening
			if err := json.Unmarshal(s.freshVerdict, &fresh); err != nil {
				return Deposit{}, fmt.Errorf("read the later screening of its sender: %w", err)
			}
			freshScreening := FreshScreening(fresh)
			d.FreshScreening = &freshScreening
		}
		if err := s.addResolution(&d); err != nil {
			return Deposit{}, err
		}
	}
	var screening storedScreening
	if err := json.Unmarshal(s.screening, &screening); err != nil {
		return Deposit{}, fmt.Errorf("read its screening: %w", err)
	}
	d.Screening = DepositScreening(screening)
	return d, nil
}
