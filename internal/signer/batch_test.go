package signer_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/signer"
)

type (
	list  = []contenthash.Row
	proof = signer.BatchGrant
)

const (
	batchMaker    = "MEMBER mem_maker"
	firstApprover = "MEMBER mem_1"
	nextApprover  = "MEMBER mem_2"
)

var batchPayees = []chain.Address{
	"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
	"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
}

// newBatch returns three rows as people approve them. The first and the third pay one amount.
func newBatch() []contenthash.Row {
	var rows []contenthash.Row
	for i, payee := range batchPayees {
		rows = append(rows, contenthash.Row{
			Number: i + 1, Salt: bytes.Repeat([]byte{byte(i + 1)}, contenthash.SaltBytes), MintID: 2, Chain: chain.Base,
			Contract: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", ToAddress: payee,
			Amount: money.Units(uint64(1000 + i%2)), CustomerID: "label", Reference: "ref", IsIncluded: true,
		})
	}
	return rows
}

// sealBatch returns the header of rows and the proof of one of them.
func sealBatch(t *testing.T, rows []contenthash.Row, number int) (contenthash.Header, signer.BatchGrant) {
	t.Helper()
	h, err := contenthash.Seal("org_1", "bp_1", contenthash.Strict, batchMaker, rows)
	if err != nil {
		t.Fatal(err)
	}
	var leaves []contenthash.Hash
	for _, r := range rows {
		leaves = append(leaves, r.ComputeLeaf())
	}
	return h, signer.NewBatchGrant(h, rows[number-1], contenthash.ComputePath(leaves, number-1))
}

// newRowIntent returns the payment of a row, without a grant.
func newRowIntent(row contenthash.Row, hash contenthash.Hash) signer.Intent {
	return signer.Intent{
		ID: signer.BatchWithdrawalID("org_1", "bp_1", row.Number), Purpose: signer.Payment, Chain: row.Chain,
		From: signer.WalletRef{OrgID: "org_1", Family: chain.EVM, Purpose: signer.TreasuryPurpose}, To: row.ToAddress,
		Contract: row.Contract, MintID: row.MintID, Amount: row.Amount, Product: signer.BatchProduct,
		Batch: &signer.BatchRow{BatchID: "bp_1", Row: row.Number, ContentHash: hash},
	}
}

// grantRow grants a payment with the approvals of people over a hash, as the service does for whatever its database
// says.
func grantRow(
	key *signer.GrantKey, intent signer.Intent, p proof, hash contenthash.Hash, people ...string,
) signer.Intent {
	var approvals []signer.Approval
	for _, name := range people {
		approvals = append(approvals, key.MakeBatchApproval(hash, name))
	}
	intent.Grant = key.MakeBatchGrant(termsOf(intent), p, 2, approvals)
	return intent
}

func wantGrantRefused(t *testing.T, key *signer.GrantKey, name string, intent signer.Intent, sentence string) {
	t.Helper()
	refusal := key.CheckGrant(intent)
	if refusal == nil || refusal.Code != signer.RefusedGrant || !strings.Contains(refusal.Message, sentence) {
		t.Errorf("%s: got %v, want %s with %q", name, refusal, signer.RefusedGrant, sentence)
	}
}

// Every row of an approved batch is paid, and its proof survives the way to the signer.
func TestTheRowsOfAnApprovedBatchAreGranted(t *testing.T) {
	t.Parallel()
	key, rows := newGrantKey(t, 7), newBatch()
	for _, r := range rows {
		h, proven := sealBatch(t, rows, r.Number)
		intent := grantRow(key, newRowIntent(r, h.ComputeHash()), proven, h.ComputeHash(), firstApprover, nextApprover)
		text, err := json.Marshal(intent)
		if err != nil {
			t.Fatal(err)
		}
		var read signer.Intent
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		if refusal := key.CheckGrant(read); refusal != nil {
			t.Errorf("row %d: got %v, want the grant to hold", r.Number, refusal)
		}
	}
}

