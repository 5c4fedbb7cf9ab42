package local_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// newLooseInstallation returns an installation whose policy the test sets.
func newLooseInstallation(t *testing.T, change func(*signpolicy.Chain)) *installation {
	t.Helper()
	in := newInstallation(t, t.TempDir())
	in.policy(change)
	return in
}

func (in *installation) policy(change func(*signpolicy.Chain)) {
	p := signertest.NewPolicy().Chains[signertest.Chain]
	change(&p)
	in.conf.Policy = signpolicy.Policy{Chains: map[chain.Name]signpolicy.Chain{signertest.Chain: p}}
}

func sweepOf(t *testing.T, s signer.Signer, id, customer string) signer.Intent {
	t.Helper()
	ours := signertest.Treasury(org)
	signertest.IssueAddress(t, s, signertest.Deposit(org, customer))
	return signer.Intent{
		ID: id, Purpose: signer.Sweep, Chain: signertest.Chain, From: signertest.Deposit(org,
			customer), To: signertest.IssueAddress(t, s, ours),
		ToWallet: &ours, Contract: signertest.Token, Amount: money.Units(5),
		WalletBalance: &signer.WalletBalance{Total: money.Units(5)},
	}
}

// trySign signs one transaction of an intent that costs at most so much gas, at 1 wei.
func trySign(t *testing.T, s signer.Signer, i signer.Intent, act signer.Act, nonce, gas uint64) error {
	t.Helper()
	from := signertest.IssueAddress(t, s, i.From)
	fees := chain.Fees{GasLimit: gas, TipCap: money.Units(1), FeeCap: money.Units(1)}
	payload := signertest.BuildPayload(t, from, nil, nonce, fees)
	if act == signer.Pay {
		payload = signertest.IntentPayload(t, i, from, nonce, fees)
	}
	_, err := s.Sign(t.Context(), signer.SignRequest{
		IntentID: i.ID, Slot: signer.Slot{Nonce: nonce}, Act: act,
		Payload: payload,
	})
	return err
}

