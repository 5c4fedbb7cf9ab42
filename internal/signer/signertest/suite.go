package signertest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
)

// RunSuite checks a signer. open returns one under NewPolicy with an empty journal, and its
// attestation key.
func RunSuite(t *testing.T, open func(t *testing.T) (signer.Signer, ed25519.PublicKey)) {
	for name, test := range map[string]func(*testing.T, signer.Signer, ed25519.PublicKey){
		"an address is issued once and proven":           issuesOnce,
		"what is malformed is refused":                   refusesMalformed,
		"money goes only where its purpose says":         refusesDestinations,
		"an intent keeps its words":                      keepsIntent,
		"limits are taken once":                          takesLimits,
		"an idempotency key pays once":                   paysAKeyOnce,
		"a signature is the same for ever":               repeatsSignature,
		"only what was admitted is signed":               signsOnlyTheIntent,
		"a payment costs no more than its intent allows": keepsFeeMax,
		"an intent has one slot and a slot one intent":   keepsSlots,
		"64 callers of one request share one entry":      sharesAnEntry,
		"a refusal leaves the journal as it was":         refusalsAreNotJournaled,
		"the journal is a chain that can be read again":  chainsEntries,
		"anchors go forward and are kept":                keepsAnchors,
		"an organization is paid where it was endorsed":  paysEndorsed,
		"an endorsement is made once and proven":         endorsesOnce,
		"what people took back is never paid":            keepsVoids,
		"a swap provider is paid as it signed":           paysSwaps,
		"a quote for anything else is never paid":        refusesQuotes,
		"what a swap brought is paid once, as approved":  paysPayouts,
		"a refund is of a checkout of the journal":       paysRefunds,
		"a row of a batch is no other payment":           paysBatches,
		"a payout keeps the bounds of its approval":      keepsPayoutBounds,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, public := open(t)
			test(t, s, public)
		})
	}
}

const (
	org      = "org_1"
	otherOrg = "org_2"
)

// issueWallets issues the wallets that most tests need.
func issueWallets(t *testing.T, s signer.Signer) (pays, holds chain.Address) {
	t.Helper()
	IssueAddress(t, s, Treasury(otherOrg))
	return IssueAddress(t, s, Treasury(org)), IssueAddress(t, s, Deposit(org, "alice"))
}

// newPayment returns an admissible payment.
func newPayment(id string) signer.Intent {
	return signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: Chain, From: Treasury(org), To: Stranger,
		Contract: Token, Amount: money.Units(7), CustomerID: "alice", MintID: 2, IdempotencyKeyHash: KeyHash(id),
	}
}

func wantRefusal(t *testing.T, name string, err error, code string) {
	t.Helper()
	var refusal *signer.Refusal
	if !errors.As(err, &refusal) || refusal.Code != code || refusal.Message == "" {
		t.Errorf("%s: got %v, want a refusal %s", name, err, code)
	}
}

func admitIntent(t *testing.T, s signer.Signer, intent signer.Intent) signer.Entry {
	t.Helper()
	e, err := s.AdmitIntent(t.Context(), intent)
	if err != nil {
		t.Fatalf("admit %s: %v", intent.ID, err)
	}
	return e
}

func signRequest(t *testing.T, s signer.Signer, r signer.SignRequest) signer.SignedTx {
	t.Helper()
	signed, err := s.Sign(t.Context(), r)
	if err != nil {
		t.Fatalf("sign %s: %v", r.IntentID, err)
	}
	return signed
}

