package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/adopt"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// swapOf returns a payment of an organization to the swap provider, with its signed quote.
func swapOf(
	t *testing.T, s signer.Signer, orgID, id string, contract chain.Address, units uint64, now time.Time,
) signer.Intent {
	t.Helper()
	return signertest.NewSwapPayment(t, s, orgID, id, contract, units, now).SignQuote(t)
}

func (h *clockEnv) wantSwap(t *testing.T, s signer.Signer, orgID, id string, units uint64, want string) {
	t.Helper()
	intent := swapOf(t, s, orgID, id, signertest.LimitedToken, units, h.conf.Clock())
	if _, err := s.AdmitIntent(t.Context(), intent); refusal(err) != want {
		t.Errorf("%s of %d: got %v, want %q", id, units, err, want)
	}
}

// limitSwaps sets the limits of LimitedToken at the provider.
func (in *installation) limitSwaps(l signpolicy.Limit) {
	key := signpolicy.TokenKey(signertest.Chain, signertest.LimitedToken)
	in.conf.Policy.Swaps.Providers[signertest.SwapProvider].Limits[key] = l
}

// What a provider is paid has limits of its own, which a restart and a clock do not free.
func TestSwapsHaveLimitsOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	providers := h.conf.Policy.Swaps.Providers
	providers["OTHER"] = providers[signertest.SwapProvider]
	s := h.open(t)
	reopen := func() {
		t.Helper()
		closeSigner(t, s)
		s = h.open(t)
	}
	h.wantSwap(t, s, org, "cs_0", 101, signer.PolicyLimit)
	h.wantSwap(t, s, org, "cs_1", 100, "")
	h.wantSwap(t, s, org, "cs_2", 100, "")
	h.wantSwap(t, s, org, "cs_3", 51, signer.PolicyLimit)
	h.wantSwap(t, s, "org_2", "cs_4", 100, "")
	h.wantSwap(t, s, "org_2", "cs_5", 100, "") // 400 of the installation's 400
	h.wantSwap(t, s, "org_3", "cs_6", 1, signer.PolicyLimit)

	// Payments, other tokens and other providers count apart.
	other := signertest.NewSwapPayment(t, s, org, "cs_other", signertest.LimitedToken, 100, h.conf.Clock())
	other.Intent.Swap.Provider = "OTHER"
	if _, err := s.AdmitIntent(t.Context(), other.SignQuote(t)); err != nil {
		t.Errorf("another provider: got %v", err)
	}
	for n := range 4 {
		wantAdmitted(t, s, fmt.Sprint("wd_", n), 50, "")
	}
	native := swapOf(t, s, org, "cs_7", "", 1_000_000, h.conf.Clock())
	if _, err := s.AdmitIntent(t.Context(), native); err != nil {
		t.Errorf("a token without limits: got %v", err)
	}
	// A swap that was taken back keeps what it took until the window has passed.
	if _, err := s.VoidIntent(t.Context(), signer.Void{OrgID: org, ID: "cs_1"}); err != nil {
		t.Fatal(err)
	}
	reopen()
	h.wantSwap(t, s, org, "cs_3", 51, signer.PolicyLimit)
	h.wantSwap(t, s, "org_3", "cs_6", 1, signer.PolicyLimit)
	wantAdmitted(t, s, "wd_9", 51, signer.PolicyLimit)

	// A clock that was wrong frees nothing once a person has repaired it.
	closeSigner(t, s)
	h.set(30 * 24 * time.Hour)
	s = h.confirm(t, h.open(t))
	h.wantSwap(t, s, "org_3", "cs_8", 40, "")
	h.set(-30 * 24 * time.Hour)
	h.pass(time.Hour)
	closeSigner(t, s)
	s = h.confirm(t, h.open(t))
	h.wantSwap(t, s, "org_3", "cs_9", 1, signer.PolicyLimit)
	reopen()
	h.pass(23 * time.Hour) // a day after the first ones
	h.wantSwap(t, s, "org_3", "cs_9", 100, "")
	h.wantSwap(t, s, org, "cs_10", 100, "")
}

