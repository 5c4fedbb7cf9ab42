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
	payee  string
	whole  string // the amount, as the list writes it
	amount *big.Int
}

// payoutPart is what the list pays on a chain: rows of a token, one to each payee.
type payoutPart struct {
	chain, symbol, whole string
	rows                 int
	newAddress           func() (string, error)
}

// payoutParts are what the list pays. Rows of a token on Ethereum and of Bitcoin share transactions. Native coin on
// Ethereum is paid row by row.
var payoutParts = []payoutPart{
	{"ETHEREUM", "USDC", "1.25", 13, newEthereumAddress},
	{"ETHEREUM", "ETH", "0.05", 2, newEthereumAddress},
	{"SOLANA", "SOL", "0.02", 4, newSolanaAddress},
	{"BITCOIN", "BTC", "0.001", 10, newBitcoinAddress},
}

func newEthereumAddress() (string, error) { return newAddress().Hex(), nil }

// payoutReport is a batch payout with what is wrong with its rows.
type payoutReport struct {
	webhook.BatchPayout

	Problems []struct {
		Position int     `json:"position"`
		Column   *string `json:"column"`
		Message  string  `json:"message"`
	} `json:"problems"`
}

// tourPayouts shows a list of payments on all chains with a row that cannot be read: another person approves the rest
// as a whole, the service is killed while it pays, and each row is paid once.
func (s *tourRun) tourPayouts(ctx context.Context) error {
	s.printTitle("The marketplace pays a list of people")
	rows, err := s.fundPayouts(ctx)
	if err != nil {
		return err
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
	s.printStep("approved by %s, by the hash over all rows; a key made the list", person)
	if s.Interrupt != nil {
		if err := s.interruptPayout(ctx, b, len(rows)); err != nil {
			return err
		}
	}
	return s.waitPayoutPaid(ctx, b, rows)
}

// fundPayouts pays a customer in from outside, on all chains at once, and moves the amounts to the balance that pays
// lists, as charges do. It returns the rows that they pay.
func (s *tourRun) fundPayouts(ctx context.Context) (rows []payoutRow, err error) {
	type deposit struct {
		mint         localworld.Mint
		amount       *big.Int
		whole, after string
	}
	var deposits []deposit
	for _, part := range payoutParts {
		if _, ok := s.Info.Chains[part.chain]; !ok {
			continue
		}
		m, amount, err := s.mintOf(part.chain, tokenAmount{part.symbol, part.whole})
		if err != nil {
			return nil, err
		}
		for range part.rows {
			payee, err := part.newAddress()
			if err != nil {
				return nil, err
			}
			rows = append(rows, payoutRow{m, payee, part.whole, amount})
		}
		d := deposit{mint: m, amount: new(big.Int).Mul(amount, big.NewInt(int64(part.rows)))}
		before, err := s.loadBalance(ctx, m)
		if err != nil {
			return nil, err
		}
		if d.after, err = addAmounts(before.Available, d.amount); err != nil {
			return nil, err
		}
		address, _, err := s.addressAndURI(ctx, m)
		if err != nil {
			return nil, err
		}
		if _, err := s.Info.PayAddress(ctx, m, address, d.amount); err != nil {
			return nil, fmt.Errorf("pay from the faucet: %w", err)
		}
		deposits = append(deposits, d)
	}
	for _, d := range deposits {
		if err := s.waitUntil(ctx, "the money for the list is credited", func() (bool, error) {
			b, err := s.loadBalance(ctx, d.mint)
			return err == nil && b.Available == d.after, err
		}); err != nil {
			return nil, err
		}
		var moved webhook.Transfer
		if err := s.api.postJSON(ctx, "/transfers", map[string]any{
			"mintId": d.mint.ID, "amount": d.amount.String(), "idempotencyKey": "tour-" + randomHex(8),
			"from": map[string]any{"customerId": s.customer}, "to": map[string]any{"product": payoutProduct},
		}, &moved); err != nil {
			return nil, err
		}
		s.printStep("transfer %s: %s %s are there for lists", moved.TransferID,
			formatWhole(d.amount.String(), d.mint), d.mint.Symbol)
	}
	return rows, nil
}

// interruptPayout kills the service while it pays the rows of a batch: some are sent, and none or not all are final.
func (s *tourRun) interruptPayout(ctx context.Context, b payoutReport, rows int) error {
	var counts webhook.BatchPayoutCounts
	sent := 0
	if err := s.waitUntil(ctx, "the first payment of the list is sent", func() (bool, error) {
		items, err := s.listPayoutItems(ctx, b)
		if err != nil {
			return false, err
		}
		sent = 0
		for _, item := range items {
			if item.TxHash != nil {
				sent++
			}
		}
		var now webhook.BatchPayout
		if err := s.api.getJSON(ctx, "/batch-payouts/"+url.PathEscape(b.BatchPayoutID), &now); err != nil {
			return false, err
		}
		counts = now.Counts
		return sent > 0, nil
	}); err != nil {
		return err
	}
	if counts.Paid == rows {
		return errors.New("the list was paid before the service could be killed")
	}
	interruption, err := s.Interrupt(ctx)
	if err != nil {
		return err
	}
	s.printStep("the service (process %d) is killed when %d of %d rows are sent and %d are final; process %d continues",
		interruption.Killed, sent, rows, counts.Paid, interruption.Started)
	return nil
}

// uploadPayout makes a draft of the rows and of one that a spreadsheet spoiled, twice with one key.
func (s *tourRun) uploadPayout(ctx context.Context, rows []payoutRow) (b payoutReport, err error) {
	var list []map[string]any
	prefix := "salary-" + randomHex(3)
	for i, row := range rows {
		list = append(list, map[string]any{
			"reference": fmt.Sprintf("%s-%d", prefix, i+1), "mintId": row.mint.ID, "toAddress": row.payee,
			"amount": row.whole,
		})
	}
	const spoiled = "1,000"
	list = append(list, map[string]any{
		"reference": fmt.Sprintf("%s-%d", prefix, len(rows)+1), "mintId": s.usdc.ID, "toAddress": newAddress().Hex(),
		"amount": spoiled,
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
		got, err := s.payeeBalance(ctx, row)
		if err != nil {
			return err
		}
		if got.Cmp(row.amount) != 0 {
			return fmt.Errorf("%s has %s of %s on the chain, want exactly %s", row.payee, got, row.mint.Symbol,
				row.amount)
		}
	}
	s.printStep("BATCH_PAYOUT_COMPLETED number %d: each of the %d payees has exactly its amount on the chain",
		e.Sequence, len(rows))
	if err := s.countTransactions(ctx, b); err != nil {
		return err
	}
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

// payoutItem is a row of a batch payout as the interface shows it.
type payoutItem struct {
	MintID *int    `json:"mintId"`
	TxHash *string `json:"txHash"`
}

func (s *tourRun) listPayoutItems(ctx context.Context, b payoutReport) ([]payoutItem, error) {
	var page struct {
		Data []payoutItem `json:"data"`
	}
	err := s.api.getJSON(ctx, "/batch-payouts/"+url.PathEscape(b.BatchPayoutID)+"/items?limit=100", &page)
	return page.Data, err
}

// countTransactions prints how many transactions the rows of each coin shared.
func (s *tourRun) countTransactions(ctx context.Context, b payoutReport) error {
	items, err := s.listPayoutItems(ctx, b)
	if err != nil {
		return err
	}
	rows, hashes := map[int]int{}, map[int]map[string]bool{}
	for _, item := range items {
		if item.MintID == nil || item.TxHash == nil {
			continue
		}
		rows[*item.MintID]++
		if hashes[*item.MintID] == nil {
			hashes[*item.MintID] = map[string]bool{}
		}
		hashes[*item.MintID][*item.TxHash] = true
	}
	for _, m := range s.Info.Mints {
		if rows[m.ID] > 0 {
			s.printStep("%d rows of %s on %s were paid in %d transactions", rows[m.ID], m.Symbol, m.Chain,
				len(hashes[m.ID]))
		}
	}
	return nil
}

// payeeBalance returns what the payee of a row has on its chain.
func (s *tourRun) payeeBalance(ctx context.Context, row payoutRow) (*big.Int, error) {
	if row.mint.Chain == "ETHEREUM" {
		return s.chainBalance(ctx, row.mint, common.HexToAddress(row.payee))
	}
	held, err := s.Holds(ctx, row.mint, row.payee)
	return held.Big(), err
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