// Whatever is changed in the stored rows after the approval, the signer refuses: the service, which trusts its
// database, makes the proof and the grant of what it finds there. Rule BP-3.
func TestNoFieldOfARowChangesAfterTheApproval(t *testing.T) {
	t.Parallel()
	key, approved := newGrantKey(t, 7), newBatch()
	h, _ := sealBatch(t, approved, 1)
	hash := h.ComputeHash()
	for name, change := range map[string]func(r list) list{
		"the mint":         func(r list) list { r[1].MintID = 3; return r },
		"the chain":        func(r list) list { r[1].Chain = chain.Ethereum; return r },
		"the contract":     func(r list) list { r[1].Contract = ""; return r },
		"the address":      func(r list) list { r[1].ToAddress = r[0].ToAddress; return r },
		"the amount":       func(r list) list { r[1].Amount = money.Units(1002); return r },
		"the label":        func(r list) list { r[1].CustomerID = "other"; return r },
		"the reference":    func(r list) list { r[1].Reference = "other"; return r },
		"the salt":         func(r list) list { r[1].Salt = r[0].Salt; return r },
		"a row in front":   func(r list) list { return append(list{r[0]}, r...) },
		"a row behind":     func(r list) list { return append(r, r[1]) },
		"a row is missing": func(r list) list { return r[:2] },
		"rows swapped":     func(r list) list { r[1], r[2] = r[2], r[1]; return r },
		"payees swapped": func(r list) list {
			r[1].ToAddress, r[2].ToAddress = r[2].ToAddress, r[1].ToAddress
			return r
		},
	} {
		rows := change(slices.Clone(newBatch()))
		for i := range rows {
			rows[i].Number = i + 1
		}
		changed, proven := sealBatch(t, rows, 2)
		// The header as the database has it now, whose hash no one approved.
		wantGrantRefused(t, key, name+", sealed again",
			grantRow(key, newRowIntent(rows[1], changed.ComputeHash()), proven, hash, firstApprover, nextApprover),
			"of another content")
		// The header that people approved, whose root the changed row does not lead to.
		proven.Header = h
		wantGrantRefused(t, key, name,
			grantRow(key, newRowIntent(rows[1], hash), proven, hash, firstApprover, nextApprover), "people approved it")
	}
}

func TestAProofIsOfOneRowOfOneBatch(t *testing.T) {
	t.Parallel()
	key, rows := newGrantKey(t, 7), newBatch()
	h, proven := sealBatch(t, rows, 2)
	hash := h.ComputeHash()
	people := []string{firstApprover, nextApprover}
	grant := func(intent signer.Intent, p proof) signer.Intent {
		return grantRow(key, intent, p, hash, people...)
	}
	valid := newRowIntent(rows[1], hash)
	for _, c := range []struct {
		name, sentence string
		change         func(i *signer.Intent, p *proof)
	}{
		{"another number", "people approved it", func(i *signer.Intent, _ *proof) { i.Batch.Row = 1 }},
		{"no number", "people approved it", func(i *signer.Intent, _ *proof) { i.Batch.Row = 0 }},
		{"a number beyond", "people approved it", func(i *signer.Intent, _ *proof) { i.Batch.Row = 4 }},
		{"another batch", "people approved batch", func(i *signer.Intent, _ *proof) { i.Batch.BatchID = "bp_2" }},
		{"another organization", "people approved batch", func(i *signer.Intent, _ *proof) { i.From.OrgID = "org_2" }},
		{"a second payment of the row", "has not the id", func(i *signer.Intent, _ *proof) { i.ID = "wd_2" }},
		{"the payment of another row", "has not the id", func(i *signer.Intent, _ *proof) {
			i.ID = signer.BatchWithdrawalID("org_1", "bp_1", 3)
		}},
		{"another hash", "another content", func(i *signer.Intent, _ *proof) { i.Batch.ContentHash[0] ^= 1 }},
		{"a changed path", "people approved it", func(_ *signer.Intent, p *proof) { p.Path[0][0] ^= 1 }},
		{"no path", "people approved it", func(_ *signer.Intent, p *proof) { p.Path = nil }},
		{"a deducted fee", "deducts a fee", func(i *signer.Intent, _ *proof) { i.FeeDeducted = money.Units(1) }},
	} {
		intent, p := valid, proven
		row := *valid.Batch
		intent.Batch, p.Path = &row, slices.Clone(proven.Path)
		c.change(&intent, &p)
		intent = grant(intent, p)
		if !intent.FeeDeducted.IsZero() { // the service's own grant deducts none
			intent.Amount = money.Units(1000)
		}
		refusal := key.CheckGrant(intent)
		if refusal == nil || refusal.Code != signer.RefusedGrant {
			t.Errorf("%s: got %v, want %s", c.name, refusal, signer.RefusedGrant)
			continue
		}
		if intent.FeeDeducted.IsZero() && !strings.Contains(refusal.Message, c.sentence) {
			t.Errorf("%s: got %v, want %q", c.name, refusal, c.sentence)
		}
		if c.name != "a changed path" && c.name != "no path" && intent.HasSameWords(valid) {
			t.Errorf("%s: is the same intent", c.name)
		}
	}
	out := newBatch()
	out[1].IsIncluded = false
	shown, leftOut := sealBatch(t, out, 2)
	wantGrantRefused(t, key, "a row that is left out", grantRow(key, newRowIntent(out[1], shown.ComputeHash()), leftOut,
		shown.ComputeHash(), people...), "people approved it")
	remarked, terms := valid, termsOf(valid)
	terms.Memo = "m"
	remarked.Grant = key.MakeBatchGrant(terms, proven, 1, []signer.Approval{key.MakeBatchApproval(hash, firstApprover)})
	wantGrantRefused(t, key, "a row with a memo", remarked, "people approved it")
	plain := grant(valid, proven)
	plain.Batch = nil
	wantGrantRefused(t, key, "as no row", plain, "differs from its grant")
	unproven := valid
	unproven.Grant = key.MakeGrant(termsOf(valid), money.Zero, 0, 0, nil)
	wantGrantRefused(t, key, "with the grant of another payment", unproven, "does not prove it")
	strange := valid
	strange.Batch = nil
	strange.Grant = key.MakeBatchGrant(termsOf(strange), proven, 1, nil)
	wantGrantRefused(t, key, "the proof on another payment", strange, "is no row of a batch")
}

