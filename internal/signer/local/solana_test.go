package local_test

import (
	"path/filepath"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

const (
	solUSDC   chain.Address = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
	solPayee  chain.Address = "26VTSsebGu1WS51mQmKspTCCyKJoVFKMjhJP5cPUM9v2"
	genesis                 = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"
	lamports                = 1_000_000_000
	blockA                  = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"
	blockB                  = "4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM"
	solTokens chain.Address = solanatx.TokenProgram
)

// nonceA and nonceB are the nonce values that follow from two blocks, which proofs contains.
var (
	nonceA, nonceB = durable(blockA), durable(blockB)
	proofs         = map[string]string{nonceA: blockA, nonceB: blockB}
)

func durable(block string) string {
	v, err := solanatx.NonceValueAfter(block)
	if err != nil {
		panic(err)
	}
	return v
}

// solanaEnv is a signer with the treasury and a deposit wallet of one organization.
type solanaEnv struct {
	t                 *testing.T
	s                 *local.Signer
	conf              local.Config
	seed              keys.Seed
	treasury, deposit signer.IssuedAddress
}

func newSolanaEnv(t *testing.T) *solanaEnv {
	t.Helper()
	seed, err := keys.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	v := &solanaEnv{t: t, seed: seed, conf: local.Config{
		Journal: filepath.Join(t.TempDir(), "journal"),
		Policy: signpolicy.Policy{
			WhitelistCoolingOff: "0s",
			Chains: map[chain.Name]signpolicy.Chain{chain.Solana: {
				SignerID: genesis, FeeMax: money.Units(10_000_000), GasMax: money.Units(lamports), Unlimited: true,
			}},
		},
	}}
	if err := local.CreateJournal(v.conf, seed); err != nil {
		t.Fatal(err)
	}
	v.open()
	for _, w := range []struct {
		ref  signer.WalletRef
		into *signer.IssuedAddress
	}{
		{signer.WalletRef{OrgID: "org_1", Family: chain.SolanaFamily, Purpose: "TREASURY"}, &v.treasury},
		{
			signer.WalletRef{OrgID: "org_1", Family: chain.SolanaFamily, Purpose: "CUSTOMER_DEPOSIT", Subject: "ann"},
			&v.deposit,
		},
	} {
		if *w.into, err = v.s.IssueAddress(t.Context(), w.ref); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = v.s.Close() })
	return v
}

func (v *solanaEnv) open() {
	v.t.Helper()
	var err error
	if v.s, err = local.Open(v.conf, v.seed); err != nil {
		v.t.Fatal(err)
	}
}

// payment returns an intent of the treasury; sweep returns one of the deposit wallet.
func (v *solanaEnv) payment(id string, contract chain.Address) signer.Intent {
	return signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: chain.Solana, From: v.treasury.WalletRef, To: solPayee,
		Contract: contract,
		Amount:   money.Units(5_000_000), CustomerID: "ann", MintID: 1,
	}
}

func (v *solanaEnv) sweep(id string) signer.Intent {
	return signer.Intent{
		ID: id, Purpose: signer.Sweep, Chain: chain.Solana, From: v.deposit.WalletRef, Payer: &v.treasury.WalletRef,
		To: v.treasury.Address, ToWallet: &v.treasury.WalletRef, Contract: solUSDC, Amount: money.Units(7), MintID: 1,
		WalletBalance: &signer.WalletBalance{Total: money.Units(7)},
	}
}

func (v *solanaEnv) admit(i signer.Intent) {
	v.t.Helper()
	if _, err := v.s.AdmitIntent(v.t.Context(), i); err != nil {
		v.t.Fatal(err)
	}
}

