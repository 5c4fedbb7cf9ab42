package local_test

import (
	"bytes"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// unapprovedEnv is an installation whose policy lets batches pay 300 of one token without a person, and 500 a day.
type unapprovedEnv struct {
	*clockEnv
	k *signer.GrantKey
	s *local.Signer
}

func newUnapprovedEnv(t *testing.T) *unapprovedEnv {
	t.Helper()
	h := &unapprovedEnv{clockEnv: newClockEnv(t), k: grantKey(t, 1)}
	h.conf.Grants = h.k
	h.allow(signertest.Token, 300, 500)
	h.s = h.open(t)
	signertest.IssueAddress(t, h.s, signertest.Treasury(org))
	return h
}

// allow replaces the part of the policy that a person at the host wrote; a batch of 0 names nothing.
func (h *unapprovedEnv) allow(token chain.Address, batchMax, dayMax uint64) {
	h.policy(func(p *signpolicy.Chain) {
		p.UnapprovedBatches = nil
		if batchMax > 0 {
			p.UnapprovedBatches = map[chain.Address]signpolicy.UnapprovedLimit{
				token: {BatchMax: money.Units(batchMax), DayMax: money.Units(dayMax)},
			}
		}
	})
}

// unapprovedBatch is a batch as who holds the key of grants makes one: change changes its rows and its header.
type unapprovedBatch struct {
	id     string
	rows   []contenthash.Row
	header contenthash.Header
}

func newUnapproved(t *testing.T, id string, amounts ...uint64) unapprovedBatch {
	t.Helper()
	b := unapprovedBatch{id: id}
	for n, amount := range amounts {
		b.rows = append(b.rows, contenthash.Row{
			Number: n + 1, Salt: bytes.Repeat([]byte{9}, contenthash.SaltBytes), MintID: 1, Chain: signertest.Chain,
			Contract:  signertest.Token,
			ToAddress: evmtx.Canonical(common.BigToAddress(big.NewInt(int64(0xba7c0000 + n)))),
			Amount:    money.Units(amount), IsIncluded: true,
		})
	}
	return b.seal(t)
}

func (b unapprovedBatch) seal(t *testing.T) unapprovedBatch {
	t.Helper()
	var err error
	if b.header, err = contenthash.Seal(org, b.id, contenthash.Strict, "USER usr_maker", b.rows); err != nil {
		t.Fatal(err)
	}
	return b
}

// pays returns the payment of a row with a grant of so many approvals.
func (h *unapprovedEnv) pays(b unapprovedBatch, number int, people ...string) signer.Intent {
	row := b.rows[number-1]
	id := signer.BatchWithdrawalID(org, b.id, number)
	i := signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: row.Chain, From: signertest.Treasury(org), To: row.ToAddress,
		Contract: row.Contract, Amount: row.Amount, MintID: row.MintID, Product: signer.BatchProduct,
		IdempotencyKeyHash: signertest.KeyHash(id),
		Batch:              &signer.BatchRow{BatchID: b.id, Row: number, ContentHash: b.header.ComputeHash()},
	}
	var leaves []contenthash.Hash
	for _, r := range b.rows {
		leaves = append(leaves, r.ComputeLeaf())
	}
	var approvals []signer.Approval
	for _, name := range people {
		approvals = append(approvals, h.k.MakeBatchApproval(b.header.ComputeHash(), name))
	}
	i.Grant = h.k.MakeBatchGrant(signer.Terms{
		OrgID: org, WithdrawalID: id, Chain: i.Chain, MintID: i.MintID, Contract: i.Contract, To: i.To,
		Amount:  i.Amount,
		Product: i.Product, Batch: i.Batch,
	}, signer.NewBatchGrant(b.header, row, contenthash.ComputePath(leaves, number-1)), len(people), approvals)
	return i
}

// want admits a row, or checks why it is refused.
func (h *unapprovedEnv) want(t *testing.T, name string, i signer.Intent, code, sentence string) {
	t.Helper()
	before := headOf(t, h.s)
	_, err := h.s.AdmitIntent(t.Context(), i)
	if refusal(err) != code || err != nil && !strings.Contains(err.Error(), sentence) {
		t.Errorf("%s: got %v, want %q with %q", name, err, code, sentence)
	}
	if after := headOf(t, h.s); err != nil && after != before {
		t.Errorf("%s: got the head %+v, want %+v: a refusal takes nothing", name, after, before)
	}
}

