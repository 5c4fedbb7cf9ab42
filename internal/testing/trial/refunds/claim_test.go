package refunds

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/payerproof"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// wallet is an address of which a payer has the key.
type wallet struct {
	address chain.Address
	sign    func(text string) string
}

func newWallet(t *testing.T, fill byte) wallet {
	t.Helper()
	key, err := crypto.ToECDSA(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return wallet{evmtx.Canonical(crypto.PubkeyToAddress(key.PublicKey)), func(text string) string {
		digest := crypto.Keccak256(fmt.Appendf(nil, "\x19Ethereum Signed Message:\n%d%s", len(text), text))
		signature, err := crypto.Sign(digest, key)
		if err != nil {
			t.Fatal(err)
		}
		return "0x" + hex.EncodeToString(signature)
	}}
}

// proving lets payers prove addresses.
func (e *testEnv) proving() {
	e.Helper()
	secret, err := payerproof.DeriveSecret(make([]byte, 32))
	e.must(err)
	e.Checkouts.ProofSecret, e.Checkouts.PayerHost = secret, "pay.example"
}

// prove claims with a signature over the text of now, or over another one.
func (e *testEnv) prove(r checkout.Refund, key string, w wallet, changes ...func(*checkout.RefundProof)) error {
	e.Helper()
	challenge, err := e.Checkouts.RefundChallenge(e.ctx, r.ID, key, string(w.address))
	e.must(err)
	proof := checkout.RefundProof{
		RefundID: r.ID, Key: key, Address: string(w.address), ExpiresAt: challenge.ExpiresAt,
		Signature: w.sign(challenge.Text),
	}
	for _, change := range changes {
		change(&proof)
	}
	_, err = e.Checkouts.ProveRefund(e.ctx, proof)
	return err
}

func (e *testEnv) wantRefusal(err error, want checkout.AddressRefusal) {
	e.Helper()
	f := e.wantFault(err, fault.DestinationNotAllowed)
	if f.Details[checkout.RefusalDetail] != string(want) || f.Effect != fault.NothingWritten {
		e.Fatalf("got %v with %v, want %s", err, f.Details, want)
	}
}

// payFrom pays a checkout in dollars out of an address.
func (e *testEnv) payFrom(from chain.Address, checkoutID string) {
	e.Helper()
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, checkoutID)
	e.must(err)
	e.net.Mint(from, signertest.Token, money.Units(100*million))
	e.net.Pay(from, c.Options[0].Wallet.Address, signertest.Token, 100*million)
	e.pass(8)
}