// request returns the request for an intent's signature in the nth slot, whose nonce account is the
// treasury's first.
func (v *solanaEnv) request(i signer.Intent, n uint64, value string, change func(*solanatx.Tx)) signer.SignRequest {
	v.t.Helper()
	account, err := solanatx.NonceAccount(v.treasury.Address, 0)
	if err != nil {
		v.t.Fatal(err)
	}
	from := v.treasury.Address
	if i.From == v.deposit.WalletRef {
		from = v.deposit.Address
	}
	program, decimals := chain.Address(""), uint8(0)
	if i.Contract != "" {
		program, decimals = solTokens, 6
	}
	move, err := solanatx.NewMove(chain.Payment{From: from, To: i.To, Contract: i.Contract, Amount: i.Amount}, program,
		decimals, i.Contract != "")
	if err != nil {
		v.t.Fatal(err)
	}
	tx := solanatx.Tx{
		Payer: v.treasury.Address, NonceAccount: account, NonceValue: value, Limit: 200_000, Price: 1000,
		Moves: []solanatx.Move{move},
	}
	if change != nil {
		change(&tx)
	}
	payload, err := tx.Payload()
	if err != nil {
		v.t.Fatal(err)
	}
	return signer.SignRequest{
		IntentID: i.ID, Act: signer.Pay, Payload: payload,
		Slot: signer.Slot{Nonce: n, Key: solanatx.SlotKey(account, value)}, Proof: proofs[value],
	}
}

func (v *solanaEnv) signs(r signer.SignRequest) signer.SignedTx {
	v.t.Helper()
	out, err := v.s.Sign(v.t.Context(), r)
	if err != nil {
		v.t.Fatal(err)
	}
	return out
}

func (v *solanaEnv) refuses(what string, r signer.SignRequest, want string) {
	v.t.Helper()
	if out, err := v.s.Sign(v.t.Context(), r); refusal(err) != want {
		v.t.Errorf("%s: got %+v, %v, want it refused with %s", what, out, err, want)
	}
}

// On a chain without numbered slots a slot key belongs permanently to one intent, also after a
// restart. A payment is signed only as it was admitted.
func TestASolanaPaymentIsSignedForOneNonce(t *testing.T) {
	t.Parallel()
	for _, contract := range []chain.Address{"", solUSDC} {
		v := newSolanaEnv(t)
		first, second := v.payment("wd_1", contract), v.payment("wd_2", contract)
		v.admit(first)
		v.admit(second)
		pays := v.request(first, 0, nonceA, nil)
		signed := v.signs(pays)
		if tx, hash, err := solanatx.DecodeSigned(signed.Raw); err != nil || hash != signed.Hash ||
			tx.Payer != v.treasury.Address {
			t.Errorf("got %+v of %s, %v, want what was signed", tx, hash, err)
		}
		for name, c := range map[string]struct {
			intent signer.Intent
			n      uint64
			value  string
			change func(*solanatx.Tx)
			want   string
		}{
			"another amount": {first, 0, nonceA, func(tx *solanatx.Tx) {
				tx.Moves[0].Amount = money.Units(5_000_001)
			}, signer.RefusedPayload},
			"another payee": {second, 1, nonceB, func(tx *solanatx.Tx) {
				tx.Moves[0].To, tx.Moves[0].Owner = v.deposit.Address, ""
			}, signer.RefusedPayload},
			"two moves": {second, 1, nonceB, func(tx *solanatx.Tx) {
				tx.Moves = append(tx.Moves, tx.Moves[0])
				tx.Moves[1].Owner = ""
			}, signer.RefusedPayload},
			"a fee above the policy": {second, 1, nonceB, func(tx *solanatx.Tx) {
				tx.Price = 100_000_000
			}, signer.RefusedFee},
			"a second lease":        {first, 0, nonceB, nil, signer.RefusedSlot},
			"a second number":       {first, 1, nonceA, func(tx *solanatx.Tx) { tx.Price++ }, signer.RefusedSlot},
			"the lease of another":  {second, 1, nonceA, nil, signer.RefusedSlot},
			"the number of another": {second, 0, nonceB, nil, signer.RefusedSlot},
			"paid and paid for by ann's": {second, 1, nonceB, func(tx *solanatx.Tx) {
				tx.Payer = v.deposit.Address
			}, signer.RefusedPayload},
		} {
			v.refuses(string(contract)+": "+name, v.request(c.intent, c.n, c.value, c.change), c.want)
		}
		lied := v.request(second, 1, nonceB, nil)
		lied.Slot.Key = pays.Slot.Key[:len(pays.Slot.Key)-len(nonceA)] + solUSDCValue
		v.refuses("a lease that is not in the payload", lied, signer.RefusedPayload)
		// A replacement with a higher fee in the same slot, and a cancel without payments.
		v.signs(v.request(first, 0, nonceA, func(tx *solanatx.Tx) { tx.Price = 2000 }))
		cancel := v.request(first, 0, nonceA, func(tx *solanatx.Tx) { tx.Moves, tx.Price = nil, 3000 })
		v.refuses("a cancel as a payment", cancel, signer.RefusedPayload)
		cancel.Act = signer.Cancel
		v.signs(cancel)
		if err := v.s.Close(); err != nil {
			t.Fatal(err)
		}
		v.open()
		if again := v.signs(pays); string(again.Raw) != string(signed.Raw) || again.Hash != signed.Hash {
			t.Error("after a restart: got other bytes, want the same")
		}
		v.refuses("after a restart, the lease of another", v.request(second, 1, nonceA, nil), signer.RefusedSlot)
	}
}

