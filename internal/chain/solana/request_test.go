package solana_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

// requestedAccounts is a node whose accounts a test chooses.
type requestedAccounts struct {
	lamports, units uint64 // of the payer
	hasAccount      bool   // the payer has a token account
	isPayeeReady    bool   // and the payee
	isFrozen        bool
}

const (
	requestBlockhash = "96GzYFvs4dEeswTaQFQhvbGi6NHUcNHhEgXnPrRjyF2s"
	requestPayer     = "FPP21sbqhr2LPjSnJkw5NBetPubeFG4PsQFBxHj8noTq"
	rentMinimum      = 890_880
)

// answerAccounts answers getMultipleAccounts as the accounts say. Every other wallet is new.
func (a requestedAccounts) answerAccounts(t *testing.T, e *exchange, payee chain.Address) {
	var asked []chain.Address
	if err := json.Unmarshal(e.Params[0], &asked); err != nil {
		t.Errorf("accounts: %v", err)
	}
	token := func(owner chain.Address) chain.Address {
		account, err := solanatx.AssociatedAccount(owner, usdc.Address, usdc.Program)
		if err != nil {
			t.Errorf("token account: %v", err)
		}
		return account
	}
	entry := func(owner chain.Address, lamports uint64, data []byte) string {
		return fmt.Sprintf(`{"lamports":%d,"owner":%q,"executable":false,"data":[%q,"base64"]}`, lamports, owner,
			base64.StdEncoding.EncodeToString(data))
	}
	holding := func(owner chain.Address, units uint64) []byte {
		data := make([]byte, 165)
		mint, _ := solanatx.Bytes(usdc.Address)
		key, _ := solanatx.Bytes(owner)
		copy(data, mint[:])
		copy(data[32:], key[:])
		binary.LittleEndian.PutUint64(data[64:], units)
		data[108] = 1
		if a.isFrozen {
			data[108] = 2
		}
		return data
	}
	mint := make([]byte, 82)
	mint[44], mint[45] = byte(usdc.Decimals), 1
	var entries []string
	for _, address := range asked {
		switch {
		case address == requestPayer && a.lamports > 0:
			entries = append(entries, entry(solanatx.SystemProgram, a.lamports, nil))
		case address == usdc.Address:
			entries = append(entries, entry(usdc.Program, 1, mint))
		case address == token(requestPayer) && a.hasAccount:
			entries = append(entries, entry(usdc.Program, 2_039_280, holding(requestPayer, a.units)))
		case address == token(payee) && a.isPayeeReady:
			entries = append(entries, entry(usdc.Program, 2_039_280, holding(payee, 0)))
		default:
			entries = append(entries, "null")
		}
	}
	e.SetResult(`{"context":{"slot":7},"value":[` + strings.Join(entries, ",") + `]}`)
}

