package ownaccounts_test

import (
	"errors"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/ownaccounts"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// An allowance is granted of the tokens that the policy names, and is of the treasury alone. One of another token can
// still be taken back. Rule BP-24.
func TestAnAllowanceIsOfATokenOfThePolicy(t *testing.T) {
	t.Parallel()
	const other = chain.Address("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359")
	policy := signpolicy.Chain{Assets: map[chain.Address]signpolicy.Limit{signertest.Token: {Unlimited: true}}}
	treasury := signertest.Treasury("org_1")
	for name, c := range map[string]struct {
		purpose signer.Purpose
		change  func(*signer.Intent)
		want    string
	}{
		"a token of the policy": {signer.GrantAllowance, func(*signer.Intent) {}, ""},
		"another token": {
			signer.GrantAllowance, func(i *signer.Intent) { i.Contract = other }, signer.PolicyLimit,
		},
		"the end of another token's": {signer.RevokeAllowance, func(i *signer.Intent) { i.Contract = other }, ""},
		"of another payer": {
			signer.GrantAllowance, func(i *signer.Intent) { i.Payer = &treasury }, signer.RefusedWallet,
		},
		"of a wallet as its payee": {
			signer.GrantAllowance, func(i *signer.Intent) { i.ToWallet = &treasury }, signer.RefusedDestination,
		},
		"of an address of a customer": {
			signer.GrantAllowance, func(i *signer.Intent) { i.From = signertest.Deposit("org_1", "ann") },
			signer.RefusedWallet,
		},
	} {
		i := signer.Intent{
			ID: "al_1", Purpose: c.purpose, Chain: signertest.Chain, From: treasury, To: evmtx.PayoutContract,
			Contract: signertest.Token, MintID: 1,
		}
		c.change(&i)
		err := ownaccounts.CheckAllowance(i, policy)
		var refusal *signer.Refusal
		got := ""
		if errors.As(err, &refusal) {
			got = refusal.Code
		}
		if got != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