// solUSDCValue is 32 bytes in base58 that are the value of no nonce account.
const solUSDCValue = string(solUSDC)

// Invariant I-26: a deposit address never pays a fee that another wallet can pay.
func TestTheTreasuryPaysTheFeeOfASolanaSweep(t *testing.T) {
	t.Parallel()
	v := newSolanaEnv(t)
	for name, change := range map[string]func(*signer.Intent){
		"nobody":               func(i *signer.Intent) { i.Payer = nil },
		"the wallet itself":    func(i *signer.Intent) { i.Payer = &v.deposit.WalletRef },
		"a treasury of others": func(i *signer.Intent) { w := v.treasury.WalletRef; w.OrgID = "org_2"; i.Payer = &w },
	} {
		i := v.sweep("sw_" + name)
		change(&i)
		if _, err := v.s.AdmitIntent(t.Context(), i); refusal(err) != signer.RefusedWallet {
			t.Errorf("paid for by %s: got %v, want it refused", name, err)
		}
	}
	i := v.sweep("sw_1")
	v.admit(i)
	if _, err := v.s.AdmitIntent(t.Context(), v.sweep("sw_1")); err != nil {
		t.Errorf("again: got %v, want the same", err)
	}
	signed := v.signs(v.request(i, 0, nonceA, nil))
	if signers, err := solanatx.Signers(payloadOf(t, signed.Raw)); err != nil || len(signers) != 2 ||
		signers[0] != v.treasury.Address || signers[1] != v.deposit.Address {
		t.Errorf("got it signed by %v (%v), want the treasury, then the deposit wallet", signers, err)
	}
	v.refuses("from the treasury's own account", v.request(i, 0, nonceA, func(tx *solanatx.Tx) {
		tx.Moves[0].From = v.treasury.Address
	}), signer.RefusedPayload)
}

// A fee counts to the limit of the treasury that pays it, and not to that of the address swept.
func TestTheFeesOfSweepsAreLimitedAtTheTreasury(t *testing.T) {
	t.Parallel()
	v := newSolanaEnv(t)
	first, second, third := v.sweep("sw_1"), v.sweep("sw_2"), v.sweep("sw_3")
	pays := v.request(first, 0, nonceA, nil)
	tx, err := solanatx.Decode(pays.Payload)
	if err != nil {
		t.Fatal(err)
	}
	p := v.conf.Policy.Chains[chain.Solana]
	p.Unlimited, p.FeeMax, p.FeeDayMax = false, tx.MaxCost(), tx.MaxCost()
	v.restart(p)
	v.admit(first)
	v.admit(second)
	v.signs(pays)
	for range 2 {
		v.refuses("another sweep", v.request(second, 1, nonceB, nil), signer.FeeLimit)
		if _, err := v.s.AdmitIntent(t.Context(), third); refusal(err) != signer.FeeLimit {
			t.Errorf("admit a third: got %v, want %s", err, signer.FeeLimit)
		}
		v.restart(p)
	}
}

