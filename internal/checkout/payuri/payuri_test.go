package payuri_test

import (
	"cmp"
	"net/url"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout/payuri"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	luke     = "175tWpb8K1S7NmH4Zx6rewF9WQrcZv245W"
	segwit   = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
	michael  = "mvines9iiHiQTysrwkJjGf2gb9Ex9jXJX8ns3qwf2kN"
	usdcMint = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
	unicorn  = "0x89205A3A3b2A69De6Dbf7f01ED13B2108B2c43e7"
	payee    = "0x8e23Ee67d1332aD560396262C48ffbB01f93D052"
	donation = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
)

// The vectors of BIP-21, of Solana Pay and of EIP-681, with the chain's id in the last. Rule CO-75.
func TestLinksAreThoseOfTheStandards(t *testing.T) {
	t.Parallel()
	reference, err := payuri.ParseReference("11111111111111111111111111111112")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		target   payuri.Target
		link, qr string // qr is "" where it is the link
	}{
		{
			"bitcoin",
			payuri.Target{
				Chain: chain.Bitcoin, Decimals: 8, Address: luke, Amount: money.Units(2_030_000_000), Label: "Luke-Jr",
			},
			"bitcoin:" + luke + "?amount=20.3&label=Luke-Jr", "",
		},
		{
			"bitcoin, one satoshi",
			payuri.Target{
				Chain: chain.Bitcoin, Decimals: 8, Address: segwit, Amount: money.Units(1),
			},
			"bitcoin:" + segwit + "?amount=0.00000001", "",
		},
		{
			"solana",
			payuri.Target{
				Chain: chain.Solana, Decimals: 9, Address: michael, Amount: money.Units(1_000_000_000),
				Label: "Michael",
			},
			"solana:" + michael + "?amount=1&label=Michael", "",
		},
		{
			"solana, token",
			payuri.Target{
				Chain: chain.Solana, Decimals: 6, Contract: usdcMint, Address: michael, Amount: money.Units(10_000),
			},
			"solana:" + michael + "?amount=0.01&spl-token=" + usdcMint, "",
		},
		{
			"solana, reference",
			payuri.Target{
				Chain: chain.Solana, Decimals: 6, Contract: usdcMint, Address: michael, Amount: money.Units(10_000),
				Reference: &reference, Label: "A & B/c ü",
			},
			"solana:" + michael + "?amount=0.01&spl-token=" + usdcMint +
				"&reference=11111111111111111111111111111112&label=A%20%26%20B%2Fc%20%C3%BC", "",
		},
		{
			"evm",
			payuri.Target{
				Chain: chain.Ethereum, CAIP2: "eip155:1", Decimals: 18, Address: donation,
				Amount: money.MustParse("2014000000000000000"),
			},
			"ethereum:" + donation + "@1?value=2014000000000000000", "",
		},
		{
			"evm, token",
			payuri.Target{
				Chain: chain.Base, CAIP2: "eip155:8453", Decimals: 6, Contract: unicorn, Address: payee,
				Amount: money.Units(1),
			},
			"ethereum:" + unicorn + "@8453/transfer?address=" + payee + "&uint256=1", payee,
		},
	} {
		got, err := payuri.New(c.target)
		want := payuri.URI{Link: c.link, QR: cmp.Or(c.qr, c.link)}
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, want)
		}
	}
}

// Rule CO-75.
func TestTheCodeOfATokenOnAnEVMChainNeverHasItsContract(t *testing.T) {
	t.Parallel()
	for _, name := range chain.Names {
		if name.Family() != chain.EVM {
			continue
		}
		got, err := payuri.New(payuri.Target{
			Chain: name, CAIP2: "eip155:31337", Decimals: 6, Contract: unicorn, Address: payee, Amount: money.Units(7),
			Label: "a shop",
		})
		if err != nil || got.QR != payee {
			t.Errorf("%s: got %q, %v, want the bare address", name, got.QR, err)
		}
	}
}