func refusal(err error) string {
	var no *signer.Refusal
	if errors.As(err, &no) {
		return no.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// The daily fees of a wallet are limited, also against an attacker who has taken over the service.
// A slot counts with the highest fee among its transactions.
func TestFeesOfAWalletAreLimitedByTheDay(t *testing.T) {
	t.Parallel()
	in := &clockEnv{installation: newLooseInstallation(t, func(p *signpolicy.Chain) {
		p.FeeMax, p.FeeDayMax = money.Units(100_000), money.Units(250_000)
	})}
	in.conf.Elapsed = in.elapsed
	s := in.open(t)
	first, second, third, fourth := payment("wd_1", 1), payment("wd_2", 1), payment("wd_3", 1), payment("wd_4", 1)
	signertest.IssueAddress(t, s, first.From)
	for _, i := range []signer.Intent{first, second, third} {
		if _, err := s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, want string, err error) {
		t.Helper()
		if got := refusal(err); got != want {
			t.Errorf("%s: got %q (%v), want %q", what, got, err, want)
		}
	}
	for range 3 { // the same bytes again count only once
		check("60,000 of 250,000", "", trySign(t, s, first, signer.Pay, 0, 60_000))
	}
	in.pass(time.Hour)
	check("a replacement adds what it is dearer by: 100,000", "", trySign(t, s, first, signer.Pay, 0, 100_000))
	check("a cheaper one adds nothing", "", trySign(t, s, first, signer.Cancel, 0, 80_000))
	check("200,000", "", trySign(t, s, second, signer.Pay, 1, 100_000))
	before := headOf(t, s)
	check("50,001 more", signer.FeeLimit, trySign(t, s, third, signer.Pay, 2, 50_001))
	check("a cancel counts as well", signer.FeeLimit, trySign(t, s, third, signer.Cancel, 2, 50_001))
	if after := headOf(t, s); after != before {
		t.Errorf("head: got %+v, want %+v: a refusal takes nothing", after, before)
	}
	check("exactly the limit", "", trySign(t, s, third, signer.Pay, 2, 50_000))
	_, err := s.AdmitIntent(t.Context(), fourth)
	check("nothing is left to sign for another", signer.FeeLimit, err)

	// Another wallet has a limit of its own.
	sweep := sweepOf(t, s, "sw_1", "alice")
	if _, err := s.AdmitIntent(t.Context(), sweep); err != nil {
		t.Fatal(err)
	}
	check("another wallet", "", trySign(t, s, sweep, signer.Pay, 0, 100_000))

	// Neither a restart nor a clock that is set back releases anything.
	closeSigner(t, s)
	s = in.open(t)
	in.set(-48 * time.Hour)
	_, err = s.AdmitIntent(t.Context(), fourth)
	check("after a restart and a clock that went back", signer.FeeLimit, err)
	check("what was signed is signed again", "", trySign(t, s, first, signer.Pay, 0, 100_000))
	in.set(48 * time.Hour)
	in.pass(23 * time.Hour) // 24 hours after the first 60,000
	if _, err = s.AdmitIntent(t.Context(), fourth); err != nil {
		t.Fatal(err)
	}
	check("more than left the window", signer.FeeLimit, trySign(t, s, fourth, signer.Pay, 3, 60_001))
	check("exactly what left the window", "", trySign(t, s, fourth, signer.Pay, 3, 60_000))
}

func TestAPolicyWithoutAFeeLimitHasOne(t *testing.T) {
	t.Parallel()
	in := newLooseInstallation(t, func(p *signpolicy.Chain) { p.FeeMax = money.Units(30_000) })
	s := in.open(t)
	for n := range 101 {
		i := payment(fmt.Sprint("wd_", n), 1)
		i.Contract = signertest.Token
		signertest.IssueAddress(t, s, i.From)
		_, err := s.AdmitIntent(t.Context(), i)
		if err == nil {
			err = trySign(t, s, i, signer.Pay, uint64(n), 30_000)
		}
		if want := map[bool]string{true: signer.FeeLimit}[n == 100]; refusal(err) != want {
			t.Fatalf("transaction %d: got %v, want %q", n, err, want)
		}
	}
	text := `{"chains": {"ETHEREUM": {"signerId": "1", "feeMax": "10", "gasMax": "1", "feeDayMax": "9"}}}`
	if _, err := signpolicy.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "feeDayMax") {
		t.Errorf("less for a day than for one transaction: got %v, want it refused", err)
	}
}

// H-78: an intent that was admitted under another policy is signed only if the current policy
// allows it. After the first signature it can be replaced and cancelled.
func TestThePolicyThatStandsIsAskedBeforeTheFirstSignature(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	signertest.IssueAddress(t, s, signertest.Treasury(org))
	deposit := signertest.Deposit(org, "alice")
	out, waits, gas := payment("wd_1", 100), payment("wd_2", 100), signer.Intent{
		ID: "gas_1", Purpose: signer.GasTopUp, Chain: signertest.Chain, From: signertest.Treasury(org),
		To:       signertest.IssueAddress(t, s, deposit),
		ToWallet: &deposit, Amount: money.Units(500),
	}
	for _, i := range []signer.Intent{out, waits, gas} {
		if _, err := s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if err := trySign(t, s, out, signer.Pay, 0, 50_000); err != nil {
		t.Fatal(err)
	}
	closeSigner(t, s)
	in.policy(func(p *signpolicy.Chain) {
		p.GasMax = money.Units(499)
		p.Assets = map[chain.Address]signpolicy.Limit{
			signertest.LimitedToken: {
				PaymentMax: money.Units(99), OrganizationMax: money.Units(250),
				OverallMax: money.Units(400),
			},
		}
	})
	s = in.open(t)
	for name, c := range map[string]struct {
		i     signer.Intent
		act   signer.Act
		nonce uint64
		want  string
	}{
		"a payment that is above the limit now": {waits, signer.Pay, 1, signer.PolicyLimit},
		"a top-up that is above the limit now":  {gas, signer.Pay, 2, signer.PolicyLimit},
		"a replacement of what was signed":      {out, signer.Pay, 0, ""},
		"a cancel of what was signed":           {out, signer.Cancel, 0, ""},
	} {
		if got := refusal(trySign(t, s, c.i, c.act, c.nonce, 60_000)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	// The slot of the refused payment can be cancelled.
	if err := trySign(t, s, waits, signer.Cancel, 1, 60_000); err != nil {
		t.Errorf("a cancel in the slot of what is refused: got %v", err)
	}
	closeSigner(t, s)
	in.policy(func(p *signpolicy.Chain) { p.Assets = map[chain.Address]signpolicy.Limit{"": {Unlimited: true}} })
	s = in.open(t)
	for _, c := range []struct {
		name string
		i    signer.Intent
		want string
	}{
		{"a payment beside its cancel, of an asset that is gone", waits, signer.PolicyLimit},
		{"a replacement, of an asset that is gone", out, ""},
	} {
		nonce := map[string]uint64{waits.ID: 1}[c.i.ID]
		if got := refusal(trySign(t, s, c.i, signer.Pay, nonce, 61_000)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