// The address that a payment came from is refused unless the payer signs with it, because it may be the shared wallet
// of an exchange. The signature counts for one claim of one refund. Rules CO-95, CO-96 and CO-97.
func TestTheSenderIsPaidOnlyWithASignature(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.proving()
	w := newWallet(t, 7)
	id := e.newCheckout()
	e.payFrom(w.address, id)
	r, key := e.refund(request(id, amount(40*million)))
	other, otherKey := e.refund(request(id, amount(20*million)))
	e.wantRefusal(e.claim(r.ID, key, w.address), checkout.SenderAddress)
	e.wantRefusal(e.claim(r.ID, key, chain.Address(strings.ToLower(string(w.address)))), checkout.SenderAddress)

	challenge, err := e.Checkouts.RefundChallenge(e.ctx, r.ID, key, string(w.address))
	e.must(err)
	for _, want := range []string{"pay.example", "Acme", r.ID, string(w.address), e.net.ToChain().CAIP2} {
		if !strings.Contains(challenge.Text, want) {
			t.Errorf("got a text without %q:\n%s", want, challenge.Text)
		}
	}
	second := newWallet(t, 8)
	e.wantRefusal(e.prove(r, key, w, func(p *checkout.RefundProof) {
		p.Signature = second.sign(challenge.Text)
	}), checkout.WrongProof)
	e.wantRefusal(e.prove(r, key, w, func(p *checkout.RefundProof) { p.Address = string(second.address) }),
		checkout.WrongProof)
	e.wantRefusal(e.prove(other, otherKey, w, func(p *checkout.RefundProof) {
		p.Signature = w.sign(challenge.Text) // of another refund
	}), checkout.WrongProof)
	e.wantRefusal(e.prove(r, key, w, func(p *checkout.RefundProof) { p.ExpiresAt = p.ExpiresAt.Add(time.Second) }),
		checkout.WrongProof)
	e.wantRefusal(e.prove(r, key, w, func(p *checkout.RefundProof) { p.ExpiresAt = p.ExpiresAt.Add(time.Hour) }),
		checkout.OldProof)
	e.wantFault(e.prove(r, key, w, func(p *checkout.RefundProof) { p.Key = otherKey }), fault.CodeNotFound)
	proof := checkout.RefundProof{
		RefundID: r.ID, Key: key, Address: string(w.address), ExpiresAt: challenge.ExpiresAt,
		Signature: w.sign(challenge.Text),
	}
	e.advance(payerproof.Lifetime)
	_, err = e.Checkouts.ProveRefund(e.ctx, proof)
	e.wantRefusal(err, checkout.OldProof)
	e.is(r.ID, checkout.RefundAwaitingAddress)

	e.must(e.prove(r, key, w))
	got := e.load(r.ID)
	if got.Status != checkout.RefundRequested || !got.IsAddressProven || got.ToAddress != w.address {
		t.Errorf("got %+v, want a refund to the proven address", got)
	}
	_, err = e.Checkouts.ProveRefund(e.ctx, proof) // the answer was lost
	e.must(err)
	if got := e.load(r.ID); got.Attempt != 1 {
		t.Errorf("got attempt %d after a repetition, want 1", got.Attempt)
	}
	e.until(r.ID, checkout.RefundCompleted)
	e.has(w.address, dollars, 40*million)
	_, err = e.Checkouts.RefundChallenge(e.ctx, r.ID, key, string(w.address))
	e.wantFault(err, fault.InvalidState)
}

// A signature is of one version of a refund: after its attempt ended, or with a new key, it counts no more. Rule CO-95.
func TestASignatureCountsOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.proving()
	w := newWallet(t, 7)
	r, key := e.refund(request(e.paid(100*million), amount(40*million)))
	challenge, err := e.Checkouts.RefundChallenge(e.ctx, r.ID, key, string(w.address))
	e.must(err)
	_, key, err = e.Checkouts.ReissueRefundKey(e.ctx, e.org, r.ID, audit.User("ann"))
	e.must(err)
	_, err = e.Checkouts.ProveRefund(e.ctx, checkout.RefundProof{
		RefundID: r.ID, Key: key, Address: string(w.address), ExpiresAt: challenge.ExpiresAt,
		Signature: w.sign(challenge.Text),
	})
	e.wantRefusal(err, checkout.WrongProof)
	e.Checkouts.ProofSecret = nil
	_, err = e.Checkouts.RefundChallenge(e.ctx, r.ID, key, string(w.address))
	e.wantRefusal(err, checkout.NoProof)
	if e.Checkouts.CanProve(e.load(r.ID)) {
		t.Error("an installation without a secret offers proofs")
	}
}

// A payment may come from several addresses, and each of them is refused without a signature. Rule CO-97.
func TestEachSenderOfAPaymentNeedsASignature(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.proving()
	w := newWallet(t, 7)
	id := e.paid(100 * million)
	_, err := pgtest.OwnerPool(t, e.db).Exec(e.ctx, `
		BEGIN; SET LOCAL session_replication_role = replica;
		UPDATE deposits SET from_address = '', senders = ARRAY['`+string(second)+`', '`+string(w.address)+`']
		WHERE checkout_id = '`+id+`';
		COMMIT`)
	e.must(err)
	r, key := e.refund(request(id, amount(40*million)))
	for _, sender := range []chain.Address{second, w.address} {
		e.wantRefusal(e.claim(r.ID, key, sender), checkout.SenderAddress)
	}
	e.must(e.prove(r, key, w))
}

// hooked is a risk provider during whose work something else happens.
type hooked struct {
	exchanges
	act func()
}

