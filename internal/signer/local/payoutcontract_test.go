package local_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// newRow returns the intent of a row of a batch.
func newRow(batchID string, row int) signer.Intent {
	id := signer.BatchWithdrawalID("org_1", batchID, row)
	return signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury("org_1"),
		To:       evmtx.Canonical(common.BigToAddress(big.NewInt(int64(0xba7c0000 + row)))),
		Contract: signertest.Token, Amount: money.Units(uint64(100 + row)), MintID: 1, Product: signer.BatchProduct,
		IdempotencyKeyHash: signertest.KeyHash(id), Batch: &signer.BatchRow{BatchID: batchID, Row: row},
	}
}

func toPayments(from chain.Address, intents []signer.Intent) (ps []chain.Payment) {
	for _, i := range intents {
		ps = append(ps, chain.Payment{From: from, To: i.To, Contract: i.Contract, Amount: i.Amount})
	}
	return ps
}

// signTogether asks for the signature of payments, which are those of the intents unless a test changes them.
func signTogether(
	t *testing.T, s *local.Signer, from chain.Address, nonce uint64, intents []signer.Intent, ps []chain.Payment,
) error {
	t.Helper()
	fees := signertest.UsualFees()
	tx, err := evmtx.NewPaymentsTx(signertest.ChainID, from, ps, nonce, fees)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := tx.Payload()
	if err != nil {
		t.Fatal(err)
	}
	var with []string
	for _, i := range intents[1:] {
		with = append(with, i.ID)
	}
	_, err = s.Sign(t.Context(), signer.SignRequest{
		IntentID: intents[0].ID, TxMemberIDs: with, Slot: signer.Slot{Nonce: nonce}, Act: signer.Pay, Payload: payload,
	})
	return err
}

// Rows of one approved batch are signed together, each exactly as it was admitted. A customer's payment and a row of
// another batch, or of another content of it, share no transaction on an EVM chain. Rule BP-23.
func TestOnlyRowsOfOneBatchAreSignedTogether(t *testing.T) {
	t.Parallel()
	s, _ := signertest.New(t)
	from := signertest.IssueAddress(t, s, signertest.Treasury("org_1"))
	admit := func(i signer.Intent) signer.Intent {
		t.Helper()
		if _, err := s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		return i
	}
	rows := []signer.Intent{admit(newRow("pb_1", 1)), admit(newRow("pb_1", 2)), admit(newRow("pb_1", 3))}
	otherBatch := admit(newRow("pb_2", 1))
	otherContent := newRow("pb_1", 4)
	otherContent.Batch.ContentHash = contenthash.Hash{1}
	admit(otherContent)
	customers := newRow("pb_1", 5)
	customers.ID, customers.Batch, customers.Product, customers.CustomerID = "wd_customer", nil, "", "ann"
	admit(customers)
	unknown := newRow("pb_1", 6)
	right := toPayments(from, rows)
	for name, c := range map[string]struct {
		with   []signer.Intent
		change func(ps []chain.Payment) []chain.Payment
		want   string
	}{
		"another amount": {rows, func(ps []chain.Payment) []chain.Payment {
			ps[1].Amount = money.Units(999)
			return ps
		}, signer.RefusedPayload},
		"another payee": {rows, func(ps []chain.Payment) []chain.Payment {
			ps[2].To = signertest.Token
			return ps
		}, signer.RefusedPayload},
		"another order": {rows, func(ps []chain.Payment) []chain.Payment {
			ps[0], ps[1] = ps[1], ps[0]
			return ps
		}, signer.RefusedPayload},
		"one less": {rows, func(ps []chain.Payment) []chain.Payment { return ps[:2] }, signer.RefusedPayload},
		"one more": {
			rows, func(ps []chain.Payment) []chain.Payment { return append(ps, ps[0]) }, signer.RefusedPayload,
		},
		"of another batch": {
			[]signer.Intent{rows[0], otherBatch}, nil, signer.RefusedIntent,
		},
		"of another content":        {[]signer.Intent{rows[0], otherContent}, nil, signer.RefusedIntent},
		"of a customer":             {[]signer.Intent{rows[0], customers}, nil, signer.RefusedIntent},
		"of a customer first":       {[]signer.Intent{customers, rows[0]}, nil, signer.RefusedIntent},
		"one that was not admitted": {[]signer.Intent{rows[0], unknown}, nil, signer.RefusedIntent},
	} {
		ps := toPayments(from, c.with)
		if c.change != nil {
			ps = c.change(ps)
		}
		if err := signTogether(t, s, from, 0, c.with, ps); refusal(err) != c.want {
			t.Errorf("%s: got %v, want it refused with %s", name, err, c.want)
		}
	}
	if err := signTogether(t, s, from, 0, rows, right); err != nil {
		t.Errorf("the rows as they were admitted: got %v, want a signature", err)
	}
	if err := signTogether(t, s, from, 1, rows[:1], right[:1]); refusal(err) != signer.RefusedSlot {
		t.Errorf("one of them alone: got %v, want it refused with %s", err, signer.RefusedSlot)
	}
}

