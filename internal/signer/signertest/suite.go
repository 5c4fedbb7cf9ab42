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

// Run checks a signer. open gives one under Policy with an empty journal, and its
// attestation key.
func Run(t *testing.T, open func(t *testing.T) (signer.Signer, ed25519.PublicKey)) {
	for name, test := range map[string]func(*testing.T, signer.Signer, ed25519.PublicKey){
		"an address is issued once and proven":           issuesOnce,
		"what is malformed is refused":                   refusesMalformed,
		"money goes only where its purpose says":         refusesDestinations,
		"an intent keeps its words":                      keepsWords,
		"limits are taken once":                          takesLimits,
		"an idempotency key pays once":                   paysAKeyOnce,
		"a signature is the same for ever":               signsTheSame,
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, public := open(t)
			test(t, s, public)
		})
	}
}

const (
	org   = "org_1"
	other = "org_2"
)

// issued are the wallets that most tests need.
func issued(t *testing.T, s signer.Signer) (pays, holds chain.Address) {
	t.Helper()
	Issue(t, s, Treasury(other))
	return Issue(t, s, Treasury(org)), Issue(t, s, Deposit(org, "alice"))
}

// payment is an admissible payment.
func payment(id string) signer.Intent {
	return signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: Chain, From: Treasury(org), To: Stranger,
		Contract: Token, Amount: money.Units(7), CustomerID: "alice", MintID: 2, IdempotencyKeyHash: KeyHash(id),
	}
}

func refused(t *testing.T, what string, err error, code string) {
	t.Helper()
	var no *signer.Refusal
	if !errors.As(err, &no) || no.Code != code || no.Message == "" {
		t.Errorf("%s: got %v, want a refusal %s", what, err, code)
	}
}

func admit(t *testing.T, s signer.Signer, i signer.Intent) signer.Entry {
	t.Helper()
	e, err := s.Admit(t.Context(), i)
	if err != nil {
		t.Fatalf("admit %s: %v", i.ID, err)
	}
	return e
}

func sign(t *testing.T, s signer.Signer, r signer.SignRequest) signer.Signed {
	t.Helper()
	signed, err := s.Sign(t.Context(), r)
	if err != nil {
		t.Fatalf("sign %s: %v", r.IntentID, err)
	}
	return signed
}

