package signertest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// paysSwaps: a payment as the provider signed is admitted once and signed like any other.
func paysSwaps(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	swap := NewSwapPayment(t, s, org, "cs_1", Token, 1000, time.Now())
	// Exactly what the policy and the quote allow.
	swap.Quote.SlippageBps, swap.Quote.AmountOutUSD = 300, "9.50"
	swap.Intent.Swap.MinOut, swap.Intent.Swap.EstimatedOut = money.Units(990), money.Units(990)
	intent, pays := swap.SignQuote(t), IssueAddress(t, s, Treasury(org))
	entry := admitIntent(t, s, intent)
	if repeated := admitIntent(t, s, intent); repeated.Hash != entry.Hash {
		t.Errorf("again: got entry %d, want %d", repeated.Seq, entry.Seq)
	}
	var r signer.Record
	if err := json.Unmarshal(entry.Body, &r); err != nil || r.Admit == nil || !r.Admit.HasSameWords(intent) {
		t.Errorf("got %s, %v, want the whole payment with what was signed", entry.Body, err)
	}
	changed := intent
	terms := *intent.Swap
	terms.SignedQuote = append(bytes.Clone(terms.SignedQuote), ' ')
	changed.Swap = &terms
	_, err := s.AdmitIntent(t.Context(), changed)
	wantRefusal(t, "the same swap with other bytes of its quote", err, signer.RefusedIntent)

	request := func(id string, nonce uint64, fees chain.Fees, members ...string) signer.SignRequest {
		return signer.SignRequest{
			IntentID: id, TxMemberIDs: members, Slot: signer.Slot{Nonce: nonce}, Act: signer.Pay,
			Payload: IntentPayload(t, intent, pays, nonce, fees),
		}
	}
	payment := newPayment("wd_1")
	admitIntent(t, s, payment)
	for name, r := range map[string]signer.SignRequest{
		"a payment with it in one transaction": request(intent.ID, 0, UsualFees(), payment.ID),
		"it with a payment in one transaction": request(payment.ID, 0, UsualFees(), intent.ID),
	} {
		_, err := s.Sign(t.Context(), r)
		wantRefusal(t, name, err, signer.RefusedIntent)
	}
	elsewhere := intent
	elsewhere.To = Stranger
	r0 := request(intent.ID, 0, UsualFees())
	r0.Payload = IntentPayload(t, elsewhere, pays, 0, UsualFees())
	_, err = s.Sign(t.Context(), r0)
	wantRefusal(t, "a payload to another address", err, signer.RefusedPayload)
	first := signRequest(t, s, request(intent.ID, 0, UsualFees()))
	if repeated := signRequest(t, s, request(intent.ID, 0, UsualFees())); repeated.Hash != first.Hash {
		t.Errorf("again: got %s, want %s", repeated.Hash, first.Hash)
	}

	// The case of letters is no part of an address, and a quote may have no values in dollars.
	folded := NewSwapPayment(t, s, org, "cs_2", "", 1000, time.Now())
	folded.Quote.Recipient = strings.ToLower(folded.Quote.Recipient)
	folded.Quote.RefundTo = strings.ToLower(folded.Quote.RefundTo)
	folded.Quote.DepositAddress = strings.ToLower(folded.Quote.DepositAddress)
	folded.Quote.AmountInUSD, folded.Quote.AmountOutUSD = "", ""
	folded.Intent.CustomerID, folded.Intent.Product = "", "CUSTODIAL"
	admitIntent(t, s, folded.SignQuote(t))

	// A swap that people took back is never paid, whether the signer knew it or not.
	unknown := NewSwapPayment(t, s, org, "cs_3", Token, 1000, time.Now()).SignQuote(t)
	for _, recalled := range []signer.Intent{folded.SignQuote(t), unknown} {
		v := signer.Void{OrgID: org, ID: recalled.ID}
		entry, err := s.VoidIntent(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		if repeated, err := s.VoidIntent(t.Context(), v); err != nil || repeated.Hash != entry.Hash {
			t.Errorf("void %s again: got entry %d, %v, want %d", recalled.ID, repeated.Seq, err, entry.Seq)
		}
		_, err = s.AdmitIntent(t.Context(), recalled)
		wantRefusal(t, "admit "+recalled.ID+" that was taken back", err, signer.RefusedVoid)
	}
	_, err = s.Sign(t.Context(), signer.SignRequest{
		IntentID: "cs_2", Slot: signer.Slot{Nonce: 1}, Act: signer.Pay,
		Payload: IntentPayload(t, folded.Intent, pays, 1, UsualFees()),
	})
	wantRefusal(t, "sign what was taken back", err, signer.RefusedVoid)
	_, err = s.VoidIntent(t.Context(), signer.Void{OrgID: org, ID: intent.ID})
	wantRefusal(t, "take back what has a slot", err, signer.RefusedSlot)
}

// refusedQuote is a payment with one term changed.
type refusedQuote struct {
	change func(w *SwapPayment)
	code   string
}

// refusesQuotes: each term is changed alone, and nothing is journaled.
func refusesQuotes(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	now := time.Now()
	_, holds := issueWallets(t, s)
	admitted := NewSwapPayment(t, s, org, "cs_paid", Token, 1000, now).SignQuote(t)
	admitIntent(t, s, admitted)
	ordinary := newPayment("wd_paid")
	admitIntent(t, s, ordinary)
	foreignDelivery, foreignRefund := SwapWallets(otherOrg, "cs_1", chain.EVM, chain.EVM)
	IssueAddress(t, s, foreignDelivery)
	IssueAddress(t, s, foreignRefund)
	base := func() SwapPayment { return NewSwapPayment(t, s, org, "cs_1", Token, 1000, now) }
	base()
	const unknownToken = chain.Address("0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb")
	payTo := func(a chain.Address) func(*SwapPayment) {
		return func(w *SwapPayment) { w.Intent.To, w.Quote.DepositAddress = a, string(a) }
	}
	payBy := func(d time.Duration) func(*SwapPayment) {
		return func(w *SwapPayment) { w.Intent.Swap.PayBy = signer.FormatMicros(now.Add(d)) }
	}
	before := readHead(t, s)
	for name, c := range map[string]refusedQuote{
		"another key":    {func(w *SwapPayment) { w.Key = newSwapProviderKey() }, signer.RefusedSignedQuote},
		"an unknown one": {func(w *SwapPayment) { w.Intent.Swap.Provider = "OTHER" }, signer.RefusedNotConfigured},
		"another scheme": {func(w *SwapPayment) {
			w.Intent.Swap.Scheme = signedquote.RelayOrderV1
		}, signer.RefusedSignedQuote},
		"another address": {func(w *SwapPayment) { w.Intent.To = Stranger }, signer.RefusedSignedQuote},
		"another payee": {func(w *SwapPayment) {
			w.Quote.DepositAddress = string(Stranger)
		}, signer.RefusedSignedQuote},
		"a larger payment": {func(w *SwapPayment) {
			w.Intent.Amount = money.Units(1001)
		}, signer.RefusedSignedQuote},
		"a smaller payment": {func(w *SwapPayment) { w.Intent.Amount = money.Units(999) }, signer.RefusedSignedQuote},
		"a quote of more": {func(w *SwapPayment) {
			w.Quote.AmountIn = money.Units(1001)
		}, signer.RefusedSignedQuote},
		"a quote of at least less": {func(w *SwapPayment) {
			w.Quote.MinAmountIn = money.Units(999)
		}, signer.RefusedSignedQuote},
		"flexible input": {func(w *SwapPayment) { w.Quote.IsFlexible = true }, signer.RefusedSignedQuote},
		"a memo":         {func(w *SwapPayment) { w.Quote.DepositMemo = "tag" }, signer.RefusedSignedQuote},
		"another origin": {func(w *SwapPayment) { w.Intent.Contract = LimitedToken }, signer.RefusedSignedQuote},
		"a quote of another origin": {func(w *SwapPayment) {
			w.Quote.OriginAsset = SwapAsset(Chain, LimitedToken)
		}, signer.RefusedSignedQuote},
		"an origin without a name": {func(w *SwapPayment) {
			w.Intent.Contract = unknownToken
		}, signer.RefusedNotConfigured},
		"another destination": {func(w *SwapPayment) {
			w.Intent.Swap.ToContract = LimitedToken
		}, signer.RefusedSignedQuote},
		"a quote of another destination": {func(w *SwapPayment) {
			w.Quote.DestinationAsset = SwapAsset(Chain, LimitedToken)
		}, signer.RefusedSignedQuote},
		"a destination without a name": {func(w *SwapPayment) {
			w.Intent.Swap.ToContract = unknownToken
		}, signer.RefusedNotConfigured},
		"a destination on another chain": {func(w *SwapPayment) {
			w.Intent.Swap.ToChain = chain.Base
		}, signer.RefusedNotConfigured},
		"the origin on another chain": {func(w *SwapPayment) {
			w.Intent.Chain = chain.Base
		}, signer.RefusedNotConfigured},
		"another recipient": {func(w *SwapPayment) {
			w.Quote.Recipient = string(Stranger)
		}, signer.RefusedSignedQuote},
		"a recipient of ours": {func(w *SwapPayment) {
			w.Quote.Recipient = string(holds)
		}, signer.RefusedSignedQuote},
		"another refund address": {func(w *SwapPayment) {
			w.Quote.RefundTo = string(Stranger)
		}, signer.RefusedSignedQuote},
		"the two exchanged": {func(w *SwapPayment) {
			w.Quote.Recipient, w.Quote.RefundTo = w.Quote.RefundTo, w.Quote.Recipient
		}, signer.RefusedSignedQuote},
		"a delivery wallet of another purpose": {func(w *SwapPayment) {
			w.Intent.Swap.Delivery = Deposit(org, "alice")
			w.Quote.Recipient = string(holds)
		}, signer.RefusedSignedQuote},
		"a delivery wallet of another swap": {func(w *SwapPayment) {
			w.Intent.Swap.Delivery = admitted.Swap.Delivery
			w.Quote.Recipient = string(IssueAddress(t, s, admitted.Swap.Delivery))
		}, signer.RefusedSignedQuote},
		"a delivery wallet of another organization": {func(w *SwapPayment) {
			w.Intent.Swap.Delivery = foreignDelivery
			w.Quote.Recipient = string(IssueAddress(t, s, foreignDelivery))
		}, signer.RefusedSignedQuote},
		"a delivery wallet of another family": {func(w *SwapPayment) {
			w.Intent.Swap.Delivery.Family = chain.BitcoinFamily
		}, signer.RefusedSignedQuote},
		"a refund wallet of another purpose": {func(w *SwapPayment) {
			w.Intent.Swap.Refund = w.Intent.Swap.Delivery
			w.Quote.RefundTo = w.Quote.Recipient
		}, signer.RefusedSignedQuote},
		"a refund wallet of another swap": {func(w *SwapPayment) {
			w.Intent.Swap.Refund = admitted.Swap.Refund
			w.Quote.RefundTo = string(IssueAddress(t, s, admitted.Swap.Refund))
		}, signer.RefusedSignedQuote},
		"a refund wallet of another organization": {func(w *SwapPayment) {
			w.Intent.Swap.Refund = foreignRefund
			w.Quote.RefundTo = string(IssueAddress(t, s, foreignRefund))
		}, signer.RefusedSignedQuote},
		"wallets that were never issued": {func(w *SwapPayment) {
			w.Intent.ID = "cs_new"
			w.Intent.Swap.Delivery, w.Intent.Swap.Refund = SwapWallets(org, "cs_new", chain.EVM, chain.EVM)
		}, signer.RefusedSignedQuote},
		"more slippage":  {func(w *SwapPayment) { w.Quote.SlippageBps = 301 }, signer.RefusedSignedQuote},
		"a greater loss": {func(w *SwapPayment) { w.Quote.AmountOutUSD = "9.49" }, signer.RefusedSignedQuote},
		"no minimum":     {func(w *SwapPayment) { w.Intent.Swap.MinOut = money.Zero }, signer.RefusedSignedQuote},
		"a higher minimum": {func(w *SwapPayment) {
			w.Intent.Swap.MinOut = money.Units(991)
		}, signer.RefusedSignedQuote},
		"a lower estimate": {func(w *SwapPayment) {
			w.Intent.Swap.EstimatedOut = money.Units(979)
		}, signer.RefusedSignedQuote},
		"a time that is over": {payBy(-time.Second), signer.RefusedLate},
		"the deadline": {func(w *SwapPayment) {
			w.Quote.Deadline = now.Add(2 * time.Hour).Truncate(time.Millisecond)
			w.Intent.Swap.PayBy = signer.FormatMicros(w.Quote.Deadline)
		}, signer.RefusedSignedQuote},
		"a day to pay": {func(w *SwapPayment) {
			w.Quote.Deadline = now.Add(48 * time.Hour)
			payBy(6*time.Hour + time.Minute)(w)
		}, signer.RefusedSignedQuote},
		"a quote of tomorrow": {func(w *SwapPayment) {
			w.Quote.SignedAt, w.Quote.Deadline = now.Add(24*time.Hour), now.Add(48*time.Hour)
			payBy(7 * time.Hour)(w)
		}, signer.RefusedSignedQuote},
		"a quote of yesterday": {func(w *SwapPayment) {
			w.Quote.SignedAt = now.Add(-24 * time.Hour)
		}, signer.RefusedSignedQuote},
		"a deposit address of ours": {payTo(holds), signer.RefusedSignedQuote},
		"its own refund address": {
			payTo(IssueAddress(t, s, base().Intent.Swap.Refund)),
			signer.RefusedSignedQuote,
		},
		"the treasury":                      {payTo(IssueAddress(t, s, Treasury(org))), signer.RefusedDestination},
		"a token's contract":                {payTo(LimitedToken), signer.RefusedSignedQuote},
		"a deposit address that was paid":   {payTo(admitted.To), signer.RefusedSignedQuote},
		"an address that a payment went to": {payTo(ordinary.To), signer.RefusedSignedQuote},
		"no terms": {func(w *SwapPayment) {
			w.Intent.Purpose = signer.Payment
		}, signer.RefusedMalformed},
		"a wallet as its payee": {func(w *SwapPayment) {
			w.Intent.ToWallet = &w.Intent.Swap.Refund
		}, signer.RefusedDestination},
		"a wallet other than the treasury": {func(w *SwapPayment) {
			w.Intent.From = Deposit(org, "alice")
		}, signer.RefusedWallet},
		"a customer and a product": {func(w *SwapPayment) {
			w.Intent.Product = "CUSTODIAL"
		}, signer.RefusedMalformed},
		"neither a customer nor a product": {func(w *SwapPayment) {
			w.Intent.CustomerID = ""
		}, signer.RefusedMalformed},
		"a whitelisted address": {func(w *SwapPayment) {
			w.Intent.WhitelistedID = "wla_1"
		}, signer.RefusedMalformed},
		"a provider of no name": {func(w *SwapPayment) {
			w.Intent.Swap.Provider = ""
		}, signer.RefusedMalformed},
		"a delivery wallet without a subject": {func(w *SwapPayment) {
			w.Intent.Swap.Delivery.Subject = ""
		}, signer.RefusedMalformed},
		"a refund wallet of no organization": {func(w *SwapPayment) {
			w.Intent.Swap.Refund.OrgID = ""
		}, signer.RefusedMalformed},
		"a destination of no chain": {func(w *SwapPayment) {
			w.Intent.Swap.ToChain = "MOON"
		}, signer.RefusedNotConfigured},
		"a destination in other letters": {func(w *SwapPayment) {
			w.Intent.Swap.ToContract = chain.Address(strings.ToLower(string(Token)))
		}, signer.RefusedMalformed},
		"no time": {func(w *SwapPayment) { w.Intent.Swap.PayBy = "" }, signer.RefusedMalformed},
		"a time of another zone": {func(w *SwapPayment) {
			w.Intent.Swap.PayBy = "2026-01-01T00:00:00+01:00"
		}, signer.RefusedMalformed},
	} {
		w := base()
		c.change(&w)
		_, err := s.AdmitIntent(t.Context(), w.SignQuote(t))
		wantRefusal(t, "a swap payment with "+name, err, c.code)
	}
	for name, change := range map[string]func(quote []byte) []byte{
		"no quote":     func([]byte) []byte { return nil },
		"a long quote": func([]byte) []byte { return bytes.Repeat([]byte(" "), 65<<10) },
		"a quote that was changed": func(q []byte) []byte {
			return bytes.Replace(q, []byte(`"1000"`), []byte(`"1001"`), 1)
		},
		"a quote that is no JSON":         func([]byte) []byte { return []byte("quote") },
		"a quote with a page around it":   func(q []byte) []byte { return append([]byte("<p>"), q...) },
		"two quotes, one after the other": func(q []byte) []byte { return append(bytes.Clone(q), q...) },
	} {
		code := signer.RefusedSignedQuote
		if name == "no quote" || name == "a long quote" {
			code = signer.RefusedMalformed
		}
		intent := base().SignQuote(t)
		intent.Swap.SignedQuote = change(intent.Swap.SignedQuote)
		_, err := s.AdmitIntent(t.Context(), intent)
		wantRefusal(t, "a swap payment with "+name, err, code)
	}
	withoutTerms := base().SignQuote(t)
	withoutTerms.Swap = nil
	_, err := s.AdmitIntent(t.Context(), withoutTerms)
	wantRefusal(t, "a swap payment without its terms", err, signer.RefusedMalformed)
	if after := readHead(t, s); after != before {
		t.Errorf("head: got %+v, want %+v: a refusal is not journaled", after, before)
	}
	admitIntent(t, s, base().SignQuote(t))
}
