package wire_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/payuri"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

const (
	saleOrg = "org_1"
	saleID  = "co_01J9ZW3M8Q4S5T6V7W8X9YZABC"
)

var (
	saleAt     = time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)
	attestKey  = ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	attestTrue = attestKey.Public().(ed25519.PublicKey)

	base = mint.Mint{
		ID: 1, Symbol: "USDC", Chain: chain.Base, Decimals: 6, Contract: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
	}
	solana  = mint.Mint{ID: 2, Symbol: "SOL", Chain: chain.Solana, Decimals: 9}
	bitcoin = mint.Mint{ID: 3, Symbol: "BTC", Chain: chain.Bitcoin, Decimals: 8}
)

func attested(family chain.Family, purpose, subject string, address chain.Address) wallet.Wallet {
	w := wallet.Wallet{
		OrgID: saleOrg, Family: family, Purpose: purpose, Subject: subject, Path: "m/44'/1'/2", Address: address,
	}
	w.Proof = ed25519.Sign(attestKey, signer.AttestedBytes(w.Ref(), w.Path, w.Address))
	return w
}

func quoteOf(amount uint64, price string) []pricing.Quote {
	return []pricing.Quote{{
		Seq: 1, ValidFrom: saleAt, ExpiresAt: saleAt.Add(15 * time.Minute), Amount: money.Units(amount),
		Covers: pricing.MustRead("49.99"), Rate: pricing.Rate{
			Price: money.MustParseUSD(price), CurrencyPrice: pricing.Par, Source: "fixed", PricedAt: saleAt,
		},
	}}
}

// sale returns an open checkout of 49.99 dollars with an opened option on each kind of chain, and one that is not.
func sale() checkout.Checkout {
	reference := payuri.Reference(saleOrg, saleID, solana.ID)
	shared := attested(
		chain.SolanaFamily, wallet.CheckoutShared, "CHECKOUT", "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin",
	)
	return checkout.Checkout{
		Sale: checkout.Sale{
			Items:    []checkout.LineItem{{ProductID: "prod_1", Name: "Gold plan", UnitPrice: "49.99", Quantity: 1}},
			Currency: checkout.USD, AmountDue: pricing.MustRead("49.99"), Need: pricing.MustRead("49.74"),
			AcceptedMintIDs: []int{3, 1, 2, 4},
		},
		ID: saleID, OrgID: saleOrg, Status: outcome.Open, CreatedAt: saleAt, UpdatedAt: saleAt,
		ExpiresAt: saleAt.Add(30 * time.Minute), URL: "https://pay.example.com/c/co_1#k=a",
		Options: []checkout.Option{
			{
				Mint: base, Network: "eip155:8453", Quotes: quoteOf(49_990_000, "1"),
				Wallet: attested(chain.EVM, wallet.Checkout, saleID, "0x71C7656EC7ab88b098defB751B7401B5f6d8976F"),
			},
			{
				Mint: solana, Network: "solana:1", Quotes: quoteOf(333_266_667, "150"), Ref: reference[:],
				Shared: &shared, TakesWallets: true, Wallet: attested(
					chain.SolanaFamily, wallet.Checkout, saleID, "7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU",
				),
			},
			{
				Mint: bitcoin, Network: "bip122:1", Quotes: quoteOf(49_990, "100000"),
				Wallet: attested(
					chain.BitcoinFamily, wallet.Checkout, saleID, "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
				),
			},
		},
	}
}

// Each option of an open checkout has its link, in the order of the accepted mints, and one that is not opened has
// nothing. On Solana the link pays the shared address with the reference.
func TestOptionsHaveTheirLinks(t *testing.T) {
	t.Parallel()
	o := wire.Checkout(sale())
	links := map[int]string{
		1: "ethereum:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913@8453/transfer" +
			"?address=0x71C7656EC7ab88b098defB751B7401B5f6d8976F&uint256=49990000",
		2: "solana:9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin?amount=0.333266667&reference=" +
			payuri.ReferenceText(payuri.Reference(saleOrg, saleID, solana.ID)),
		3: "bitcoin:bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq?amount=0.0004999",
	}
	for i, mintID := range []int{3, 1, 2, 4} {
		option := o.PaymentOptions[i]
		if option.MintID != mintID {
			t.Errorf("option %d: got mint %d, want %d", i, option.MintID, mintID)
		}
		link, isOpened := links[mintID]
		switch {
		case !isOpened:
			got, err := json.Marshal(option)
			if err != nil {
				t.Fatal(err)
			}
			const want = `{"mintId":4,"address":null,"memo":null,"amount":null,"rate":null,"rateExpiresAt":null,` +
				`"paymentUri":null,"sharedAddress":null,"reference":null,"addressProof":null,"sharedAddressProof":null}`
			if string(got) != want {
				t.Errorf("got %s, want %s", got, want)
			}
		case option.PaymentURI == nil:
			t.Errorf("mint %d: got no link, want %s", mintID, link)
		case *option.PaymentURI != link:
			t.Errorf("mint %d: got %s, want %s", mintID, *option.PaymentURI, link)
		}
	}
	ended := sale()
	ended.Status = outcome.Cancelled
	for _, option := range wire.Checkout(ended).PaymentOptions {
		if option.PaymentURI != nil {
			t.Errorf("got the link %s of a cancelled checkout, want none", *option.PaymentURI)
		}
	}
}