// Screen implements risk.Screener.
func (x hooked) Screen(ctx context.Context, subject risk.Subject) (risk.Verdict, error) {
	x.act()
	return x.exchanges.Screen(ctx, subject)
}

// A key that is replaced while its claim is checked claims nothing. Rules CO-87 and CO-91.
func TestAKeyThatIsReplacedDuringAClaimClaimsNothing(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	r, key := e.refund(request(e.paid(100*million), amount(40*million)))
	var present string
	e.Checkouts.Risk = risk.Policy{Providers: hooked{act: func() {
		_, replaced, err := e.Checkouts.ReissueRefundKey(e.ctx, e.org, r.ID, audit.User("ann"))
		e.must(err)
		present = replaced
	}}}
	e.wantFault(e.claim(r.ID, key, thief), fault.CodeNotFound)
	e.is(r.ID, checkout.RefundAwaitingAddress)
	e.Checkouts.Risk = risk.Policy{}
	e.must(e.claim(r.ID, present, home))
}

// A claim whose address was checked before another attempt ended gives the refund no address: what was checked is a
// refund of before. Rule CO-97.
func TestAClaimIsOfTheRefundThatWasChecked(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.setting("twoFactorUsdThreshold", `"50"`)
	r, key := e.refund(request(e.paid(100 * million)))
	e.Checkouts.Risk = risk.Policy{Providers: hooked{act: func() { // another attempt begins and ends without paying
		_, err := e.Checkouts.GiveRefundAddress(e.ctx, e.org, r.ID, string(home), audit.User("ann"))
		e.must(err)
		sent := e.until(r.ID, checkout.RefundSent)
		_, err = e.Withdrawals.Remove(e.ctx, e.org, sent.WithdrawalID, audit.User("bob"), "not this one")
		e.must(err)
		e.until(r.ID, checkout.RefundAwaitingAddress)
	}}}
	e.wantFault(e.claim(r.ID, key, second), fault.InvalidState)
	if got := e.is(r.ID, checkout.RefundAwaitingAddress); got.ToAddress != "" || got.Attempt != 1 {
		t.Errorf("got %+v, want the refund without an address", got)
	}
	e.Checkouts.Risk = risk.Policy{}
	e.must(e.claim(r.ID, key, second))
}

// exchanges is a risk provider that knows the addresses of exchanges.
type exchanges struct{ addresses []chain.Address }

// Name implements risk.Screener.
func (exchanges) Name() string { return "EXCHANGES" }

// Covers implements risk.Screener.
func (exchanges) Covers(chain.Name) bool { return true }

// Screen implements risk.Screener.
func (x exchanges) Screen(_ context.Context, subject risk.Subject) (risk.Verdict, error) {
	if x.addresses == nil {
		return risk.Verdict{}, risk.ErrUnavailable
	}
	v := risk.Verdict{
		Provider: "EXCHANGES", Severity: risk.Low, IsKnown: true, Categories: []string{"Exchange"}, GivenAt: start,
	}
	if slices.Contains(x.addresses, subject.Address) {
		v.OwnerCategories = v.Categories
	}
	return v, nil
}

