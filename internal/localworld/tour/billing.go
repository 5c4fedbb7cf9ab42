package tour

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/localworld"
)

// billedFee is a fee as the interface shows it.
type billedFee struct {
	FeeLineID  string  `json:"feeLineId"`
	Kind       string  `json:"kind"`
	FromMintID int     `json:"fromMintId"`
	FeeAmount  string  `json:"feeAmount"`
	USDValue   *string `json:"usdValue"`
	IsCredit   bool    `json:"isCredit"`
	FeeTxHash  *string `json:"feeTxHash"`
	InvoiceID  *string `json:"invoiceId"`
}

// billedSection is a sum of fees as the interface shows it.
type billedSection struct {
	Kind, Chain, Symbol string
	Lines               int
	Amount              string
	USDExact            string `json:"usdExact"`
	USD                 string `json:"usd"`
}

// currentBill is what the next invoice would have.
type currentBill struct {
	Month    string
	Sections []billedSection
	Subtotal string
	Unpriced int
}

// tourBilling computes the bill of the month again from its fees, and the fees of a transaction from the chain. Then
// the running month is billed, which only a local world can do before the month is over, and the invoice is verified.
func (s *tourRun) tourBilling(ctx context.Context) error {
	s.printTitle("The month's bill adds up")
	if err := s.saveTerms(ctx); err != nil {
		return err
	}
	var bill currentBill
	var fees []billedFee
	err := s.waitUntil(ctx, "the sums of the bill are those of its fees", func() (bool, error) {
		bill = currentBill{}
		if err := s.api.getJSON(ctx, "/billing/current", &bill); err != nil {
			return false, err
		}
		var err error
		if fees, err = s.listUnbilled(ctx); err != nil {
			return false, err
		}
		return len(bill.Sections) > 0, s.compareSections(bill, fees)
	})
	if err != nil {
		return err
	}
	s.printStep("GET /billing/current: %d fees that are on no invoice make $%s for %s so far, without tax",
		len(fees)-bill.Unpriced, bill.Subtotal, bill.Month)
	for _, x := range bill.Sections {
		s.printStep("%s in %s on %s: worth exactly $%s, billed as $%s; number of fees: %d", x.Kind, x.Symbol, x.Chain,
			x.USDExact, x.USD, x.Lines)
	}
	if err := s.compareWithChain(ctx, fees); err != nil {
		return err
	}
	return s.tourInvoice(ctx, time.Now().UTC().Format("2006-01"))
}

// saveTerms says what invoices print about both parties. Saved again, the same terms stay.
func (s *tourRun) saveTerms(ctx context.Context) error {
	ofBuyer := "/organizations/" + url.PathEscape(s.Info.OrganizationID) + "/billing-terms"
	names := map[string]string{"/billing/terms": "Local Operator Ltd", ofBuyer: "Local Marketplace Ltd"}
	for path, name := range names {
		err := s.operator.sendJSON(ctx, http.MethodPut, path, map[string]any{
			"legalName": name, "address": []string{"1 Example Street", "London"},
		})
		if err != nil {
			return fmt.Errorf("save the billing terms of %s: %w", name, err)
		}
	}
	s.printStep("the operator sets what invoices print about both parties")
	return nil
}

// listUnbilled returns the fees that are on no invoice.
func (s *tourRun) listUnbilled(ctx context.Context) ([]billedFee, error) {
	fees, err := s.listFees(ctx)
	return slices.DeleteFunc(fees, func(f billedFee) bool { return f.InvoiceID != nil }), err
}

