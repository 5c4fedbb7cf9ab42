package local_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/adopt"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

func taprootOf(org, customer string) signer.WalletRef {
	return signer.WalletRef{
		OrgID: org, Family: chain.BitcoinFamily, Purpose: "CUSTOMER_DEPOSIT", Subject: customer,
		Form: chain.Taproot,
	}
}

func (c *bitcoinEnv) taproot(customer string) signer.IssuedAddress {
	c.t.Helper()
	w, err := c.s.IssueAddress(c.t.Context(), taprootOf("org_1", customer))
	if err != nil {
		c.t.Fatal(err)
	}
	return w
}

func (c *bitcoinEnv) reopen() {
	c.t.Helper()
	if err := c.s.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.open()
}

// One transaction spends outputs of both forms, each by the rules of the network: a payment, its
// replacement, a cancel, and the return of a taproot deposit.
func TestOutputsOfBothFormsAreSpentTogether(t *testing.T) {
	t.Parallel()
	c := newBitcoinEnv(t)
	bob := c.taproot("bob")
	if !bitcointx.IsTaproot(bob.Address) || bob.Form != chain.Taproot || !strings.HasPrefix(bob.Path, "m/86'/1'/") {
		t.Fatalf("got %s at %s of form %q, want a taproot address", bob.Address, bob.Path, bob.Form)
	}
	change := c.admit(c.payment("wd_1"))
	a, b := bitcoin(0, 50_000, c.treasury.Address), bitcoin(1, 70_000, bob.Address)
	pay := c.request("wd_1", 0, 2000, change, paymentTo(btcPayee, 60_000), a, b)
	signed := c.signs(pay)
	verify(t, signed, pay.Payload)
	if again := c.signs(pay); !bytes.Equal(again.Raw, signed.Raw) {
		t.Error("asked again: got other bytes, want the same")
	}
	// The taproot signature covers the amounts of all inputs, so a lie about another input is
	// detected.
	tx := new(wire.MsgTx)
	if err := tx.Deserialize(bytes.NewReader(signed.Raw)); err != nil {
		t.Fatal(err)
	}
	ours, err := bitcointx.Decode(pay.Payload)
	if err != nil {
		t.Fatal(err)
	}
	_, spent, err := ours.Unsigned()
	if err != nil {
		t.Fatal(err)
	}
	before := txscript.NewMultiPrevOutFetcher(nil)
	spent[0].Value++
	for i, in := range tx.TxIn {
		before.AddPrevOut(in.PreviousOutPoint, &spent[i])
	}
	e, err := txscript.NewEngine(spent[1].PkScript, tx, 1, txscript.StandardVerifyFlags, nil,
		txscript.NewTxSigHashes(tx, before), spent[1].Value, before)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Execute(); err == nil {
		t.Error("the taproot input is spent although the other coin holds something else")
	}

	dearer := c.request("wd_1", 0, 5000, change, paymentTo(btcPayee, 60_000), a, b)
	verify(t, c.signs(dearer), dearer.Payload)
	cancel := c.request("wd_1", 0, 9000, change, nil, a, b)
	verify(t, c.signs(cancel), cancel.Payload)

	back := c.payment("rt_1")
	back.Purpose, back.From, back.Payer, back.CustomerID = signer.Return, bob.WalletRef, &c.treasury.WalletRef, ""
	rest := c.admit(back)
	returned := c.request("rt_1", 1, 2000, rest, paymentTo(btcPayee, 60_000), bitcoin(2, 60_000, bob.Address),
		bitcoin(3, 9000, c.treasury.Address))
	verify(t, c.signs(returned), returned.Payload)

	index := c.s.Index()
	c.reopen()
	if again := c.signs(pay); !bytes.Equal(again.Raw, signed.Raw) || !reflect.DeepEqual(c.s.Index(), index) {
		t.Error("after a restart: got other bytes or rules, want the same")
	}
	entries, err := c.s.EntriesAfter(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	next := c.conf
	next.Journal = filepath.Join(t.TempDir(), "next")
	// The wallet of a return is looked up in its own form.
	nonces := []adopt.ChainNonce{
		{Wallet: c.treasury.WalletRef, Chain: chain.Bitcoin},
		{Wallet: bob.WalletRef, Chain: chain.Bitcoin},
	}
	if err := local.AdoptJournal(next, c.seed, entries, nonces); err != nil {
		t.Fatal(err)
	}
	c.conf = next
	c.reopen()
	if again := c.signs(pay); !bytes.Equal(again.Raw, signed.Raw) {
		t.Error("after an adoption: got other bytes, want the same")
	}
	if again := c.taproot("bob"); again.Address != bob.Address || !bytes.Equal(again.Proof, bob.Proof) {
		t.Errorf("after an adoption: got %s, want %s with the same proof", again.Address, bob.Address)
	}
}

// Rule DEP-44, at the signer.
func TestAWalletHasOneFormForEver(t *testing.T) {
	t.Parallel()
	c := newBitcoinEnv(t)
	bob := c.taproot("bob")
	ann := c.deposit
	no := func(what string, w signer.WalletRef, want string) {
		t.Helper()
		before, err := c.s.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.s.IssueAddress(t.Context(), w); refusal(err) != want {
			t.Errorf("%s: got %s, %v, want it refused with %s", what, got.Address, err, want)
		}
		if after, err := c.s.Head(t.Context()); err != nil || after != before {
			t.Errorf("%s: got journal %+v, %v, want it as before", what, after, err)
		}
	}
	both := func(when string) {
		t.Helper()
		usual := bob.WalletRef
		usual.Form = chain.Usual
		no(when+", bob's as SegWit", usual, signer.RefusedForm)
		no(when+", ann's as taproot", taprootOf("org_1", "ann"), signer.RefusedForm)
		if again := c.taproot("bob"); again.Entry.Seq != bob.Entry.Seq || again.Address != bob.Address ||
			!bytes.Equal(again.Proof, bob.Proof) {
			t.Errorf("%s, bob's: got %+v, want %+v", when, again, bob)
		}
		if again := c.issue("org_1", "CUSTOMER_DEPOSIT", "ann"); again.Entry.Seq != ann.Entry.Seq ||
			again.Address != ann.Address {
			t.Errorf("%s, ann's: got %+v, want %+v", when, again, ann)
		}
	}
	both("at once")
	c.reopen()
	both("after a restart")

	for what, w := range map[string]signer.WalletRef{
		"a treasury": {OrgID: "org_9", Family: chain.BitcoinFamily, Purpose: "TREASURY", Form: chain.Taproot},
		"a wallet for change": {
			OrgID: "org_1", Family: chain.BitcoinFamily, Purpose: "CHANGE", Subject: "wd_1",
			Form: chain.Taproot,
		},
		"one of EVM": {
			OrgID: "org_1", Family: chain.EVM, Purpose: "CUSTOMER_DEPOSIT", Subject: "eve",
			Form: chain.Taproot,
		},
		"one of Solana": {
			OrgID: "org_1", Family: chain.SolanaFamily, Purpose: "CUSTOMER_DEPOSIT", Subject: "eve",
			Form: chain.Taproot,
		},
		"another word": {
			OrgID: "org_1", Family: chain.BitcoinFamily, Purpose: "CUSTOMER_DEPOSIT",
			Subject: "eve", Form: "taproot",
		},
	} {
		no(what, w, signer.RefusedMalformed)
	}
	// An intent names its wallets with their form.
	for what, of := range map[string]func(*signer.Intent){
		"a return from bob's as SegWit": func(i *signer.Intent) { i.From = bob.WalletRef; i.From.Form = chain.Usual },
		"a return from ann's as taproot": func(i *signer.Intent) {
			i.From = ann.WalletRef
			i.From.Form = chain.Taproot
		},
	} {
		i := c.payment("rt_1")
		i.Purpose, i.Payer, i.CustomerID = signer.Return, &c.treasury.WalletRef, ""
		of(&i)
		if _, err := c.s.AdmitIntent(t.Context(), i); refusal(err) != signer.RefusedWallet {
			t.Errorf("%s: got %v, want it refused with %s", what, err, signer.RefusedWallet)
		}
	}

	// No signer of Coffer writes a journal in which a wallet has both forms.
	seq, err := c.s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.s.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := c.seed.DeriveWallet(taprootOf("org_1", "ann"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(signer.Record{
		Kind: signer.RecordIssue, RecordedAt: "2099-01-01T00:00:00Z",
		Issue: &signer.IssueBody{
			WalletRef: taprootOf("org_1", "ann"), Path: other.Path(), Address: other.Address(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	forged := signer.Entry{JournalID: seq.JournalID, Seq: seq.Seq + 1, Prev: seq.Hash, Body: body}
	forged.Hash = forged.ComputeHash()
	line, err := json.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(c.conf.Journal, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := local.Open(c.conf, c.seed); err == nil {
		_ = s.Close()
		t.Error("a journal with two forms of one wallet: got it opened")
	}
}

// If any of these bytes changes, a journal no longer opens, or a proof no longer holds. The version
// before wallet forms wrote this journal.
func TestAJournalOfBeforeThereWereFormsKeepsItsBytes(t *testing.T) {
	t.Parallel()
	written, err := os.ReadFile(filepath.Join("testdata", "journal-before-forms"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := keys.SeedFromWords(strings.Repeat("abandon ", 23) + "art")
	if err != nil {
		t.Fatal(err)
	}
	c := &bitcoinEnv{
		t: t, seed: seed.ForNetwork(chain.Local),
		conf: local.Config{Journal: filepath.Join(t.TempDir(), "journal"), Policy: signpolicy.Policy{
			WhitelistCoolingOff: "0s",
			Chains: map[chain.Name]signpolicy.Chain{chain.Bitcoin: {
				SignerID: btcRegtest,
				FeeMax:   money.Units(50_000), Unlimited: true,
			}},
		}},
	}
	if err := os.WriteFile(c.conf.Journal, written, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.conf.Journal+".anchors", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.open()
	t.Cleanup(func() { _ = c.s.Close() })
	for line := range bytes.Lines(written) {
		var e signer.Entry
		var r signer.Record
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(e.Body, &r); err != nil {
			t.Fatal(err)
		}
		if body, err := json.Marshal(r); err != nil || !bytes.Equal(body, e.Body) {
			t.Errorf("entry %d: got %s, %v, want %s", e.Seq, body, err, e.Body)
		}
	}
	c.treasury, c.deposit = c.issue("org_1", "TREASURY", ""), c.issue("org_1", "CUSTOMER_DEPOSIT", "ann")
	for _, v := range []struct {
		signer.IssuedAddress
		proof string
	}{
		{
			c.treasury,
			"128947075666c0c23eeddf750e7979a8adb904a99a792fa02b584ac5fdf66312bc7705a9af0bfc0b73ab44a9d25116c5658d51dba983ef7e26120f7c44516307",
		},
		{
			c.deposit,
			"be5f812da3c5067812d5f73b368f7a3226f49b082186a88e34bc5992ce1d5817895fc0751acfab8b41138df22c20497601fff4fbcdccd00b97ee88374010fb0f",
		},
	} {
		if got := hex.EncodeToString(v.Proof); got != v.proof {
			t.Errorf("proof of %s: got %s, want %s", v.Address, got, v.proof)
		}
	}
	const attested = "16:coffer-address-15:org_116:CUSTOMER_DEPOSIT3:ann7:BITCOIN52:m/84'/1'/341166832'/258888252'/610103392'/278773374'44:bcrt1qe3cfp8dtlmt6zkr7fhhhrqh2wz7vu0sn8jgtld"
	if got := string(signer.AttestedBytes(c.deposit.WalletRef, c.deposit.Path, c.deposit.Address)); got != attested {
		t.Errorf("got %s, want %s", got, attested)
	}
	if got := string(signer.AttestedBytes(taprootOf("org_1", "ann"), c.deposit.Path,
		c.deposit.Address)); got != attested+"7:TAPROOT" {
		t.Errorf("taproot: got %s, want one word more", got)
	}
	back := c.payment("rt_1")
	back.Purpose, back.From, back.Payer, back.CustomerID = signer.Return, c.deposit.WalletRef, &c.treasury.WalletRef, ""
	admit := func(i signer.Intent) chain.Address {
		if _, err := c.s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		return c.issue("org_1", "CHANGE", i.ID).Address // the subject of change wallets at that time
	}
	old2 := admit(back)
	old1 := admit(c.payment("wd_1"))
	r := c.request("wd_1", 0, 2000, old1, paymentTo(btcPayee, 60_000), bitcoin(0, 50_000, c.treasury.Address),
		bitcoin(1, 70_000, c.deposit.Address))
	if got := c.signs(r).Hash; got != "d2641e2344a2cced6884a12cfda894fd07500c7776c13ba3bed84952b1c7a86a" {
		t.Errorf("got transaction %s, want the one that was signed", got)
	}
	now, err := os.ReadFile(c.conf.Journal)
	if err != nil || !bytes.Equal(now, written) {
		t.Errorf("got a journal of %d bytes, %v, want it untouched: all was asked before", len(now), err)
	}
	// Later change wallets have numbers from 1 on, and an output that was in a slot stays there.
	next := c.admit(c.payment("wd_2"))
	coin := bitcoin(2, 90_000, c.deposit.Address)
	c.refuses("the change of a slot of before", c.request("wd_2", 1, 2000, old1, paymentTo(btcPayee, 60_000), coin),
		signer.RefusedSlot)
	if _, err := c.s.IssueAddress(t.Context(), signer.WalletRef{
		OrgID: "org_1", Family: chain.BitcoinFamily,
		Purpose: "CHANGE", Subject: "wd_2",
	}); refusal(err) != signer.RefusedWallet {
		t.Errorf("a wallet for change that is called as before: got %v, want it refused", err)
	}
	c.signs(c.request("wd_2", 1, 2000, next, paymentTo(btcPayee, 60_000), coin))
	c.reopen()
	c.refuses("its change for what a slot of before was for",
		c.request("rt_1", 2, 2000, next, nil, bitcoin(3, 90_000, c.deposit.Address)), signer.RefusedSlot)
	c.signs(c.request("rt_1", 2, 2000, old2, nil, bitcoin(3, 90_000, c.deposit.Address)))
	if got := fmt.Sprintf("%s",
		mustMarshal(t,
			taprootOf("org_1",
				"ann"))); got != `{"orgId":"org_1","family":"BITCOIN","purpose":"CUSTOMER_DEPOSIT","subject":"ann","form":"TAPROOT"}` {
		t.Errorf("got %s, want the form as the last word", got)
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