// A typed address that a provider names as an exchange's, or from which several customers pay, is refused to the payer.
// The organization may give it, and a payer who holds the key of such an address may have it. Without an answer nothing
// is known, so nothing is refused. Rule CO-97.
func TestAnAddressOfAnExchangeIsRefusedToAPayer(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.proving()
	listed, proven := sim.Address("a listed exchange"), newWallet(t, 9)
	e.Checkouts.Risk = risk.Policy{Providers: exchanges{[]chain.Address{listed, proven.address}}}
	hot := sim.Address("the wallet of an exchange that no provider knows")
	id := e.paid(100 * million)
	r, key := e.refund(request(id, amount(10*million)))
	e.wantRefusal(e.claim(r.ID, key, listed), checkout.ExchangeAddress)
	for range 2 {
		e.payFrom(hot, e.newCheckout())
	}
	twice, twiceKey := e.refund(request(id, amount(10*million)))
	e.must(e.claim(twice.ID, twiceKey, hot)) // two payments may be those of one person
	e.payFrom(hot, e.newCheckout())
	e.wantRefusal(e.claim(r.ID, key, hot), checkout.SharedAddress)
	family := sim.Address("the wallet of one customer")
	for range 3 {
		e.payFrom(family, e.newCheckout(func(r *checkout.CheckoutRequest) { r.CustomerID = new("carl") }))
	}
	loyal, loyalKey := e.refund(request(id, amount(10*million)))
	e.must(e.claim(loyal.ID, loyalKey, family)) // three payments of one customer
	e.is(r.ID, checkout.RefundAwaitingAddress)

	e.must(e.prove(r, key, proven))
	given, _ := e.refund(request(id, amount(10*million), to(listed)))
	e.is(given.ID, checkout.RefundRequested)
	late, _ := e.refund(request(id, amount(10*million)))
	_, err := e.Checkouts.GiveRefundAddress(e.ctx, e.org, late.ID, string(hot), audit.User("ann"))
	e.must(err)
	own, _ := e.refund(request(id, amount(10*million)))
	_, err = e.Checkouts.GiveRefundAddress(e.ctx, e.org, own.ID, string(payer), audit.User("ann"))
	e.must(err)

	e.Checkouts.Risk = risk.Policy{Providers: exchanges{}}
	down, downKey := e.refund(request(id, amount(10*million)))
	e.must(e.claim(down.ID, downKey, listed))
}

// Anyone can make a token that names another address as its sender. Such transfers say nothing about who has the
// address, so they lock no payer out. Rule CO-97.
func TestTransfersOfUnknownTokensRefuseNoAddress(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	victim, fake := sim.Address("another payer"), sim.Address("a token that anyone made")
	id := e.paid(100 * million)
	r, key := e.refund(request(id, amount(10*million)))
	for _, checkoutID := range []string{id, e.newCheckout(), e.newCheckout(), e.newCheckout()} {
		c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, checkoutID)
		e.must(err)
		e.net.Mint(victim, fake, money.Units(million))
		e.net.Pay(victim, c.Options[0].Wallet.Address, fake, million)
	}
	e.pass(8)
	if n := len(e.texts(`SELECT deposit_id FROM deposits WHERE from_address = $1`, victim)); n != 4 {
		t.Fatalf("got %d deposits of the unknown token, want 4", n)
	}
	e.must(e.claim(r.ID, key, victim))
}

// The key of a checkout opens its refunds that wait for an address, the oldest one first, and makes the key before
// worthless. Another key opens nothing. Rule CO-98.
func TestTheKeyOfACheckoutOpensItsRefunds(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.Checkouts.IsPageKey = func(checkoutID, key string) bool { return key == "key of "+checkoutID }
	id, empty := e.paid(100*million), e.newCheckout()
	open := func(checkoutID, key string) (string, string, error) {
		return e.Checkouts.RefundKeyOfCheckout(e.ctx, checkoutID, key)
	}
	_, _, err := open(id, "key of "+id)
	e.wantFault(err, fault.CodeNotFound)
	first, firstKey := e.refund(request(id, amount(10*million)))
	e.advance(time.Second)
	second, _ := e.refund(request(id, amount(10*million)))
	for _, c := range [][2]string{
		{id, ""}, {id, "key of " + empty}, {empty, "key of " + empty}, {empty, "key of " + id}, {"co_x", "key of co_x"},
	} {
		_, _, err := open(c[0], c[1])
		e.wantFault(err, fault.CodeNotFound)
	}
	refundID, key, err := open(id, "key of "+id)
	e.must(err)
	if refundID != first.ID || key == firstKey {
		t.Fatalf("got %s, want the oldest refund %s with another key", refundID, first.ID)
	}
	e.wantFault(e.claim(first.ID, firstKey, home), fault.CodeNotFound)
	p, err := e.Checkouts.PublicRefund(e.ctx, refundID, key)
	e.must(err)
	if p.ID != first.ID || p.ShopName != "Acme" {
		t.Errorf("got %+v, want the refund with its shop", p)
	}
	before, err := e.Checkouts.PublicVersions(e.ctx, []string{id})
	e.must(err)
	e.must(e.claim(first.ID, key, home))
	if after, err := e.Checkouts.PublicVersions(e.ctx, []string{id}); err != nil || after[id] == before[id] {
		t.Errorf("got version %v after the claim, and %v: the page of the checkout does not hear of it", after, err)
	}
	refundID, secondKey, err := open(id, "key of "+id)
	e.must(err)
	if refundID != second.ID {
		t.Errorf("got %s, want the next refund %s", refundID, second.ID)
	}
	e.wantFault(e.claim(first.ID, secondKey, sim.Address("elsewhere")), fault.CodeNotFound) // the key of another refund
	e.must(e.claim(second.ID, secondKey, home))
	_, _, err = open(id, "key of "+id)
	e.wantFault(err, fault.CodeNotFound)
	c, err := e.Checkouts.PublicByID(e.ctx, id)
	if err != nil || c.HasRefund {
		t.Errorf("got %v, %v after both claims", c.HasRefund, err)
	}
}