// The payout contract of the chain is the only address that is ever allowed anything, by a treasury, of a token of the
// policy. Rule BP-24.
func TestOnlyThePayoutContractGetsAnAllowance(t *testing.T) {
	t.Parallel()
	s, _ := signertest.New(t)
	from := signertest.IssueAddress(t, s, signertest.Treasury("org_1"))
	deposit := signertest.IssueAddress(t, s, signertest.Deposit("org_1", "ann"))
	depositRef, treasuryRef := signertest.Deposit("org_1", "ann"), signertest.Treasury("org_1")
	for _, purpose := range []signer.Purpose{signer.GrantAllowance, signer.RevokeAllowance} {
		intent := func(id string) signer.Intent {
			return signer.Intent{
				ID: fmt.Sprint(purpose, " ", id), Purpose: purpose, Chain: signertest.Chain, From: treasuryRef,
				To: evmtx.PayoutContract, Contract: signertest.Token, MintID: 1,
			}
		}
		for name, c := range map[string]struct {
			change func(*signer.Intent)
			want   string
		}{
			"another address": {func(i *signer.Intent) { i.To = deposit }, signer.RefusedDestination},
			"an own wallet": {
				func(i *signer.Intent) { i.To, i.ToWallet = deposit, &depositRef }, signer.RefusedDestination,
			},
			"a customer's address": {func(i *signer.Intent) { i.From = depositRef }, signer.RefusedWallet},
			"coin":                 {func(i *signer.Intent) { i.Contract = "" }, signer.RefusedDestination},
			"an amount":            {func(i *signer.Intent) { i.Amount = money.Units(1) }, signer.RefusedMalformed},
			"a customer":           {func(i *signer.Intent) { i.CustomerID = "ann" }, signer.RefusedMalformed},
			"a row": {
				func(i *signer.Intent) { i.Batch = &signer.BatchRow{BatchID: "b", Row: 1} }, signer.RefusedMalformed,
			},
		} {
			i := intent(name)
			c.change(&i)
			if _, err := s.AdmitIntent(t.Context(), i); refusal(err) != c.want {
				t.Errorf("%s of %s: got %v, want it refused with %s", purpose, name, err, c.want)
			}
		}
		i := intent("right")
		if _, err := s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		nonce := uint64(0)
		if purpose == signer.RevokeAllowance {
			nonce = 1
		}
		p := chain.Payment{From: from, To: i.To, Contract: i.Contract}
		p.GrantsAllowance = purpose == signer.GrantAllowance
		p.RevokesAllowance = !p.GrantsAllowance
		opposite := p
		opposite.GrantsAllowance, opposite.RevokesAllowance = p.RevokesAllowance, p.GrantsAllowance
		pays := chain.Payment{From: from, To: deposit, Contract: i.Contract, Amount: money.Units(1)}
		for name, other := range map[string]chain.Payment{"its opposite": opposite, "a payment": pays} {
			err := signTogether(t, s, from, nonce, []signer.Intent{i}, []chain.Payment{other})
			if refusal(err) != signer.RefusedPayload {
				t.Errorf("%s for %s: got %v, want it refused with %s", name, purpose, err, signer.RefusedPayload)
			}
		}
		if err := signTogether(t, s, from, nonce, []signer.Intent{i}, []chain.Payment{p}); err != nil {
			t.Errorf("%s: got %v, want a signature", purpose, err)
		}
	}
	// An allowance in the slot of a payment is no payment.
	row := newRow("pb_1", 1)
	if _, err := s.AdmitIntent(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	allowance := chain.Payment{From: from, To: evmtx.PayoutContract, Contract: signertest.Token, GrantsAllowance: true}
	err := signTogether(t, s, from, 2, []signer.Intent{row}, []chain.Payment{allowance})
	if refusal(err) != signer.RefusedPayload {
		t.Errorf("an allowance for a payment: got %v, want it refused with %s", err, signer.RefusedPayload)
	}
}