// Without an entry in the signer's own policy no row is paid that no person approved, on an unlimited asset, too. An
// approved row of the same batch is. Rule BP-60.
func TestTheSignerPaysNoUnapprovedRowOfAnAssetThatItsPolicyDoesNotName(t *testing.T) {
	t.Parallel()
	h := newUnapprovedEnv(t)
	closeSigner(t, h.s)
	h.allow("", 0, 0)
	h.s = h.open(t)
	b := newUnapproved(t, "bp_1", 10, 20)
	h.want(t, "nothing named", h.pays(b, 1), signer.PolicyLimit, "pays nothing of")
	h.want(t, "with an approval", h.pays(b, 1, ann), "", "")
	closeSigner(t, h.s)
	h.allow(signertest.LimitedToken, 300, 500)
	h.s = h.open(t)
	h.want(t, "another token named", h.pays(b, 2), signer.PolicyLimit, "pays nothing of")
	closeSigner(t, h.s)
	h.allow(signertest.Token, 300, 500)
	h.s = h.open(t)
	h.want(t, "named", h.pays(b, 2), "", "")
}

// A batch pays at most batchMax: by its header, and by what the signer admitted of it. Rule BP-61.
func TestAnUnapprovedBatchPaysNoMoreThanItsHeaderAndThePolicySay(t *testing.T) {
	t.Parallel()
	h := newUnapprovedEnv(t)
	closeSigner(t, h.s)
	h.allow(signertest.Token, 300, 5000)
	h.s = h.open(t)
	large := newUnapproved(t, "bp_large", 1, 300)
	h.want(t, "a row of a batch of 301", h.pays(large, 1), signer.PolicyLimit, "it pays 301")
	h.want(t, "that people approved", h.pays(large, 1, ann), "", "")

	exact := newUnapproved(t, "bp_exact", 100, 200)
	h.want(t, "a batch of 300", h.pays(exact, 1), "", "")
	h.want(t, "its rest", h.pays(exact, 2), "", "")

	// A server that lies seals a header with smaller totals than its rows have.
	liar := newUnapproved(t, "bp_liar", 50, 60)
	liar.header.Totals[0].Amount = money.Units(60)
	h.want(t, "what the header covers", h.pays(liar, 1), "", "")
	h.want(t, "a row beyond the header's total", h.pays(liar, 2), signer.RefusedGrant, "are not among them")
	closeSigner(t, h.s)
	h.s = h.open(t)
	h.want(t, "the same after a restart", h.pays(liar, 2), signer.RefusedGrant, "are not among them")

	// It seals another content of the same batch with a larger total.
	other := newUnapproved(t, "bp_liar", 50, 60, 245)
	h.want(t, "beyond batchMax under another content", h.pays(other, 3), signer.PolicyLimit, "it pays 355")
	other.header.Totals[0].Amount = money.Units(300)
	h.want(t, "with smaller totals", h.pays(other, 3), "", "")
	h.want(t, "the next row of it", h.pays(other, 2), signer.RefusedGrant, "are not among them")
}

// One asset under several numbers of mints is one asset.
func TestAnUnapprovedBatchSplitsNoAssetIntoMints(t *testing.T) {
	t.Parallel()
	h := newUnapprovedEnv(t)
	b := newUnapproved(t, "bp_1", 200, 150)
	b.rows[1].MintID = 2
	b = b.seal(t)
	h.want(t, "the first mint", h.pays(b, 1), "", "")
	h.want(t, "the second one", h.pays(b, 2), signer.PolicyLimit, "150 on top of 200")
	closeSigner(t, h.s)
	h.set(48 * time.Hour)
	h.s = h.confirm(t, h.open(t))
	h.want(t, "two days later", h.pays(b, 2), signer.PolicyLimit, "150 on top of 200")

	b = newUnapproved(t, "bp_2", 110, 120, 130)
	b.rows[1].MintID, b.rows[2].MintID = 2, 3
	b = b.seal(t)
	h.want(t, "the first of three", h.pays(b, 1), "", "")
	h.want(t, "the second of three", h.pays(b, 2), "", "")
	h.want(t, "the third", h.pays(b, 3), signer.PolicyLimit, "130 on top of 230")
}