// As long as the shared address has no account for a token, an option names its own address alone, and has no link.
// Rule CO-139.
func TestAnOptionThatTakesNoWalletsHasItsOwnAddressAlone(t *testing.T) {
	t.Parallel()
	c := sale()
	c.Options[1].TakesWallets = false
	option := wire.Checkout(c).PaymentOptions[2]
	if option.MintID != solana.ID || option.Address == nil || option.Amount == nil || option.SharedAddress != nil ||
		option.SharedAddressProof != nil || option.Reference != nil || option.PaymentURI != nil {
		t.Errorf("got %+v, want the own address with the amount, and no link", option)
	}
	if err := webhook.VerifyAddress(attestTrue, saleOrg, saleID, option); err != nil {
		t.Errorf("got %v, want it to be verified", err)
	}
}

// A shop's own page checks the address of every opened option without a call, and no changed one holds.
func TestProofsHoldForTheirOwnCheckoutAlone(t *testing.T) {
	t.Parallel()
	verify := func(option webhook.PaymentOption) error {
		return webhook.VerifyAddress(attestTrue, saleOrg, saleID, option)
	}
	for _, i := range []int{0, 1, 2} {
		if err := verify(wire.Checkout(sale()).PaymentOptions[i]); err != nil {
			t.Errorf("option %d: got %v, want it proven", i, err)
		}
	}
	const bitcoinAt, baseAt, solanaAt = 0, 1, 2
	other := payuri.ReferenceText(payuri.Reference(saleOrg, "co_other", solana.ID))
	for name, c := range map[string]struct {
		option int
		change func(o *webhook.PaymentOption)
	}{
		"another address": {baseAt, func(o *webhook.PaymentOption) {
			*o.Address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
		}},
		"a link to another address": {baseAt, func(o *webhook.PaymentOption) {
			*o.PaymentURI = strings.ReplaceAll(*o.PaymentURI, *o.Address, "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
		}},
		"a link with a second address": {baseAt, func(o *webhook.PaymentOption) {
			*o.PaymentURI += "&address=0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
		}},
		"a link of an unknown kind": {bitcoinAt, func(o *webhook.PaymentOption) {
			*o.PaymentURI = "pay:" + *o.Address
		}},
		"another path": {bitcoinAt, func(o *webhook.PaymentOption) { o.AddressProof.Path = "m/1" }},
		"another purpose": {bitcoinAt, func(o *webhook.PaymentOption) {
			o.AddressProof.Purpose = "CUSTOMER_DEPOSIT"
		}},
		"no proof":                 {bitcoinAt, func(o *webhook.PaymentOption) { o.AddressProof = nil }},
		"the reference of another": {solanaAt, func(o *webhook.PaymentOption) { o.Reference = &other }},
		"no reference":             {solanaAt, func(o *webhook.PaymentOption) { o.Reference = nil }},
		"another shared address": {solanaAt, func(o *webhook.PaymentOption) {
			*o.SharedAddress = "4Nd1mY5rHJ8Qx2WcE7tZkVbPqLs9uGfRi3aTjDnXoBhC"
		}},
		"the shared proof for the own address": {solanaAt, func(o *webhook.PaymentOption) {
			o.Address, o.AddressProof = o.SharedAddress, o.SharedAddressProof
		}},
	} {
		o := wire.Checkout(sale()).PaymentOptions[c.option]
		c.change(&o)
		if err := verify(o); !errors.Is(err, webhook.ErrAddress) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	o := wire.Checkout(sale()).PaymentOptions[baseAt]
	stranger, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"another organization": webhook.VerifyAddress(attestTrue, "org_2", saleID, o),
		"another checkout":     webhook.VerifyAddress(attestTrue, saleOrg, "co_other", o),
		"another key":          webhook.VerifyAddress(stranger, saleOrg, saleID, o),
		"no key":               webhook.VerifyAddress(nil, saleOrg, saleID, o),
		"an unopened option":   verify(wire.Checkout(sale()).PaymentOptions[3]),
	} {
		if !errors.Is(err, webhook.ErrAddress) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}

// The options that the packages for shops verify in their tests are those that the signer attests.
func TestTheVectorOfAddressesIsWhatTheSignerAttests(t *testing.T) {
	t.Parallel()
	const file = "../../webhook/testdata/signed/address.json"
	drawn, err := json.MarshalIndent(map[string]any{
		"attestKey": hex.EncodeToString(attestTrue), "organizationId": saleOrg, "checkoutId": saleID,
		"options": wire.Checkout(sale()).PaymentOptions[:3],
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	drawn = append(drawn, '\n')
	if os.Getenv("COFFER_UPDATE") == "1" {
		if err := os.WriteFile(file, drawn, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != string(drawn) {
		t.Errorf("%s is not what the signer attests: run with COFFER_UPDATE=1", file)
	}
}

// What is paid is shown in the currency of the checkout and in dollars, and no dollars are made up.
func TestPaymentsAreShownInTheCurrencyAndInDollars(t *testing.T) {
	t.Parallel()
	paid := func(counted, price, currencyPrice, source string) checkout.Payment {
		value := pricing.MustRead(counted)
		return checkout.Payment{
			DepositID: "dep_1", Mint: &solana, Chain: chain.Solana, Amount: money.Units(1),
			Status: outcome.PaymentCredited, Moment: saleAt, IsInTime: true, Counts: true, Counted: &value,
			Rate: &pricing.Rate{
				Price: money.MustParseUSD(price), CurrencyPrice: money.MustParseUSD(currencyPrice), Source: source,
				PricedAt: saleAt,
			},
		}
	}
	for name, c := range map[string]struct {
		currency                             string
		payments                             []checkout.Payment
		counted                              string
		paid, paidUSD, value, dollars, price string
	}{
		"dollars": {
			"USD",
			[]checkout.Payment{paid("12.345", "150", "1", "fixed")},
			"12.345", "12.345", "12.345", "12.345", "12.35",
			"150",
		},
		"another currency": {
			"ETH",
			[]checkout.Payment{paid("0.05", "150", "3000", "fixed")},
			"0.05", "0.05", "150.00", "0.05", "150.00",
			"150",
		},
		"its own symbol": {
			"SOL",
			[]checkout.Payment{paid("0.5", "1", "1", pricing.OwnSymbol)},
			"0.5", "0.5", "null", "0.5", "null",
			"null",
		},
	} {
		sold := sale()
		sold.Currency, sold.Payments, sold.Counted = c.currency, c.payments, pricing.MustRead(c.counted)
		o := wire.Checkout(sold)
		text := func(s *string) string {
			if s == nil {
				return "null"
			}
			return *s
		}
		p := o.Payments[0]
		got := []string{o.AmountPaid, text(o.AmountPaidUSD), text(p.Value), text(p.USDValue), text(p.Price)}
		want := []string{c.paid, c.paidUSD, c.value, c.dollars, c.price}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: got %q, want %q", name, got, want)
				break
			}
		}
	}
}

// What is missing is 0 once the tolerance covers the rest, and what is late says so before it is valued.
func TestWhatIsMissingAndWhatIsLate(t *testing.T) {
	t.Parallel()
	sold := sale()
	sold.SeenSum = pricing.MustRead("30")
	if got := wire.Checkout(sold).AmountRemaining; got != "19.99" {
		t.Errorf("got %s remaining, want 19.99", got)
	}
	sold.SeenSum = sold.Need
	if got := wire.Checkout(sold).AmountRemaining; got != "0.00" {
		t.Errorf("got %s remaining, want 0.00", got)
	}
	sold.Counted = pricing.MustRead("60")
	if got := wire.Checkout(sold).AmountOverpaid; got != "10.01" {
		t.Errorf("got %s too much, want 10.01", got)
	}
	seenAt := sold.ExpiresAt.Add(time.Minute)
	sold.Payments = []checkout.Payment{
		{DepositID: "dep_1", Chain: chain.Base, BlockTime: seenAt, SeenAt: seenAt, Status: outcome.PaymentSeen},
		{DepositID: "dep_2", Chain: chain.Base, BlockTime: saleAt, SeenAt: seenAt, Status: outcome.PaymentSeen},
	}
	payments := wire.Checkout(sold).Payments
	if !payments[0].IsLate || payments[1].IsLate {
		t.Errorf("got %t and %t late, want the first one alone", payments[0].IsLate, payments[1].IsLate)
	}
	if p := payments[0]; p.MintID != nil || p.Value != nil || p.USDValue != nil || p.PricedAt != nil {
		t.Errorf("got %+v, want no mint and no value", payments[0])
	}
}