// A requested payment is built only if the payer can pay it now, and says otherwise who lacks what. Rule CO-117.
func TestAPaymentIsRequestedOfAWalletThatCanPayIt(t *testing.T) {
	t.Parallel()
	node := newProxy(t, "", nil)
	node.SetRule("getGenesisHash", func(e *exchange) { e.SetResult(`"` + requestBlockhash + `"`) })
	node.SetRule("getMinimumBalanceForRentExemption", func(e *exchange) { e.SetResult(fmt.Sprint(rentMinimum)) })
	node.SetRule("getLatestBlockhash", func(e *exchange) {
		e.SetResult(`{"context":{"slot":7},"value":{"blockhash":"` + requestBlockhash + `"}}`)
	})
	payee := chain.Address("mvines9iiHiQTysrwkJjGf2gb9Ex9jXJX8ns3qwf2kN")
	cfg := config(node.URL)
	cfg.Timeout = 2 * time.Second
	requests := open(t, cfg).Reader.(chain.PaymentRequests)
	reference := sha256.Sum256([]byte("reference"))
	coin := chain.PaymentRequest{
		Payer: requestPayer, Payee: payee, Amount: money.Units(2_000_000), Reference: reference,
	}
	dollars := coin
	dollars.Contract, dollars.Amount = usdc.Address, money.Units(5_000_000)
	const rich = 1_000_000_000
	for name, c := range map[string]struct {
		request  chain.PaymentRequest
		accounts requestedAccounts
		cause    chain.Cause
		reason   string // "" if it is built
	}{
		"coin":                   {coin, requestedAccounts{lamports: rich}, "", ""},
		"all that the payer has": {coin, requestedAccounts{lamports: 2_005_000}, "", ""},
		"no account":             {coin, requestedAccounts{}, chain.CauseFunds, "less than the amount"},
		"less than the fee":      {coin, requestedAccounts{lamports: 2_004_999}, chain.CauseFunds, "needs more"},
		"too little stays":       {coin, requestedAccounts{lamports: 2_005_001}, chain.CauseFunds, "needs more"},
		"token": {
			dollars, requestedAccounts{lamports: rich, units: 5_000_000, hasAccount: true, isPayeeReady: true}, "", "",
		},
		"no token account": {
			dollars, requestedAccounts{lamports: rich, isPayeeReady: true}, chain.CauseFunds, "less than the amount",
		},
		"too few tokens": {
			dollars,
			requestedAccounts{lamports: rich, units: 4_999_999, hasAccount: true, isPayeeReady: true},
			chain.CauseFunds, "less than the amount",
		},
		"no coin for the fee": {
			dollars,
			requestedAccounts{lamports: 4_999, units: 5_000_000, hasAccount: true, isPayeeReady: true},
			chain.CauseFunds, "needs more",
		},
		"frozen": {
			dollars,
			requestedAccounts{lamports: rich, units: 5_000_000, hasAccount: true, isPayeeReady: true, isFrozen: true},
			chain.CauseAccount, "frozen",
		},
		"a payee that is not ready": {
			dollars,
			requestedAccounts{lamports: rich, units: 5_000_000, hasAccount: true},
			chain.CausePayee,
			"no token account",
		},
	} {
		node.SetRule("getMultipleAccounts", func(e *exchange) { c.accounts.answerAccounts(t, e, payee) })
		raw, err := requests.BuildRequest(t.Context(), c.request)
		if c.reason != "" {
			var reverted *chain.RevertedError
			if !errors.As(err, &reverted) || reverted.Cause != c.cause || !strings.Contains(reverted.Reason, c.reason) {
				t.Errorf("%s: got %v, want the cause %q with %q", name, err, c.cause, c.reason)
			}
			continue
		}
		got, decodeErr := solanatx.DecodeRequest(raw)
		want := solanatx.Request{
			Payer: requestPayer, Payee: payee, Amount: c.request.Amount, Reference: reference,
			Blockhash: requestBlockhash,
		}
		if c.request.Contract != "" {
			want.Mint, want.TokenProgram, want.Decimals = usdc.Address, usdc.Program, usdc.Decimals
			want.Payee, _ = solanatx.AssociatedAccount(payee, usdc.Address, usdc.Program)
		}
		if err != nil || decodeErr != nil || got != want {
			t.Errorf("%s: got %+v, %v, %v, want %+v", name, got, err, decodeErr, want)
		}
	}
	// A provider that says nonsense or nothing refuses no payment.
	node.SetRule("getMultipleAccounts", func(e *exchange) {
		requestedAccounts{lamports: rich}.answerAccounts(t, e, payee)
	})
	for name, answer := range map[string]rule{
		"no hash": func(e *exchange) { e.SetResult(`{"context":{"slot":7},"value":{"blockhash":"x"}}`) },
		"down":    func(e *exchange) { e.DropConnection() },
	} {
		node.SetRule("getLatestBlockhash", answer)
		_, err := requests.BuildRequest(t.Context(), coin)
		if err == nil || errors.As(err, new(*chain.RevertedError)) || strings.Contains(err.Error(), "a-secret-key") {
			t.Errorf("%s: got %v, want an error that says nothing about the payment", name, err)
		}
	}
	other := coin
	other.Contract = payee
	if _, err := requests.BuildRequest(t.Context(), other); err == nil {
		t.Error("got a payment in a token that is not configured")
	}
}