func TestABatchIsApprovedByOtherPeopleOverItsOwnHash(t *testing.T) {
	t.Parallel()
	key, rows := newGrantKey(t, 7), newBatch()
	h, proven := sealBatch(t, rows, 1)
	hash, older := h.ComputeHash(), h
	older.Root[0] ^= 1
	intent := newRowIntent(rows[0], hash)
	wantGrantRefused(t, key, "one person", grantRow(key, intent, proven, hash, firstApprover), "approvals of 2 people")
	wantGrantRefused(t, key, "one person twice", grantRow(key, intent, proven, hash, firstApprover, firstApprover),
		"approvals of 2 people")
	wantGrantRefused(t, key, "the maker", grantRow(key, intent, proven, hash, firstApprover, nextApprover, batchMaker),
		"who made the batch")
	wantGrantRefused(t, key, "an older hash",
		grantRow(key, intent, proven, older.ComputeHash(), firstApprover, nextApprover), "of another content")
	unapproved := intent
	unapproved.Grant = key.MakeBatchGrant(termsOf(intent), proven, 0, nil)
	if refusal := key.CheckGrant(unapproved); refusal != nil || !unapproved.IsUnapproved() {
		t.Errorf("no one: got %v, want it left to the limits of batches that no person approved", refusal)
	}
	recorded := unapproved
	if recorded.Grant = recorded.Grant.Recorded(); !recorded.IsUnapproved() || recorded.Grant.MAC != nil {
		t.Errorf("got %+v in the journal, want that no person approved it, and nothing that grants it", recorded.Grant)
	}
	lowered := grantRow(key, intent, proven, hash, firstApprover, nextApprover)
	lowered.Grant.Required = 0
	wantGrantRefused(t, key, "no one any more", lowered, "number of needed approvals")
	if approved := grantRow(key, intent, proven, hash, firstApprover, nextApprover); approved.IsUnapproved() ||
		approved.Grant.Recorded() != nil {
		t.Error("a row that people approved counts as one that no person approved")
	}
	claimed := intent
	claimed.Grant = &signer.Grant{IsUnapproved: true}
	wantGrantRefused(t, key, "the record of a journal", claimed, "differs from its grant")
	// The header is sealed by a server that lies: its totals leave the mint out.
	untold := h
	untold.Totals = nil
	lying := newRowIntent(rows[0], untold.ComputeHash())
	short := proven
	short.Header = untold
	lying.Grant = key.MakeBatchGrant(termsOf(lying), short, 0, nil)
	wantGrantRefused(t, key, "a header without the mint", lying, "more than all that the batch pays")
	other := grantRow(newGrantKey(t, 8), intent, proven, hash, firstApprover, nextApprover)
	wantGrantRefused(t, key, "another key", other, "differs from its grant")
	ofTerms := intent
	ofTerms.Grant = key.MakeBatchGrant(termsOf(intent), proven, 2, []signer.Approval{
		key.MakeApproval(termsOf(intent), 0, firstApprover), key.MakeApproval(termsOf(intent), 0, nextApprover),
	})
	wantGrantRefused(t, key, "approvals of the withdrawal alone", ofTerms, "of another content")
	fewer := grantRow(key, intent, proven, hash, firstApprover)
	fewer.Grant.Required = 1
	wantGrantRefused(t, key, "a smaller number", fewer, "number of needed approvals")
	renamed := grantRow(key, intent, proven, hash, firstApprover, batchMaker)
	renamed.Grant.Batch.Header.MadeBy = "MEMBER mem_9"
	wantGrantRefused(t, key, "a renamed maker", renamed, "differs from its grant")
}

func TestASubmittedBatchKeepsItsQuorum(t *testing.T) {
	t.Parallel()
	key := newGrantKey(t, 7)
	h, _ := sealBatch(t, newBatch(), 1)
	mac := key.BatchRequestMAC(h.ComputeHash(), 2)
	if !key.VerifyBatchRequest(h.ComputeHash(), 2, mac) {
		t.Error("the batch as it was submitted is not recognized")
	}
	other := h.ComputeHash()
	other[0] ^= 1
	if key.VerifyBatchRequest(h.ComputeHash(), 1, mac) || key.VerifyBatchRequest(other, 2, mac) {
		t.Error("fewer approvals or another content pass")
	}
}
