package tour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/webhook"
)

// payoutProduct is the product whose balance pays lists.
const payoutProduct = "BATCH_PAYOUT"

// payoutRow is a row of the list of the tour.
type payoutRow struct {
	mint   localworld.Mint
	payee  common.Address
	whole  string // the amount, as the list writes it
	amount *big.Int
}

// payoutReport is a batch payout with what is wrong with its rows.
type payoutReport struct {
	webhook.BatchPayout

	Problems []struct {
		Position int     `json:"position"`
		Column   *string `json:"column"`
		Message  string  `json:"message"`
	} `json:"problems"`
}

// tourPayouts shows a list of payments with a row that cannot be read: another person approves the rest as a whole,
// and each row is paid once.
func (s *tourRun) tourPayouts(ctx context.Context) error {
	s.printTitle("The marketplace pays a list of people")
	var rows []payoutRow
	for _, p := range []tokenAmount{
		{s.usdc.Symbol, "10.5"}, {s.usdc.Symbol, "4.5"}, {s.usdc.Symbol, "5"}, {s.ether.Symbol, "0.5"},
	} {
		m, amount, err := s.mintOf("ETHEREUM", p)
		if err != nil {
			return err
		}
		rows = append(rows, payoutRow{m, newAddress(), p.whole, amount})
	}
	for _, fund := range []struct {
		mint   localworld.Mint
		amount *big.Int
	}{{s.usdc, atomicUnits(20, s.usdc)}, {s.ether, atomicUnits(1, s.ether)}} {
		if err := s.fundPayouts(ctx, fund.mint, fund.amount); err != nil {
			return err
		}
	}
	b, err := s.uploadPayout(ctx, rows)
	if err != nil {
		return err
	}
	if b, err = s.submitPayout(ctx, b); err != nil {
		return err
	}
	person := s.Info.Users[0].Email
	if err := s.ApprovePayout(ctx, person, b.BatchPayoutID, strings.Replace(b.ContentHash, ":", ":0", 1)); err == nil {
		return fmt.Errorf("%s approved another hash than that of %s", person, b.BatchPayoutID)
	}
	if err := s.ApprovePayout(ctx, person, b.BatchPayoutID, b.ContentHash); err != nil {
		return err
	}
	s.printStep("approved by %s, by the hash over all rows", person)
	if s.Interrupt != nil {
		if err := s.Interrupt(ctx); err != nil {
			return err
		}
		s.printStep("the service was killed and started again while it paid")
	}
	return s.waitPayoutPaid(ctx, b, rows)
}

// fundPayouts pays a customer in from outside and moves the amount to the balance that pays lists, as a charge does.
func (s *tourRun) fundPayouts(ctx context.Context, m localworld.Mint, amount *big.Int) error {
	before, err := s.loadBalance(ctx, m)
	if err != nil {
		return err
	}
	want, err := addAmounts(before.Available, amount)
	if err != nil {
		return err
	}
	address, err := s.createDepositAddress(ctx, m)
	if err != nil {
		return err
	}
	if _, err := s.payFromFaucet(ctx, m, address, amount); err != nil {
		return err
	}
	if err := s.waitUntil(ctx, "the money for the list is credited", func() (bool, error) {
		b, err := s.loadBalance(ctx, m)
		return err == nil && b.Available == want, err
	}); err != nil {
		return err
	}
	var moved webhook.Transfer
	if err := s.api.postJSON(ctx, "/transfers", map[string]any{
		"mintId": m.ID, "amount": amount.String(), "idempotencyKey": "tour-" + randomHex(8),
		"from": map[string]any{"customerId": s.customer}, "to": map[string]any{"product": payoutProduct},
	}, &moved); err != nil {
		return err
	}
	s.printStep("transfer %s: %s %s are there for lists", moved.TransferID, formatWhole(amount.String(), m), m.Symbol)
	return nil
}