// A contract wallet that paid is paid back with what its contract says about the signature. What the chain does not say
// is no refusal for good, and a contract that is not there yet signs nothing. Rules CO-140, CO-141 and CO-142.
func TestAContractWalletIsPaidWithItsOwnSignature(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.proving()
	owner := newWallet(t, 7)
	contract := sim.Address("a contract wallet")
	var asked [][32]byte
	e.net.DeploySigner(contract, func(digest [32]byte, signature []byte) bool {
		asked = append(asked, digest)
		return string(signature) == "the owner agrees"
	})
	id := e.newCheckout()
	e.payFrom(contract, id)
	r, key := e.refund(request(id, amount(40*million)))
	e.wantRefusal(e.claim(r.ID, key, contract), checkout.SenderAddress)
	signs := func(signature string) wallet {
		return wallet{contract, func(string) string { return "0x" + hex.EncodeToString([]byte(signature)) }}
	}
	e.wantRefusal(e.prove(r, key, signs("someone else agrees")), checkout.WrongProof)
	// The key of an owner is not that of the contract, and no contract is asked about what is no signature.
	e.wantRefusal(e.prove(r, key, wallet{contract, owner.sign}), checkout.WrongProof)
	before := len(asked)
	e.wantRefusal(e.prove(r, key, wallet{contract, func(string) string { return "none" }}), checkout.WrongProof)
	undeployed := signs("wrapped" + strings.Repeat("\x64\x92", 16))
	e.wantRefusal(e.prove(r, key, undeployed), checkout.UndeployedProof)
	if len(asked) != before {
		t.Errorf("got %d questions, want %d", len(asked), before)
	}
	// An account without code says nothing.
	e.wantRefusal(e.prove(r, key, wallet{sim.Address("no contract"), signs("the owner agrees").sign}),
		checkout.WrongProof)

	e.net.Provider(0).SetDown(errors.New("gone"))
	err := e.prove(r, key, signs("the owner agrees"))
	f := e.wantFault(err, fault.CodeUnavailable)
	if f.Details[checkout.RefusalDetail] != string(checkout.UnknownProof) || f.Effect != fault.NothingWritten {
		t.Errorf("got %v with %v, want that it is unknown", err, f.Details)
	}
	e.net.Provider(0).SetDown(nil)
	e.is(r.ID, checkout.RefundAwaitingAddress)

	challenge, err := e.Checkouts.RefundChallenge(e.ctx, r.ID, key, string(contract))
	e.must(err)
	e.must(e.prove(r, key, signs("the owner agrees")))
	want := crypto.Keccak256(fmt.Appendf(nil, "\x19Ethereum Signed Message:\n%d%s", len(challenge.Text),
		challenge.Text))
	if got := asked[len(asked)-1]; !bytes.Equal(got[:], want) {
		t.Errorf("the contract was asked about %x, want the digest of the text %x", got, want)
	}
	if got := e.load(r.ID); !got.IsAddressProven || got.ToAddress != contract {
		t.Errorf("got %+v, want a refund to the contract", got)
	}
	e.until(r.ID, checkout.RefundCompleted)
	e.has(contract, dollars, 40*million)
}