// The limit of one swap is asked before the first signature, as that of a payment is.
func TestTheSwapLimitThatStandsIsAskedBeforeTheFirstSignature(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	now := in.conf.Clock()
	out := swapOf(t, s, org, "cs_1", signertest.LimitedToken, 100, now)
	waits := swapOf(t, s, org, "cs_2", signertest.LimitedToken, 100, now)
	for _, i := range []signer.Intent{out, waits} {
		if _, err := s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if err := trySign(t, s, out, signer.Pay, 0, 50_000); err != nil {
		t.Fatal(err)
	}
	closeSigner(t, s)
	in.limitSwaps(signpolicy.Limit{
		PaymentMax: money.Units(99), OrganizationMax: money.Units(250), OverallMax: money.Units(400),
	})
	s = in.open(t)
	for _, c := range []struct {
		name  string
		i     signer.Intent
		act   signer.Act
		nonce uint64
		want  string
	}{
		{"a swap that is above the limit now", waits, signer.Pay, 1, signer.PolicyLimit},
		{"a replacement of what was signed", out, signer.Pay, 0, ""},
		{"a cancel of what was signed", out, signer.Cancel, 0, ""},
		{"a cancel in the slot of what is refused", waits, signer.Cancel, 1, ""},
	} {
		if got := refusal(trySign(t, s, c.i, c.act, c.nonce, 60_000)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	closeSigner(t, s)
	in.conf.Policy.Swaps = nil
	s = in.open(t)
	if got := refusal(trySign(t, s, waits, signer.Pay, 1, 61_000)); got != signer.PolicyLimit {
		t.Errorf("a provider that is gone from the policy: got %q, want %s", got, signer.PolicyLimit)
	}
	_, err := s.AdmitIntent(t.Context(), swapOf(t, s, org, "cs_3", signertest.LimitedToken, 1, now))
	if refusal(err) != signer.RefusedNotConfigured {
		t.Errorf("a policy without swaps: got %v, want %s", err, signer.RefusedNotConfigured)
	}
}

// I-68: nothing pays a provider after its time, except in a slot that was sent before.
func TestNothingPaysAProviderAfterItsTime(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	s := h.open(t)
	sent := swapOf(t, s, org, "cs_1", "", 1000, h.conf.Clock())
	waits := swapOf(t, s, org, "cs_2", "", 1000, h.conf.Clock())
	filled := swapOf(t, s, org, "cs_3", "", 1000, h.conf.Clock())
	late := swapOf(t, s, org, "cs_4", "", 1000, h.conf.Clock())
	for _, i := range []signer.Intent{sent, waits, filled} {
		if _, err := s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name, want string, err error) {
		t.Helper()
		if refusal(err) != want {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	check("in time", "", trySign(t, s, sent, signer.Pay, 0, 50_000))
	check("a cancel before anything pays", "", trySign(t, s, filled, signer.Cancel, 2, 50_000))
	h.pass(30*time.Minute - time.Second)
	if now := h.conf.Clock(); !now.Before(payByOf(t, waits)) {
		t.Fatalf("got %s, want a moment before %s", now, waits.Swap.PayBy)
	}
	h.pass(time.Second) // exactly the time
	for range 2 {
		before := headOf(t, s)
		check("the first payload that pays", signer.RefusedLate, trySign(t, s, waits, signer.Pay, 1, 50_000))
		check("a payload that pays beside a cancel", signer.RefusedLate, trySign(t, s, filled, signer.Pay, 2, 60_000))
		_, err := s.AdmitIntent(t.Context(), late)
		check("admit what is late", signer.RefusedLate, err)
		if after := headOf(t, s); after != before {
			t.Errorf("head: got %+v, want %+v: a refusal is not journaled", after, before)
		}
		check("the same bytes again", "", trySign(t, s, sent, signer.Pay, 0, 50_000))
		closeSigner(t, s)
		s = h.open(t) // the same after a restart
	}
	if _, err := s.AdmitIntent(t.Context(), waits); err != nil {
		t.Errorf("what was admitted in time, again: got %v", err)
	}
	check("a replacement of what was sent", "", trySign(t, s, sent, signer.Pay, 0, 60_000))
	check("a cancel of what was sent", "", trySign(t, s, sent, signer.Cancel, 0, 70_000))
	check("a cancel of what is late", "", trySign(t, s, waits, signer.Cancel, 1, 50_000))
}

func payByOf(t *testing.T, i signer.Intent) time.Time {
	t.Helper()
	payBy, err := time.Parse(time.RFC3339Nano, i.Swap.PayBy)
	if err != nil {
		t.Fatal(err)
	}
	return payBy
}

// The last moment is one before the time.
func TestAProviderIsPaidUntilItsTime(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	s := h.open(t)
	i := swapOf(t, s, org, "cs_1", "", 1000, h.conf.Clock())
	h.pass(30*time.Minute - time.Microsecond)
	if _, err := s.AdmitIntent(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	if err := trySign(t, s, i, signer.Pay, 0, 50_000); err != nil {
		t.Fatal(err)
	}
}

// A clock that jumped shows no time by which a swap may be paid.
func TestASwapWaitsForAClockThatJumped(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	// Nothing else depends on the time.
	c := h.conf.Policy.Chains[signertest.Chain]
	c.Assets, c.Unlimited = nil, true
	h.conf.Policy.Chains[signertest.Chain] = c
	s := h.open(t)
	admitted := swapOf(t, s, org, "cs_1", "", 1000, h.conf.Clock())
	if _, err := s.AdmitIntent(t.Context(), admitted); err != nil {
		t.Fatal(err)
	}
	next := swapOf(t, s, org, "cs_2", "", 1000, h.conf.Clock())
	h.set(25 * time.Hour)
	if _, err := s.AdmitIntent(t.Context(), next); refusal(err) != signer.RefusedClock {
		t.Errorf("admit: got %v, want %s", err, signer.RefusedClock)
	}
	if err := trySign(t, s, admitted, signer.Pay, 0, 50_000); refusal(err) != signer.RefusedClock {
		t.Errorf("the first payload that pays: got %v, want %s", err, signer.RefusedClock)
	}
	if err := trySign(t, s, admitted, signer.Cancel, 0, 50_000); err != nil {
		t.Errorf("a cancel: got %v", err)
	}
	h.set(-25 * time.Hour)
	if _, err := s.AdmitIntent(t.Context(), next); err != nil {
		t.Errorf("once the clock is right: got %v", err)
	}
}

// A restarted signer knows every deposit address, and answers about each swap as before.
func TestAReopenedSignerKnowsItsSwaps(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	s := h.open(t)
	i := swapOf(t, s, org, "cs_1", "", 1000, h.conf.Clock())
	entry, err := s.AdmitIntent(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	if err := trySign(t, s, i, signer.Pay, 0, 50_000); err != nil {
		t.Fatal(err)
	}
	taken := swapOf(t, s, org, "cs_2", "", 1000, h.conf.Clock())
	if _, err := s.AdmitIntent(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	if _, err := s.VoidIntent(t.Context(), signer.Void{OrgID: org, ID: taken.ID}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, paid := range []signer.Intent{i, taken} {
			again := signertest.NewSwapPayment(t, s, "org_2", "cs_again", "", 1000, h.conf.Clock())
			again.Intent.To, again.Quote.DepositAddress = paid.To, string(paid.To)
			_, err := s.AdmitIntent(t.Context(), again.SignQuote(t))
			if refusal(err) != signer.RefusedSignedQuote || !strings.Contains(err.Error(), paid.ID) {
				t.Errorf("the deposit address of %s again: got %v, want %s", paid.ID, err, signer.RefusedSignedQuote)
			}
		}
		if again, err := s.AdmitIntent(t.Context(), i); err != nil || again.Hash != entry.Hash {
			t.Errorf("the same swap again: got entry %d, %v, want %d", again.Seq, err, entry.Seq)
		}
		other := i
		terms := *i.Swap
		terms.MinOut = money.Units(979)
		other.Swap = &terms
		if _, err := s.AdmitIntent(t.Context(), other); refusal(err) != signer.RefusedIntent {
			t.Errorf("the same swap with another minimum: got %v, want %s", err, signer.RefusedIntent)
		}
		closeSigner(t, s)
		h.pass(time.Hour)
		s = h.open(t)
	}
	// A person may withdraw to any address, also to one that a swap paid.
	ordinary := payment("wd_1", 1)
	ordinary.To = i.To
	if _, err := s.AdmitIntent(t.Context(), ordinary); err != nil {
		t.Errorf("a payment to the deposit address of a swap: got %v", err)
	}
}

// Q06: the quote was checked and the entry did not reach the disk. The same swap is admitted after a restart, and
// its deposit address is taken by no one else.
func TestASwapWhoseEntryIsLostIsAdmittedAgain(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	i := swapOf(t, s, org, "cs_1", signertest.LimitedToken, 100, in.conf.Clock())
	before := headOf(t, s)
	s.BreakDisk()
	for range 2 {
		if _, err := s.AdmitIntent(t.Context(), i); !errors.Is(err, signer.ErrUnavailable) {
			t.Errorf("without a disk: got %v, want %v", err, signer.ErrUnavailable)
		}
	}
	_ = s.Close() // it has no disk to write to
	s = in.open(t)
	if after := headOf(t, s); after != before {
		t.Fatalf("head: got %+v, want %+v", after, before)
	}
	entry, err := s.AdmitIntent(t.Context(), i)
	if err != nil || entry.Seq != before.Seq+1 {
		t.Errorf("after a restart: got entry %d, %v, want %d", entry.Seq, err, before.Seq+1)
	}
	if err := trySign(t, s, i, signer.Pay, 0, 50_000); err != nil {
		t.Error(err)
	}
}

// A copied journal with a swap is adopted only if the provider signed it and it brings the money to us.
func TestAnAdoptedSwapIsVerifiedAgain(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	s := h.open(t)
	admitted := signertest.NewSwapPayment(t, s, org, "cs_1", signertest.LimitedToken, 100, h.conf.Clock())
	i := admitted.SignQuote(t)
	if _, err := s.AdmitIntent(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	if err := trySign(t, s, i, signer.Pay, 0, 50_000); err != nil {
		t.Fatal(err)
	}
	second := signertest.NewSwapPayment(t, s, org, "cs_2", signertest.LimitedToken, 100, h.conf.Clock())
	waits := second.SignQuote(t)
	if _, err := s.AdmitIntent(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	copied, err := s.EntriesAfter(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	closeSigner(t, s)
	h.pass(2 * time.Hour) // long after both times, which no longer matter
	h.conf.Journal += ".adopted"
	nonces := []adopt.ChainNonce{{Wallet: signertest.Treasury(org), Chain: signertest.Chain, NextNonce: 1}}

	stranger := string(signertest.Stranger)
	requote := func(copied []signer.Entry, w signertest.SwapPayment, was signer.Intent) []signer.Entry {
		fresh := w.SignQuote(t).Swap.SignedQuote
		return forge(copied, string(marshal(t, was.Swap.SignedQuote)), string(marshal(t, fresh)))
	}
	theirs, replayed := admitted, second
	theirs.Quote.Recipient = stranger
	replayed.Quote.DepositAddress = string(i.To)
	for name, forged := range map[string][]signer.Entry{
		"to another address":   forge(copied, `"to":"`+string(waits.To)+`"`, `"to":"`+stranger+`"`),
		"to the same address":  requote(forge(copied, string(waits.To), string(i.To)), replayed, waits),
		"of a lower minimum":   forge(copied, `"minOut":"980"`, `"minOut":"0"`),
		"of another recipient": requote(copied, theirs, i),
		"past the deadline": forge(copied, `"payBy":"`+i.Swap.PayBy+`"`,
			`"payBy":"`+signer.FormatMicros(h.conf.Clock().Add(24*time.Hour))+`"`),
	} {
		err := local.AdoptJournal(h.conf, h.seed, forged, nonces)
		var no *signer.Refusal
		if !errors.As(err, &no) || no.Code != signer.RefusedSignedQuote {
			t.Errorf("a swap %s: got %v, want %s", name, err, signer.RefusedSignedQuote)
		}
	}
	pinned := h.conf.Policy.Swaps
	h.conf.Policy.Swaps = nil
	if err := local.AdoptJournal(h.conf, h.seed, copied, nonces); refusal(unwrapRefusal(err)) !=
		signer.RefusedNotConfigured {
		t.Errorf("without the provider in the policy: got %v, want %s", err, signer.RefusedNotConfigured)
	}
	h.conf.Policy.Swaps = pinned
	h.limitSwaps(signpolicy.Limit{ // limits are no part of it
		PaymentMax: money.Units(1), OrganizationMax: money.Units(250), OverallMax: money.Units(400),
	})
	if err := local.AdoptJournal(h.conf, h.seed, copied, nonces); err != nil {
		t.Fatal(err)
	}
	s = h.confirm(t, h.open(t))
	if err := trySign(t, s, i, signer.Pay, 0, 50_000); err != nil {
		t.Errorf("what was signed, again: got %v", err)
	}
	if err := trySign(t, s, waits, signer.Pay, 1, 50_000); refusal(err) != signer.RefusedLate {
		t.Errorf("what was not signed in time: got %v, want %s", err, signer.RefusedLate)
	}
	h.limitSwaps(signpolicy.Limit{
		PaymentMax: money.Units(100), OrganizationMax: money.Units(250), OverallMax: money.Units(400),
	})
	closeSigner(t, s)
	s = h.open(t)
	h.wantSwap(t, s, org, "cs_3", 51, signer.PolicyLimit)
	h.wantSwap(t, s, org, "cs_3", 50, "")
}

func unwrapRefusal(err error) error {
	var no *signer.Refusal
	if errors.As(err, &no) {
		return no
	}
	return err
}

// Each term of a swap is covered by its grant: who controls the database changes none.
func TestNoTermOfASwapChangesUnderItsGrant(t *testing.T) {
	t.Parallel()
	in, k := newInstallation(t, t.TempDir()), grantKey(t, 1)
	in.conf.Grants = k
	s := in.open(t)
	now := in.conf.Clock()
	base := func() signertest.SwapPayment {
		return signertest.NewSwapPayment(t, s, org, "cs_1", signertest.Token, 1000, now)
	}
	granted := signertest.GrantSwap(k, base().SignQuote(t))
	for name, change := range map[string]func(i *signer.Intent){
		"no grant":            func(i *signer.Intent) { i.Grant = nil },
		"another key's grant": func(i *signer.Intent) { *i = signertest.GrantSwap(grantKey(t, 2), *i) },
		"another id":          func(i *signer.Intent) { i.ID = "cs_2" },
		"another product":     func(i *signer.Intent) { i.CustomerID, i.Product = "", "CUSTODIAL" },
		"another mint":        func(i *signer.Intent) { i.MintID++ },
		"another token":       func(i *signer.Intent) { i.Contract = signertest.LimitedToken },
		"another address":     func(i *signer.Intent) { i.To = signertest.Stranger },
		"another amount":      func(i *signer.Intent) { i.Amount = money.Units(999) },
		"a deduction":         func(i *signer.Intent) { i.FeeDeducted = money.Units(1) },
		"another fee":         func(i *signer.Intent) { i.FeeMax = money.Units(1) },
		"another provider":    func(i *signer.Intent) { i.Swap.Provider = "OTHER" },
		"another scheme":      func(i *signer.Intent) { i.Swap.Scheme = "RELAY_ORDER_V1" },
		"another quote": func(i *signer.Intent) {
			i.Swap.SignedQuote = append(bytes.Clone(i.Swap.SignedQuote), ' ')
		},
		"another delivery":      func(i *signer.Intent) { i.Swap.Delivery.Subject = "cs_2" },
		"a delivery purpose":    func(i *signer.Intent) { i.Swap.Delivery.Purpose = "CUSTOMER_DEPOSIT" },
		"another refund":        func(i *signer.Intent) { i.Swap.Refund.Subject = "cs_2" },
		"another owner":         func(i *signer.Intent) { i.Swap.Refund.OrgID = "org_2" },
		"another mint to buy":   func(i *signer.Intent) { i.Swap.ToMintID++ },
		"another chain to buy":  func(i *signer.Intent) { i.Swap.ToChain = chain.Base },
		"another token to buy":  func(i *signer.Intent) { i.Swap.ToContract = signertest.LimitedToken },
		"another estimate":      func(i *signer.Intent) { i.Swap.EstimatedOut = money.Units(999) },
		"a lower minimum":       func(i *signer.Intent) { i.Swap.MinOut = money.Units(1) },
		"a later time":          func(i *signer.Intent) { i.Swap.PayBy = signer.FormatMicros(now.Add(time.Hour)) },
		"a payment's own grant": func(i *signer.Intent) { i.Grant = grantWithoutSwap(k, *i).Grant },
	} {
		i := granted
		terms, g := *granted.Swap, *granted.Grant
		i.Swap, i.Grant = &terms, &g
		change(&i)
		if _, err := s.AdmitIntent(t.Context(), i); refusal(err) != signer.RefusedGrant {
			t.Errorf("%s: got %v, want %s", name, err, signer.RefusedGrant)
		}
	}
	if _, err := s.AdmitIntent(t.Context(), granted); err != nil {
		t.Errorf("as it was granted: got %v", err)
	}
	// A void of a swap needs the key, like that of a payment.
	if _, err := s.VoidIntent(t.Context(), signer.Void{OrgID: org, ID: "cs_1"}); refusal(err) != signer.RefusedGrant {
		t.Errorf("a void without the key: got %v, want %s", err, signer.RefusedGrant)
	}
	if _, err := s.VoidIntent(t.Context(), k.MakeVoid(org, "cs_1")); err != nil {
		t.Errorf("a void: got %v", err)
	}
}

// grantWithoutSwap grants the payment without its swap: what an ordinary payment of the same words has.
func grantWithoutSwap(k *signer.GrantKey, i signer.Intent) signer.Intent {
	i.Swap = nil
	return signertest.GrantSwap(k, i)
}

// The wallets of a swap are of the families of its two chains, and on Bitcoin of the usual form.
func TestASwapBetweenFamiliesUsesAWalletOfEach(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	in.seed = in.seed.ForNetwork(chain.Local)
	in.conf.Policy.Chains[chain.Bitcoin] = signpolicy.Chain{
		SignerID: btcRegtest, FeeMax: money.Units(50_000), Unlimited: true,
	}
	in.conf.Policy.Swaps = signertest.NewSwaps(map[chain.Name][]chain.Address{
		signertest.Chain: {""}, chain.Bitcoin: {""},
	})
	s := in.open(t)
	now := in.conf.Clock()
	check := func(name, want string, w signertest.SwapPayment) {
		t.Helper()
		if _, err := s.AdmitIntent(t.Context(), w.SignQuote(t)); refusal(err) != want {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	toBitcoin := func(id string, form chain.Form) signertest.SwapPayment {
		w := signertest.NewSwapPayment(t, s, org, id, "", 1000, now)
		w.Intent.Swap.ToChain, w.Intent.Swap.ToContract = chain.Bitcoin, ""
		w.Quote.DestinationAsset = signertest.SwapAsset(chain.Bitcoin, "")
		w.Intent.Swap.Delivery.Family, w.Intent.Swap.Delivery.Form = chain.BitcoinFamily, form
		w.Quote.Recipient = string(signertest.IssueAddress(t, s, w.Intent.Swap.Delivery))
		return w
	}
	check("to Bitcoin", "", toBitcoin("cs_1", chain.Usual))
	check("to Bitcoin in another form", signer.RefusedSignedQuote, toBitcoin("cs_2", chain.Taproot))
	loud := toBitcoin("cs_3", chain.Usual)
	loud.Quote.Recipient = strings.ToUpper(loud.Quote.Recipient)
	check("to Bitcoin in other letters", signer.RefusedSignedQuote, loud)
	check("to an EVM wallet for Bitcoin", signer.RefusedSignedQuote, func() signertest.SwapPayment {
		w := toBitcoin("cs_4", chain.Usual)
		w.Intent.Swap.Delivery.Family = chain.EVM
		w.Quote.Recipient = string(signertest.IssueAddress(t, s, w.Intent.Swap.Delivery))
		return w
	}())
	ours := toBitcoin("cs_8", chain.Usual)
	ours.Intent.To = signertest.IssueAddress(t, s, signertest.Deposit(org, "alice"))
	ours.Quote.DepositAddress = string(ours.Intent.To)
	check("to Bitcoin by an address of ours", signer.RefusedSignedQuote, ours)

	fromBitcoin := func(id string, form chain.Form) signertest.SwapPayment {
		w := signertest.NewSwapPayment(t, s, org, id, "", 1000, now)
		w.Intent.Chain, w.Intent.To, w.Intent.From.Family = chain.Bitcoin, btcPayee, chain.BitcoinFamily
		signertest.IssueAddress(t, s, w.Intent.From)
		w.Intent.Swap.Refund.Family, w.Intent.Swap.Refund.Form = chain.BitcoinFamily, form
		w.Intent.Swap.ToContract = ""
		w.Quote.OriginAsset = signertest.SwapAsset(chain.Bitcoin, "")
		w.Quote.DestinationAsset = signertest.SwapAsset(signertest.Chain, "")
		w.Quote.DepositAddress = string(btcPayee)
		w.Quote.RefundTo = string(signertest.IssueAddress(t, s, w.Intent.Swap.Refund))
		return w
	}
	check("from Bitcoin with a refund in another form", signer.RefusedSignedQuote, fromBitcoin("cs_5", chain.Taproot))
	check("from Bitcoin", "", fromBitcoin("cs_6", chain.Usual))
	check("from Bitcoin to the same address", signer.RefusedSignedQuote, fromBitcoin("cs_7", chain.Usual))
}

// An order of Relay pays the address that follows from it. It signs no time, so its window counts from now.
func TestAProviderWithOrdersIsPaidAsItSigned(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	solver, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	const provider, zero = "RELAY", "0x0000000000000000000000000000000000000000"
	now := in.conf.Clock()
	order := quotetest.Relay{
		Origin: "ethereum", Destination: "ethereum", OriginCurrency: zero,
		DestinationCurrency: strings.ToLower(string(signertest.Token)), AmountIn: money.Units(1000),
		AmountOut: money.Units(1000), MinAmountOut: money.Units(990), Deadline: now.Add(24 * time.Hour),
		Factory:        "0xfac0000000000000000000000000000000000001",
		Implementation: "0x1e70000000000000000000000000000000000002",
		Depositor:      "0xdeb0000000000000000000000000000000000003",
	}
	native := signpolicy.TokenKey(signertest.Chain, "")
	in.conf.Policy.Swaps.Providers[provider] = signpolicy.SwapProvider{
		Scheme: signedquote.RelayOrderV1, Solvers: []string{crypto.PubkeyToAddress(solver.PublicKey).Hex()},
		Chains: map[string]signpolicy.SwapChain{"ethereum": {
			VM: signedquote.RelayEthereum, Factory: order.Factory, Implementation: order.Implementation,
			Depositor: order.Depositor,
		}},
		Assets: map[string]string{
			native: "ethereum:" + zero,
			signpolicy.TokenKey(signertest.Chain, signertest.Token): "ethereum:" + order.DestinationCurrency,
		},
		Limits: map[string]signpolicy.Limit{native: {Unlimited: true}},
	}
	s := in.open(t)
	swap := func(id string, change func(q *quotetest.Relay, i *signer.Intent)) signer.Intent {
		w := signertest.NewSwapPayment(t, s, org, id, "", 1000, now)
		i, q := w.Intent, order
		i.Swap.Provider, i.Swap.Scheme = provider, signedquote.RelayOrderV1
		q.Recipient, q.RefundTo = strings.ToLower(w.Quote.Recipient), strings.ToLower(w.Quote.RefundTo)
		if change != nil {
			change(&q, &i)
		}
		raw, address := q.Sign(t, solver)
		i.Swap.SignedQuote = raw
		if i.To == w.Intent.To {
			i.To = chain.Address(address)
		}
		return i
	}
	stranger := string(signertest.Stranger)
	payBy := func(d time.Duration) func(*quotetest.Relay, *signer.Intent) {
		return func(_ *quotetest.Relay, i *signer.Intent) { i.Swap.PayBy = signer.FormatMicros(now.Add(d)) }
	}
	for name, change := range map[string]func(q *quotetest.Relay, i *signer.Intent){
		"another recipient":      func(q *quotetest.Relay, _ *signer.Intent) { q.Recipient = stranger },
		"another refund address": func(q *quotetest.Relay, _ *signer.Intent) { q.RefundTo = stranger },
		"another amount":         func(q *quotetest.Relay, _ *signer.Intent) { q.AmountIn = money.Units(1001) },
		"another address":        func(_ *quotetest.Relay, i *signer.Intent) { i.To = signertest.Stranger },
		"more slippage":          func(q *quotetest.Relay, _ *signer.Intent) { q.AmountOut = money.Units(1021) },
		"a long time to pay":     payBy(6*time.Hour + time.Second),
		"a quote of another provider": func(_ *quotetest.Relay, i *signer.Intent) {
			i.Swap.Provider = signertest.SwapProvider
		},
	} {
		_, err := s.AdmitIntent(t.Context(), swap("cs_1", change))
		if refusal(err) != signer.RefusedSignedQuote {
			t.Errorf("%s: got %v, want %s", name, err, signer.RefusedSignedQuote)
		}
	}
	good := swap("cs_1", payBy(6*time.Hour))
	if _, err := s.AdmitIntent(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	if err := trySign(t, s, good, signer.Pay, 0, 50_000); err != nil {
		t.Error(err)
	}
}
