package local_test

import (
	"crypto/ed25519"
	"fmt"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id/idtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// The signer never confuses organizations, customers, intents or whitelist entries with similar
// ids: not for its keys, not in its journal, and not for its limits.
func TestTheSignerTakesNoIdForAnother(t *testing.T) {
	t.Parallel()
	seed, err := keys.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	// A key's path depends on where its words end: one word may end where another begins.
	owners := map[chain.Address]signer.WalletRef{}
	said := map[string]signer.WalletRef{}
	for i, orgID := range idtest.Alike {
		for j, subject := range idtest.Alike {
			ref := signer.WalletRef{OrgID: orgID, Family: chain.EVM, Purpose: "CUSTOMER_DEPOSIT", Subject: subject}
			bytes := string(signer.AttestedBytes(ref, "m", signertest.Stranger))
			if other, taken := said[bytes]; taken {
				t.Errorf("%+v is attested by the words of %+v", ref, other)
			}
			said[bytes] = ref
			if i%8 != 0 && j%8 != 0 {
				continue // deriving a key takes time
			}
			address, err := seed.DeriveAddress(ref)
			if err != nil {
				t.Fatal(err)
			}
			if other, taken := owners[address]; taken {
				t.Errorf("%+v has the key of %+v", ref, other)
			}
			owners[address] = ref
		}
	}

	policy := signertest.NewPolicy().Chains[signertest.Chain]
	policy.Assets[signertest.LimitedToken] = signpolicy.Limit{
		PaymentMax:      signertest.PaymentMax,
		OrganizationMax: signertest.OrganizationMax, OverallMax: money.Units(1_000_000),
	}
	s, attest := signertest.Open(t, signpolicy.Policy{
		WhitelistCoolingOff: "0s",
		Chains:              map[chain.Name]signpolicy.Chain{signertest.Chain: policy},
	}, nil)
	wallets := map[string]signer.IssuedAddress{}
	for range 2 { // the second time each one is found
		for i, id := range idtest.Alike {
			issued, err := s.IssueAddress(t.Context(), signertest.Deposit(org, id))
			if err != nil {
				t.Fatal(err)
			}
			if known, before := wallets[id]; before && known.Address != issued.Address {
				t.Errorf("%q: got %s and then %s", id, known.Address, issued.Address)
			}
			wallets[id] = issued
			for _, other := range []string{id, idtest.Alike[(i+1)%len(idtest.Alike)]} {
				proven := ed25519.Verify(attest, signer.AttestedBytes(signertest.Deposit(org, other), issued.Path,
					issued.Address), issued.Proof)
				if proven != (other == id) {
					t.Errorf("the address of %q as one of %q: got it proven: %v", id, other, proven)
				}
			}
		}
	}

	// Payments of one organization count for no other, and an intent is identified by its whole id.
	signertest.IssueAddress(t, s, signertest.Treasury(org))
	for i, id := range idtest.Alike {
		signertest.IssueAddress(t, s, signertest.Treasury(id))
		pay := func(intent, orgID string, contract chain.Address, amount uint64) error {
			_, err := s.AdmitIntent(t.Context(), signer.Intent{
				ID: intent, Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury(orgID),
				To: signertest.Stranger, Contract: contract,
				Amount: money.Units(amount), CustomerID: id, MintID: 2, IdempotencyKeyHash: signertest.KeyHash(intent),
			})
			return err
		}
		for n := range 3 {
			if err := pay(fmt.Sprintf("wd_%d_%d", i, n), id, signertest.LimitedToken, 100); (err == nil) != (n < 2) ||
				n == 2 && refusal(err) != signer.PolicyLimit {
				t.Errorf("payment %d of %q: got %v, want two within its own limit", n+1, id, err)
			}
		}
		if err := pay(id, org, signertest.Token, uint64(i)+1); err != nil {
			t.Errorf("an intent %q: got %v, want it admitted beside the others", id, err)
		}
		if err := pay(id, org, signertest.Token, uint64(i)+2); refusal(err) == "" {
			t.Errorf("an intent %q of another amount: got no refusal", id)
		}
	}

	// Exactly the named address is removed from the whitelist.
	for _, id := range idtest.Alike {
		signertest.EndorseAddress(t, s, org, id, signertest.Stranger)
	}
	for i, id := range idtest.Alike {
		if i%2 == 1 {
			if _, err := s.RevokeEndorsement(t.Context(), signer.Revocation{OrgID: org, ID: id}); err != nil {
				t.Fatalf("revoke %q: %v", id, err)
			}
		}
	}
	for i, id := range idtest.Alike {
		_, err := s.AdmitIntent(t.Context(), signer.Intent{
			ID: fmt.Sprintf("own_%d", i), Purpose: signer.Payment, Chain: signertest.Chain,
			From: signertest.Treasury(org), To: signertest.Stranger, Contract: signertest.Token,
			Amount: money.Units(1), WhitelistedID: id, Product: "CUSTODIAL", MintID: 2,
		})
		if (err == nil) != (i%2 == 0) {
			t.Errorf("to the whitelisted address %q, removed: %v: got %v", id, i%2 == 1, err)
		}
	}
}

// The approval of one swap pays for no other of a similar id, and each pays once.
func TestThePayoutOfASwapIsTakenForNoOther(t *testing.T) {
	t.Parallel()
	s, _ := signertest.New(t)
	signertest.EndorseAddress(t, s, org, "wla_1", signertest.Stranger)
	for i, id := range idtest.Alike {
		swap, payout := signertest.NewOrganizationSwap(t, s, org, id, signertest.Token, "wla_1", time.Now())
		signed := swap.SignQuote(t)
		if i%2 == 0 {
			if _, err := s.AdmitIntent(t.Context(), signertest.GrantPayout(nil, signed, payout, 1)); err != nil {
				t.Fatalf("the swap %q: %v", id, err)
			}
			signertest.SignPayment(t, s, signed, uint64(i))
		}
		for n := range 2 {
			paid := signertest.NewPayout(signed, payout, fmt.Sprintf("paid_%d_%d", i, n), 990)
			_, err := s.AdmitIntent(t.Context(), signertest.GrantPayout(nil, paid, payout, 1))
			isFirst := i%2 == 0 && n == 0
			if (err == nil) != isFirst || !isFirst && refusal(err) != signer.RefusedGrant {
				t.Errorf("payout %d of swap %q, admitted: %v: got %v", n+1, id, i%2 == 0, err)
			}
		}
	}
}
