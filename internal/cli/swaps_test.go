package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// newShownSwap returns a swap whose payment is final for two days.
func newShownSwap() swap.Detail {
	made := time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)
	paid, look := made.Add(time.Minute), made.Add(49*time.Hour)
	hash := chain.TxHash("0xpayment")
	return swap.Detail{
		Swap: swap.Swap{
			ID: "cs_01J9ZW3M8Q4S5T6V7W8X9YZABC", OrgID: "org_1", Kind: swap.CustomerSwap, CustomerID: "user_42",
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

// A swap of an organization that waits for approval has no provider yet. It is shown with its destination, and
// with who agreed.
func TestASwapOfAnOrganizationIsShownWithItsPayout(t *testing.T) {
	t.Parallel()
	d := newShownSwap()
	most, deadline := money.Units(660_000_000), d.CreatedAt.Add(48*time.Hour)
	d.ID, d.Kind, d.CustomerID, d.Product = "os_01J9ZW3M8Q4S5T6V7W8X9YZABC", swap.OrganizationSwap, "", "CHECKOUT"
	d.Provider, d.Status, d.PaidAt, d.OriginTxHash, d.Refunded = "", swap.AwaitingApproval, nil, nil, money.Zero
	d.PayBy, d.ExpiresAt, d.LookAt, d.Reports, d.Arrivals = time.Time{}, time.Time{}, nil, nil, nil
	d.WhitelistedID, d.PayoutAddress, d.PayoutMax, d.PayoutUntil = "wla_1", "TheirAddress", &most, &deadline
	d.ApprovalsRequired, d.ApprovalCount, d.Approvers = 2, 1, []audit.Actor{audit.User("mem_1")}
	var out bytes.Buffer
	if err := printSwap(&out, d, d.CreatedAt.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`swap +os_01J9ZW3M8Q4S5T6V7W8X9YZABC of "CHECKOUT", of org_1`,
		`paid out to +TheirAddress on SOLANA, wla_1 of the whitelist`, `withdrawal +-`,
		`approvals +1 of 2  USER mem_1`, `cover +a withdrawal of up to 0\.66 SOL until 2026-02-02T12:00:00Z`,
		`state +AWAITING_APPROVAL`, `with a provider +nothing`, `to be approved by +2026-02-01T12:00:00Z`,
	} {
		if !regexp.MustCompile(`(?m)^` + line + `\s*$`).MatchString(out.String()) {
			t.Errorf("got\n%s\nwant a line %s", out.String(), line)
		}
	}
	for _, absent := range []string{"To tell", "fee", "0001-01-01", "output in the product"} {
		if strings.Contains(out.String(), absent) {
			t.Errorf("got\n%s\nwant no %q in it", out.String(), absent)
		}
	}
}

// What coffer swaps deposit show prints is what a person tells the provider, and what our own node saw.
func TestADepositSwapIsShownWithWhatToTellItsProvider(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)
	d := depositswap.DepositSwap{
		ID: "ds_01J9ZW3M8Q4S5T6V7W8X9YZABC", OrgID: "org_1", CustomerID: "user_42",
		Token: depositswap.Token{
			ID: "ethereum:0xlink", Token: provider.Token{Chain: chain.Ethereum, Contract: "0xlink"}, Symbol: "LINK",
			Decimals: 18,
		},
		To:             mint.Mint{ID: 5, Chain: chain.Solana, Symbol: "USDC", Decimals: 6},
		DepositAddress: "0xprovider", RefundAddress: "0xrefund", EstimatedOut: money.Units(299_000_000),
		MinOut: money.Units(296_000_000), Status: depositswap.AwaitingDeposit, Provider: "ONE_CLICK", CreatedAt: made,
		ExpiresAt: made.Add(time.Hour),
	}
	expect := func(lines ...string) {
		t.Helper()
		var out bytes.Buffer
		if err := printDepositSwap(&out, d); err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !regexp.MustCompile(`(?m)^` + line + `\s*$`).MatchString(out.String()) {
				t.Errorf("got\n%s\nwant a line %s", out.String(), line)
			}
		}
	}
	expect(`deposit swap +ds_01J9ZW3M8Q4S5T6V7W8X9YZABC of "user_42", of org_1`,
		`takes +any LINK on ETHEREUM, ethereum:0xlink`,
		`brings +~299 USDC on SOLANA, at least 296 USDC for the amount of the offer`, `state +AWAITING_DEPOSIT`,
		`To tell ONE_CLICK:`, `deposit address +0xprovider on ETHEREUM`,
		`paid +nothing that a node of ours saw in -`, `deposits +-`)

	paid, asked, arrived := money.MustParse("20000000000000000000"), money.MustParse("10000000000000000000"),
		money.Units(299_150_000)
	hash, reason := chain.TxHash("0xpayment"), "PROVIDER_REFUNDED"
	d.AmountIn, d.Received, d.Refunded, d.AmountOut = &asked, &paid, &asked, &arrived
	d.OriginTxHash, d.DepositIDs, d.FailureReason = &hash, []string{"dep_1", "dep_2"}, &reason
	expect(`takes +10 LINK on ETHEREUM, ethereum:0xlink`, `brings +299\.15 USDC on SOLANA, .*`,
		`reason +PROVIDER_REFUNDED`, `paid +20 LINK in 0xpayment`,
		`refund address +0xrefund on ETHEREUM, 10 LINK came back`, `deposits +dep_1 dep_2`)
}

// A kind that does not exist is refused before anything is read.
func TestAKindOfSwapsIsKnown(t *testing.T) {
	t.Parallel()
	err := swapList{Kind: "others"}.Run(t.Context(), streams{&bytes.Buffer{}, &bytes.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), "--kind others") {
		t.Errorf("got %v, want it refused", err)
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
