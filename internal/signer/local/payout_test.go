package local_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/adopt"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

const (
	ann = "MEMBER mem_ann"
	bob = "MEMBER mem_bob"
)

// payoutEnv is an installation with a key, a swap of the organization that two people approved, and an address that
// it may pay.
type payoutEnv struct {
	*clockEnv
	k      *signer.GrantKey
	s      *local.Signer
	swap   signer.Intent // with its grant
	payout signer.SwapPayout
	nonce  uint64 // of the next slot of the treasury
}

func newPayoutEnv(t *testing.T) *payoutEnv {
	t.Helper()
	h := &payoutEnv{clockEnv: newClockEnv(t), k: grantKey(t, 1)}
	h.conf.Grants = h.k
	h.s = h.open(t)
	signertest.IssueAddress(t, h.s, signertest.Treasury(org))
	h.endorse(t, "wla_1")
	h.endorse(t, "wla_other")
	h.begin(t, "os_1")
	return h
}

// begin makes the environment's swap one that is admitted, and whose payment is signed.
func (h *payoutEnv) begin(t *testing.T, id string) {
	t.Helper()
	h.swap, h.payout = h.approve(t, id)
	h.want(t, "the swap", h.swap, "")
	h.sign(t, h.swap)
}

// sign signs the payment of an intent in the next slot.
func (h *payoutEnv) sign(t *testing.T, intent signer.Intent) {
	t.Helper()
	signertest.SignPayment(t, h.s, intent, h.nonce)
	h.nonce++
}

