package verify

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/signer"
)

// Rule DEP-35.
func TestAFlagThatWasChangedIsSeenByWhoHasTheKey(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	k, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	h.exec(
		`UPDATE deposits SET is_flagged = true, flagged_at = now(), risk_of_funds = 'HIGH', flag_reason = '{"sanctioned": true}', return_to = from_address, return_risk = 'NONE' WHERE deposit_id = 'dep_token'`,
	)
	f := signer.FlaggedDeposit{
		OrgID: h.org, DepositID: "dep_token", Chain: chain.Ethereum, ReturnRisk: "NONE", Sanctioned: true,
	}
	if err := h.owner.QueryRow(
		t.Context(), `SELECT wallet_id, mint_id, amount, return_to FROM deposits WHERE deposit_id = 'dep_token'`,
	).
		Scan(&f.WalletID, &f.MintID, &f.Amount, &f.ReturnTo); err != nil {
		t.Fatal(err)
	}
	h.exec(`UPDATE deposits SET return_mac = $1 WHERE deposit_id = 'dep_token'`, k.FlagMAC(f))
	seen := func() bool {
		t.Helper()
		r, err := RunChecks(t.Context(), h.db, WithGrants(k))
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(r.Breaches, func(b Breach) bool {
			return b.Check == "I-30-bound" && b.Subject == "deposit dep_token"
		})
	}
	if seen() {
		t.Error("as it was flagged: got a breach, want none")
	}
	for name, c := range map[string][2]string{
		"sender": {
			`return_to = 'thief', from_address = 'thief'`,
			`return_to = '` + f.ReturnTo + `', from_address = '` + f.ReturnTo + `'`,
		},
		"senders": {
			`senders = ARRAY['somebody', 'thief'], from_address = ''`,
			`senders = NULL, from_address = '` + f.ReturnTo + `'`,
		},
		"amount":     {`amount = amount + 1`, `amount = amount - 1`},
		"the list":   {`flag_reason = '{}'`, `flag_reason = '{"sanctioned": true}'`},
		"unreadable": {`flag_reason = '7'`, `flag_reason = '{"sanctioned": true}'`},
	} {
		h.exec(`UPDATE deposits SET ` + c[0] + ` WHERE deposit_id = 'dep_token'`)
		if !seen() {
			t.Errorf("%s: got no breach of I-30-bound", name)
		}
		h.exec(`UPDATE deposits SET ` + c[1] + ` WHERE deposit_id = 'dep_token'`)
	}
	if seen() {
		t.Error("as it was flagged, again: got a breach, want none")
	}
}