func TestNoLinkIsMadeOfWhatNobodyCanPay(t *testing.T) {
	t.Parallel()
	one, reference := money.Units(1), payuri.Reference("org", "co", 1)
	for name, target := range map[string]payuri.Target{
		"no amount":            {Chain: chain.Bitcoin, Decimals: 8, Address: luke},
		"no address":           {Chain: chain.Bitcoin, Decimals: 8, Amount: one},
		"token on Bitcoin":     {Chain: chain.Bitcoin, Contract: usdcMint, Address: luke, Amount: one},
		"no network":           {Chain: chain.Ethereum, Address: payee, Amount: one},
		"network of another":   {Chain: chain.Ethereum, CAIP2: "solana:5eykt4", Address: payee, Amount: one},
		"network without id":   {Chain: chain.Ethereum, CAIP2: "eip155:", Address: payee, Amount: one},
		"network zero":         {Chain: chain.Ethereum, CAIP2: "eip155:0", Address: payee, Amount: one},
		"chain without wallet": {Chain: chain.Tron, Address: "T", Amount: one},
		"unknown chain":        {Chain: "MOON", Address: "m", Amount: one},
		"reference elsewhere": {
			Chain: chain.Base, CAIP2: "eip155:8453", Address: payee, Amount: one, Reference: &reference,
		},
	} {
		if got, err := payuri.New(target); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

// What a wallet reads back is the amount, to the last unit. Rule CO-75.
func FuzzALinkHasExactlyTheAmount(f *testing.F) {
	f.Add("1", uint8(8), "")
	f.Add("2100000000000000", uint8(8), "A & B = c + d # ? %")
	f.Add("1000000000000000001", uint8(18), "ü")
	f.Add("115792089237316195423570985008687907853269984665640564039457584007913129639935", uint8(0), "x")
	f.Fuzz(func(t *testing.T, amountText string, decimals uint8, label string) {
		amount, err := money.Parse(amountText)
		if err != nil || amount.IsZero() || decimals > 36 {
			return
		}
		for _, target := range []payuri.Target{
			{Chain: chain.Bitcoin, Address: luke},
			{Chain: chain.Solana, Address: michael},
			{Chain: chain.Solana, Address: michael, Contract: usdcMint},
			{Chain: chain.Polygon, CAIP2: "eip155:137", Address: payee},
			{Chain: chain.Polygon, CAIP2: "eip155:137", Address: payee, Contract: unicorn},
		} {
			target.Amount, target.Decimals, target.Label = amount, int(decimals), label
			got, err := payuri.New(target)
			if err != nil {
				t.Fatal(err)
			}
			_, query, _ := strings.Cut(got.Link, "?")
			values, err := url.ParseQuery(query)
			if err != nil {
				t.Fatalf("%s: %v", got.Link, err)
			}
			read := money.Zero
			switch {
			case target.Chain.Family() != chain.EVM:
				read, err = money.ParseDecimal(values.Get("amount"), int(decimals))
			case target.Contract == "":
				read, err = money.Parse(values.Get("value"))
			default:
				read, err = money.Parse(values.Get("uint256"))
			}
			if err != nil || read != amount {
				t.Errorf("%s: got %s, %v, want %s", got.Link, read, err, amount)
			}
			if target.Chain.Family() != chain.EVM && values.Get("label") != label {
				t.Errorf("%s: got the label %q, want %q", got.Link, values.Get("label"), label)
			}
		}
	})
}

// Rule CO-76.
func TestAReferenceIsOfOneOptionAlone(t *testing.T) {
	t.Parallel()
	first := payuri.Reference("org_1", "co_1", 7)
	// The derivation never changes: a restored database has to find payments by it.
	if want := "5jN4pn2JLyhyo1wkAT68aar3rmnGkd3xMR6k5Bqkb7SS"; payuri.ReferenceText(first) != want {
		t.Errorf("got %s, want %s", payuri.ReferenceText(first), want)
	}
	for _, other := range [][32]byte{
		payuri.Reference("org_1", "co_1", 8), payuri.Reference("org_1", "co_2", 7),
		payuri.Reference("org_2", "co_1", 7), payuri.Reference("org_1c", "o_1", 7),
		payuri.Reference("org_1", "co_", 17), payuri.Reference("", "org_1co_1", 7),
	} {
		if other == first {
			t.Errorf("got %s for another option", payuri.ReferenceText(other))
		}
	}
	if got, err := payuri.ParseReference(payuri.ReferenceText(first)); err != nil || got != first {
		t.Errorf("got %v, %v, want it read back", got, err)
	}
	for _, text := range []string{"", "0", payuri.ReferenceText(first) + "1", payuri.ReferenceText(first)[2:], luke} {
		if got, err := payuri.ParseReference(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}