func (h *payoutEnv) endorse(t *testing.T, id string) {
	t.Helper()
	e := h.endorsement(id)
	e.MAC = h.k.EndorsementMAC(e)
	if _, err := h.s.EndorseAddress(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// approve returns a swap that two people approved.
func (h *payoutEnv) approve(t *testing.T, id string) (signer.Intent, signer.SwapPayout) {
	t.Helper()
	swap, payout := signertest.NewOrganizationSwap(t, h.s, org, id, signertest.Token, "wla_1", h.conf.Clock())
	return signertest.GrantPayout(h.k, swap.SignQuote(t), payout, 2, ann, bob), payout
}

// pays returns the payment of what the swap brought, with the approvals of the swap.
func (h *payoutEnv) pays(id string, units uint64) signer.Intent {
	return signertest.GrantPayout(h.k, signertest.NewPayout(h.swap, h.payout, id, units), h.payout, 2, ann, bob)
}

// want admits an intent, or expects a refusal.
func (h *payoutEnv) want(t *testing.T, name string, i signer.Intent, code string) {
	t.Helper()
	if _, err := h.s.AdmitIntent(t.Context(), i); refusal(err) != code {
		t.Errorf("%s: got %v, want %q", name, err, code)
	}
}

func (h *payoutEnv) reopen(t *testing.T) {
	t.Helper()
	closeSigner(t, h.s)
	h.s = h.open(t)
}

// grantOrdinary returns an intent with the grant of one that these people approved by itself.
func (h *payoutEnv) grantOrdinary(i signer.Intent, required int, approvers ...string) signer.Intent {
	terms := signer.Terms{
		OrgID: i.From.OrgID, WithdrawalID: i.ID, Chain: i.Chain, MintID: i.MintID, Contract: i.Contract, To: i.To,
		Amount: i.Amount, FeeMode: "ORGANIZATION", FeeMax: i.FeeMax, Product: i.Product,
		WhitelistedID: i.WhitelistedID, Swap: i.Swap,
	}
	var approvals []signer.Approval
	for _, approver := range approvers {
		approvals = append(approvals, h.k.MakeApproval(terms, 0, approver))
	}
	i.Grant = h.k.MakeGrant(terms, i.FeeDeducted, 0, required, approvals)
	return i
}

// The approvals of a swap pay what it brought, once, as they say, also after a restart. Rule SWAP-36.
func TestTheApprovalsOfASwapPayWhatItBroughtOnce(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	refuse := func(name string, required int, p signer.SwapPayout, approvals ...signer.Approval) {
		t.Helper()
		i := signertest.GrantPayout(h.k, signertest.NewPayout(h.swap, h.payout, "wd_1", 990), p, required)
		i.Grant.Approvals = approvals
		h.want(t, name, i, signer.RefusedGrant)
	}
	other := h.payout
	other.SwapID = "os_2"
	approved := func(p signer.SwapPayout, person string) signer.Approval { return h.k.MakePayoutApproval(p, person) }
	for range 2 { // the second time after a restart
		before := headOf(t, h.s)
		for name, change := range signertest.PayoutChanges() {
			changed := h.payout
			change(&changed)
			refuse("another "+name+", granted", 2, changed, approved(changed, ann), approved(changed, bob))
			refuse("another "+name+", approved", 2, h.payout, approved(changed, ann), approved(changed, bob))
			forged := h.pays("wd_1", 990)
			forged.Grant.Payout = &changed
			h.want(t, "another "+name+", put into a grant", forged, signer.RefusedGrant)
		}
		refuse("no approval", 2, h.payout)
		refuse("one approval", 2, h.payout, approved(h.payout, ann))
		refuse("one person twice", 2, h.payout, approved(h.payout, ann), approved(h.payout, ann))
		refuse("the approvals of another swap", 2, h.payout, approved(other, ann), approved(other, bob))
		h.want(t, "less than the minimum", h.pays("wd_1", 979), signer.RefusedGrant)
		h.want(t, "more than the maximum", h.pays("wd_1", 1101), signer.RefusedGrant)
		elsewhere := h.pays("wd_1", 990)
		elsewhere.WhitelistedID = "wla_other"
		h.want(t, "to another entry", elsewhere, signer.RefusedGrant)
		ordinary := signertest.NewPayout(h.swap, h.payout, "wd_1", 990)
		h.want(t, "without a grant", ordinary, signer.RefusedGrant)
		h.want(t, "a payment that needs approvals", h.grantOrdinary(ordinary, 2), signer.RefusedGrant)
		if after := headOf(t, h.s); after != before {
			t.Errorf("head: got %+v, want %+v: a refusal is not journaled", after, before)
		}
		h.reopen(t)
	}
	h.want(t, "as it was approved", h.pays("wd_1", 990), "")
	for range 2 {
		h.want(t, "the same payment again", h.pays("wd_1", 990), "")
		h.want(t, "a second payment", h.pays("wd_2", 990), signer.RefusedGrant)
		h.want(t, "the swap again", h.swap, "")
		h.reopen(t)
	}
	h.sign(t, h.pays("wd_1", 990))
	h.want(t, "what people approved by itself",
		h.grantOrdinary(signertest.NewPayout(h.swap, h.payout, "wd_2", 990), 2, ann, bob), "")

	// A void proves that nothing was paid, and the approval stays used.
	h.begin(t, "os_2")
	h.want(t, "its payment", h.pays("wd_3", 990), "")
	if _, err := h.s.VoidIntent(t.Context(), h.k.MakeVoid(org, "wd_3")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h.want(t, "after the payment was taken back", h.pays("wd_4", 990), signer.RefusedGrant)
		h.reopen(t)
	}

	// What was taken back brings nothing.
	h.swap, h.payout = h.approve(t, "os_3")
	h.want(t, "a swap that is taken back", h.swap, "")
	if _, err := h.s.VoidIntent(t.Context(), h.k.MakeVoid(org, "os_3")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h.want(t, "the payment of a swap that was taken back", h.pays("wd_5", 990), signer.RefusedGrant)
		h.reopen(t)
	}
	h.swap, h.payout = h.approve(t, "os_4")
	h.want(t, "the payment of a swap that was never admitted", h.pays("wd_6", 990), signer.RefusedGrant)
}

// A swap that paid its provider nothing brought nothing: its approvals pay no output before a payment of it is signed.
// A transaction that cancels it pays nothing. Rule SWAP-36.
func TestASwapWithoutASignedPaymentBringsNothing(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	h.swap, h.payout = h.approve(t, "os_2")
	h.want(t, "the swap", h.swap, "")
	h.want(t, "before anything is signed", h.pays("wd_2", 990), signer.RefusedGrant)
	if err := trySign(t, h.s, h.swap, signer.Cancel, h.nonce, 21_000); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h.want(t, "after a cancel", h.pays("wd_2", 990), signer.RefusedGrant)
		h.reopen(t)
	}
	h.want(t, "what people approved by itself",
		h.grantOrdinary(signertest.NewPayout(h.swap, h.payout, "wd_3", 990), 2, ann, bob), "")
	h.sign(t, h.swap)
	for range 2 {
		h.want(t, "after its payment was signed", h.pays("wd_2", 990), "")
		h.reopen(t)
	}
}

// The approval of a payout ends by the journal's time, which a jump of the clock does not move.
func TestAPayoutIsNotAdmittedAfterItsTime(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	c := h.conf.Policy.Chains[signertest.Chain]
	c.Assets, c.Unlimited = nil, true // nothing else depends on the time
	h.conf.Policy.Chains[signertest.Chain] = c
	h.reopen(t)
	h.set(47 * time.Hour)
	h.want(t, "while the clock is ahead", h.pays("wd_1", 990), signer.RefusedClock)
	h.set(-47 * time.Hour)
	h.pass(48 * time.Hour)
	if now := signer.FormatMicros(h.conf.Clock()); now != h.payout.NotAfter {
		t.Fatalf("got %s, want exactly %s", now, h.payout.NotAfter)
	}
	h.want(t, "at the last moment", h.pays("wd_1", 990), "")
	h.pass(time.Second)
	h.want(t, "what was admitted in time, again", h.pays("wd_1", 990), "")
	h.sign(t, h.pays("wd_1", 990))
	h.begin(t, "os_2")
	h.pass(48*time.Hour + time.Microsecond)
	for range 2 {
		h.want(t, "too late", h.pays("wd_3", 990), signer.RefusedGrant)
		h.reopen(t)
	}
	h.want(t, "too late, and approved by itself",
		h.grantOrdinary(signertest.NewPayout(h.swap, h.payout, "wd_3", 990), 2, ann, bob), "")
}

// A payout passes every other rule of a payment: an address that was removed is not paid.
func TestAPayoutIsAPaymentLikeOthers(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	if _, err := h.s.RevokeEndorsement(t.Context(), signer.Revocation{OrgID: org, ID: "wla_1"}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "to an address that was removed", h.pays("wd_1", 990), signer.RefusedWhitelist)
	if _, err := h.s.VoidIntent(t.Context(), h.k.MakeVoid(org, "wd_2")); err != nil {
		t.Fatal(err)
	}
	h.want(t, "that was taken back", h.pays("wd_2", 990), signer.RefusedVoid)
	h.want(t, "an ordinary payment of a customer", granted(h.k, "wd_3", 7), "")
}

// An organization's swap is admitted only with its payout, and a customer's only without one.
func TestASwapComesWithThePayoutOfItsOwner(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	swap, payout := h.approve(t, "os_2")
	h.want(t, "without a grant", func() signer.Intent { i := swap; i.Grant = nil; return i }(), signer.RefusedGrant)
	h.want(t, "with an ordinary grant", signertest.GrantSwap(h.k, swap), signer.RefusedGrant)
	h.want(t, "with one approval of two", signertest.GrantPayout(h.k, swap, payout, 2, ann), signer.RefusedGrant)
	customers := signertest.NewSwapPayment(t, h.s, org, "cs_1", signertest.Token, 1000, h.conf.Clock()).SignQuote(t)
	payout.SwapID = "cs_1"
	h.want(t, "a customer's with a payout", signertest.GrantPayout(h.k, customers, payout, 0), signer.RefusedGrant)
	h.want(t, "a customer's", signertest.GrantSwap(h.k, customers), "")
	h.want(t, "as it was approved", swap, "")
	small, free := signertest.NewOrganizationSwap(t, h.s, org, "os_3", signertest.Token, "wla_1", h.conf.Clock())
	h.want(t, "that needs no approval", signertest.GrantPayout(h.k, small.SignQuote(t), free, 0), "")
}

// A journal from before swaps of organizations came with an approval opens, and nothing is paid by what it lacks.
func TestAJournalWithoutPayoutsIsRead(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	closeSigner(t, h.s)
	recorded := h.swap
	recorded.Grant = recorded.Grant.Recorded()
	h.rewrite(t, `,"grant":`+string(marshal(t, recorded.Grant)), "")
	if strings.Contains(string(h.read(t)), "swapPayout") {
		t.Fatal("the journal still has the approval")
	}
	h.s = h.open(t)
	h.want(t, "a payout", h.pays("wd_1", 990), signer.RefusedGrant)
	bare := h.swap
	bare.Grant = nil
	h.want(t, "the swap again", bare, "")
	h.want(t, "what people approved by itself",
		h.grantOrdinary(signertest.NewPayout(h.swap, h.payout, "wd_1", 990), 2, ann, bob), "")
}

// A journal that has two payments by one approval is not one that a signer wrote.
func TestAJournalWithTwoPayoutsOfASwapDoesNotOpen(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	h.want(t, "a payout", h.pays("wd_1", 990), "")
	h.begin(t, "os_2")
	h.want(t, "its payout", h.pays("wd_2", 990), "")
	h.reopen(t)
	closeSigner(t, h.s)
	h.rewrite(t, `"swapId":"os_2"`, `"swapId":"os_1"`)
	_, err := local.Open(h.conf, h.seed)
	if !errors.Is(err, signer.ErrDamaged) || !strings.Contains(err.Error(), "wd_1") {
		t.Errorf("got %v, want %v", err, signer.ErrDamaged)
	}
}

// A copied journal is taken over only with payouts that its swaps allow, and they stay used.
func TestAnAdoptedPayoutIsCheckedAgain(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	h.want(t, "the payout", h.pays("wd_1", 990), "")
	waits, payout := h.approve(t, "os_2")
	h.want(t, "a second swap", waits, "")
	h.sign(t, waits)
	nonces := []adopt.ChainNonce{{Wallet: signertest.Treasury(org), Chain: signertest.Chain, NextNonce: h.nonce}}
	copied, err := h.s.EntriesAfter(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	closeSigner(t, h.s)
	h.conf.Journal += ".adopted"
	paid := `"amount":"990"`
	for name, forged := range map[string][]signer.Entry{
		"of more":          forge(copied, paid, `"amount":"1101"`),
		"of another swap":  forgePayout(copied, "wd_1", `"swapId":"os_1"`, `"swapId":"os_9"`),
		"of another bound": forgePayout(copied, "wd_1", `"minOut":"980"`, `"minOut":"981"`),
		"to another entry": forgePayout(copied, "wd_1", `"whitelistedId":"wla_1","to":`,
			`"whitelistedId":"wla_other","to":`),
	} {
		var no *signer.Refusal
		err := local.AdoptJournal(h.conf, h.seed, forged, nonces)
		if !errors.As(err, &no) || no.Code != signer.RefusedGrant {
			t.Errorf("a payout %s: got %v, want %s", name, err, signer.RefusedGrant)
		}
	}
	if err := local.AdoptJournal(h.conf, h.seed, copied, nonces); err != nil {
		t.Fatal(err)
	}
	h.s = h.open(t)
	h.want(t, "the payout again", h.pays("wd_1", 990), "")
	h.want(t, "a second payout", h.pays("wd_2", 990), signer.RefusedGrant)
	h.swap, h.payout = waits, payout
	h.want(t, "the payout of the second swap", h.pays("wd_3", 990), "")
	h.pass(1000 * time.Hour) // the time is no part of an adoption
	h.conf.Journal += ".late"
	if err := local.AdoptJournal(h.conf, h.seed, copied, nonces); err != nil {
		t.Errorf("long after: got %v", err)
	}
}

// forgePayout replaces a text in the admission of one intent alone.
func forgePayout(copied []signer.Entry, id, old, replacement string) []signer.Entry {
	copied = slices.Clone(copied)
	for n, e := range copied {
		if strings.Contains(string(e.Body), `"id":"`+id+`"`) {
			copied[n].Body = []byte(strings.ReplaceAll(string(e.Body), old, replacement))
		}
	}
	return forge(copied, "\x00", "\x00")
}

// The approvals of a swap make no payment possible that people have to approve by itself. An attacker has every grant
// and approval that was ever made, also the grant of a payout that the server made by mistake, and puts them together
// in any way.
func TestTheApprovalsOfASwapPayNothingElse(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	before := headOf(t, h.s)
	rapid.Check(t, func(r *rapid.T) {
		i := signertest.NewPayout(h.swap, h.payout, "wd_1", 990)
		switch rapid.IntRange(0, 5).Draw(r, "deviation") {
		case 0:
			i.Amount = money.Units(rapid.SampledFrom([]uint64{1, 979, 1101, 1_000_000}).Draw(r, "units"))
		case 1:
			i.WhitelistedID = "wla_other"
		case 2:
			i.Product = "CHECKOUT"
		case 3:
			i.MintID++
		case 4:
			i.From.OrgID = "org_2"
		case 5:
			i.CustomerID, i.Product, i.WhitelistedID = "alice", "", ""
		}
		payout := signertest.GrantPayout(h.k, i, h.payout, 2, ann, bob).Grant
		own := h.grantOrdinary(i, 2, ann).Grant
		paid := h.pays("wd_paid", 990).Grant
		grants := []*signer.Grant{own, payout, paid, h.swap.Grant}
		approvals := slices.Concat(own.Approvals, paid.Approvals)
		g := *rapid.SampledFrom(grants).Draw(r, "grant")
		g.MAC = rapid.SampledFrom(grants).Draw(r, "mac").MAC
		g.Required = rapid.IntRange(0, 2).Draw(r, "required")
		g.Payout = rapid.SampledFrom([]*signer.SwapPayout{nil, &h.payout}).Draw(r, "payout")
		g.Approvals = rapid.SliceOfN(rapid.SampledFrom(approvals), 0, 4).Draw(r, "approvals")
		i.Grant = &g
		if _, err := h.s.AdmitIntent(t.Context(), i); refusal(err) != signer.RefusedGrant {
			r.Errorf("%+v with %+v: got %v, want %s", i, g, err, signer.RefusedGrant)
		}
	})
	if after := headOf(t, h.s); after != before {
		t.Errorf("head: got %+v, want %+v", after, before)
	}
	h.want(t, "the payment that the approvals are for", h.pays("wd_paid", 990), "")
}
