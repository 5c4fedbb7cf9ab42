package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap"
)

// newShownSwap returns a swap whose payment is final for two days.
func newShownSwap() swap.Detail {
	made := time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)
	paid, look := made.Add(time.Minute), made.Add(49*time.Hour)
	hash := chain.TxHash("0xpayment")
	return swap.Detail{
		Swap: swap.Swap{
			ID: "cs_01J9ZW3M8Q4S5T6V7W8X9YZABC", OrgID: "org_1", CustomerID: "user_42",
			From:     mint.Mint{ID: 7, Chain: chain.Ethereum, Symbol: "USDC", Decimals: 6},
			To:       mint.Mint{ID: 9, Chain: chain.Solana, Symbol: "SOL", Decimals: 9},
			AmountIn: money.Units(100_000_000), EstimatedOut: money.Units(600_000_000),
			MinOut:    money.Units(594_000_000),
			FeeAmount: money.Units(250_000), FeeBps: 25, Provider: "ONE_CLICK", Status: swap.Processing,
			RefundReport: "NONE", Refunded: money.Units(40_000_000), OriginTxHash: &hash, CreatedAt: made,
			PaidAt: &paid,
			PayBy:  made.Add(30 * time.Minute), ExpiresAt: made.Add(time.Hour), LookAt: &look,
		},
		ProviderAddress: "0xprovider", DeliveryAddress: "OurDelivery", RefundAddress: "0xrefund",
		Reports: []swap.Report{{
			Number: 1, Status: "PROCESSING", Word: "KNOWN_DEPOSIT_TX", Refund: "NONE", TxHashes: []string{"0xpayment"},
			CreatedAt: paid,
		}},
		Arrivals: []swap.Arrival{{
			DepositID: "dep_1", Role: "STRAY", Reason: swap.AfterEnd, Symbol: "SOL", Decimals: 9, Chain: chain.Solana,
			Amount: money.Units(1_500_000_000), TxHash: "0xlate", CreatedAt: look,
		}},
	}
}

// What coffer swaps show prints is what a person tells the provider: its own address of the swap, our
// payment, our addresses, and how much is with it for how long. Rule SWAP-27.
func TestASwapIsShownWithWhatToTellItsProvider(t *testing.T) {
	t.Parallel()
	d := newShownSwap()
	print := func(d swap.Detail) string {
		t.Helper()
		var out bytes.Buffer
		if err := printSwap(&out, d, d.CreatedAt.Add(49*time.Hour)); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	expect := func(said string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if !regexp.MustCompile(`(?m)^` + line + `\s*$`).MatchString(said) {
				t.Errorf("got\n%s\nwant a line %s", said, line)
			}
		}
	}
	expect(print(d),
		`swap +cs_01J9ZW3M8Q4S5T6V7W8X9YZABC of "user_42", of org_1`,
		`gives +100 USDC on ETHEREUM`, `gets +~0\.6 SOL on SOLANA, at least 0\.594 SOL`,
		`with ONE_CLICK +60 USDC, for 2d`, `looked at +next at 2026-02-02T13:00:00Z`,
		`To tell ONE_CLICK:`, `deposit address +0xprovider on ETHEREUM`, `paid +100 USDC in 0xpayment`,
		`deliver to +OurDelivery on SOLANA`, `refund to +0xrefund on ETHEREUM`,
		`payment final +2026-01-31T12:01:00Z`, `provider's deadline +2026-01-31T13:00:00Z`,
		`2026-01-31T12:01:00Z +PROCESSING \(KNOWN_DEPOSIT_TX\), refund NONE +0xpayment`,
		`2026-02-02T13:00:00Z +1\.5 SOL on SOLANA in 0xlate, STRAY \(AFTER_END\): no one has decided`,
	)

	decision, note, by := "CREDITED", "late", "OPERATOR opk_1"
	out := money.Units(610_000_000)
	d.Status, d.AmountOut, d.LookAt = swap.Completed, &out, nil
	d.Arrivals[0].Decision, d.Arrivals[0].Note, d.Arrivals[0].DecidedBy = &decision, &note, &by
	said := print(d)
	expect(said, `gets +0\.61 SOL on SOLANA, at least 0\.594 SOL`, `with ONE_CLICK +nothing`,
		`looked at +no more: nothing is expected`,
		`.*STRAY \(AFTER_END\): CREDITED by OPERATOR opk_1, "late"`)
	if strings.Contains(said, "failed") {
		t.Errorf("got %s, want no failure", said)
	}
}

// Rule SWAP-29.
func TestAMonthOfFeesIsAMonth(t *testing.T) {
	t.Parallel()
	for _, month := range []string{"2026", "2026-13", "2026-1", "01-2026", "2026-01-01", " 2026-01"} {
		err := billingFees{Month: month}.Run(t.Context(), streams{&bytes.Buffer{}, &bytes.Buffer{}})
		if err == nil || !strings.Contains(err.Error(), "--month") {
			t.Errorf("%q: got %v, want it refused before anything is read", month, err)
		}
	}
}
