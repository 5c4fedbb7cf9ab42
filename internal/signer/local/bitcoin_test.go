package local_test

import (
	"bytes"
	"errors"
	"fmt"
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

const (
	btcPayee   chain.Address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"
	btcRegtest               = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"
)

// bitcoinEnv is a signer with Bitcoin wallets of two organizations.
type bitcoinEnv struct {
	t                        *testing.T
	s                        *local.Signer
	conf                     local.Config
	seed                     keys.Seed
	treasury, deposit, other signer.IssuedAddress
	changes                  int // number of change wallets of org_1
}

func newBitcoinEnv(t *testing.T) *bitcoinEnv {
	t.Helper()
	seed, err := keys.NewSeed()
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
	if err := local.CreateJournal(c.conf, c.seed); err != nil {
		t.Fatal(err)
	}
	c.open()
	c.treasury = c.issue("org_1", "TREASURY", "")
	c.deposit = c.issue("org_1", "CUSTOMER_DEPOSIT", "ann")
	c.other = c.issue("org_2", "CUSTOMER_DEPOSIT", "ann")
	t.Cleanup(func() { _ = c.s.Close() })
	return c
}

func (c *bitcoinEnv) open() {
	c.t.Helper()
	var err error
	if c.s, err = local.Open(c.conf, c.seed); err != nil {
		c.t.Fatal(err)
	}
}

func (c *bitcoinEnv) issue(org, purpose, subject string) signer.IssuedAddress {
	c.t.Helper()
	w, err := c.s.IssueAddress(c.t.Context(), signer.WalletRef{
		OrgID: org, Family: chain.BitcoinFamily,
		Purpose: purpose, Subject: subject,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return w
}

func (c *bitcoinEnv) payment(id string) signer.Intent {
	return signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: chain.Bitcoin, From: c.treasury.WalletRef, To: btcPayee,
		Amount: money.Units(60_000), CustomerID: "ann", MintID: 1,
	}
}

// admit admits an intent and issues the next change wallet.
func (c *bitcoinEnv) admit(i signer.Intent) chain.Address {
	c.t.Helper()
	if _, err := c.s.AdmitIntent(c.t.Context(), i); err != nil {
		c.t.Fatal(err)
	}
	return c.next().Address
}

// next issues the next change wallet of org_1.
func (c *bitcoinEnv) next() signer.IssuedAddress {
	c.t.Helper()
	c.changes++
	return c.issue("org_1", "CHANGE", fmt.Sprint(c.changes))
}

func bitcoin(n int, amount uint64, holder chain.Address) chain.Output {
	return chain.Output{
		Outpoint: bitcointx.FormatOutpoint(chain.TxHash(strings.Repeat("ab", 32)), uint32(n)),
		Owner:    holder, Amount: money.Units(amount),
	}
}

// request returns a request for a signature that spends outputs. A nil to is a cancel.
func (c *bitcoinEnv) request(
	id string, n uint64, rate uint64, change chain.Address, to *chain.Payment, coins ...chain.Output,
) signer.SignRequest {
	c.t.Helper()
	slotKey, err := bitcointx.NewSlotKey(chain.Local, coins, change)
	if err != nil {
		c.t.Fatal(err)
	}
	r := signer.SignRequest{IntentID: id, Act: signer.Cancel, Slot: signer.Slot{Nonce: n, Key: slotKey.String()}}
	var ps []chain.Payment
	if to != nil {
		ps, r.Act = []chain.Payment{*to}, signer.Pay
	}
	fees, err := bitcointx.FitFees(chain.Local, slotKey, ps, chain.Fees{TipCap: money.Units(rate)})
	if err != nil {
		c.t.Fatal(err)
	}
	tx, err := bitcointx.Build(chain.Local, slotKey, ps, fees)
	if err == nil {
		r.Payload, err = tx.Payload()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *bitcoinEnv) signs(r signer.SignRequest) signer.SignedTx {
	c.t.Helper()
	out, err := c.s.Sign(c.t.Context(), r)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func (c *bitcoinEnv) refuses(what string, r signer.SignRequest, want string) {
	c.t.Helper()
	before, err := c.s.Head(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	if out, err := c.s.Sign(c.t.Context(), r); refusal(err) != want {
		c.t.Errorf("%s: got %+v, %v, want it refused with %s", what, out, err, want)
	}
	if after, err := c.s.Head(c.t.Context()); err != nil || after != before {
		c.t.Errorf("%s: got journal %+v, %v, want it as before, %+v", what, after, err, before)
	}
}

func paymentTo(to chain.Address, amount uint64) *chain.Payment {
	return &chain.Payment{To: to, Amount: money.Units(amount)}
}

// Every output of an organization may pay any payment of it, whichever address received it. An
// output belongs permanently to one intent, with everything that was signed for it.
func TestABitcoinPaymentSpendsItsOwnOutputs(t *testing.T) {
	t.Parallel()
	c := newBitcoinEnv(t)
	first, second := c.payment("wd_1"), c.payment("wd_2")
	change, change2 := c.admit(first), c.admit(second)
	foreign := c.issue("org_2", "CHANGE", "1").Address
	a, b, d := bitcoin(0, 50_000, c.treasury.Address), bitcoin(1, 70_000, c.deposit.Address), bitcoin(2, 90_000,
		c.deposit.Address)
	pay := c.request("wd_1", 0, 2000, change, paymentTo(btcPayee, 60_000), a, b)
	signed := c.signs(pay)
	verify(t, signed, pay.Payload)

	changed := b
	changed.Amount = money.Units(70_001)
	held := b
	held.Owner = c.treasury.Address
	taken := d
	taken.Owner = c.other.Address
	stranger := d
	stranger.Owner = btcPayee
	for name, r := range map[string]struct {
		request signer.SignRequest
		want    string
	}{
		"another amount": {
			c.request("wd_1", 0, 2000, change, paymentTo(btcPayee, 60_001), a, b),
			signer.RefusedPayload,
		},
		"another payee": {c.request("wd_1", 0, 2000, change, paymentTo(c.other.Address, 60_000), a,
			b), signer.RefusedPayload},
		"a dearer fee than the policy's": {
			c.request("wd_1", 0, 240_000, change, paymentTo(btcPayee, 60_000), a, b),
			signer.RefusedFee,
		},
		"other coins": {
			c.request("wd_1", 0, 3000, change, paymentTo(btcPayee, 60_000), a, d),
			signer.RefusedSlot,
		},
		"a coin less": {
			c.request("wd_1", 0, 3000, change, paymentTo(btcPayee, 60_000), b),
			signer.RefusedSlot,
		},
		"a coin more": {
			c.request("wd_1", 0, 3000, change, paymentTo(btcPayee, 60_000), a, b, d),
			signer.RefusedSlot,
		},
		"a coin that holds another amount": {c.request("wd_1", 0, 3000, change, paymentTo(btcPayee, 60_000), a,
			changed), signer.RefusedSlot},
		"a coin of another holder": {
			c.request("wd_1", 0, 3000, change, paymentTo(btcPayee, 60_000), a, held),
			signer.RefusedSlot,
		},
		"change to another": {
			c.request("wd_1", 0, 3000, change2, paymentTo(btcPayee, 60_000), a, b),
			signer.RefusedSlot,
		},
		"a coin of another intent": {
			c.request("wd_2", 1, 2000, change2, paymentTo(btcPayee, 60_000), b),
			signer.RefusedSlot,
		},
		"that coin beside another": {
			c.request("wd_2", 1, 2000, change2, paymentTo(btcPayee, 60_000), d, a),
			signer.RefusedSlot,
		},
		"that coin of another amount": {c.request("wd_2", 1, 2000, change2, paymentTo(btcPayee, 60_000),
			changed), signer.RefusedSlot},
		"the number of another intent": {
			c.request("wd_2", 0, 2000, change2, paymentTo(btcPayee, 60_000), d),
			signer.RefusedSlot,
		},
		"a coin of another organization": {
			c.request("wd_2", 1, 2000, change2, paymentTo(btcPayee, 60_000), taken),
			signer.RefusedWallet,
		},
		"a coin of nobody's": {c.request("wd_2", 1, 2000, change2,
			paymentTo(c.treasury.Address, 60_000), stranger), signer.RefusedWallet},
		"change of another intent": {
			c.request("wd_2", 1, 2000, change, paymentTo(btcPayee, 60_000), d),
			signer.RefusedSlot,
		},
		"a cancel with change of another": {c.request("wd_2", 1, 2000, change, nil, d), signer.RefusedSlot},
		"change to another organization": {
			c.request("wd_2", 1, 2000, foreign, paymentTo(btcPayee, 60_000), d),
			signer.RefusedDestination,
		},
		"change to the treasury": {c.request("wd_2", 1, 2000, c.treasury.Address,
			paymentTo(btcPayee, 60_000), d), signer.RefusedDestination},
		"change to a customer": {c.request("wd_2", 1, 2000, c.other.Address, paymentTo(btcPayee, 60_000),
			d), signer.RefusedDestination},
		"change to a stranger": {c.request("wd_2", 1, 2000, btcPayee, nil, d), signer.RefusedDestination},
		"a payment as a cancel": {asCancel(c.request("wd_2", 1, 2000, change2, paymentTo(btcPayee, 60_000),
			d)), signer.RefusedPayload},
		"a cancel as a payment": {
			asPay(c.request("wd_2", 1, 2000, change2, nil, d)),
			signer.RefusedPayload,
		},
		"a lease that is not in the payload": {withLease(c.request("wd_2", 1, 2000, change2,
			paymentTo(btcPayee, 60_000), d), pay.Slot.Key[:10]), signer.RefusedPayload},
		"a payload without a lease": {withLease(c.request("wd_2", 1, 2000, change2,
			paymentTo(btcPayee, 60_000), d), ""), signer.RefusedPayload},
	} {
		c.refuses(name, r.request, r.want)
	}

	// A replacement with a higher fee in the same slot takes the fee out of the change. A cancel
	// returns what it spends.
	dearer := c.request("wd_1", 0, 5000, change, paymentTo(btcPayee, 60_000), a, b)
	verify(t, c.signs(dearer), dearer.Payload)
	cancel := c.request("wd_1", 0, 9000, change, nil, a, b)
	verify(t, c.signs(cancel), cancel.Payload)
	before := c.s.Index()

	if err := c.s.Close(); err != nil {
		t.Fatal(err)
	}
	c.open()
	if again := c.signs(pay); !bytes.Equal(again.Raw, signed.Raw) || again.Hash != signed.Hash {
		t.Error("after a restart: got other bytes, want the same")
	}
	if after := c.s.Index(); !reflect.DeepEqual(after, before) {
		t.Error("after a restart: got other rules, want the same")
	}
	c.refuses("after a restart, the change of another intent",
		c.request("wd_2", 1, 2000, change, paymentTo(btcPayee, 60_000), d), signer.RefusedSlot)
	c.refuses("after a restart, a coin of another intent",
		c.request("wd_2", 1, 2000, change2, paymentTo(btcPayee, 60_000), d, a), signer.RefusedSlot)
	verify(t, c.signs(c.request("wd_2", 1, 2000, change2, paymentTo(btcPayee, 60_000), d)), nil)

	// A journal that is adopted from this one has the same index.
	entries, err := c.s.EntriesAfter(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	lost := c.s
	next := c.conf
	next.Journal = filepath.Join(t.TempDir(), "next")
	nonces := []adopt.ChainNonce{{Wallet: c.treasury.WalletRef, Chain: chain.Bitcoin}}
	if err := local.AdoptJournal(next, c.seed, entries, nonces); err != nil {
		t.Fatal(err)
	}
	if err := lost.Close(); err != nil {
		t.Fatal(err)
	}
	c.conf = next
	c.open()
	if again := c.signs(pay); !bytes.Equal(again.Raw, signed.Raw) {
		t.Error("after an adoption: got other bytes, want the same")
	}
	third := c.payment("wd_3")
	change3 := c.admit(third)
	c.refuses("after an adoption, the change of another intent", c.request("wd_3", 2, 2000, change2,
		paymentTo(btcPayee, 60_000), bitcoin(3, 90_000, c.deposit.Address)), signer.RefusedSlot)
	c.refuses("after an adoption, a coin of another intent",
		c.request("wd_3", 2, 2000, change3, paymentTo(btcPayee, 60_000), d), signer.RefusedSlot)

	// A copy that was changed is not adopted.
	for n, e := range entries {
		if !bytes.Contains(e.Body, []byte(`"SIGN"`)) {
			continue
		}
		forged := append([]signer.Entry{}, entries[:n+1]...)
		forged[n].Body = bytes.Replace(e.Body, []byte(":70000:"), []byte(":70001:"), 1)
		forged[n].Hash = forged[n].ComputeHash()
		next.Journal = filepath.Join(t.TempDir(), fmt.Sprint("forged", n))
		if err := local.AdoptJournal(next, c.seed, forged, nonces); err == nil && !bytes.Equal(forged[n].Body, e.Body) {
			t.Errorf("entry %d with another amount: got it adopted", e.Seq)
		}
	}
}

func asCancel(r signer.SignRequest) signer.SignRequest { r.Act = signer.Cancel; return r }
func asPay(r signer.SignRequest) signer.SignRequest    { r.Act = signer.Pay; return r }

func withLease(r signer.SignRequest, slotKey string) signer.SignRequest {
	r.Slot.Key = slotKey
	return r
}

// verify checks the signatures with the script engine of the network.
func verify(t *testing.T, s signer.SignedTx, payload []byte) {
	t.Helper()
	tx := new(wire.MsgTx)
	if err := tx.Deserialize(bytes.NewReader(s.Raw)); err != nil || chain.TxHash(tx.TxHash().String()) != s.Hash {
		t.Fatalf("got %s, %v, want the transaction %s", tx.TxHash(), err, s.Hash)
	}
	if payload == nil {
		return
	}
	ours, err := bitcointx.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	_, spent, err := ours.Unsigned()
	if err != nil {
		t.Fatal(err)
	}
	before := txscript.NewMultiPrevOutFetcher(nil)
	for i, in := range tx.TxIn {
		before.AddPrevOut(in.PreviousOutPoint, &spent[i])
	}
	for i, out := range spent {
		e, err := txscript.NewEngine(out.PkScript, tx, i, txscript.StandardVerifyFlags, nil,
			txscript.NewTxSigHashes(tx, before), out.Value, before)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Execute(); err != nil {
			t.Errorf("input %d: got %v, want it to be spent", i, err)
		}
	}
}

func TestWalletsForChangeAreOfBitcoinAlone(t *testing.T) {
	t.Parallel()
	c := newBitcoinEnv(t)
	for _, f := range []chain.Family{chain.EVM, chain.SolanaFamily} {
		if w, err := c.s.IssueAddress(t.Context(), signer.WalletRef{
			OrgID: "org_1", Family: f, Purpose: "CHANGE",
			Subject: "1",
		}); refusal(err) != signer.RefusedMalformed {
			t.Errorf("%s: got %+v, %v, want it refused", f, w, err)
		}
	}
	if w, err := c.s.IssueAddress(t.Context(), signer.WalletRef{
		OrgID: "org_1", Family: chain.BitcoinFamily,
		Purpose: "CHANGE",
	}); refusal(err) != signer.RefusedMalformed {
		t.Errorf("of no intent: got %+v, %v, want it refused", w, err)
	}
	change := c.issue("org_1", "CHANGE", "1")
	for name, of := range map[string]func(*signer.Intent){
		"a payment from it":      func(i *signer.Intent) { i.From = change.WalletRef },
		"a payment to it":        func(i *signer.Intent) { i.To = change.Address },
		"a return from it":       func(i *signer.Intent) { i.Purpose, i.From = signer.Return, change.WalletRef },
		"a payment in a token":   func(i *signer.Intent) { i.Contract = btcPayee },
		"a payment to no one":    func(i *signer.Intent) { i.To = "bcrt1" },
		"one that somebody pays": func(i *signer.Intent) { i.Payer = &c.deposit.WalletRef },
	} {
		i := c.payment("wd_2")
		of(&i)
		var no *signer.Refusal
		if _, err := c.s.AdmitIntent(t.Context(), i); !errors.As(err, &no) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	policy := c.conf.Policy
	for _, id := range []string{"", "regtest", btcRegtest[1:], strings.ToUpper(btcRegtest)} {
		policy.Chains = map[chain.Name]signpolicy.Chain{chain.Bitcoin: {
			SignerID: id, FeeMax: money.Units(1),
			Unlimited: true,
		}}
		if err := policy.Validate(); err == nil {
			t.Errorf("a policy for network %q: got no error", id)
		}
	}
}

// Rule COIN-8. A caller with access to the server can consolidate an organization's outputs into
// one of its own, at a rate at which that pays, and do nothing else with them.
func TestAConsolidationMovesOutputsToItsOwnChangeAlone(t *testing.T) {
	t.Parallel()
	c := newBitcoinEnv(t)
	merge := func(id string) signer.Intent {
		to := c.next()
		return signer.Intent{
			ID: id, Purpose: signer.Consolidate, Chain: chain.Bitcoin, From: c.treasury.WalletRef,
			To: to.Address, ToWallet: &to.WalletRef, MintID: 1,
		}
	}
	i := merge("merge_1")
	others := c.issue("org_2", "CHANGE", "1")
	another := c.next()
	if _, err := c.s.AdmitIntent(t.Context(), c.payment("wd_9")); err != nil {
		t.Fatal(err)
	}
	c.signs(c.request("wd_9", 9, 2000, another.Address, paymentTo(btcPayee, 60_000),
		bitcoin(9, 90_000, c.deposit.Address)))
	for name, of := range map[string]func(*signer.Intent){
		"an amount":                 func(i *signer.Intent) { i.Amount = money.Units(1) },
		"a customer":                func(i *signer.Intent) { i.CustomerID = "ann" },
		"a key":                     func(i *signer.Intent) { i.IdempotencyKeyHash = strings.Repeat("ab", 32) },
		"a part of the fee":         func(i *signer.Intent) { i.FeeDeducted = money.Units(1) },
		"an address of its own":     func(i *signer.Intent) { i.To = btcPayee },
		"no wallet":                 func(i *signer.Intent) { i.ToWallet = nil },
		"no wallet, and an address": func(i *signer.Intent) { i.To, i.ToWallet = btcPayee, nil },
		"the treasury": func(i *signer.Intent) {
			i.To, i.ToWallet = c.treasury.Address, &c.treasury.WalletRef
		},
		"a customer's address": func(i *signer.Intent) {
			i.To, i.ToWallet = c.deposit.Address, &c.deposit.WalletRef
		},
		"the change of another order": func(i *signer.Intent) {
			i.To, i.ToWallet = another.Address, &another.WalletRef
		},
		"change of another organization": func(i *signer.Intent) {
			i.To, i.ToWallet = others.Address, &others.WalletRef
		},
		"from a deposit address": func(i *signer.Intent) {
			i.From, i.Payer = c.deposit.WalletRef, &c.treasury.WalletRef
		},
		"somebody else's fee":     func(i *signer.Intent) { i.Payer = &c.deposit.WalletRef },
		"an entry of a whitelist": func(i *signer.Intent) { i.WhitelistedID = "wl_1" },
		"a token":                 func(i *signer.Intent) { i.Contract = btcPayee },
		"another chain":           func(i *signer.Intent) { i.Chain = chain.Ethereum },
	} {
		wrong := i
		of(&wrong)
		var no *signer.Refusal
		if _, err := c.s.AdmitIntent(t.Context(), wrong); !errors.As(err, &no) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	if _, err := c.s.AdmitIntent(t.Context(), func() signer.Intent {
		p := c.payment("wd_0")
		p.Amount = money.Zero
		return p
	}()); refusal(err) != signer.RefusedMalformed {
		t.Errorf("a payment of nothing: got %v, want it refused", err)
	}
	second := merge("merge_2")
	for _, i := range []signer.Intent{i, second, c.payment("wd_1")} {
		if _, err := c.s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	change, change2 := i.To, second.To
	a, b, d := bitcoin(0, 50_000, c.treasury.Address), bitcoin(1, 70_000, c.deposit.Address), bitcoin(2, 90_000,
		c.deposit.Address)
	taken := d
	taken.Owner = c.other.Address
	for name, r := range map[string]struct {
		request signer.SignRequest
		want    string
	}{
		"a payee": {
			c.request("merge_1", 0, 2000, change, paymentTo(btcPayee, 60_000), a, b),
			signer.RefusedPayload,
		},
		"a payee, as a cancel": {asCancel(c.request("merge_1", 0, 2000, change, paymentTo(btcPayee, 60_000),
			a, b)), signer.RefusedPayload},
		"a stranger's address": {
			asPay(c.request("merge_1", 0, 2000, btcPayee, nil, a, b)),
			signer.RefusedDestination,
		},
		"the treasury": {
			asPay(c.request("merge_1", 0, 2000, c.treasury.Address, nil, a, b)),
			signer.RefusedDestination,
		},
		"the change of another merge": {
			asPay(c.request("merge_1", 0, 2000, change2, nil, a, b)),
			signer.RefusedDestination,
		},
		"the change of another's": {
			asPay(c.request("merge_1", 0, 2000, others.Address, nil, a, b)),
			signer.RefusedDestination,
		},
		"a coin of another organization": {
			asPay(c.request("merge_1", 0, 2000, change, nil, a, taken)),
			signer.RefusedWallet,
		},
		"a rate above the policy's": {
			asPay(c.request("merge_1", 0, 10_011, change, nil, a, b)),
			signer.RefusedFee,
		},
		"that rate for a cancel": {c.request("merge_1", 0, 10_011, change, nil, a, b), signer.RefusedFee},
		"a payment beside it": {func() signer.SignRequest {
			r := asPay(c.request("merge_1", 0, 2000, change, nil, a, b))
			r.TxMemberIDs = []string{"wd_1"}
			return r
		}(), signer.RefusedIntent},
		"a merge beside a payment": {func() signer.SignRequest {
			r := c.request("wd_1", 0, 2000, c.next().Address, paymentTo(btcPayee, 60_000), a, b)
			r.TxMemberIDs = []string{"merge_1"}
			return r
		}(), signer.RefusedIntent},
	} {
		c.refuses(name, r.request, r.want)
	}
	first := asPay(c.request("merge_1", 0, 2000, change, nil, a, b))
	verify(t, c.signs(first), first.Payload)
	c.refuses("other coins", asPay(c.request("merge_1", 0, 3000, change, nil, a, d)), signer.RefusedSlot)
	c.refuses("its coin for another", asPay(c.request("merge_2", 1, 2000, change2, nil, b, d)), signer.RefusedSlot)
	dearer := asPay(c.request("merge_1", 0, 10_000, change, nil, a, b))
	verify(t, c.signs(dearer), dearer.Payload)
	before := c.s.Index()
	if err := c.s.Close(); err != nil {
		t.Fatal(err)
	}
	c.conf.Policy.Chains[chain.Bitcoin] = signpolicy.Chain{
		SignerID: btcRegtest, FeeMax: money.Units(50_000),
		ConsolidationRateMax: money.Units(3000), Unlimited: true,
	}
	c.open()
	if after := c.s.Index(); !reflect.DeepEqual(after, before) {
		t.Error("after a restart: got other rules, want the same")
	}
	c.refuses("under a policy that allows less", asPay(c.request("merge_2", 1, 3100, change2, nil, d)),
		signer.RefusedFee)
	last := asPay(c.request("merge_2", 1, 3000, change2, nil, d))
	verify(t, c.signs(last), last.Payload)
}

// The largest transaction of Coffer is signed, with every output named in its slot.
func TestTheLargestBitcoinTransactionIsSigned(t *testing.T) {
	t.Parallel()
	c := newBitcoinEnv(t)
	i := c.payment("wd_1")
	change := c.admit(i)
	var coins []chain.Output
	for n := range bitcointx.InputsMax {
		coins = append(coins, bitcoin(n, 1000, c.deposit.Address))
	}
	r := c.request("wd_1", 0, 1000, change, paymentTo(btcPayee, 60_000), coins...)
	verify(t, c.signs(r), nil)
}

// The seed and a number are enough to find a change wallet. So the numbers have no gap, and none is
// far above those in use.
func TestWalletsForChangeAreNumberedWithoutAGap(t *testing.T) {
	t.Parallel()
	c := newBitcoinEnv(t)
	issue := func(subject string) error {
		_, err := c.s.IssueAddress(t.Context(), signer.WalletRef{
			OrgID: "org_1", Family: chain.BitcoinFamily,
			Purpose: "CHANGE", Subject: subject,
		})
		return err
	}
	refused := func(subjects ...string) {
		t.Helper()
		for _, s := range subjects {
			if err := issue(s); refusal(err) != signer.RefusedWallet {
				t.Errorf("wallet for change %q: got %v, want it refused", s, err)
			}
		}
	}
	refused("0", "2", "01", "+1", "-1", " 1", "1.0", "wd_1", "9223372036854775808", "18446744073709551616")
	first := c.admit(c.payment("wd_1"))
	if again := c.issue("org_1", "CHANGE", "1"); again.Address != first {
		t.Errorf("asked again: got %s, want %s", again.Address, first)
	}
	refused("0", "3", "01")
	c.issue("org_2", "CHANGE", "1") // each organization has its own numbers
	for n := 2; n <= 500; n++ {
		if err := issue(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	refused("501")
	c.signs(c.request("wd_1", 0, 2000, first, paymentTo(btcPayee, 60_000), bitcoin(0, 90_000, c.deposit.Address)))
	c.reopen()
	refused("502")
	if err := issue("501"); err != nil {
		t.Errorf("after the first is in a slot: got %v, want the next", err)
	}
	refused("502")
}

// A person who has only the seed sends everything to one address. That works whether or not an
// earlier transaction of the same outputs is mined, and without knowing the form of each wallet.
func TestARescueSpendsAnOutputByWhateverIsMined(t *testing.T) {
	t.Parallel()
	c := newBitcoinEnv(t)
	back := c.next()
	first, second := c.payment("rsc_1"), c.payment("rsc_2")
	second.Amount = money.Units(59_000)
	for _, i := range []signer.Intent{first, second} {
		if _, err := c.s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	a := bitcoin(0, 90_000, c.deposit.Address)
	c.signs(c.request("rsc_1", 0, 2000, back.Address, paymentTo(btcPayee, 60_000), a))
	again := c.request("rsc_2", 1, 3000, back.Address, paymentTo(btcPayee, 59_000), a)
	c.refuses("without a rescue", again, signer.RefusedSlot)
	c.conf.Rescue = true
	c.reopen()
	c.signs(again)
	c.refuses("another amount", c.request("rsc_2", 1, 3000, back.Address, paymentTo(btcPayee, 58_000), a),
		signer.RefusedPayload)
	ann := taprootOf("org_1", "ann")
	if w, err := c.s.IssueAddress(t.Context(), ann); err != nil || w.Form != chain.Taproot {
		t.Errorf("ann's address in the other form: got %+v, %v, want it", w, err)
	}
	c.issue("org_1", "CHANGE", "1900")
	c.reopen()
	c.conf.Rescue = false
	if err := c.s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Open(c.conf, c.seed); err == nil {
		t.Error("a service opens the journal of a rescue: got no error")
	}
	c.conf.Rescue = true
	c.open()
}