// Many small batches share one day, after a restart and with a clock that is set. Rows that people approved take
// nothing of it, and what the limits of payments refuse stays refused. Rule BP-62.
func TestUnapprovedBatchesShareADay(t *testing.T) {
	t.Parallel()
	h := newUnapprovedEnv(t)
	for n, id := range []string{"bp_1", "bp_2", "bp_3", "bp_4"} {
		want, why := "", ""
		if n == 3 {
			want, why = signer.PolicyLimit, "at most 500 units"
		}
		h.want(t, id, h.pays(newUnapproved(t, id, 160), 1), want, why)
	}
	h.want(t, "with an approval", h.pays(newUnapproved(t, "bp_5", 250), 1, ann), "", "")
	h.want(t, "what is left", h.pays(newUnapproved(t, "bp_6", 20), 1), "", "")
	last := h.pays(newUnapproved(t, "bp_7", 1), 1)
	h.want(t, "nothing is left", last, signer.PolicyLimit, "1 on top of 500")
	closeSigner(t, h.s)
	h.s = h.open(t)
	h.want(t, "after a restart", last, signer.PolicyLimit, "1 on top of 500")
	h.set(25 * time.Hour)
	h.want(t, "with a clock that is set", last, signer.RefusedClock, "")
	h.set(-25 * time.Hour)
	h.pass(24 * time.Hour)
	h.want(t, "a day later", last, "", "")
}

// A person took the asset out of the policy after a row was admitted: nothing that pays it is signed. One of an
// approved batch is.
func TestAnUnapprovedRowIsNotSignedOnceThePolicyNamesItNoMore(t *testing.T) {
	t.Parallel()
	h := newUnapprovedEnv(t)
	unapproved, approved := newUnapproved(t, "bp_1", 10), newUnapproved(t, "bp_2", 10)
	h.want(t, "without a person", h.pays(unapproved, 1), "", "")
	h.want(t, "with one", h.pays(approved, 1, ann), "", "")
	closeSigner(t, h.s)
	h.allow("", 0, 0)
	h.s = h.open(t)
	if err := trySign(t, h.s, h.pays(unapproved, 1), signer.Pay, 0, 60_000); refusal(err) != signer.PolicyLimit {
		t.Errorf("got %v, want %s", err, signer.PolicyLimit)
	}
	closeSigner(t, h.s)
	h.allow(signertest.Token, 9, 500)
	h.s = h.open(t)
	if err := trySign(t, h.s, h.pays(unapproved, 1), signer.Pay, 0, 60_000); refusal(err) != signer.PolicyLimit {
		t.Errorf("10 where a batch may pay 9: got %v, want %s", err, signer.PolicyLimit)
	}
	if err := trySign(t, h.s, h.pays(unapproved, 1), signer.Cancel, 0, 60_000); err != nil {
		t.Errorf("the cancel of its slot: got %v", err)
	}
	if err := trySign(t, h.s, h.pays(approved, 1, ann), signer.Pay, 1, 60_000); err != nil {
		t.Errorf("the approved one: got %v", err)
	}
}

func TestAPolicyOfUnapprovedBatchesTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ assets, batches, want string }{
		"no entry of assets": {`{}`, `{"": {"batchMax": "1", "dayMax": "1"}}`, "assets does not name it"},
		"no batchMax":        {`{"": {"unlimited": true}}`, `{"": {"dayMax": "1"}}`, "set batchMax"},
		"less for a day":     {`{"": {"unlimited": true}}`, `{"": {"batchMax": "2", "dayMax": "1"}}`, "not below it"},
		"another form":       {`{}`, `{"0xab": {"batchMax": "1", "dayMax": "1"}}`, "canonical form"},
		"right":              {`{"": {"unlimited": true}}`, `{"": {"batchMax": "1", "dayMax": "1"}}`, ""},
	} {
		text := strings.ReplaceAll(`{"chains": {"ETHEREUM": {"signerId": "31337", "feeMax": "10", "gasMax": "1",
			"assets": `+c.assets+`, "unapprovedBatches": `+c.batches+`}}}`, `"unlimited": true`,
			`"paymentMax":"0","organizationMax":"0","overallMax":"0","unlimited": true`)
		text = strings.ReplaceAll(text, `{"dayMax"`, `{"batchMax":"0","dayMax"`)
		_, err := signpolicy.Parse([]byte(text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