func head(t *testing.T, s signer.Signer) signer.Head {
	t.Helper()
	h, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func issuesOnce(t *testing.T, s signer.Signer, public ed25519.PublicKey) {
	ref := Deposit(org, "ålice <&>\u2028\"")
	first, err := s.Issue(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if first.WalletRef != ref || !ed25519.Verify(public, signer.Attested(ref, first.Path, first.Address), first.Proof) {
		t.Errorf("got %+v, want %+v with a proof", first, ref)
	}
	again, err := s.Issue(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if again.Address != first.Address || again.Path != first.Path || !bytes.Equal(again.Proof, first.Proof) || again.Entry.Hash != first.Entry.Hash {
		t.Errorf("got %+v, want %+v again", again, first)
	}
	seen := map[chain.Address]signer.WalletRef{first.Address: ref}
	for _, w := range []signer.WalletRef{
		Deposit(org, "bob"), Deposit(other, "bob"), Deposit(org+"b", "ob"), Treasury(org), Treasury(other),
		{OrgID: org, Family: chain.EVM, Purpose: "CHECKOUT", Subject: "bob"},
	} {
		a := Issue(t, s, w)
		if twin, taken := seen[a]; taken {
			t.Errorf("%v and %v: got the same address %s", w, twin, a)
		}
		seen[a] = w
	}
	if got, want := head(t, s).Seq, uint64(1+len(seen)); got != want {
		t.Errorf("entries: got %d, want %d", got, want)
	}
}

func refusesMalformed(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	issued(t, s)
	for name, c := range map[string]struct {
		change func(*signer.WalletRef)
		code   string
	}{
		"family":       {func(w *signer.WalletRef) { w.Family = "MOON" }, signer.RefusedNotConfigured},
		"no family":    {func(w *signer.WalletRef) { w.Family = "" }, signer.RefusedNotConfigured},
		"no org":       {func(w *signer.WalletRef) { w.OrgID = "" }, signer.RefusedMalformed},
		"no purpose":   {func(w *signer.WalletRef) { w.Purpose = "" }, signer.RefusedMalformed},
		"no subject":   {func(w *signer.WalletRef) { w.Subject = "" }, signer.RefusedMalformed},
		"treasury of":  {func(w *signer.WalletRef) { w.Purpose = "TREASURY" }, signer.RefusedMalformed},
		"long subject": {func(w *signer.WalletRef) { w.Subject = string(bytes.Repeat([]byte("a"), 129)) }, signer.RefusedMalformed},
		"a NUL":        {func(w *signer.WalletRef) { w.Subject = "a\x00b" }, signer.RefusedMalformed},
		"a form":       {func(w *signer.WalletRef) { w.Form = chain.Taproot }, signer.RefusedMalformed},
		"half a rune":  {func(w *signer.WalletRef) { w.Subject = "a\xc3" }, signer.RefusedMalformed},
	} {
		w := Deposit(org, "alice")
		c.change(&w)
		_, err := s.Issue(t.Context(), w)
		refused(t, "issue with "+name, err, c.code)
		i := payment("wd_1")
		i.From = w
		_, err = s.Admit(t.Context(), i)
		refused(t, "admit with "+name, err, c.code)
	}
	for name, c := range map[string]struct {
		change func(*signer.Intent)
		code   string
	}{
		"no id":             {func(i *signer.Intent) { i.ID = "" }, signer.RefusedMalformed},
		"purpose":           {func(i *signer.Intent) { i.Purpose = "GIFT" }, signer.RefusedMalformed},
		"chain of a family": {func(i *signer.Intent) { i.Chain = chain.Solana }, signer.RefusedMalformed},
		"unknown chain":     {func(i *signer.Intent) { i.Chain = "MOON" }, signer.RefusedMalformed},
		"other chain":       {func(i *signer.Intent) { i.Chain = chain.Base }, signer.RefusedNotConfigured},
		"lower-case payee":  {func(i *signer.Intent) { i.To = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed" }, signer.RefusedMalformed},
		"no payee":          {func(i *signer.Intent) { i.To = "" }, signer.RefusedMalformed},
		"contract":          {func(i *signer.Intent) { i.Contract = "USDC" }, signer.RefusedMalformed},
		"nothing":           {func(i *signer.Intent) { i.Amount = money.Zero }, signer.RefusedMalformed},
		"unknown asset":     {func(i *signer.Intent) { i.Contract = "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb" }, signer.RefusedNotConfigured},
		"long key":          {func(i *signer.Intent) { i.IdempotencyKeyHash = string(make([]byte, 500)) }, signer.RefusedMalformed},
	} {
		i := payment("wd_1")
		c.change(&i)
		_, err := s.Admit(t.Context(), i)
		refused(t, "admit with "+name, err, c.code)
	}
	_, err := s.Sign(t.Context(), signer.SignRequest{Act: signer.Pay, Payload: []byte{2}})
	refused(t, "sign without an intent", err, signer.RefusedMalformed)
	_, err = s.Sign(t.Context(), signer.SignRequest{IntentID: "wd_1", Act: "BURN", Payload: []byte{2}})
	refused(t, "sign with an unknown act", err, signer.RefusedMalformed)
	_, err = s.Sign(t.Context(), signer.SignRequest{IntentID: "wd_1", Act: signer.Pay})
	refused(t, "sign nothing", err, signer.RefusedMalformed)
	_, err = s.Sign(t.Context(), signer.SignRequest{IntentID: "wd_1", Act: signer.Pay, Payload: []byte{2}})
	refused(t, "sign an intent that nobody admitted", err, signer.RefusedIntent)
}

func refusesDestinations(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, holds := issued(t, s)
	foreign := Issue(t, s, Deposit(other, "alice"))
	ours, theirs, deposit, foreignDeposit := Treasury(org), Treasury(other), Deposit(org, "alice"), Deposit(other, "alice")
	unissued := Deposit(org, "nobody")

	sweep := signer.Intent{ID: "sw_1", Purpose: signer.Sweep, Chain: Chain, From: deposit, To: pays, ToWallet: &ours, Contract: Limited, Amount: money.Units(1000), Holds: &signer.Holds{Has: money.Units(1500), Flagged: money.Units(500)}}
	gas := signer.Intent{ID: "gas_1", Purpose: signer.Gas, Chain: Chain, From: ours, To: holds, ToWallet: &deposit, Amount: GasMax}
	admit(t, s, sweep)
	admit(t, s, gas)

	for name, c := range map[string]struct {
		base   signer.Intent
		change func(*signer.Intent)
		code   string
	}{
		"payment to a customer's own address":    {payment("a"), func(i *signer.Intent) { i.To = holds }, signer.RefusedDestination},
		"payment to another organization":        {payment("a"), func(i *signer.Intent) { i.To = foreign }, signer.RefusedDestination},
		"payment to itself":                      {payment("a"), func(i *signer.Intent) { i.To = pays }, signer.RefusedDestination},
		"payment to the token":                   {payment("a"), func(i *signer.Intent) { i.To = Token }, signer.RefusedDestination},
		"payment that names a wallet":            {payment("a"), func(i *signer.Intent) { i.ToWallet = &theirs }, signer.RefusedDestination},
		"payment from a deposit address":         {payment("a"), func(i *signer.Intent) { i.From = deposit }, signer.RefusedWallet},
		"payment from a wallet never issued":     {payment("a"), func(i *signer.Intent) { i.From = Treasury("org_3") }, signer.RefusedWallet},
		"sweep to a stranger":                    {sweep, func(i *signer.Intent) { i.To = Stranger }, signer.RefusedDestination},
		"sweep to a stranger without a wallet":   {sweep, func(i *signer.Intent) { i.To, i.ToWallet = Stranger, nil }, signer.RefusedDestination},
		"sweep to another treasury":              {sweep, func(i *signer.Intent) { i.To, i.ToWallet = Issue(t, s, theirs), &theirs }, signer.RefusedDestination},
		"sweep to a customer":                    {sweep, func(i *signer.Intent) { i.From, i.To, i.ToWallet = Deposit(org, "bob"), holds, &deposit }, signer.RefusedWallet},
		"sweep of the treasury":                  {sweep, func(i *signer.Intent) { i.From, i.To, i.ToWallet = ours, holds, &deposit }, signer.RefusedDestination},
		"sweep that leaves less than is flagged": {sweep, func(i *signer.Intent) { i.Holds = &signer.Holds{Has: money.Units(1500), Flagged: money.Units(501)} }, signer.RefusedHeld},
		"sweep of more than there is":            {sweep, func(i *signer.Intent) { i.Holds = &signer.Holds{Has: money.Units(999)} }, signer.RefusedHeld},
		"sweep that says nothing of it":          {sweep, func(i *signer.Intent) { i.Holds = nil }, signer.RefusedMalformed},
		"payment that holds something":           {payment("a"), func(i *signer.Intent) { i.Holds = &signer.Holds{Has: money.Units(5000)} }, signer.RefusedMalformed},
		"gas that holds something":               {gas, func(i *signer.Intent) { i.Holds = &signer.Holds{Has: GasMax} }, signer.RefusedMalformed},
		"gas to a stranger":                      {gas, func(i *signer.Intent) { i.To = Stranger }, signer.RefusedDestination},
		"gas to nobody in particular":            {gas, func(i *signer.Intent) { i.ToWallet = nil }, signer.RefusedDestination},
		"gas to another organization":            {gas, func(i *signer.Intent) { i.To, i.ToWallet = foreign, &foreignDeposit }, signer.RefusedDestination},
		"gas in a token":                         {gas, func(i *signer.Intent) { i.Contract = Token }, signer.RefusedDestination},
		"gas from a deposit address":             {gas, func(i *signer.Intent) { i.From, i.To, i.ToWallet = deposit, pays, &ours }, signer.RefusedWallet},
		"too much gas":                           {gas, func(i *signer.Intent) { i.Amount, _ = GasMax.Add(money.Units(1)) }, signer.PolicyLimit},
		"gas to the address of another wallet":   {gas, func(i *signer.Intent) { i.ToWallet = &unissued }, signer.RefusedDestination},
	} {
		i := c.base
		i.ID = "another"
		c.change(&i)
		_, err := s.Admit(t.Context(), i)
		refused(t, name, err, c.code)
	}
	// One that the journal has is asked again with what holds now.
	sweep.Holds = nil
	_, err := s.Admit(t.Context(), sweep)
	refused(t, "a sweep that was admitted, and says nothing of what is flagged now", err, signer.RefusedMalformed)
}

func keepsWords(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	issued(t, s)
	first := admit(t, s, payment("wd_1"))
	if again := admit(t, s, payment("wd_1")); again.Hash != first.Hash {
		t.Errorf("got entry %d, want entry %d again", again.Seq, first.Seq)
	}
	for name, change := range map[string]func(*signer.Intent){
		"payee":    func(i *signer.Intent) { i.To = "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb" },
		"amount":   func(i *signer.Intent) { i.Amount = money.Units(8) },
		"contract": func(i *signer.Intent) { i.Contract = "" },
		"payer":    func(i *signer.Intent) { i.From = Treasury(other) },
		"customer": func(i *signer.Intent) { i.CustomerID = "bob" },
		"mint":     func(i *signer.Intent) { i.MintID = 3 },
		"key":      func(i *signer.Intent) { i.IdempotencyKeyHash = "00fe" },
		"purpose":  func(i *signer.Intent) { i.Purpose = signer.Gas },
		"fee max":  func(i *signer.Intent) { i.FeeMax = money.Units(9) },
		"fee":      func(i *signer.Intent) { i.FeeDeducted = money.Units(9) },
	} {
		i := payment("wd_1")
		change(&i)
		_, err := s.Admit(t.Context(), i)
		refused(t, "the same id with another "+name, err, signer.RefusedIntent)
	}
}

func paysAKeyOnce(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	_, holds := issued(t, s)
	first := payment("wd_1")
	admit(t, s, first)
	second := payment("wd_2")
	second.IdempotencyKeyHash, second.Amount, second.To = first.IdempotencyKeyHash, money.Units(8), "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb"
	for range 2 {
		_, err := s.Admit(t.Context(), second)
		refused(t, "a second payment of a key", err, signer.RefusedKey)
	}
	admit(t, s, first) // itself again

	theirs := second
	theirs.ID, theirs.From = "wd_3", Treasury(other)
	admit(t, s, theirs) // another organization's key is another key
	for n := range 2 {  // without a key nothing can be told
		i := payment(fmt.Sprint("keyless_", n))
		i.IdempotencyKeyHash = ""
		admit(t, s, i)
	}
	ours, deposit := Treasury(org), Deposit(org, "alice")
	admit(t, s, signer.Intent{
		ID: "gas_1", Purpose: signer.Gas, Chain: Chain, From: ours, To: holds, ToWallet: &deposit, Amount: GasMax, IdempotencyKeyHash: first.IdempotencyKeyHash,
	})
}

func takesLimits(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	issued(t, s)
	pay := func(id, of string, units uint64) error {
		i := payment(id)
		i.From, i.Contract, i.Amount = Treasury(of), Limited, money.Units(units)
		_, err := s.Admit(t.Context(), i)
		return err
	}
	refused(t, "a payment above its limit", pay("a", org, 101), signer.PolicyLimit)
	for range 3 {
		for _, id := range []string{"b", "c"} {
			if err := pay(id, org, 100); err != nil { // 200 of 250, however often it is asked
				t.Fatal(err)
			}
		}
	}
	refused(t, "an organization above its limit", pay("d", org, 51), signer.PolicyLimit)
	if err := pay("d", org, 50); err != nil { // 250 of 250: the limit itself is allowed
		t.Fatal(err)
	}
	refused(t, "one unit more", pay("e", org, 1), signer.PolicyLimit)
	if err := pay("f", other, 100); err != nil { // 350 of 400 overall
		t.Fatal(err)
	}
	refused(t, "all organizations above the limit", pay("g", other, 51), signer.PolicyLimit)
	if err := pay("g", other, 50); err != nil {
		t.Fatal(err)
	}
	refused(t, "all organizations at the limit", pay("h", other, 1), signer.PolicyLimit)
	if err := pay("b", org, 100); err != nil {
		t.Errorf("an intent that was admitted: got %v, want it admitted again", err)
	}
}

func signsTheSame(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issued(t, s)
	i := payment("wd_1")
	admit(t, s, i)
	r := signer.SignRequest{IntentID: i.ID, Slot: signer.Slot{Nonce: 3}, Act: signer.Pay, Payload: PayloadOf(t, i, pays, 3, Fees())}
	first := sign(t, s, r)
	tx, by, hash, err := evmtx.Open(first.Raw)
	if err != nil || by != pays || hash != first.Hash || tx.Nonce != 3 {
		t.Fatalf("got %+v by %s, %s, %v, want the payload signed by %s", tx, by, hash, err, pays)
	}
	before := head(t, s)
	if again := sign(t, s, r); !bytes.Equal(again.Raw, first.Raw) || again.Hash != first.Hash || again.Entry.Hash != first.Entry.Hash {
		t.Errorf("got %x, want %x again", again.Raw, first.Raw)
	}
	if after := head(t, s); after != before {
		t.Errorf("head: got %+v, want %+v", after, before)
	}

	// A replacement and a cancel in the same slot, and then the first bytes again.
	dearer := Fees()
	dearer.FeeCap, dearer.TipCap = money.Units(60_000_000_000), money.Units(2_000_000_000)
	replaced := r
	replaced.Payload = PayloadOf(t, i, pays, 3, dearer)
	cancel := r
	cancel.Act, cancel.Payload = signer.Cancel, Payload(t, pays, nil, 3, dearer)
	second, third := sign(t, s, replaced), sign(t, s, cancel)
	if again := sign(t, s, r); again.Hash != first.Hash || second.Hash == first.Hash || third.Hash == second.Hash {
		t.Errorf("got %s after %s and %s, want %s again", again.Hash, second.Hash, third.Hash, first.Hash)
	}
	if got, want := head(t, s).Seq, before.Seq+2; got != want {
		t.Errorf("entries: got %d, want %d", got, want)
	}
	r.Act = signer.Cancel
	_, err = s.Sign(t.Context(), r)
	refused(t, "the bytes of a payment as a cancel", err, signer.RefusedPayload)
}

func keepsFeeMax(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issued(t, s)
	most, err := Fees().Max()
	if err != nil {
		t.Fatal(err)
	}
	i := payment("wd_1")
	i.FeeMax = most
	admit(t, s, i)
	dearer := Fees()
	dearer.FeeCap = money.Units(30_000_000_001)
	r := signer.SignRequest{IntentID: i.ID, Slot: signer.Slot{Nonce: 0}, Act: signer.Pay, Payload: PayloadOf(t, i, pays, 0, dearer)}
	_, err = s.Sign(t.Context(), r)
	refused(t, "a payment above it", err, signer.RefusedFee)
	r.Payload = PayloadOf(t, i, pays, 0, Fees())
	sign(t, s, r)
	// What pays nobody may cost more: it is how a person ends it.
	r.Act, r.Payload = signer.Cancel, Payload(t, pays, nil, 0, dearer)
	sign(t, s, r)
}

func signsOnlyTheIntent(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, holds := issued(t, s)
	token, native := payment("wd_t"), payment("wd_n")
	native.Contract = ""
	admit(t, s, token)
	admit(t, s, native)
	const nonce = 5
	build := func(change func(*evmtx.Tx), i signer.Intent) []byte {
		tx, err := evmtx.Pay(ChainID, pays, &chain.Payment{From: pays, To: i.To, Contract: i.Contract, Amount: i.Amount}, nonce, Fees())
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
		b, err := evmtx.Transfer(to, money.Units(units))
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
		"no transaction":           {token, signer.Pay, []byte("hello"), signer.RefusedPayload},
		"other payee":              {token, signer.Pay, build(func(tx *evmtx.Tx) { tx.Data = data(holds, 7) }, token), signer.RefusedPayload},
		"other amount":             {token, signer.Pay, build(func(tx *evmtx.Tx) { tx.Data = data(Stranger, 8) }, token), signer.RefusedPayload},
		"other contract":           {token, signer.Pay, build(func(tx *evmtx.Tx) { tx.To = Limited }, token), signer.RefusedPayload},
		"coin beside the token":    {token, signer.Pay, build(func(tx *evmtx.Tx) { tx.Value = money.Units(1) }, token), signer.RefusedPayload},
		"bytes behind the call":    {token, signer.Pay, build(func(tx *evmtx.Tx) { tx.Data = append(tx.Data, 0) }, token), signer.RefusedPayload},
		"the coin, not the token":  {token, signer.Pay, build(good, native), signer.RefusedPayload},
		"the token, not the coin":  {native, signer.Pay, build(good, token), signer.RefusedPayload},
		"other amount of coin":     {native, signer.Pay, build(func(tx *evmtx.Tx) { tx.Value = money.Units(8) }, native), signer.RefusedPayload},
		"a memo":                   {native, signer.Pay, build(func(tx *evmtx.Tx) { tx.Data = []byte("hi") }, native), signer.RefusedPayload},
		"other chain":              {token, signer.Pay, build(func(tx *evmtx.Tx) { tx.ChainID = 1 }, token), signer.RefusedPayload},
		"other nonce":              {token, signer.Pay, build(func(tx *evmtx.Tx) { tx.Nonce = 6 }, token), signer.RefusedPayload},
		"too much gas":             {token, signer.Pay, build(func(tx *evmtx.Tx) { tx.Gas = 1 << 40 }, token), signer.RefusedFee},
		"fee beyond any number":    {token, signer.Pay, build(func(tx *evmtx.Tx) { tx.FeeCap = money.MustParse("1" + string(bytes.Repeat([]byte("0"), 77))) }, token), signer.RefusedFee},
		"cancel that pays":         {token, signer.Cancel, build(good, token), signer.RefusedPayload},
		"cancel with coin":         {native, signer.Cancel, build(func(tx *evmtx.Tx) { tx.To = pays }, native), signer.RefusedPayload},
		"cancel to somebody":       {native, signer.Cancel, build(func(tx *evmtx.Tx) { tx.Value = money.Zero }, native), signer.RefusedPayload},
		"cancel with a call":       {native, signer.Cancel, build(func(tx *evmtx.Tx) { tx.To, tx.Value, tx.Data = pays, money.Zero, []byte{1} }, native), signer.RefusedPayload},
		"nothing to itself as pay": {native, signer.Pay, Payload(t, pays, nil, nonce, Fees()), signer.RefusedPayload},
		"another intent's payload": {token, signer.Pay, PayloadOf(t, native, pays, nonce, Fees()), signer.RefusedPayload},
	} {
		_, err := s.Sign(t.Context(), signer.SignRequest{IntentID: c.of.ID, Slot: signer.Slot{Nonce: nonce}, Act: c.act, Payload: c.payload})
		refused(t, name, err, c.code)
	}
	// None of that took the slot.
	sign(t, s, signer.SignRequest{IntentID: token.ID, Slot: signer.Slot{Nonce: nonce}, Act: signer.Pay, Payload: build(good, token)})
}

func keepsSlots(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, holds := issued(t, s)
	first, second, dead := payment("wd_1"), payment("wd_2"), payment("wd_3")
	for _, i := range []signer.Intent{first, second, dead} {
		admit(t, s, i)
	}
	request := func(i signer.Intent, nonce uint64) signer.SignRequest {
		return signer.SignRequest{IntentID: i.ID, Slot: signer.Slot{Nonce: nonce}, Act: signer.Pay, Payload: PayloadOf(t, i, pays, nonce, Fees())}
	}
	sign(t, s, request(first, 1))
	_, err := s.Sign(t.Context(), request(first, 2))
	refused(t, "a second slot of an intent", err, signer.RefusedSlot)
	_, err = s.Sign(t.Context(), request(second, 1))
	refused(t, "the slot of another intent", err, signer.RefusedSlot)
	steal := signer.SignRequest{IntentID: second.ID, Slot: signer.Slot{Nonce: 1}, Act: signer.Cancel, Payload: Payload(t, pays, nil, 1, Fees())}
	_, err = s.Sign(t.Context(), steal)
	refused(t, "a cancel in the slot of another intent", err, signer.RefusedSlot)
	sign(t, s, request(second, 2))

	// A slot that is filled by a cancel is its intent's as well.
	cancel := signer.SignRequest{IntentID: dead.ID, Slot: signer.Slot{Nonce: 3}, Act: signer.Cancel, Payload: Payload(t, pays, nil, 3, Fees())}
	sign(t, s, cancel)
	_, err = s.Sign(t.Context(), request(dead, 4))
	refused(t, "an intent after its slot was given up", err, signer.RefusedSlot)

	// The same nonce of another account is another slot.
	ours := Treasury(org)
	sweep := signer.Intent{ID: "sw_1", Purpose: signer.Sweep, Chain: Chain, From: Deposit(org, "alice"), To: pays, ToWallet: &ours, Amount: money.Units(5), Holds: &signer.Holds{Has: money.Units(5)}}
	admit(t, s, sweep)
	sign(t, s, signer.SignRequest{IntentID: sweep.ID, Slot: signer.Slot{Nonce: 1}, Act: signer.Pay, Payload: PayloadOf(t, sweep, holds, 1, Fees())})
}

func sharesAnEntry(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issued(t, s)
	i := payment("wd_1")
	r := signer.SignRequest{IntentID: i.ID, Slot: signer.Slot{Nonce: 0}, Act: signer.Pay, Payload: PayloadOf(t, i, pays, 0, Fees())}
	before := head(t, s).Seq
	const callers = 64
	got := make([]signer.Signed, callers)
	together(t, callers, func(ctx context.Context, n int) error {
		if _, err := s.Issue(ctx, Deposit(org, "carol")); err != nil {
			return err
		}
		if _, err := s.Admit(ctx, i); err != nil {
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
	if got, want := head(t, s).Seq, before+3; got != want {
		t.Errorf("entries: got %d, want %d", got, want)
	}

	// Many different requests at once, none lost.
	together(t, callers, func(ctx context.Context, n int) error {
		i := payment(fmt.Sprint("many_", n))
		if _, err := s.Admit(ctx, i); err != nil {
			return err
		}
		nonce := uint64(100 + n)
		_, err := s.Sign(ctx, signer.SignRequest{IntentID: i.ID, Slot: signer.Slot{Nonce: nonce}, Act: signer.Pay, Payload: PayloadOf(t, i, pays, nonce, Fees())})
		return err
	})
	if got, want := head(t, s).Seq, before+3+2*callers; got != want {
		t.Errorf("entries: got %d, want %d", got, want)
	}
}

// together has many ask at once. Whoever is told nothing, as when a busy machine is late
// to take a connection, asks again as every caller does.
func together(t *testing.T, n int, f func(context.Context, int) error) {
	t.Helper()
	const asks = 10
	var all sync.WaitGroup
	errs := make([]error, n)
	for k := range n {
		all.Go(func() {
			for range asks {
				var no *signer.Refusal
				if errs[k] = f(t.Context(), k); errs[k] == nil || errors.As(errs[k], &no) {
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func refusalsAreNotJournaled(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, holds := issued(t, s)
	i := payment("wd_1")
	admit(t, s, i)
	before := head(t, s)
	bad := payment("wd_2")
	bad.To = holds
	if _, err := s.Admit(t.Context(), bad); err == nil {
		t.Error("got no error, want a refusal")
	}
	if _, err := s.Sign(t.Context(), signer.SignRequest{IntentID: i.ID, Act: signer.Pay, Payload: Payload(t, pays, nil, 0, Fees())}); err == nil {
		t.Error("got no error, want a refusal")
	}
	if _, err := s.Issue(t.Context(), signer.WalletRef{}); err == nil {
		t.Error("got no error, want a refusal")
	}
	if after := head(t, s); after != before {
		t.Errorf("head: got %+v, want %+v", after, before)
	}
	bad.To = Stranger
	admit(t, s, bad)
}

func chainsEntries(t *testing.T, s signer.Signer, public ed25519.PublicKey) {
	pays, _ := issued(t, s)
	i := payment("wd_1")
	i.CustomerID = "<&>"
	admit(t, s, i)
	sign(t, s, signer.SignRequest{IntentID: i.ID, Act: signer.Pay, Payload: PayloadOf(t, i, pays, 0, Fees())})
	var at signer.Head
	var kinds []signer.RecordKind
	for {
		batch, err := s.Entries(t.Context(), at.Seq, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) > 2 {
			t.Fatalf("got %d entries, want at most 2", len(batch))
		}
		for _, e := range batch {
			r, err := e.Follow(at)
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind == signer.RecordGenesis && r.AttestKey != fmt.Sprintf("%x", public) {
				t.Errorf("genesis: got attestation key %s, want %x", r.AttestKey, public)
			}
			at, kinds = e.Head(), append(kinds, r.Kind)
		}
		if len(batch) == 0 {
			break
		}
	}
	want := []signer.RecordKind{signer.RecordGenesis, signer.RecordIssue, signer.RecordIssue, signer.RecordIssue, signer.RecordAdmit, signer.RecordSign}
	if !slices.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
	if got := head(t, s); got != at {
		t.Errorf("head: got %+v, want %+v", got, at)
	}
	if past, err := s.Entries(t.Context(), 1<<63, 10); err != nil || len(past) != 0 {
		t.Errorf("after the end: got %d entries, %v, want none", len(past), err)
	}
}

func keepsAnchors(t *testing.T, s signer.Signer, public ed25519.PublicKey) {
	before := head(t, s)
	mark := func(position uint64, digit string) signer.Mark {
		return signer.Mark{Chain: "aud_1", Position: position, Hash: strings.Repeat(digit, 64)}
	}
	three, five, six := mark(3, "3"), mark(5, "5"), mark(6, "6")
	refused := func(name string, m signer.Mark, after *signer.Mark, code string) {
		t.Helper()
		var no *signer.Refusal
		if got, err := s.Anchor(t.Context(), signer.AnchorRequest{Mark: m, After: after}); !errors.As(err, &no) || no.Code != code {
			t.Errorf("%s: got %+v %v, want %s", name, got, err, code)
		}
	}
	for _, bad := range []signer.Mark{{}, {Chain: "aud_1", Position: 1}, mark(1, "g"), mark(1, "A"), mark(1<<63, "1"), {Chain: strings.Repeat("x", 129), Position: 1, Hash: three.Hash}} {
		refused(fmt.Sprintf("%+v", bad), bad, nil, signer.RefusedMalformed)
	}
	refused("the first behind another", three, &five, signer.RefusedAnchor)
	var all []signer.Anchor
	for _, r := range []signer.AnchorRequest{{Mark: three}, {Mark: five, After: &three}} {
		made, err := s.Anchor(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Anchor(t.Context(), r)
		if err != nil || !reflect.DeepEqual(again, made) {
			t.Errorf("again: got %+v %v, want %+v", again, err, made)
		}
		all = append(all, made)
	}
	refused("back", three, &five, signer.RefusedAnchor)
	refused("back to another", mark(4, "4"), &five, signer.RefusedAnchor)
	refused("another hash", mark(5, "6"), &five, signer.RefusedAnchor)
	refused("another chain", signer.Mark{Chain: "aud_2", Position: 9, Hash: six.Hash}, &five, signer.RefusedAnchor)
	refused("on from nothing", six, nil, signer.RefusedAnchor)
	refused("on from an earlier one", six, &three, signer.RefusedAnchor)
	other := mark(5, "6")
	refused("on from another", six, &other, signer.RefusedAnchor)
	read, err := s.Anchors(t.Context(), 0, 10)
	if err != nil || !reflect.DeepEqual(read, all) {
		t.Errorf("got %+v %v, want %+v", read, err, all)
	}
	if read, err := s.Anchors(t.Context(), 1, 10); err != nil || !reflect.DeepEqual(read, all[1:]) {
		t.Errorf("after the first: got %+v %v, want %+v", read, err, all[1:])
	}
	if read, err := s.Anchors(t.Context(), 1<<63, 10); err != nil || len(read) != 0 {
		t.Errorf("after the end: got %+v %v, want none", read, err)
	}
	var last signer.Anchor
	for _, a := range all {
		if err := errors.Join(a.Check(public), a.Follow(last)); err != nil {
			t.Error(err)
		}
		changed := a
		changed.Position++
		if changed.Check(public) == nil {
			t.Errorf("anchor %d is good for another place", a.Number)
		}
		last = a
	}
	if after := head(t, s); after != before {
		t.Errorf("journal: got %+v, want %+v: anchors are beside it", after, before)
	}
}

// endorsement is an admissible endorsement of Stranger.
func endorsement(id string) signer.Endorsement {
	return signer.Endorsement{
		OrgID: org, ID: id, Chain: Chain, Address: Stranger,
		LabelHash: signer.LabelHash("our exchange"), NotBefore: signer.Moment(time.Now().Add(-time.Hour)),
	}
}

// Endorse has a signer remember an address for an organization, to be paid at once.
func Endorse(t testing.TB, s signer.Signer, org, id string, to chain.Address) signer.Endorsed {
	t.Helper()
	e := endorsement(id)
	e.OrgID, e.Address = org, to
	done, err := s.Endorse(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func endorsesOnce(t *testing.T, s signer.Signer, public ed25519.PublicKey) {
	_, holds := issued(t, s)
	e := endorsement("wla_1")
	first, err := s.Endorse(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Check(public); err != nil || !first.Same(e) || first.UsableFrom < e.NotBefore {
		t.Errorf("got %+v %v, want the words of %+v with a proof", first, err, e)
	}
	before := head(t, s)
	again, err := s.Endorse(t.Context(), e)
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("again: got %+v %v, want %+v", again, err, first)
	}
	for name, change := range map[string]func(*signer.EndorseBody){
		"organization": func(b *signer.EndorseBody) { b.OrgID = other },
		"id":           func(b *signer.EndorseBody) { b.ID = "wla_2" },
		"chain":        func(b *signer.EndorseBody) { b.Chain = chain.Base },
		"address":      func(b *signer.EndorseBody) { b.Address = Token },
		"label":        func(b *signer.EndorseBody) { b.LabelHash = signer.LabelHash("x") },
		"not before":   func(b *signer.EndorseBody) { b.NotBefore = signer.Moment(time.Now()) },
		"usable from":  func(b *signer.EndorseBody) { b.UsableFrom = "2020-01-01T00:00:00Z" },
	} {
		b := first.EndorseBody
		change(&b)
		if err := b.Check(public); !errors.Is(err, signer.ErrEndorsement) {
			t.Errorf("another %s under the same proof: got %v, want %v", name, err, signer.ErrEndorsement)
		}
		if name != "id" && name != "usable from" && name != "chain" {
			_, err := s.Endorse(t.Context(), b.Endorsement)
			refused(t, "the same id with another "+name, err, signer.RefusedWhitelist)
		}
	}
	for name, c := range map[string]struct {
		change func(*signer.Endorsement)
		code   string
	}{
		"no organization":    {func(e *signer.Endorsement) { e.OrgID = "" }, signer.RefusedMalformed},
		"a long id":          {func(e *signer.Endorsement) { e.ID = strings.Repeat("w", 129) }, signer.RefusedMalformed},
		"an unknown chain":   {func(e *signer.Endorsement) { e.Chain = "MOON" }, signer.RefusedMalformed},
		"another chain":      {func(e *signer.Endorsement) { e.Chain = chain.Base }, signer.RefusedNotConfigured},
		"a lower-case payee": {func(e *signer.Endorsement) { e.Address = chain.Address(strings.ToLower(string(Stranger))) }, signer.RefusedMalformed},
		"no payee":           {func(e *signer.Endorsement) { e.Address = "" }, signer.RefusedMalformed},
		"an own address":     {func(e *signer.Endorsement) { e.Address = holds }, signer.RefusedDestination},
		"no hash":            {func(e *signer.Endorsement) { e.LabelHash = "our exchange" }, signer.RefusedMalformed},
		"no time":            {func(e *signer.Endorsement) { e.NotBefore = "" }, signer.RefusedMalformed},
		"a nanosecond":       {func(e *signer.Endorsement) { e.NotBefore = "2026-01-01T00:00:00.000000001Z" }, signer.RefusedMalformed},
		"another zone":       {func(e *signer.Endorsement) { e.NotBefore = "2026-01-01T00:00:00+01:00" }, signer.RefusedMalformed},
	} {
		bad := endorsement("wla_3")
		c.change(&bad)
		_, err := s.Endorse(t.Context(), bad)
		refused(t, "endorse "+name, err, c.code)
	}
	if after := head(t, s); after != before {
		t.Errorf("journal: got %+v, want %+v: nothing was remembered", after, before)
	}

	// What is revoked stays so, also before it was ever endorsed.
	for _, id := range []string{"wla_1", "wla_9"} {
		r := signer.Revocation{OrgID: org, ID: id}
		_, err := s.Revoke(t.Context(), signer.Revocation{OrgID: other, ID: id})
		if id == "wla_1" {
			refused(t, "revoked by another organization", err, signer.RefusedWhitelist)
		} else if err != nil {
			t.Fatal(err)
		} else {
			r.OrgID = other
		}
		done, err := s.Revoke(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Revoke(t.Context(), r)
		if err != nil || again.Hash != done.Hash {
			t.Errorf("revoked again: got %+v %v, want %+v", again, err, done)
		}
		e := endorsement(id)
		e.OrgID = r.OrgID
		_, err = s.Endorse(t.Context(), e)
		refused(t, "endorse what was revoked", err, signer.RefusedWhitelist)
	}
	_, err = s.Revoke(t.Context(), signer.Revocation{OrgID: org})
	refused(t, "revoke nothing", err, signer.RefusedMalformed)
}

func keepsVoids(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issued(t, s)
	pay := func(id string) signer.Intent {
		return signer.Intent{ID: id, Purpose: signer.Payment, Chain: Chain, From: Treasury(org), To: Stranger, Contract: Token, Amount: money.Units(5), CustomerID: "alice", MintID: 2}
	}
	if _, err := s.Admit(t.Context(), pay("wd_1")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"wd_1", "wd_2"} { // admitted, and never heard of
		done, err := s.Void(t.Context(), signer.Void{OrgID: org, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Void(t.Context(), signer.Void{OrgID: org, ID: id})
		if err != nil || again.Hash != done.Hash {
			t.Errorf("voided again: got %+v %v, want %+v", again, err, done)
		}
		_, err = s.Void(t.Context(), signer.Void{OrgID: other, ID: id})
		refused(t, "voided for another organization", err, signer.RefusedVoid)
		_, err = s.Admit(t.Context(), pay(id))
		refused(t, "admit what is void", err, signer.RefusedVoid)
	}
	_, err := s.Sign(t.Context(), signer.SignRequest{IntentID: "wd_1", Act: signer.Pay, Payload: PayloadOf(t, pay("wd_1"), pays, 0, Fees())})
	refused(t, "sign what is void", err, signer.RefusedVoid)
	_, err = s.Void(t.Context(), signer.Void{OrgID: org})
	refused(t, "void nothing", err, signer.RefusedMalformed)
}

func paysEndorsed(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	pays, _ := issued(t, s)
	Endorse(t, s, org, "wla_1", Stranger)
	Endorse(t, s, other, "wla_2", Stranger)
	later := endorsement("wla_3")
	later.NotBefore = signer.Moment(time.Now().Add(time.Hour))
	if _, err := s.Endorse(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	own := func(id, whitelisted string) signer.Intent {
		i := payment(id)
		i.CustomerID, i.WhitelistedID = "", whitelisted
		return i
	}
	for name, c := range map[string]struct {
		change func(*signer.Intent)
		code   string
	}{
		"that names none":              {func(i *signer.Intent) { i.WhitelistedID = "" }, signer.RefusedWhitelist},
		"that names an unknown one":    {func(i *signer.Intent) { i.WhitelistedID = "wla_7" }, signer.RefusedWhitelist},
		"that names another's":         {func(i *signer.Intent) { i.WhitelistedID = "wla_2" }, signer.RefusedWhitelist},
		"to another address":           {func(i *signer.Intent) { i.To = "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb" }, signer.RefusedWhitelist},
		"before its time":              {func(i *signer.Intent) { i.WhitelistedID = "wla_3" }, signer.CoolingOff},
		"of a customer":                {func(i *signer.Intent) { i.CustomerID = "alice" }, signer.RefusedMalformed},
		"with words that are too long": {func(i *signer.Intent) { i.WhitelistedID = strings.Repeat("w", 129) }, signer.RefusedMalformed},
	} {
		i := own("wd_bad", "wla_1")
		c.change(&i)
		_, err := s.Admit(t.Context(), i)
		refused(t, "a payment "+name, err, c.code)
	}
	ours := Treasury(org)
	_, err := s.Admit(t.Context(), signer.Intent{
		ID: "sw_1", Purpose: signer.Sweep, Chain: Chain, From: Deposit(org, "alice"), To: pays, ToWallet: &ours, Amount: money.Units(5), WhitelistedID: "wla_1",
	})
	refused(t, "a sweep that names one", err, signer.RefusedMalformed)

	paid, never := own("wd_1", "wla_1"), own("wd_2", "wla_1")
	admit(t, s, paid)
	admit(t, s, never)
	request := func(i signer.Intent, nonce uint64, act signer.Act, fees chain.Fees) signer.SignRequest {
		r := signer.SignRequest{IntentID: i.ID, Slot: signer.Slot{Nonce: nonce}, Act: act, Payload: PayloadOf(t, i, pays, nonce, fees)}
		if act == signer.Cancel {
			r.Payload = Payload(t, pays, nil, nonce, fees)
		}
		return r
	}
	first := sign(t, s, request(paid, 0, signer.Pay, Fees()))
	if _, err := s.Revoke(t.Context(), signer.Revocation{OrgID: org, ID: "wla_1"}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Admit(t.Context(), own("wd_3", "wla_1"))
	refused(t, "a payment after the address was removed", err, signer.RefusedWhitelist)
	_, err = s.Sign(t.Context(), request(never, 1, signer.Pay, Fees()))
	refused(t, "what was admitted before that and never signed", err, signer.PolicyLimit)
	sign(t, s, request(never, 1, signer.Cancel, Fees()))
	// What may be out already is followed to its end.
	if again := sign(t, s, request(paid, 0, signer.Pay, Fees())); again.Hash != first.Hash {
		t.Errorf("again: got %s, want %s", again.Hash, first.Hash)
	}
	dearer := Fees()
	dearer.TipCap, dearer.FeeCap = money.Units(2_000_000_000), money.Units(60_000_000_000)
	sign(t, s, request(paid, 0, signer.Pay, dearer))
}