// listFees returns all fees.
func (s *tourRun) listFees(ctx context.Context) (fees []billedFee, err error) {
	for cursor := ""; ; {
		var page struct {
			Data       []billedFee `json:"data"`
			NextCursor *string     `json:"nextCursor"`
		}
		query := url.Values{"limit": {"100"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		if err := s.api.getJSON(ctx, "/billing/fees?"+query.Encode(), &page); err != nil {
			return nil, err
		}
		fees = append(fees, page.Data...)
		if page.NextCursor == nil {
			return fees, nil
		}
		cursor = *page.NextCursor
	}
}

func (s *tourRun) mintByID(mintID int) (localworld.Mint, error) {
	for _, m := range s.Info.Mints {
		if m.ID == mintID {
			return m, nil
		}
	}
	return localworld.Mint{}, fmt.Errorf("this world has no mint %d", mintID)
}

// compareSections compares the sums of a bill with those of its fees.
func (s *tourRun) compareSections(bill currentBill, fees []billedFee) error {
	type sum struct {
		lines  int
		amount *big.Int
		worth  *big.Rat
	}
	sums := map[[3]string]*sum{}
	unpriced := 0
	for _, f := range fees {
		if f.USDValue == nil {
			unpriced++
			continue
		}
		m, err := s.mintByID(f.FromMintID)
		if err != nil {
			return err
		}
		kind := "NETWORK_FEES"
		switch {
		case f.Kind == "SWAP_FEE":
			kind = "SWAP_FEES"
		case f.IsCredit:
			kind = "NETWORK_FEE_CREDITS"
		}
		amount, okAmount := new(big.Int).SetString(f.FeeAmount, 10)
		worth, okWorth := new(big.Rat).SetString(*f.USDValue)
		if !okAmount || !okWorth {
			return fmt.Errorf("fee %s is %s, worth %s", f.FeeLineID, f.FeeAmount, *f.USDValue)
		}
		key := [3]string{kind, m.Chain, m.Symbol}
		if sums[key] == nil {
			sums[key] = &sum{amount: new(big.Int), worth: new(big.Rat)}
		}
		sums[key].lines++
		sums[key].amount.Add(sums[key].amount, amount)
		sums[key].worth.Add(sums[key].worth, worth)
	}
	if len(sums) != len(bill.Sections) || unpriced != bill.Unpriced {
		return fmt.Errorf("the bill has %d sections and %d fees without a price, and its fees make %d and %d",
			len(bill.Sections), bill.Unpriced, len(sums), unpriced)
	}
	for _, x := range bill.Sections {
		want := sums[[3]string{x.Kind, x.Chain, x.Symbol}]
		if want == nil {
			return fmt.Errorf("the bill has %s in %s on %s, and no fee is of them", x.Kind, x.Symbol, x.Chain)
		}
		worth, ok := new(big.Rat).SetString(x.USDExact)
		if x.Kind == "NETWORK_FEE_CREDITS" {
			want.worth.Neg(want.worth)
		}
		if !ok || worth.Cmp(want.worth) != 0 || x.Amount != want.amount.String() || x.Lines != want.lines {
			return fmt.Errorf("%s in %s on %s: the bill has %d fees of %s worth %s, and %d fees make %s worth %s",
				x.Kind, x.Symbol, x.Chain, x.Lines, x.Amount, x.USDExact, want.lines, want.amount,
				want.worth.FloatString(18))
		}
	}
	return nil
}

// compareWithChain compares the fees of one transaction with what the chain says that it cost.
func (s *tourRun) compareWithChain(ctx context.Context, fees []billedFee) error {
	hash, billed := "", new(big.Int)
	for _, f := range fees {
		if f.FromMintID != s.ether.ID || f.FeeTxHash == nil || *f.FeeTxHash == "" || f.IsCredit {
			continue
		}
		if hash == "" {
			hash = *f.FeeTxHash
		}
		if amount, ok := new(big.Int).SetString(f.FeeAmount, 10); ok && *f.FeeTxHash == hash {
			billed.Add(billed, amount)
		}
	}
	if hash == "" {
		return errors.New("no fee names a transaction on Ethereum")
	}
	receipt, err := s.eth.TransactionReceipt(ctx, common.HexToHash(hash))
	if err != nil {
		return fmt.Errorf("read the receipt of %s: %w", hash, err)
	}
	cost := new(big.Int).Mul(new(big.Int).SetUint64(receipt.GasUsed), receipt.EffectiveGasPrice)
	if cost.Cmp(billed) != 0 {
		return fmt.Errorf("transaction %s cost %s wei, and %s are billed", hash, cost, billed)
	}
	s.printStep("transaction %s cost %s wei on the chain, and just that is billed", hash, cost)
	return nil
}

// invoice is an invoice as the interface shows it.
type invoice struct {
	InvoiceID string `json:"invoiceId"`
	Number    string `json:"number"`
	Month     string `json:"month"`
	Total     string `json:"total"`
}

// tourInvoice bills the running month and verifies the invoice. A second tour of the month finds the first one's.
func (s *tourRun) tourInvoice(ctx context.Context, month string) error {
	err := s.operator.postJSON(ctx, "/billing/run", map[string]string{"month": month}, nil)
	var refused *apiError
	if !errors.As(err, &refused) || refused.Code != "INVALID_STATE" {
		return fmt.Errorf("a run of %s, which is not over: got %v, want INVALID_STATE", month, err)
	}
	s.printStep("no network with money bills a month before it is over: %s", refused.Message)
	before, err := s.findInvoice(ctx, month)
	if err != nil {
		return err
	}
	unbilled, err := s.listUnbilled(ctx)
	if err != nil {
		return err
	}
	if err := s.runCommand(ctx, "billing", "run", "--early"); err != nil {
		return err
	}
	issued, err := s.findInvoice(ctx, month)
	switch {
	case err != nil:
		return err
	case issued == nil:
		return fmt.Errorf("no invoice of %s was issued", month)
	case before != nil && *before != *issued:
		return fmt.Errorf("%s had invoice %s, and has %s", month, before.Number, issued.Number)
	case before != nil:
		s.printStep("%s was billed before, as %s: what became due since then is on the next invoice", month,
			issued.Number)
	default:
		if err := s.checkBilled(ctx, unbilled, issued.InvoiceID); err != nil {
			return err
		}
		s.printStep("invoice %s of %s: $%s with every fee that had a price; the next fees are on the next one",
			issued.Number, month, issued.Total)
	}
	return s.runCommand(ctx, "billing", "verify", issued.Number)
}

// findInvoice returns the organization's invoice of a month, or nil.
func (s *tourRun) findInvoice(ctx context.Context, month string) (*invoice, error) {
	var page struct {
		Data []invoice `json:"data"`
	}
	if err := s.api.getJSON(ctx, "/billing/invoices?limit=100", &page); err != nil {
		return nil, err
	}
	for _, i := range page.Data {
		if i.Month == month {
			return &i, nil
		}
	}
	return nil, nil
}

// checkBilled checks that each fee that was due and had a price is on the invoice.
func (s *tourRun) checkBilled(ctx context.Context, unbilled []billedFee, invoiceID string) error {
	fees, err := s.listFees(ctx)
	if err != nil {
		return err
	}
	billed := map[string]bool{}
	for _, f := range fees {
		billed[f.FeeLineID] = f.InvoiceID != nil && *f.InvoiceID == invoiceID
	}
	for _, f := range unbilled {
		if f.USDValue != nil && !billed[f.FeeLineID] {
			return fmt.Errorf("fee %s was due and had a price, and is not on invoice %s", f.FeeLineID, invoiceID)
		}
	}
	return nil
}

// runCommand runs a command of coffer as the operator does, and prints what it says.
func (s *tourRun) runCommand(ctx context.Context, args ...string) error {
	output, err := s.Command(ctx, args...)
	if err != nil {
		return fmt.Errorf("coffer %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	s.printStep("coffer %s", strings.Join(args, " "))
	for line := range strings.Lines(output) {
		fmt.Fprintf(s.Output, "        %s\n", strings.TrimRight(line, "\n"))
	}
	return nil
}