// restart opens the journal again with a policy.
func (v *solanaEnv) restart(p signpolicy.Chain) {
	v.t.Helper()
	if err := v.s.Close(); err != nil {
		v.t.Fatal(err)
	}
	v.conf.Policy.Chains[chain.Solana] = p
	v.open()
}

// Rule DEP-31 and invariant I-26 together: the organization's treasury pays the fee of a return
// from a deposit address. No other wallet of the organization signs for it.
func TestTheTreasuryPaysTheFeeOfASolanaReturn(t *testing.T) {
	t.Parallel()
	v := newSolanaEnv(t)
	other := signer.WalletRef{OrgID: "org_2", Family: chain.SolanaFamily, Purpose: "TREASURY"}
	if _, err := v.s.IssueAddress(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	giveBack := func(id string, contract chain.Address) signer.Intent {
		return signer.Intent{
			ID: id, Purpose: signer.Return, Chain: chain.Solana, From: v.deposit.WalletRef,
			Payer: &v.treasury.WalletRef,
			To:    solPayee, Contract: contract, Amount: money.Units(7_000_000), MintID: 1,
		}
	}
	for name, c := range map[string]struct {
		change func(*signer.Intent)
		want   string
	}{
		"by nobody": {func(i *signer.Intent) { i.Payer = nil }, signer.RefusedWallet},
		"by the wallet itself": {func(i *signer.Intent) {
			i.Payer = &v.deposit.WalletRef
		}, signer.RefusedWallet},
		"by a treasury of others": {func(i *signer.Intent) { i.Payer = &other }, signer.RefusedWallet},
		"from the treasury": {func(i *signer.Intent) {
			i.From, i.Payer = v.treasury.WalletRef, nil
		}, signer.RefusedWallet},
		"to the treasury": {func(i *signer.Intent) {
			i.To = v.treasury.Address
		}, signer.RefusedDestination},
		"to the wallet that is given": {func(i *signer.Intent) { i.To = v.deposit.Address }, signer.RefusedDestination},
	} {
		i := giveBack("res_"+name, solUSDC)
		c.change(&i)
		if _, err := v.s.AdmitIntent(t.Context(), i); refusal(err) != c.want {
			t.Errorf("%s: got %v, want it refused with %s", name, err, c.want)
		}
	}
	for n, contract := range []chain.Address{"", solUSDC} {
		i := giveBack("res_"+string(contract), contract)
		v.admit(i)
		value := []string{nonceA, nonceB}[n]
		v.refuses("more than all", v.request(i, uint64(n), value, func(tx *solanatx.Tx) {
			tx.Moves[0].Amount = money.Units(7_000_001)
		}), signer.RefusedPayload)
		v.refuses("of the treasury's", v.request(i, uint64(n), value, func(tx *solanatx.Tx) {
			tx.Moves[0].From = v.treasury.Address
		}), signer.RefusedPayload)
		v.refuses("at the customer's cost", v.request(i, uint64(n), value, func(tx *solanatx.Tx) {
			tx.Payer = v.deposit.Address
		}), signer.RefusedPayload)
		signed := v.signs(v.request(i, uint64(n), value, nil))
		if signKeys, err := solanatx.Signers(payloadOf(t, signed.Raw)); err != nil || len(signKeys) != 2 ||
			signKeys[0] != v.treasury.Address || signKeys[1] != v.deposit.Address {
			t.Errorf("got it signed by %v (%v), want the treasury, then the deposit wallet", signKeys, err)
		}
	}
}

func payloadOf(t *testing.T, raw []byte) []byte {
	t.Helper()
	payload, _, err := solanatx.VerifySigned(raw)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// place returns an intent that creates the treasury's nth nonce account; made requests the
// signature of that transaction.
func (v *solanaEnv) place(id string, n uint32) signer.Intent {
	v.t.Helper()
	at, err := solanatx.NonceAccount(v.treasury.Address, n)
	if err != nil {
		v.t.Fatal(err)
	}
	return signer.Intent{
		ID: id, Purpose: signer.CreateNonceAccount, Chain: chain.Solana, From: v.treasury.WalletRef, To: at,
		Amount: money.Units(solanatx.NonceRent), MintID: 2,
	}
}

func (v *solanaEnv) made(i signer.Intent, slot uint64, c solanatx.NonceCreation) signer.SignRequest {
	v.t.Helper()
	payload, err := c.Payload()
	if err != nil {
		v.t.Fatal(err)
	}
	return signer.SignRequest{
		IntentID: i.ID, Act: signer.Pay, Payload: payload,
		Slot: signer.Slot{Nonce: slot, Key: string(i.To)},
	}
}

// A nonce account is the only payment to an address without a wallet: its transaction contains
// nothing to choose.
func TestANonceAccountIsTheTreasurysOwnWithItsRentAndNoMore(t *testing.T) {
	t.Parallel()
	v := newSolanaEnv(t)
	far, err := solanatx.NonceAccount(v.treasury.Address, solanatx.NonceAccountsMax)
	if err != nil {
		t.Fatal(err)
	}
	of, err := solanatx.NonceAccount(v.deposit.Address, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*signer.Intent)
		want   string
	}{
		"somebody's address":       {func(i *signer.Intent) { i.To = solPayee }, signer.RefusedDestination},
		"a number beyond the last": {func(i *signer.Intent) { i.To = far }, signer.RefusedDestination},
		"another wallet's":         {func(i *signer.Intent) { i.To = of }, signer.RefusedDestination},
		"one lamport more": {func(i *signer.Intent) {
			i.Amount = money.Units(solanatx.NonceRent + 1)
		}, signer.RefusedDestination},
		"one lamport less": {func(i *signer.Intent) {
			i.Amount = money.Units(solanatx.NonceRent - 1)
		}, signer.RefusedDestination},
		"a token": {func(i *signer.Intent) { i.Contract = solUSDC }, signer.RefusedDestination},
		"a wallet of ours": {func(i *signer.Intent) {
			i.ToWallet = &v.deposit.WalletRef
		}, signer.RefusedDestination},
		"a deposit address pays": {func(i *signer.Intent) {
			i.From, i.To, i.Payer = v.deposit.WalletRef, of, &v.treasury.WalletRef
		}, signer.RefusedWallet},
		"its fee paid by another": {func(i *signer.Intent) { i.Payer = &v.treasury.WalletRef }, signer.RefusedWallet},
	} {
		i := v.place("place_"+name, 0)
		c.change(&i)
		if _, err := v.s.AdmitIntent(t.Context(), i); refusal(err) != c.want {
			t.Errorf("%s: got %v, want it refused with %s", name, err, c.want)
		}
	}
	first, second, pays := v.place("place_0", 0), v.place("place_1", 1), v.payment("wd_1", "")
	pays.To, pays.Amount = first.To, first.Amount
	for _, i := range []signer.Intent{first, second, pays} {
		v.admit(i)
	}
	creation := func(n uint32, recent string) solanatx.NonceCreation {
		return solanatx.NonceCreation{Treasury: v.treasury.Address, N: n, Blockhash: recent}
	}
	v.refuses("another place", v.made(first, 0, creation(1, nonceA)), signer.RefusedPayload)
	v.refuses("a payment of the same", v.request(second, 1, nonceA, nil), signer.RefusedPayload)
	asPayment := v.made(first, 0, creation(0, nonceA))
	asPayment.IntentID = pays.ID
	v.refuses("as a customer's payment", asPayment, signer.RefusedPayload)
	cancel := v.made(first, 0, creation(0, nonceA))
	cancel.Act = signer.Cancel
	v.refuses("as a cancel", cancel, signer.RefusedPayload)
	signed := v.signs(v.made(first, 0, creation(0, nonceA)))
	v.signs(v.made(first, 0, creation(0, nonceB))) // after the first one has expired
	v.refuses("in a second slot", v.made(first, 1, creation(0, nonceA)), signer.RefusedPayload)
	again := v.place("place_again", 0)
	v.admit(again)
	v.refuses("the same place for another", v.made(again, 1, creation(0, nonceB)), signer.RefusedSlot)
	if err := v.s.Close(); err != nil {
		t.Fatal(err)
	}
	v.open()
	if got := v.signs(v.made(first, 0, creation(0, nonceA))); string(got.Raw) != string(signed.Raw) {
		t.Error("after a restart: got other bytes, want the same")
	}
	v.signs(v.made(second, 1, creation(1, nonceA)))
}

// Each of these transactions may be mined; only one of them succeeds.
func TestEveryTransactionOfANonceAccountCountsToTheFeesOfTheDay(t *testing.T) {
	t.Parallel()
	v := newSolanaEnv(t)
	p := v.conf.Policy.Chains[chain.Solana]
	const whole = solanatx.NonceRent + solanatx.SignatureFee
	p.Unlimited, p.FeeMax, p.FeeDayMax = false, money.Units(whole), money.Units(whole+solanatx.SignatureFee)
	v.restart(p)
	i := v.place("place_0", 0)
	v.admit(i)
	request := func(recent string) signer.SignRequest {
		return v.made(i, 0, solanatx.NonceCreation{Treasury: v.treasury.Address, Blockhash: recent})
	}
	v.signs(request(nonceA))
	v.signs(request(nonceB))
	v.restart(p)
	v.refuses("a third", request(solUSDCValue), signer.FeeLimit)
	v.signs(request(nonceB))
	p.FeeMax = money.Units(whole - 1)
	v.restart(p)
	if _, err := v.s.AdmitIntent(t.Context(), v.place("place_1", 1)); refusal(err) != signer.PolicyLimit {
		t.Errorf("dearer than the policy's feeMax: got %v, want it refused before it has a slot", err)
	}
}

// A close does what a sweep would, and its payload has no amount. Its account and the recipient of
// the lamports are fixed, so there is nothing to choose.
func TestACloseIsOfAnAddressAndItsCoinGoesToTheTreasury(t *testing.T) {
	t.Parallel()
	v := newSolanaEnv(t)
	intent := func(id string) signer.Intent {
		i := v.sweep(id)
		i.Purpose, i.Amount, i.WalletBalance = signer.CloseTokenAccount, money.Units(solanatx.TokenAccountRent), nil
		return i
	}
	other, err := v.s.IssueAddress(t.Context(), signer.WalletRef{
		OrgID: "org_other", Family: chain.SolanaFamily,
		Purpose: "TREASURY",
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*signer.Intent)
		want   string
	}{
		"to anybody": {func(i *signer.Intent) { i.To, i.ToWallet = solPayee, nil }, signer.RefusedDestination},
		"to another organization": {func(i *signer.Intent) {
			i.To, i.ToWallet = other.Address, &other.WalletRef
		}, signer.RefusedWallet},
		"to another's, paid by it": {func(i *signer.Intent) {
			i.To, i.ToWallet, i.Payer = other.Address, &other.WalletRef, &other.WalletRef
		}, signer.RefusedWallet},
		"to an address, in words of the treasury": {func(i *signer.Intent) {
			i.To = solPayee
		}, signer.RefusedDestination},
		"of the treasury": {func(i *signer.Intent) {
			i.From, i.To, i.ToWallet = v.treasury.WalletRef, v.deposit.Address, &v.deposit.WalletRef
			i.Payer = nil
		}, signer.RefusedDestination},
		"of no token":         {func(i *signer.Intent) { i.Contract = "" }, signer.RefusedDestination},
		"paid for by its own": {func(i *signer.Intent) { i.Payer = nil }, signer.RefusedWallet},
		"with holdings": {
			func(i *signer.Intent) { i.WalletBalance = &signer.WalletBalance{} }, signer.RefusedMalformed,
		},
	} {
		i := intent("cl_" + name)
		c.change(&i)
		if _, err := v.s.AdmitIntent(t.Context(), i); refusal(err) != c.want {
			t.Errorf("%s: got %v, want it refused with %s", name, err, c.want)
		}
	}
	i, sweep := intent("cl_1"), v.sweep("sw_1")
	v.admit(i)
	v.admit(sweep)
	shut := func(of, mint chain.Address) func(*solanatx.Tx) {
		c, err := solanatx.NewClose(chain.Payment{From: of, Contract: mint}, solTokens)
		if err != nil {
			t.Fatal(err)
		}
		return func(x *solanatx.Tx) { x.Moves, x.Closes = nil, []solanatx.Close{c} }
	}
	v.refuses("a sweep for a close", v.request(i, 0, nonceA, nil), signer.RefusedPayload)
	v.refuses("a close for a sweep", v.request(sweep, 0, nonceA, shut(v.deposit.Address, solUSDC)),
		signer.RefusedPayload)
	v.refuses("another token's", v.request(i, 0, nonceA, shut(v.deposit.Address, solPayee)), signer.RefusedPayload)
	v.refuses("another owner's", v.request(i, 0, nonceA, shut(solPayee, solUSDC)), signer.RefusedPayload)
	cancel := v.request(i, 0, nonceA, shut(v.deposit.Address, solUSDC))
	cancel.Act = signer.Cancel
	v.refuses("as a cancel", cancel, signer.RefusedPayload)
	v.signs(v.request(i, 0, nonceA, shut(v.deposit.Address, solUSDC)))
}

// The treasury pays the rent of exactly one kind of account: that of the address that checkouts share, for a token of
// the policy. The signer derives the wallet, and its bytes create the account and do nothing else. Such an account is
// never closed, so its rent is paid once. Rules CO-137 and CO-138.
func TestATokenAccountIsOfTheSharedAddressAlone(t *testing.T) {
	t.Parallel()
	v := newSolanaEnv(t)
	issue := func(orgID, purpose, subject string) signer.IssuedAddress {
		t.Helper()
		w, err := v.s.IssueAddress(t.Context(), signer.WalletRef{
			OrgID: orgID, Family: chain.SolanaFamily, Purpose: purpose, Subject: subject,
		})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	shared, second := issue("org_1", signer.SharedPurpose, "CHECKOUT"), issue("org_1", signer.SharedPurpose, "OTHER")
	foreign := issue("org_other", signer.SharedPurpose, "CHECKOUT")
	intent := func(id string) signer.Intent {
		return signer.Intent{
			ID: id, Purpose: signer.CreateTokenAccount, Chain: chain.Solana, From: v.treasury.WalletRef,
			To: shared.Address, ToWallet: &shared.WalletRef, Contract: solUSDC, MintID: 1,
		}
	}
	toWallet := func(w signer.IssuedAddress) func(*signer.Intent) {
		return func(i *signer.Intent) { i.To, i.ToWallet = w.Address, &w.WalletRef }
	}
	for name, c := range map[string]struct {
		change func(*signer.Intent)
		want   string
	}{
		"a stranger": {
			func(i *signer.Intent) { i.To, i.ToWallet = solPayee, nil }, signer.RefusedDestination,
		},
		"a stranger as ours":   {func(i *signer.Intent) { i.To = solPayee }, signer.RefusedDestination},
		"a customer":           {toWallet(v.deposit), signer.RefusedDestination},
		"the treasury":         {toWallet(v.treasury), signer.RefusedDestination},
		"another subject":      {toWallet(second), signer.RefusedDestination},
		"another organization": {toWallet(foreign), signer.RefusedDestination},
		"no token":             {func(i *signer.Intent) { i.Contract = "" }, signer.RefusedDestination},
		"an amount":            {func(i *signer.Intent) { i.Amount = money.Units(1) }, signer.RefusedMalformed},
		"a customer's":         {func(i *signer.Intent) { i.CustomerID = "ann" }, signer.RefusedMalformed},
		"a key":                {func(i *signer.Intent) { i.IdempotencyKeyHash = "00" }, signer.RefusedMalformed},
		"an address pays": {
			func(i *signer.Intent) { i.From, i.Payer = v.deposit.WalletRef, &v.treasury.WalletRef },
			signer.RefusedDestination,
		},
		"its fee paid by another": {func(i *signer.Intent) { i.Payer = &v.treasury.WalletRef }, signer.RefusedWallet},
	} {
		i := intent("ta_" + name)
		c.change(&i)
		if _, err := v.s.AdmitIntent(t.Context(), i); refusal(err) != c.want {
			t.Errorf("%s: got %v, want it refused with %s", name, err, c.want)
		}
	}
	i, pays, shut := intent("ta_1"), v.payment("wd_1", solUSDC), v.sweep("cl_1")
	v.admit(i)
	v.admit(pays)
	shut.Purpose, shut.Amount = signer.CloseTokenAccount, money.Units(solanatx.TokenAccountRent)
	shut.WalletBalance = nil
	shut.From = shared.WalletRef
	if _, err := v.s.AdmitIntent(t.Context(), shut); refusal(err) != signer.RefusedWallet {
		t.Errorf("a close of the shared address: got %v, want it refused", err)
	}
	creation := func(of, mint chain.Address) func(*solanatx.Tx) {
		return func(x *solanatx.Tx) {
			x.Moves = nil
			x.Creation = solanatx.NewCreation(chain.Payment{To: of, Contract: mint}, solTokens)
		}
	}
	right := creation(shared.Address, solUSDC)
	request := func(id signer.Intent, change func(*solanatx.Tx)) signer.SignRequest {
		asked := id
		asked.Amount = money.Units(1) // of the move that change replaces
		return v.request(asked, 0, nonceA, change)
	}
	v.refuses("a payment with its account", request(i, nil), signer.RefusedPayload)
	v.refuses("a stranger's account", request(i, creation(solPayee, solUSDC)), signer.RefusedPayload)
	v.refuses("a customer's account", request(i, creation(v.deposit.Address, solUSDC)), signer.RefusedPayload)
	v.refuses("another token's account", request(i, creation(shared.Address, solPayee)), signer.RefusedPayload)
	v.refuses("nothing", request(i, func(x *solanatx.Tx) { x.Moves = nil }), signer.RefusedPayload)
	v.refuses("a creation for a payment", request(pays, creation(solPayee, solUSDC)), signer.RefusedPayload)
	cancel := request(i, right)
	cancel.Act = signer.Cancel
	v.refuses("as a cancel", cancel, signer.RefusedPayload)
	unproven := request(i, right)
	unproven.Proof = ""
	v.refuses("without the proof of its slot", unproven, signer.RefusedPayload)
	signed := v.signs(request(i, right))
	again := intent("ta_2")
	v.admit(again)
	v.refuses("the same slot for another", request(again, right), signer.RefusedSlot)
	p := v.conf.Policy.Chains[chain.Solana]
	p.Unlimited, p.FeeDayMax = false, money.Units(20_000_000)
	v.restart(p)
	if got := v.signs(request(i, right)); string(got.Raw) != string(signed.Raw) {
		t.Error("after a restart: got other bytes, want the same")
	}
	if _, err := v.s.AdmitIntent(t.Context(), intent("ta_3")); refusal(err) != signer.PolicyLimit {
		t.Errorf("a token that the policy does not name: got %v, want it refused", err)
	}
	p.Assets = map[chain.Address]signpolicy.Limit{solUSDC: {
		PaymentMax: money.Units(1), OrganizationMax: money.Units(1), OverallMax: money.Units(1),
	}}
	v.restart(p)
	v.admit(intent("ta_4"))
	p.FeeMax = money.Units(solanatx.TokenAccountRent)
	v.restart(p)
	if _, err := v.s.AdmitIntent(t.Context(), intent("ta_5")); refusal(err) != signer.PolicyLimit {
		t.Errorf("dearer than the policy's feeMax: got %v, want it refused before it has a slot", err)
	}
}

func TestNothingIsClosedWhereTokensLieInNoAccounts(t *testing.T) {
	t.Parallel()
	s, _ := signertest.New(t)
	ours, from := signertest.Treasury("org_1"), signertest.Deposit("org_1", "alice")
	to := signertest.IssueAddress(t, s, ours)
	signertest.IssueAddress(t, s, from)
	_, err := s.AdmitIntent(t.Context(), signer.Intent{
		ID: "cl_1", Purpose: signer.CloseTokenAccount, Chain: signertest.Chain, From: from, To: to, ToWallet: &ours,
		Contract: signertest.LimitedToken, Amount: money.Units(5), MintID: 1,
	})
	if refusal(err) != signer.RefusedDestination {
		t.Errorf("got %v, want it refused: its bytes would be those of a sweep", err)
	}
}
