package local_test

import (
	"errors"
	"testing"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// Rule DEP-31: a flagged deposit goes only where the holder of the grant key sends it, whatever the
// rows of the database say.
func TestAReturnGoesOnlyWhereItWasSent(t *testing.T) {
	t.Parallel()
	key, err := signer.NewGrantKey(make([]byte, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := signertest.NewWithGrants(t, key)
	from := signertest.Deposit("org_1", "alice")
	if _, err := s.IssueAddress(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	i := signer.Intent{
		ID: "res_1", Purpose: signer.Return, Chain: signertest.Chain, From: from, To: signertest.Stranger,
		Contract: signertest.LimitedToken, Amount: money.Units(5), MintID: 1,
	}
	terms := signer.Terms{
		OrgID: from.OrgID, WithdrawalID: i.ID, Chain: i.Chain, MintID: i.MintID, Contract: i.Contract, To: i.To,
		Amount: i.Amount,
	}
	refused := func(name string, i signer.Intent) {
		t.Helper()
		var no *signer.Refusal
		if _, err := s.AdmitIntent(t.Context(), i); !errors.As(err, &no) || no.Code != signer.RefusedGrant {
			t.Errorf("%s: got %v, want a refusal of its grant", name, err)
		}
	}
	refused("without a grant", i)
	i.Grant = key.MakeGrant(terms, money.Zero, 0, 0, nil)
	more := i
	more.Amount = money.Units(6)
	refused("of more", more)
	other := i
	other.ID = "res_2"
	refused("for another resolution", other)
	if _, err := s.AdmitIntent(t.Context(), i); err != nil {
		t.Errorf("as it was sent: got %v, want it admitted", err)
	}
}