func readHead(t *testing.T, s signer.Signer) signer.Head {
	t.Helper()
	h, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func issuesOnce(t *testing.T, s signer.Signer, public ed25519.PublicKey) {
	ref := Deposit(org, "ålice <&>\u2028\"")
	first, err := s.IssueAddress(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if first.WalletRef != ref || !ed25519.Verify(public, signer.AttestedBytes(ref, first.Path, first.Address),
		first.Proof) {
		t.Errorf("got %+v, want %+v with a proof", first, ref)
	}
	repeated, err := s.IssueAddress(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if repeated.Address != first.Address || repeated.Path != first.Path || !bytes.Equal(repeated.Proof, first.Proof) ||
		repeated.Entry.Hash != first.Entry.Hash {
		t.Errorf("got %+v, want %+v again", repeated, first)
	}
	addresses := map[chain.Address]signer.WalletRef{first.Address: ref}
	for _, w := range []signer.WalletRef{
		Deposit(org, "bob"), Deposit(otherOrg, "bob"), Deposit(org+"b", "ob"), Treasury(org), Treasury(otherOrg),
		{OrgID: org, Family: chain.EVM, Purpose: "CHECKOUT", Subject: "bob"},
	} {
		address := IssueAddress(t, s, w)
		if holder, taken := addresses[address]; taken {
			t.Errorf("%v and %v: got the same address %s", w, holder, address)
		}
		addresses[address] = w
	}
	if got, want := readHead(t, s).Seq, uint64(1+len(addresses)); got != want {
		t.Errorf("entries: got %d, want %d", got, want)
	}
}

func refusesMalformed(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	issueWallets(t, s)
	for name, c := range map[string]struct {
		change func(*signer.WalletRef)
		code   string
	}{
		"family":      {func(w *signer.WalletRef) { w.Family = "MOON" }, signer.RefusedNotConfigured},
		"no family":   {func(w *signer.WalletRef) { w.Family = "" }, signer.RefusedNotConfigured},
		"TRON":        {func(w *signer.WalletRef) { w.Family = chain.TronFamily }, signer.RefusedNotConfigured},
		"no org":      {func(w *signer.WalletRef) { w.OrgID = "" }, signer.RefusedMalformed},
		"no purpose":  {func(w *signer.WalletRef) { w.Purpose = "" }, signer.RefusedMalformed},
		"no subject":  {func(w *signer.WalletRef) { w.Subject = "" }, signer.RefusedMalformed},
		"treasury of": {func(w *signer.WalletRef) { w.Purpose = "TREASURY" }, signer.RefusedMalformed},
		"long subject": {func(w *signer.WalletRef) {
			w.Subject = string(bytes.Repeat([]byte("a"), 129))
		}, signer.RefusedMalformed},
		"a NUL":       {func(w *signer.WalletRef) { w.Subject = "a\x00b" }, signer.RefusedMalformed},
		"a form":      {func(w *signer.WalletRef) { w.Form = chain.Taproot }, signer.RefusedMalformed},
		"half a rune": {func(w *signer.WalletRef) { w.Subject = "a\xc3" }, signer.RefusedMalformed},
	} {
		w := Deposit(org, "alice")
		c.change(&w)
		_, err := s.IssueAddress(t.Context(), w)
		wantRefusal(t, "issue with "+name, err, c.code)
		intent := newPayment("wd_1")
		intent.From = w
		_, err = s.AdmitIntent(t.Context(), intent)
		wantRefusal(t, "admit with "+name, err, c.code)
	}
	for name, c := range map[string]struct {
		change func(*signer.Intent)
		code   string
	}{
		"no id":             {func(intent *signer.Intent) { intent.ID = "" }, signer.RefusedMalformed},
		"purpose":           {func(intent *signer.Intent) { intent.Purpose = "GIFT" }, signer.RefusedMalformed},
		"chain of a family": {func(intent *signer.Intent) { intent.Chain = chain.Solana }, signer.RefusedMalformed},
		"unknown chain":     {func(intent *signer.Intent) { intent.Chain = "MOON" }, signer.RefusedMalformed},
		"other chain":       {func(intent *signer.Intent) { intent.Chain = chain.Base }, signer.RefusedNotConfigured},
		"lower-case payee": {func(intent *signer.Intent) {
			intent.To = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"
		}, signer.RefusedMalformed},
		"no payee": {func(intent *signer.Intent) { intent.To = "" }, signer.RefusedMalformed},
		"contract": {func(intent *signer.Intent) { intent.Contract = "USDC" }, signer.RefusedMalformed},
		"nothing":  {func(intent *signer.Intent) { intent.Amount = money.Zero }, signer.RefusedMalformed},
		"unknown asset": {func(intent *signer.Intent) {
			intent.Contract = "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb"
		}, signer.RefusedNotConfigured},
		"long key": {func(intent *signer.Intent) {
			intent.IdempotencyKeyHash = string(make([]byte, 500))
		}, signer.RefusedMalformed},
	} {
		intent := newPayment("wd_1")
		c.change(&intent)
		_, err := s.AdmitIntent(t.Context(), intent)
		wantRefusal(t, "admit with "+name, err, c.code)
	}
	_, err := s.Sign(t.Context(), signer.SignRequest{Act: signer.Pay, Payload: []byte{2}})
	wantRefusal(t, "sign without an intent", err, signer.RefusedMalformed)
	_, err = s.Sign(t.Context(), signer.SignRequest{IntentID: "wd_1", Act: "BURN", Payload: []byte{2}})
	wantRefusal(t, "sign with an unknown act", err, signer.RefusedMalformed)
	_, err = s.Sign(t.Context(), signer.SignRequest{IntentID: "wd_1", Act: signer.Pay})
	wantRefusal(t, "sign nothing", err, signer.RefusedMalformed)
	_, err = s.Sign(t.Context(), signer.SignRequest{IntentID: "wd_1", Act: signer.Pay, Payload: []byte{2}})
	wantRefusal(t, "sign an intent that nobody admitted", err, signer.RefusedIntent)
}

func refusesDestinations(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, holds := issueWallets(t, s)
	foreign := IssueAddress(t, s, Deposit(otherOrg, "alice"))
	treasury, foreignTreasury, deposit, foreignDeposit := Treasury(org), Treasury(otherOrg), Deposit(org,
		"alice"), Deposit(otherOrg, "alice")
	unissued := Deposit(org, "nobody")

	sweep := signer.Intent{
		ID: "sw_1", Purpose: signer.Sweep, Chain: Chain, From: deposit, To: pays,
		ToWallet: &treasury, Contract: LimitedToken, Amount: money.Units(1000),
		WalletBalance: &signer.WalletBalance{Total: money.Units(1500), Flagged: money.Units(500)},
	}
	gas := signer.Intent{
		ID: "gas_1", Purpose: signer.GasTopUp, Chain: Chain, From: treasury, To: holds,
		ToWallet: &deposit, Amount: GasMax,
	}
	admitIntent(t, s, sweep)
	admitIntent(t, s, gas)

	for name, c := range map[string]struct {
		base   signer.Intent
		change func(*signer.Intent)
		code   string
	}{
		"payment to a customer's own address": {newPayment("a"), func(intent *signer.Intent) {
			intent.To = holds
		}, signer.RefusedDestination},
		"payment to another organization": {newPayment("a"), func(intent *signer.Intent) {
			intent.To = foreign
		}, signer.RefusedDestination},
		"payment to itself": {newPayment("a"), func(intent *signer.Intent) {
			intent.To = pays
		}, signer.RefusedDestination},
		"payment to the token": {newPayment("a"), func(intent *signer.Intent) {
			intent.To = Token
		}, signer.RefusedDestination},
		"payment that names a wallet": {newPayment("a"), func(intent *signer.Intent) {
			intent.ToWallet = &foreignTreasury
		}, signer.RefusedDestination},
		"payment from a deposit address": {newPayment("a"), func(intent *signer.Intent) {
			intent.From = deposit
		}, signer.RefusedWallet},
		"payment from a wallet never issued": {newPayment("a"), func(intent *signer.Intent) {
			intent.From = Treasury("org_3")
		}, signer.RefusedWallet},
		"sweep to a stranger": {sweep, func(intent *signer.Intent) {
			intent.To = Stranger
		}, signer.RefusedDestination},
		"sweep to a stranger without a wallet": {sweep, func(intent *signer.Intent) {
			intent.To, intent.ToWallet = Stranger, nil
		}, signer.RefusedDestination},
		"sweep to another treasury": {sweep, func(intent *signer.Intent) {
			intent.To, intent.ToWallet = IssueAddress(t, s, foreignTreasury), &foreignTreasury
		}, signer.RefusedDestination},
		"sweep to a customer": {sweep, func(intent *signer.Intent) {
			intent.From, intent.To, intent.ToWallet = Deposit(org, "bob"), holds, &deposit
		}, signer.RefusedWallet},
		"sweep of the treasury": {sweep, func(intent *signer.Intent) {
			intent.From, intent.To, intent.ToWallet = treasury, holds, &deposit
		}, signer.RefusedDestination},
		"sweep that leaves less than is flagged": {sweep, func(intent *signer.Intent) {
			intent.WalletBalance = &signer.WalletBalance{Total: money.Units(1500), Flagged: money.Units(501)}
		}, signer.RefusedHeld},
		"sweep of more than there is": {
			sweep,
			func(intent *signer.Intent) { intent.WalletBalance = &signer.WalletBalance{Total: money.Units(999)} },
			signer.RefusedHeld,
		},
		"sweep that says nothing of it": {sweep, func(intent *signer.Intent) {
			intent.WalletBalance = nil
		}, signer.RefusedMalformed},
		"payment that holds something": {
			newPayment("a"),
			func(intent *signer.Intent) { intent.WalletBalance = &signer.WalletBalance{Total: money.Units(5000)} },
			signer.RefusedMalformed,
		},
		"gas that holds something": {
			gas,
			func(intent *signer.Intent) { intent.WalletBalance = &signer.WalletBalance{Total: GasMax} },
			signer.RefusedMalformed,
		},
		"gas to a stranger": {gas, func(intent *signer.Intent) {
			intent.To = Stranger
		}, signer.RefusedDestination},
		"gas to nobody in particular": {gas, func(intent *signer.Intent) {
			intent.ToWallet = nil
		}, signer.RefusedDestination},
		"gas to another organization": {gas, func(intent *signer.Intent) {
			intent.To, intent.ToWallet = foreign, &foreignDeposit
		}, signer.RefusedDestination},
		"gas in a token": {gas, func(intent *signer.Intent) {
			intent.Contract = Token
		}, signer.RefusedDestination},
		"gas from a deposit address": {gas, func(intent *signer.Intent) {
			intent.From, intent.To, intent.ToWallet = deposit, pays, &treasury
		}, signer.RefusedWallet},
		"too much gas": {gas, func(intent *signer.Intent) {
			intent.Amount, _ = GasMax.Add(money.Units(1))
		}, signer.PolicyLimit},
		"gas to the address of another wallet": {gas, func(intent *signer.Intent) {
			intent.ToWallet = &unissued
		}, signer.RefusedDestination},
	} {
		intent := c.base
		intent.ID = "another"
		c.change(&intent)
		_, err := s.AdmitIntent(t.Context(), intent)
		wantRefusal(t, name, err, c.code)
	}
	// One that the journal has is asked again with what holds now.
	sweep.WalletBalance = nil
	_, err := s.AdmitIntent(t.Context(), sweep)
	wantRefusal(t, "a sweep that was admitted, and says nothing of what is flagged now", err, signer.RefusedMalformed)
}

func keepsIntent(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	issueWallets(t, s)
	first := admitIntent(t, s, newPayment("wd_1"))
	if repeated := admitIntent(t, s, newPayment("wd_1")); repeated.Hash != first.Hash {
		t.Errorf("got entry %d, want entry %d again", repeated.Seq, first.Seq)
	}
	for name, change := range map[string]func(*signer.Intent){
		"payee":    func(intent *signer.Intent) { intent.To = "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb" },
		"amount":   func(intent *signer.Intent) { intent.Amount = money.Units(8) },
		"contract": func(intent *signer.Intent) { intent.Contract = "" },
		"payer":    func(intent *signer.Intent) { intent.From = Treasury(otherOrg) },
		"customer": func(intent *signer.Intent) { intent.CustomerID = "bob" },
		"mint":     func(intent *signer.Intent) { intent.MintID = 3 },
		"key":      func(intent *signer.Intent) { intent.IdempotencyKeyHash = "00fe" },
		"purpose":  func(intent *signer.Intent) { intent.Purpose = signer.GasTopUp },
		"fee max":  func(intent *signer.Intent) { intent.FeeMax = money.Units(9) },
		"fee":      func(intent *signer.Intent) { intent.FeeDeducted = money.Units(9) },
	} {
		intent := newPayment("wd_1")
		change(&intent)
		_, err := s.AdmitIntent(t.Context(), intent)
		wantRefusal(t, "the same id with another "+name, err, signer.RefusedIntent)
	}
}

func paysAKeyOnce(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	_, holds := issueWallets(t, s)
	first := newPayment("wd_1")
	admitIntent(t, s, first)
	second := newPayment("wd_2")
	second.IdempotencyKeyHash, second.Amount, second.To = first.IdempotencyKeyHash, money.Units(8),
		"0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb"
	for range 2 {
		_, err := s.AdmitIntent(t.Context(), second)
		wantRefusal(t, "a second payment of a key", err, signer.RefusedKey)
	}
	admitIntent(t, s, first) // itself again

	foreignIntent := second
	foreignIntent.ID, foreignIntent.From = "wd_3", Treasury(otherOrg)
	admitIntent(t, s, foreignIntent) // another organization's key is another key
	for n := range 2 {               // without a key nothing can be told
		intent := newPayment(fmt.Sprint("keyless_", n))
		intent.IdempotencyKeyHash = ""
		admitIntent(t, s, intent)
	}
	treasury, deposit := Treasury(org), Deposit(org, "alice")
	admitIntent(t, s, signer.Intent{
		ID: "gas_1", Purpose: signer.GasTopUp, Chain: Chain, From: treasury, To: holds, ToWallet: &deposit,
		Amount: GasMax, IdempotencyKeyHash: first.IdempotencyKeyHash,
	})
}

func takesLimits(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	issueWallets(t, s)
	pay := func(id, org string, units uint64) error {
		intent := newPayment(id)
		intent.From, intent.Contract, intent.Amount = Treasury(org), LimitedToken, money.Units(units)
		_, err := s.AdmitIntent(t.Context(), intent)
		return err
	}
	wantRefusal(t, "a payment above its limit", pay("a", org, 101), signer.PolicyLimit)
	for range 3 {
		for _, id := range []string{"b", "c"} {
			if err := pay(id, org, 100); err != nil { // 200 of 250, however often it is asked
				t.Fatal(err)
			}
		}
	}
	wantRefusal(t, "an organization above its limit", pay("d", org, 51), signer.PolicyLimit)
	if err := pay("d", org, 50); err != nil { // 250 of 250: the limit itself is allowed
		t.Fatal(err)
	}
	wantRefusal(t, "one unit more", pay("e", org, 1), signer.PolicyLimit)
	if err := pay("f", otherOrg, 100); err != nil { // 350 of 400 overall
		t.Fatal(err)
	}
	wantRefusal(t, "all organizations above the limit", pay("g", otherOrg, 51), signer.PolicyLimit)
	if err := pay("g", otherOrg, 50); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, "all organizations at the limit", pay("h", otherOrg, 1), signer.PolicyLimit)
	if err := pay("b", org, 100); err != nil {
		t.Errorf("an intent that was admitted: got %v, want it admitted again", err)
	}
}

func repeatsSignature(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issueWallets(t, s)
	intent := newPayment("wd_1")
	admitIntent(t, s, intent)
	r := signer.SignRequest{
		IntentID: intent.ID, Slot: signer.Slot{Nonce: 3}, Act: signer.Pay,
		Payload: IntentPayload(t, intent, pays, 3, UsualFees()),
	}
	first := signRequest(t, s, r)
	tx, signedBy, hash, err := evmtx.DecodeSigned(first.Raw)
	if err != nil || signedBy != pays || hash != first.Hash || tx.Nonce != 3 {
		t.Fatalf("got %+v by %s, %s, %v, want the payload signed by %s", tx, signedBy, hash, err, pays)
	}
	before := readHead(t, s)
	if repeated := signRequest(t, s, r); !bytes.Equal(repeated.Raw, first.Raw) || repeated.Hash != first.Hash ||
		repeated.Entry.Hash != first.Entry.Hash {
		t.Errorf("got %x, want %x again", repeated.Raw, first.Raw)
	}
	if after := readHead(t, s); after != before {
		t.Errorf("head: got %+v, want %+v", after, before)
	}

	// A replacement and a cancel in the same slot, and then the first bytes again.
	dearer := UsualFees()
	dearer.FeeCap, dearer.TipCap = money.Units(60_000_000_000), money.Units(2_000_000_000)
	replaced := r
	replaced.Payload = IntentPayload(t, intent, pays, 3, dearer)
	cancel := r
	cancel.Act, cancel.Payload = signer.Cancel, BuildPayload(t, pays, nil, 3, dearer)
	second, third := signRequest(t, s, replaced), signRequest(t, s, cancel)
	if repeated := signRequest(t, s, r); repeated.Hash != first.Hash || second.Hash == first.Hash ||
		third.Hash == second.Hash {
		t.Errorf("got %s after %s and %s, want %s again", repeated.Hash, second.Hash, third.Hash, first.Hash)
	}
	if got, want := readHead(t, s).Seq, before.Seq+2; got != want {
		t.Errorf("entries: got %d, want %d", got, want)
	}
	r.Act = signer.Cancel
	_, err = s.Sign(t.Context(), r)
	wantRefusal(t, "the bytes of a payment as a cancel", err, signer.RefusedPayload)
}

func keepsFeeMax(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issueWallets(t, s)
	feeMax, err := UsualFees().Max()
	if err != nil {
		t.Fatal(err)
	}
	intent := newPayment("wd_1")
	intent.FeeMax = feeMax
	admitIntent(t, s, intent)
	dearer := UsualFees()
	dearer.FeeCap = money.Units(30_000_000_001)
	r := signer.SignRequest{
		IntentID: intent.ID, Slot: signer.Slot{Nonce: 0}, Act: signer.Pay,
		Payload: IntentPayload(t, intent, pays, 0, dearer),
	}
	_, err = s.Sign(t.Context(), r)
	wantRefusal(t, "a payment above it", err, signer.RefusedFee)
	r.Payload = IntentPayload(t, intent, pays, 0, UsualFees())
	signRequest(t, s, r)
	// A transaction that pays no one may cost more: it is how a person ends the payment.
	r.Act, r.Payload = signer.Cancel, BuildPayload(t, pays, nil, 0, dearer)
	signRequest(t, s, r)
}

func signsOnlyTheIntent(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, holds := issueWallets(t, s)
	token, native := newPayment("wd_t"), newPayment("wd_n")
	native.Contract = ""
	admitIntent(t, s, token)
	admitIntent(t, s, native)
	const nonce = 5
	build := func(change func(*evmtx.Tx), intent signer.Intent) []byte {
		tx, err := evmtx.NewPaymentTx(ChainID, pays, &chain.Payment{
			From: pays, To: intent.To,
			Contract: intent.Contract, Amount: intent.Amount,
		}, nonce, UsualFees())
		if err != nil {
			t.Fatal(err)
		}
		change(&tx)
		b, err := tx.Payload()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	data := func(to chain.Address, units uint64) []byte {
		b, err := evmtx.TransferData(to, money.Units(units))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := func(*evmtx.Tx) {}
	for name, c := range map[string]struct {
		of      signer.Intent
		act     signer.Act
		payload []byte
		code    string
	}{
		"no transaction": {token, signer.Pay, []byte("hello"), signer.RefusedPayload},
		"other payee": {token, signer.Pay, build(func(tx *evmtx.Tx) {
			tx.Data = data(holds, 7)
		}, token), signer.RefusedPayload},
		"other amount": {token, signer.Pay, build(func(tx *evmtx.Tx) {
			tx.Data = data(Stranger, 8)
		}, token), signer.RefusedPayload},
		"other contract": {token, signer.Pay, build(func(tx *evmtx.Tx) {
			tx.To = LimitedToken
		}, token), signer.RefusedPayload},
		"coin beside the token": {token, signer.Pay, build(func(tx *evmtx.Tx) {
			tx.Value = money.Units(1)
		}, token), signer.RefusedPayload},
		"bytes behind the call": {token, signer.Pay, build(func(tx *evmtx.Tx) {
			tx.Data = append(tx.Data, 0)
		}, token), signer.RefusedPayload},
		"the coin, not the token": {token, signer.Pay, build(good, native), signer.RefusedPayload},
		"the token, not the coin": {native, signer.Pay, build(good, token), signer.RefusedPayload},
		"other amount of coin": {native, signer.Pay, build(func(tx *evmtx.Tx) {
			tx.Value = money.Units(8)
		}, native), signer.RefusedPayload},
		"a memo": {native, signer.Pay, build(func(tx *evmtx.Tx) {
			tx.Data = []byte("hi")
		}, native), signer.RefusedPayload},
		"other chain": {token, signer.Pay, build(func(tx *evmtx.Tx) {
			tx.ChainID = 1
		}, token), signer.RefusedPayload},
		"other nonce": {token, signer.Pay, build(func(tx *evmtx.Tx) {
			tx.Nonce = 6
		}, token), signer.RefusedPayload},
		"too much gas": {token, signer.Pay, build(func(tx *evmtx.Tx) {
			tx.Gas = 1 << 40
		}, token), signer.RefusedFee},
		"fee beyond any number": {token, signer.Pay, build(func(tx *evmtx.Tx) {
			tx.FeeCap = money.MustParse("1" + string(bytes.Repeat([]byte("0"), 77)))
		}, token), signer.RefusedFee},
		"cancel that pays": {token, signer.Cancel, build(good, token), signer.RefusedPayload},
		"cancel with coin": {native, signer.Cancel, build(func(tx *evmtx.Tx) {
			tx.To = pays
		}, native), signer.RefusedPayload},
		"cancel to somebody": {native, signer.Cancel, build(func(tx *evmtx.Tx) {
			tx.Value = money.Zero
		}, native), signer.RefusedPayload},
		"cancel with a call": {
			native, signer.Cancel,
			build(func(tx *evmtx.Tx) { tx.To, tx.Value, tx.Data = pays, money.Zero, []byte{1} },
				native), signer.RefusedPayload,
		},
		"nothing to itself as pay": {
			native, signer.Pay, BuildPayload(t, pays, nil, nonce, UsualFees()),
			signer.RefusedPayload,
		},
		"another intent's payload": {
			token, signer.Pay, IntentPayload(t, native, pays, nonce, UsualFees()),
			signer.RefusedPayload,
		},
	} {
		_, err := s.Sign(t.Context(), signer.SignRequest{
			IntentID: c.of.ID, Slot: signer.Slot{Nonce: nonce}, Act: c.act,
			Payload: c.payload,
		})
		wantRefusal(t, name, err, c.code)
	}
	// None of that took the slot.
	signRequest(t, s, signer.SignRequest{
		IntentID: token.ID, Slot: signer.Slot{Nonce: nonce}, Act: signer.Pay,
		Payload: build(good, token),
	})
}

func keepsSlots(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, holds := issueWallets(t, s)
	first, second, dead := newPayment("wd_1"), newPayment("wd_2"), newPayment("wd_3")
	for _, intent := range []signer.Intent{first, second, dead} {
		admitIntent(t, s, intent)
	}
	request := func(intent signer.Intent, nonce uint64) signer.SignRequest {
		return signer.SignRequest{
			IntentID: intent.ID, Slot: signer.Slot{Nonce: nonce}, Act: signer.Pay,
			Payload: IntentPayload(t, intent, pays, nonce, UsualFees()),
		}
	}
	signRequest(t, s, request(first, 1))
	_, err := s.Sign(t.Context(), request(first, 2))
	wantRefusal(t, "a second slot of an intent", err, signer.RefusedSlot)
	_, err = s.Sign(t.Context(), request(second, 1))
	wantRefusal(t, "the slot of another intent", err, signer.RefusedSlot)
	steal := signer.SignRequest{
		IntentID: second.ID, Slot: signer.Slot{Nonce: 1}, Act: signer.Cancel,
		Payload: BuildPayload(t, pays, nil, 1, UsualFees()),
	}
	_, err = s.Sign(t.Context(), steal)
	wantRefusal(t, "a cancel in the slot of another intent", err, signer.RefusedSlot)
	signRequest(t, s, request(second, 2))

	// A slot that a cancel takes belongs to its intent as well.
	cancel := signer.SignRequest{
		IntentID: dead.ID, Slot: signer.Slot{Nonce: 3}, Act: signer.Cancel,
		Payload: BuildPayload(t, pays, nil, 3, UsualFees()),
	}
	signRequest(t, s, cancel)
	_, err = s.Sign(t.Context(), request(dead, 4))
	wantRefusal(t, "an intent after its slot was given up", err, signer.RefusedSlot)

	// The same nonce of another account is another slot.
	treasury := Treasury(org)
	sweep := signer.Intent{
		ID: "sw_1", Purpose: signer.Sweep, Chain: Chain, From: Deposit(org, "alice"), To: pays,
		ToWallet: &treasury, Amount: money.Units(5), WalletBalance: &signer.WalletBalance{Total: money.Units(5)},
	}
	admitIntent(t, s, sweep)
	signRequest(t, s, signer.SignRequest{
		IntentID: sweep.ID, Slot: signer.Slot{Nonce: 1}, Act: signer.Pay,
		Payload: IntentPayload(t, sweep, holds, 1, UsualFees()),
	})
}

func sharesAnEntry(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issueWallets(t, s)
	intent := newPayment("wd_1")
	r := signer.SignRequest{
		IntentID: intent.ID, Slot: signer.Slot{Nonce: 0}, Act: signer.Pay,
		Payload: IntentPayload(t, intent, pays, 0, UsualFees()),
	}
	before := readHead(t, s).Seq
	const callers = 64
	got := make([]signer.SignedTx, callers)
	runParallel(t, callers, func(ctx context.Context, n int) error {
		if _, err := s.IssueAddress(ctx, Deposit(org, "carol")); err != nil {
			return err
		}
		if _, err := s.AdmitIntent(ctx, intent); err != nil {
			return err
		}
		var err error
		got[n], err = s.Sign(ctx, r)
		return err
	})
	for _, g := range got {
		if !bytes.Equal(g.Raw, got[0].Raw) || g.Entry.Hash != got[0].Entry.Hash {
			t.Fatalf("got %x, want %x for everybody", g.Raw, got[0].Raw)
		}
	}
	if got, want := readHead(t, s).Seq, before+3; got != want {
		t.Errorf("entries: got %d, want %d", got, want)
	}

	// Many different requests at once, none lost.
	runParallel(t, callers, func(ctx context.Context, n int) error {
		intent := newPayment(fmt.Sprint("many_", n))
		if _, err := s.AdmitIntent(ctx, intent); err != nil {
			return err
		}
		nonce := uint64(100 + n)
		_, err := s.Sign(ctx, signer.SignRequest{
			IntentID: intent.ID, Slot: signer.Slot{Nonce: nonce}, Act: signer.Pay,
			Payload: IntentPayload(t, intent, pays, nonce, UsualFees()),
		})
		return err
	})
	if got, want := readHead(t, s).Seq, before+3+2*callers; got != want {
		t.Errorf("entries: got %d, want %d", got, want)
	}
}

// runParallel makes many calls at once. A call without an answer, as when a busy machine accepts a
// connection late, is repeated as every caller does.
func runParallel(t *testing.T, n int, f func(context.Context, int) error) {
	t.Helper()
	const asks = 10
	var group sync.WaitGroup
	errs := make([]error, n)
	for k := range n {
		group.Go(func() {
			for range asks {
				var refusal *signer.Refusal
				if errs[k] = f(t.Context(), k); errs[k] == nil || errors.As(errs[k], &refusal) {
					return
				}
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func refusalsAreNotJournaled(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, holds := issueWallets(t, s)
	intent := newPayment("wd_1")
	admitIntent(t, s, intent)
	before := readHead(t, s)
	bad := newPayment("wd_2")
	bad.To = holds
	if _, err := s.AdmitIntent(t.Context(), bad); err == nil {
		t.Error("got no error, want a refusal")
	}
	if _, err := s.Sign(t.Context(), signer.SignRequest{
		IntentID: intent.ID, Act: signer.Pay,
		Payload: BuildPayload(t, pays, nil, 0, UsualFees()),
	}); err == nil {
		t.Error("got no error, want a refusal")
	}
	if _, err := s.IssueAddress(t.Context(), signer.WalletRef{}); err == nil {
		t.Error("got no error, want a refusal")
	}
	if after := readHead(t, s); after != before {
		t.Errorf("head: got %+v, want %+v", after, before)
	}
	bad.To = Stranger
	admitIntent(t, s, bad)
}

func chainsEntries(t *testing.T, s signer.Signer, public ed25519.PublicKey) {
	pays, _ := issueWallets(t, s)
	intent := newPayment("wd_1")
	intent.CustomerID = "<&>"
	admitIntent(t, s, intent)
	signRequest(t, s, signer.SignRequest{
		IntentID: intent.ID, Act: signer.Pay,
		Payload: IntentPayload(t, intent, pays, 0, UsualFees()),
	})
	var position signer.Head
	var kinds []signer.RecordKind
	for {
		batch, err := s.EntriesAfter(t.Context(), position.Seq, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) > 2 {
			t.Fatalf("got %d entries, want at most 2", len(batch))
		}
		for _, e := range batch {
			r, err := e.VerifyAfter(position)
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind == signer.RecordGenesis && r.AttestKey != fmt.Sprintf("%x", public) {
				t.Errorf("genesis: got attestation key %s, want %x", r.AttestKey, public)
			}
			position, kinds = e.Head(), append(kinds, r.Kind)
		}
		if len(batch) == 0 {
			break
		}
	}
	want := []signer.RecordKind{
		signer.RecordGenesis, signer.RecordIssue, signer.RecordIssue, signer.RecordIssue,
		signer.RecordAdmit, signer.RecordSign,
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
	if got := readHead(t, s); got != position {
		t.Errorf("head: got %+v, want %+v", got, position)
	}
	if beyondEnd, err := s.EntriesAfter(t.Context(), 1<<63, 10); err != nil || len(beyondEnd) != 0 {
		t.Errorf("after the end: got %d entries, %v, want none", len(beyondEnd), err)
	}
}

func keepsAnchors(t *testing.T, s signer.Signer, public ed25519.PublicKey) {
	before := readHead(t, s)
	mark := func(position uint64, digit string) signer.AuditHead {
		return signer.AuditHead{Chain: "aud_1", Position: position, Hash: strings.Repeat(digit, 64)}
	}
	three, five, six := mark(3, "3"), mark(5, "5"), mark(6, "6")
	refused := func(name string, m signer.AuditHead, after *signer.AuditHead, code string) {
		t.Helper()
		var refusal *signer.Refusal
		if got, err := s.SignAnchor(t.Context(), signer.AnchorRequest{AuditHead: m, Previous: after}); !errors.As(err,
			&refusal) || refusal.Code != code {
			t.Errorf("%s: got %+v %v, want %s", name, got, err, code)
		}
	}
	for _, bad := range []signer.AuditHead{
		{},
		{Chain: "aud_1", Position: 1},
		mark(1, "g"), mark(1, "A"),
		mark(1<<63, "1"),
		{Chain: strings.Repeat("x", 129), Position: 1, Hash: three.Hash},
	} {
		refused(fmt.Sprintf("%+v", bad), bad, nil, signer.RefusedMalformed)
	}
	refused("the first behind another", three, &five, signer.RefusedAnchor)
	var anchors []signer.Anchor
	for _, r := range []signer.AnchorRequest{{AuditHead: three}, {AuditHead: five, Previous: &three}} {
		made, err := s.SignAnchor(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		repeated, err := s.SignAnchor(t.Context(), r)
		if err != nil || !reflect.DeepEqual(repeated, made) {
			t.Errorf("again: got %+v %v, want %+v", repeated, err, made)
		}
		anchors = append(anchors, made)
	}
	refused("back", three, &five, signer.RefusedAnchor)
	refused("back to another", mark(4, "4"), &five, signer.RefusedAnchor)
	refused("another hash", mark(5, "6"), &five, signer.RefusedAnchor)
	refused("another chain", signer.AuditHead{Chain: "aud_2", Position: 9, Hash: six.Hash}, &five, signer.RefusedAnchor)
	refused("on from nothing", six, nil, signer.RefusedAnchor)
	refused("on from an earlier one", six, &three, signer.RefusedAnchor)
	restarted := mark(5, "6")
	refused("on from another", six, &restarted, signer.RefusedAnchor)
	read, err := s.AnchorsAfter(t.Context(), 0, 10)
	if err != nil || !reflect.DeepEqual(read, anchors) {
		t.Errorf("got %+v %v, want %+v", read, err, anchors)
	}
	if read, err := s.AnchorsAfter(t.Context(), 1, 10); err != nil || !reflect.DeepEqual(read, anchors[1:]) {
		t.Errorf("after the first: got %+v %v, want %+v", read, err, anchors[1:])
	}
	if read, err := s.AnchorsAfter(t.Context(), 1<<63, 10); err != nil || len(read) != 0 {
		t.Errorf("after the end: got %+v %v, want none", read, err)
	}
	var last signer.Anchor
	for _, a := range anchors {
		if err := errors.Join(a.VerifySignature(public), a.VerifyAfter(last)); err != nil {
			t.Error(err)
		}
		changed := a
		changed.Position++
		if changed.VerifySignature(public) == nil {
			t.Errorf("anchor %d is good for another place", a.Number)
		}
		last = a
	}
	if after := readHead(t, s); after != before {
		t.Errorf("journal: got %+v, want %+v: anchors are beside it", after, before)
	}
}

// newEndorsement returns an admissible endorsement of Stranger.
func newEndorsement(id string) signer.Endorsement {
	return signer.Endorsement{
		OrgID: org, ID: id, Chain: Chain, Address: Stranger,
		LabelHash: signer.HashLabel("our exchange"), NotBefore: signer.FormatMicros(time.Now().Add(-time.Hour)),
	}
}

// EndorseAddress endorses an address for an organization, usable at once.
func EndorseAddress(t testing.TB, s signer.Signer, org, id string, to chain.Address) signer.EndorsedAddress {
	t.Helper()
	e := newEndorsement(id)
	e.OrgID, e.Address = org, to
	endorsed, err := s.EndorseAddress(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return endorsed
}

func endorsesOnce(t *testing.T, s signer.Signer, public ed25519.PublicKey) {
	_, holds := issueWallets(t, s)
	e := newEndorsement("wla_1")
	first, err := s.EndorseAddress(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.VerifyProof(public); err != nil || !first.HasSameWords(e) || first.UsableFrom < e.NotBefore {
		t.Errorf("got %+v %v, want the words of %+v with a proof", first, err, e)
	}
	before := readHead(t, s)
	repeated, err := s.EndorseAddress(t.Context(), e)
	if err != nil || !reflect.DeepEqual(repeated, first) {
		t.Errorf("again: got %+v %v, want %+v", repeated, err, first)
	}
	for name, change := range map[string]func(*signer.EndorseBody){
		"organization": func(b *signer.EndorseBody) { b.OrgID = otherOrg },
		"id":           func(b *signer.EndorseBody) { b.ID = "wla_2" },
		"chain":        func(b *signer.EndorseBody) { b.Chain = chain.Base },
		"address":      func(b *signer.EndorseBody) { b.Address = Token },
		"label":        func(b *signer.EndorseBody) { b.LabelHash = signer.HashLabel("x") },
		"not before":   func(b *signer.EndorseBody) { b.NotBefore = signer.FormatMicros(time.Now()) },
		"usable from":  func(b *signer.EndorseBody) { b.UsableFrom = "2020-01-01T00:00:00Z" },
	} {
		b := first.EndorseBody
		change(&b)
		if err := b.VerifyProof(public); !errors.Is(err, signer.ErrEndorsement) {
			t.Errorf("another %s under the same proof: got %v, want %v", name, err, signer.ErrEndorsement)
		}
		if name != "id" && name != "usable from" && name != "chain" {
			_, err := s.EndorseAddress(t.Context(), b.Endorsement)
			wantRefusal(t, "the same id with another "+name, err, signer.RefusedWhitelist)
		}
	}
	for name, c := range map[string]struct {
		change func(*signer.Endorsement)
		code   string
	}{
		"no organization": {func(e *signer.Endorsement) { e.OrgID = "" }, signer.RefusedMalformed},
		"a long id": {func(e *signer.Endorsement) {
			e.ID = strings.Repeat("w", 129)
		}, signer.RefusedMalformed},
		"an unknown chain": {func(e *signer.Endorsement) { e.Chain = "MOON" }, signer.RefusedMalformed},
		"another chain":    {func(e *signer.Endorsement) { e.Chain = chain.Base }, signer.RefusedNotConfigured},
		"a lower-case payee": {func(e *signer.Endorsement) {
			e.Address = chain.Address(strings.ToLower(string(Stranger)))
		}, signer.RefusedMalformed},
		"no payee":       {func(e *signer.Endorsement) { e.Address = "" }, signer.RefusedMalformed},
		"an own address": {func(e *signer.Endorsement) { e.Address = holds }, signer.RefusedDestination},
		"no hash":        {func(e *signer.Endorsement) { e.LabelHash = "our exchange" }, signer.RefusedMalformed},
		"no time":        {func(e *signer.Endorsement) { e.NotBefore = "" }, signer.RefusedMalformed},
		"a nanosecond": {func(e *signer.Endorsement) {
			e.NotBefore = "2026-01-01T00:00:00.000000001Z"
		}, signer.RefusedMalformed},
		"another zone": {func(e *signer.Endorsement) {
			e.NotBefore = "2026-01-01T00:00:00+01:00"
		}, signer.RefusedMalformed},
	} {
		bad := newEndorsement("wla_3")
		c.change(&bad)
		_, err := s.EndorseAddress(t.Context(), bad)
		wantRefusal(t, "endorse "+name, err, c.code)
	}
	if after := readHead(t, s); after != before {
		t.Errorf("journal: got %+v, want %+v: nothing was remembered", after, before)
	}

	// What is revoked stays so, also before it was ever endorsed.
	for _, id := range []string{"wla_1", "wla_9"} {
		r := signer.Revocation{OrgID: org, ID: id}
		_, err := s.RevokeEndorsement(t.Context(), signer.Revocation{OrgID: otherOrg, ID: id})
		if id == "wla_1" {
			wantRefusal(t, "revoked by another organization", err, signer.RefusedWhitelist)
		} else if err != nil {
			t.Fatal(err)
		} else {
			r.OrgID = otherOrg
		}
		revoked, err := s.RevokeEndorsement(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		repeated, err := s.RevokeEndorsement(t.Context(), r)
		if err != nil || repeated.Hash != revoked.Hash {
			t.Errorf("revoked again: got %+v %v, want %+v", repeated, err, revoked)
		}
		e := newEndorsement(id)
		e.OrgID = r.OrgID
		_, err = s.EndorseAddress(t.Context(), e)
		wantRefusal(t, "endorse what was revoked", err, signer.RefusedWhitelist)
	}
	_, err = s.RevokeEndorsement(t.Context(), signer.Revocation{OrgID: org})
	wantRefusal(t, "revoke nothing", err, signer.RefusedMalformed)
}

func keepsVoids(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issueWallets(t, s)
	pay := func(id string) signer.Intent {
		return signer.Intent{
			ID: id, Purpose: signer.Payment, Chain: Chain, From: Treasury(org), To: Stranger,
			Contract: Token, Amount: money.Units(5), CustomerID: "alice", MintID: 2,
		}
	}
	if _, err := s.AdmitIntent(t.Context(), pay("wd_1")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"wd_1", "wd_2"} { // admitted, and never heard of
		entry, err := s.VoidIntent(t.Context(), signer.Void{OrgID: org, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		repeated, err := s.VoidIntent(t.Context(), signer.Void{OrgID: org, ID: id})
		if err != nil || repeated.Hash != entry.Hash {
			t.Errorf("voided again: got %+v %v, want %+v", repeated, err, entry)
		}
		_, err = s.VoidIntent(t.Context(), signer.Void{OrgID: otherOrg, ID: id})
		wantRefusal(t, "voided for another organization", err, signer.RefusedVoid)
		_, err = s.AdmitIntent(t.Context(), pay(id))
		wantRefusal(t, "admit what is void", err, signer.RefusedVoid)
	}
	_, err := s.Sign(t.Context(), signer.SignRequest{
		IntentID: "wd_1", Act: signer.Pay,
		Payload: IntentPayload(t, pay("wd_1"), pays, 0, UsualFees()),
	})
	wantRefusal(t, "sign what is void", err, signer.RefusedVoid)
	_, err = s.VoidIntent(t.Context(), signer.Void{OrgID: org})
	wantRefusal(t, "void nothing", err, signer.RefusedMalformed)
}

func paysEndorsed(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issueWallets(t, s)
	EndorseAddress(t, s, org, "wla_1", Stranger)
	EndorseAddress(t, s, otherOrg, "wla_2", Stranger)
	later := newEndorsement("wla_3")
	later.NotBefore = signer.FormatMicros(time.Now().Add(time.Hour))
	if _, err := s.EndorseAddress(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	orgPayment := func(id, whitelisted string) signer.Intent {
		intent := newPayment(id)
		intent.CustomerID, intent.WhitelistedID = "", whitelisted
		return intent
	}
	for name, c := range map[string]struct {
		change func(*signer.Intent)
		code   string
	}{
		"that names none": {func(intent *signer.Intent) {
			intent.WhitelistedID = ""
		}, signer.RefusedWhitelist},
		"that names an unknown one": {func(intent *signer.Intent) {
			intent.WhitelistedID = "wla_7"
		}, signer.RefusedWhitelist},
		"that names another's": {func(intent *signer.Intent) {
			intent.WhitelistedID = "wla_2"
		}, signer.RefusedWhitelist},
		"to another address": {func(intent *signer.Intent) {
			intent.To = "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb"
		}, signer.RefusedWhitelist},
		"before its time": {func(intent *signer.Intent) {
			intent.WhitelistedID = "wla_3"
		}, signer.CoolingOff},
		"of a customer": {func(intent *signer.Intent) {
			intent.CustomerID = "alice"
		}, signer.RefusedMalformed},
		"with words that are too long": {func(intent *signer.Intent) {
			intent.WhitelistedID = strings.Repeat("w", 129)
		}, signer.RefusedMalformed},
	} {
		intent := orgPayment("wd_bad", "wla_1")
		c.change(&intent)
		_, err := s.AdmitIntent(t.Context(), intent)
		wantRefusal(t, "a payment "+name, err, c.code)
	}
	treasury := Treasury(org)
	_, err := s.AdmitIntent(t.Context(), signer.Intent{
		ID: "sw_1", Purpose: signer.Sweep, Chain: Chain, From: Deposit(org,
			"alice"), To: pays, ToWallet: &treasury, Amount: money.Units(5), WhitelistedID: "wla_1",
	})
	wantRefusal(t, "a sweep that names one", err, signer.RefusedMalformed)

	paid, neverEndorsed := orgPayment("wd_1", "wla_1"), orgPayment("wd_2", "wla_1")
	admitIntent(t, s, paid)
	admitIntent(t, s, neverEndorsed)
	request := func(intent signer.Intent, nonce uint64, act signer.Act, fees chain.Fees) signer.SignRequest {
		r := signer.SignRequest{
			IntentID: intent.ID, Slot: signer.Slot{Nonce: nonce}, Act: act,
			Payload: IntentPayload(t, intent, pays, nonce, fees),
		}
		if act == signer.Cancel {
			r.Payload = BuildPayload(t, pays, nil, nonce, fees)
		}
		return r
	}
	first := signRequest(t, s, request(paid, 0, signer.Pay, UsualFees()))
	if _, err := s.RevokeEndorsement(t.Context(), signer.Revocation{OrgID: org, ID: "wla_1"}); err != nil {
		t.Fatal(err)
	}
	_, err = s.AdmitIntent(t.Context(), orgPayment("wd_3", "wla_1"))
	wantRefusal(t, "a payment after the address was removed", err, signer.RefusedWhitelist)
	_, err = s.Sign(t.Context(), request(neverEndorsed, 1, signer.Pay, UsualFees()))
	wantRefusal(t, "what was admitted before that and never signed", err, signer.PolicyLimit)
	signRequest(t, s, request(neverEndorsed, 1, signer.Cancel, UsualFees()))
	// What may be out already is followed to its end.
	if repeated := signRequest(t, s, request(paid, 0, signer.Pay, UsualFees())); repeated.Hash != first.Hash {
		t.Errorf("again: got %s, want %s", repeated.Hash, first.Hash)
	}
	dearer := UsualFees()
	dearer.TipCap, dearer.FeeCap = money.Units(2_000_000_000), money.Units(60_000_000_000)
	signRequest(t, s, request(paid, 0, signer.Pay, dearer))
}