// uploadPayout makes a draft of the rows and of one that a spreadsheet spoiled, twice with one key.
func (s *tourRun) uploadPayout(ctx context.Context, rows []payoutRow) (b payoutReport, err error) {
	var list []map[string]any
	for i, row := range rows {
		list = append(list, map[string]any{
			"reference": fmt.Sprintf("salary-%d", i+1), "mintId": row.mint.ID, "toAddress": row.payee.Hex(),
			"amount": row.whole,
		})
	}
	const spoiled = "1,000"
	list = append(list, map[string]any{
		"reference": "salary-5", "mintId": s.usdc.ID, "toAddress": newAddress().Hex(), "amount": spoiled,
	})
	body := map[string]any{
		"rows": list, "mode": "PARTIAL", "useDecimal": true, "idempotencyKey": "tour-" + randomHex(8),
	}
	var replay payoutReport
	if err := s.api.postJSON(ctx, "/batch-payouts", body, &b); err != nil {
		return b, err
	}
	if err := s.api.postJSON(ctx, "/batch-payouts", body, &replay); err != nil {
		return b, err
	}
	if replay.BatchPayoutID != b.BatchPayoutID {
		return b, fmt.Errorf("the same key made another batch payout, %s", replay.BatchPayoutID)
	}
	if b.Status != "DRAFT" || b.ValidCount != len(rows) || len(b.Problems) != 1 ||
		b.Problems[0].Position != len(rows)+1 {
		return b, fmt.Errorf("the draft is %+v", b)
	}
	s.printStep("batch payout %s: %d of %d rows can be read", b.BatchPayoutID, b.ValidCount, b.ItemCount)
	s.printStep("row %d is left out: %s", b.Problems[0].Position, b.Problems[0].Message)
	return b, nil
}

// submitPayout submits a draft with its hash, and waits until its rows are checked.
func (s *tourRun) submitPayout(ctx context.Context, b payoutReport) (payoutReport, error) {
	path := "/batch-payouts/" + url.PathEscape(b.BatchPayoutID)
	err := s.api.postJSON(ctx, path+"/submit", map[string]any{"contentHash": b.ContentHash}, nil)
	if err != nil {
		return b, err
	}
	var waiting webhook.BatchPayout
	e, err := s.waitEvent(ctx, webhook.BatchPayoutAwaitingApproval, &waiting, func() bool {
		return waiting.BatchPayoutID == b.BatchPayoutID
	})
	if err != nil {
		return b, errors.Join(err, s.describePayout(ctx, b.BatchPayoutID))
	}
	if waiting.ContentHash != b.ContentHash || waiting.Approvals.Required < 1 {
		return b, fmt.Errorf("BATCH_PAYOUT_AWAITING_APPROVAL has %+v", waiting)
	}
	s.printStep("submitted: its sum is held, and BATCH_PAYOUT_AWAITING_APPROVAL number %d names %s", e.Sequence,
		waiting.ContentHash)
	return b, nil
}

// waitPayoutPaid waits until every row is paid, reads what the payees have on the chain, and exports the results.
func (s *tourRun) waitPayoutPaid(ctx context.Context, b payoutReport, rows []payoutRow) error {
	var paid webhook.BatchPayout
	e, err := s.waitEvent(ctx, webhook.BatchPayoutCompleted, &paid, func() bool {
		return paid.BatchPayoutID == b.BatchPayoutID
	})
	if err != nil {
		return errors.Join(err, s.describePayout(ctx, b.BatchPayoutID))
	}
	if paid.Status != "COMPLETED" || paid.Counts.Paid != len(rows) {
		return fmt.Errorf("BATCH_PAYOUT_COMPLETED has %+v", paid)
	}
	for _, row := range rows {
		got, err := s.chainBalance(ctx, row.mint, row.payee)
		if err != nil {
			return err
		}
		if got.Cmp(row.amount) != 0 {
			return fmt.Errorf("%s has %s of %s on the chain, want exactly %s", row.payee.Hex(), got, row.mint.Symbol,
				row.amount)
		}
	}
	s.printStep("BATCH_PAYOUT_COMPLETED number %d: each of the %d payees has exactly its amount on the chain",
		e.Sequence, len(rows))
	table, err := s.readTable(ctx, "/batch-payouts/"+url.PathEscape(b.BatchPayoutID)+"/items.csv")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != len(rows)+2 || strings.Count(table, "COMPLETED") != len(rows) ||
		!strings.Contains(lines[len(lines)-1], "UNREADABLE") {
		return fmt.Errorf("the results are %s", table)
	}
	s.printStep("the results have the %d rows of the list in its order; the last one: %s", len(lines)-1,
		strings.TrimSpace(lines[len(lines)-1]))
	return nil
}

// describePayout returns how far a batch payout has come, as an error.
func (s *tourRun) describePayout(ctx context.Context, batchID string) error {
	var b webhook.BatchPayout
	if err := s.api.getJSON(ctx, "/batch-payouts/"+url.PathEscape(batchID), &b); err != nil {
		return err
	}
	return fmt.Errorf("the batch payout is %+v", b)
}

// readTable reads a table of the interface.
func (s *tourRun) readTable(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.api.base+path, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set(s.api.header, s.api.key)
	resp, err := s.api.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("GET %s: %w", path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s: %d, %.200s, %w", path, resp.StatusCode, text, err)
	}
	return string(text), nil
}
