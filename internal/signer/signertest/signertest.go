// Package signertest defines what every signer has to guarantee, as a suite that each
// implementation passes. It also makes signers for the tests of their callers.
//
// It never uses a fixed key. A crash leaves a temporary directory.
package signertest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// The chain and addresses of the tests.
const (
	Chain        = chain.Ethereum
	ChainID      = 31337
	LimitedToken = chain.Address("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359") // a token with limits
	Token        = chain.Address("0x8617E340B3D01FA5F11F306F4090FD50E238070D") // a token without limits
	Stranger     = chain.Address("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed") // an address outside the installation
)

// The limits of LimitedToken, in atomic units, and the fees of the chain, in wei.
var (
	PaymentMax      = money.Units(100)
	OrganizationMax = money.Units(250)
	OverallMax      = money.Units(400)
	FeeMax          = money.MustParse("10000000000000000")
	GasMax          = money.MustParse("1000000000000000000")
)

// NewPolicy returns the policy that the suite expects.
func NewPolicy() signpolicy.Policy {
	c := signpolicy.Chain{
		SignerID: "31337", FeeMax: FeeMax, GasMax: GasMax,
		Assets: map[chain.Address]signpolicy.Limit{
			"":           {Unlimited: true},
			Token:        {Unlimited: true},
			LimitedToken: {PaymentMax: PaymentMax, OrganizationMax: OrganizationMax, OverallMax: OverallMax},
		},
	}
	return signpolicy.Policy{
		WhitelistCoolingOff: "0s", Swaps: newSwaps(), Chains: map[chain.Name]signpolicy.Chain{Chain: c},
	}
}

// Open makes a signer with a seed and a journal of its own, which closes at the end of the test,
// and returns the key that its proofs are checked with. A nil clock is the system's.
func Open(t testing.TB, policy signpolicy.Policy, clock func() time.Time) (*local.Signer, ed25519.PublicKey) {
	t.Helper()
	return openSigner(t, local.Config{Policy: policy, Clock: clock})
}

// NewWithGrants makes a signer like New that checks grants.
func NewWithGrants(t testing.TB, grants *signer.GrantKey) (*local.Signer, ed25519.PublicKey) {
	t.Helper()
	return openSigner(t, local.Config{
		Grants: grants,
		Policy: newUnlimitedPolicy(),
	})
}

// NewWithUnapproved makes a signer like NewWithGrants whose policy pays batches on Chain that no person approved.
func NewWithUnapproved(
	t testing.TB, grants *signer.GrantKey, limits map[chain.Address]signpolicy.UnapprovedLimit,
) (*local.Signer, ed25519.PublicKey) {
	t.Helper()
	policy := newUnlimitedPolicy()
	c := policy.Chains[Chain]
	c.UnapprovedBatches = limits
	policy.Chains[Chain] = c
	return openSigner(t, local.Config{Grants: grants, Policy: policy})
}

// OpenUnlimited makes a signer like New with a clock, that checks grants unless the key is nil.
func OpenUnlimited(
	t testing.TB, grants *signer.GrantKey, clock func() time.Time,
) (*local.Signer, ed25519.PublicKey) {
	t.Helper()
	return openSigner(t, local.Config{Grants: grants, Policy: newUnlimitedPolicy(), Clock: clock})
}

// OpenWithProvider makes a signer like OpenUnlimited whose policy has one more provider of swaps.
func OpenWithProvider(
	t testing.TB, grants *signer.GrantKey, clock func() time.Time, name string, p signpolicy.SwapProvider,
) (*local.Signer, ed25519.PublicKey) {
	t.Helper()
	policy := newUnlimitedPolicy()
	policy.Swaps.Providers[name] = p
	return openSigner(t, local.Config{Grants: grants, Policy: policy, Clock: clock})
}

func openSigner(t testing.TB, conf local.Config) (*local.Signer, ed25519.PublicKey) {
	t.Helper()
	seed, err := keys.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	conf.Journal = filepath.Join(t.TempDir(), "journal")
	if err := local.CreateJournal(conf, seed); err != nil {
		t.Fatal(err)
	}
	s, err := local.Open(conf, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the signer: %v", err)
		}
	})
	return s, seed.AttestKey().PublicKey()
}

// New makes a signer like Open without any limits on Chain.
func New(t testing.TB) (*local.Signer, ed25519.PublicKey) {
	t.Helper()
	return Open(t, newUnlimitedPolicy(), nil)
}

// newUnlimitedPolicy returns a policy without any limits on Chain.
func newUnlimitedPolicy() signpolicy.Policy {
	return signpolicy.Policy{
		WhitelistCoolingOff: "0s",
		Swaps:               NewSwaps(map[chain.Name][]chain.Address{Chain: {"", Token, LimitedToken}}),
		Chains: map[chain.Name]signpolicy.Chain{
			Chain: {SignerID: "31337", FeeMax: FeeMax, GasMax: GasMax, Unlimited: true},
		},
	}
}

// Treasury returns the reference of an organization's treasury.
func Treasury(org string) signer.WalletRef {
	return signer.WalletRef{OrgID: org, Family: chain.EVM, Purpose: "TREASURY"}
}

// Deposit returns the reference of a customer's deposit wallet.
func Deposit(org, customer string) signer.WalletRef {
	return signer.WalletRef{OrgID: org, Family: chain.EVM, Purpose: "CUSTOMER_DEPOSIT", Subject: customer}
}

// KeyHash returns the idempotency key hash of an intent with this id: each has its own.
func KeyHash(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// IssueAddress returns the address of a wallet.
func IssueAddress(t testing.TB, s signer.Signer, w signer.WalletRef) chain.Address {
	t.Helper()
	issued, err := s.IssueAddress(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return issued.Address
}

// UsualFees returns fees within the policy.
func UsualFees() chain.Fees {
	return chain.Fees{GasLimit: 90_000, TipCap: money.Units(1_000_000_000), FeeCap: money.Units(30_000_000_000)}
}

// BuildPayload returns the unsigned transaction of a payment; a nil payment is a cancel.
func BuildPayload(t testing.TB, from chain.Address, p *chain.Payment, nonce uint64, fees chain.Fees) []byte {
	t.Helper()
	tx, err := evmtx.NewPaymentTx(ChainID, from, p, nonce, fees)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tx.Payload()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// IntentPayload returns the payload of an intent that is paid from an address.
func IntentPayload(t testing.TB, intent signer.Intent, from chain.Address, nonce uint64, fees chain.Fees) []byte {
	t.Helper()
	return BuildPayload(t, from, &chain.Payment{
		From: from, To: intent.To, Contract: intent.Contract,
		Amount: intent.Amount,
	}, nonce, fees)
}
