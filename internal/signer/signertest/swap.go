package signertest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// SwapProvider is the swap provider that the policies of this package name.
const SwapProvider = "ONE_CLICK"

// SwapProviderKey signs the quotes of SwapProvider. Each process has another one.
var SwapProviderKey = newSwapProviderKey()

func newSwapProviderKey() ed25519.PrivateKey {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic("signertest: no key for a swap provider: " + err.Error())
	}
	return key
}

// SwapAsset returns the name that SwapProvider has for a token, such as test:ethereum:native.
func SwapAsset(name chain.Name, contract chain.Address) string {
	return "test:" + strings.ToLower(signpolicy.TokenKey(name, contract))
}

// NewSwaps returns a policy that lets SwapProvider be paid with each of the tokens, without limits.
func NewSwaps(tokens map[chain.Name][]chain.Address) *signpolicy.Swaps {
	p := signpolicy.SwapProvider{
		Scheme: signedquote.OneClickV0, Keys: []string{quotetest.FormatOneClickKey(SwapProviderKey)},
		Assets: map[string]string{}, Limits: map[string]signpolicy.Limit{},
	}
	for _, name := range slices.Sorted(maps.Keys(tokens)) {
		for _, contract := range tokens[name] {
			key := signpolicy.TokenKey(name, contract)
			p.Assets[key], p.Limits[key] = SwapAsset(name, contract), signpolicy.Limit{Unlimited: true}
		}
	}
	return &signpolicy.Swaps{Providers: map[string]signpolicy.SwapProvider{SwapProvider: p}}
}

// newSwaps returns the policy of swaps on Chain. LimitedToken has the limits that it has for payments.
func newSwaps() *signpolicy.Swaps {
	swaps := NewSwaps(map[chain.Name][]chain.Address{Chain: {"", Token, LimitedToken}})
	swaps.Providers[SwapProvider].Limits[signpolicy.TokenKey(Chain, LimitedToken)] = signpolicy.Limit{
		PaymentMax: PaymentMax, OrganizationMax: OrganizationMax, OverallMax: OverallMax,
	}
	return swaps
}

// SwapWallets returns the references of the wallets of a swap between two families.
func SwapWallets(org, swapID string, from, to chain.Family) (delivery, refund signer.WalletRef) {
	return signer.WalletRef{OrgID: org, Family: to, Purpose: signer.SwapDeliveryPurpose, Subject: swapID},
		signer.WalletRef{OrgID: org, Family: from, Purpose: signer.SwapRefundPurpose, Subject: swapID}
}

// SwapDepositAddress returns an address outside the installation, another one for each word.
func SwapDepositAddress(word string) chain.Address {
	sum := sha256.Sum256([]byte(word))
	return chain.Address(common.BytesToAddress(sum[:20]).Hex())
}

// SwapPayment is a payment to SwapProvider, and what the provider signs for it. A test changes one of them.
type SwapPayment struct {
	Intent signer.Intent
	Quote  quotetest.OneClick
	Key    ed25519.PrivateKey // that signs the quote
}

// NewSwapPayment issues the wallets that a swap of a customer needs, and returns a payment of so many units of a
// token that may be signed for half an hour from now. The swap buys the native coin, or Token with it.
func NewSwapPayment(
	t testing.TB, s signer.Signer, org, id string, contract chain.Address, units uint64, now time.Time,
) SwapPayment {
	t.Helper()
	delivery, refund := SwapWallets(org, id, chain.EVM, chain.EVM)
	IssueAddress(t, s, Treasury(org))
	bought := chain.Address("")
	if contract == "" {
		bought = Token
	}
	deposit := SwapDepositAddress(org + " " + id)
	w := SwapPayment{
		Key: SwapProviderKey,
		Intent: signer.Intent{
			ID: id, Purpose: signer.SwapPayment, Chain: Chain, From: Treasury(org), To: deposit, Contract: contract,
			Amount: money.Units(units), CustomerID: "alice", MintID: 2,
			Swap: &signer.SwapTerms{
				Provider: SwapProvider, Scheme: signedquote.OneClickV0, Delivery: delivery, Refund: refund,
				ToMintID: 1, ToChain: Chain, ToContract: bought, EstimatedOut: money.Units(1000),
				MinOut: money.Units(980), PayBy: signer.FormatMicros(now.Add(30 * time.Minute)),
			},
		},
		Quote: quotetest.OneClick{
			DepositAddress: string(deposit), OriginAsset: SwapAsset(Chain, contract),
			DestinationAsset: SwapAsset(Chain, bought), AmountIn: money.Units(units), AmountOut: money.Units(1000),
			MinAmountOut: money.Units(990), AmountInUSD: "10.00", AmountOutUSD: "9.90",
			Recipient: string(IssueAddress(t, s, delivery)), RefundTo: string(IssueAddress(t, s, refund)),
			SlippageBps: 100, SignedAt: now, Deadline: now.Add(2 * time.Hour),
		},
	}
	return w
}

// SignQuote returns the payment with its signed quote.
func (w SwapPayment) SignQuote(t testing.TB) signer.Intent {
	t.Helper()
	intent, terms := w.Intent, *w.Intent.Swap
	terms.SignedQuote = w.Quote.Sign(t, w.Key)
	intent.Swap = &terms
	return intent
}

// GrantSwap returns a payment to a swap provider with the grant of one that needed no approval.
func GrantSwap(k *signer.GrantKey, intent signer.Intent) signer.Intent {
	intent.Grant = k.MakeGrant(signer.Terms{
		OrgID: intent.From.OrgID, WithdrawalID: intent.ID, Chain: intent.Chain, MintID: intent.MintID,
		Contract: intent.Contract, To: intent.To, Amount: intent.Amount, FeeMode: "ORGANIZATION",
		FeeMax: intent.FeeMax, Product: intent.Product, Swap: intent.Swap,
	}, money.Zero, 0, 0, nil)
	return intent
}

// NewOrganizationSwap is NewSwapPayment of a product, and what people approve of it: the output is paid to Stranger
// by the whitelist entry, with 980 to 1100 units, within two days.
func NewOrganizationSwap(
	t testing.TB, s signer.Signer, org, id string, contract chain.Address, whitelistedID string, now time.Time,
) (SwapPayment, signer.SwapPayout) {
	t.Helper()
	swap := NewSwapPayment(t, s, org, id, contract, 1000, now)
	swap.Intent.CustomerID, swap.Intent.Product = "", "CUSTODIAL"
	return swap, signer.SwapPayout{
		OrgID: org, SwapID: id, Product: swap.Intent.Product, FromMintID: swap.Intent.MintID,
		ToMintID: swap.Intent.Swap.ToMintID, AmountIn: swap.Intent.Amount, MinOut: swap.Intent.Swap.MinOut,
		MaxOut: money.Units(1100), WhitelistedID: whitelistedID, To: Stranger,
		NotAfter: signer.FormatMicros(now.Add(48 * time.Hour)),
	}
}

// NewPayout returns the payment of what an organization's swap brought.
func NewPayout(swap signer.Intent, payout signer.SwapPayout, id string, units uint64) signer.Intent {
	return signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: swap.Swap.ToChain, From: Treasury(payout.OrgID), To: payout.To,
		Contract: swap.Swap.ToContract, Amount: money.Units(units), MintID: payout.ToMintID,
		IdempotencyKeyHash: KeyHash(id), Product: payout.Product, WhitelistedID: payout.WhitelistedID,
	}
}

// SignPayment signs the payment of an admitted intent in a slot.
func SignPayment(t testing.TB, s signer.Signer, intent signer.Intent, nonce uint64) {
	t.Helper()
	_, err := s.Sign(t.Context(), signer.SignRequest{
		IntentID: intent.ID, Slot: signer.Slot{Nonce: nonce}, Act: signer.Pay,
		Payload: IntentPayload(t, intent, IssueAddress(t, s, intent.From), nonce, UsualFees()),
	})
	if err != nil {
		t.Fatalf("sign %s: %v", intent.ID, err)
	}
}

// GrantPayout returns an intent with the grant of an organization's swap that needs some approvals, and has those of
// these people. Without a key the grant has no MAC, as a signer without a key admits it.
func GrantPayout(
	k *signer.GrantKey, intent signer.Intent, payout signer.SwapPayout, required int, approvers ...string,
) signer.Intent {
	if k == nil {
		intent.Grant = &signer.Grant{Required: required, Payout: &payout}
		return intent
	}
	total, err := intent.Amount.Add(intent.FeeDeducted)
	if err != nil {
		panic("signertest: " + err.Error())
	}
	var approvals []signer.Approval
	for _, approver := range approvers {
		approvals = append(approvals, k.MakePayoutApproval(payout, approver))
	}
	intent.Grant = k.MakePayoutGrant(signer.Terms{
		OrgID: intent.From.OrgID, WithdrawalID: intent.ID, Chain: intent.Chain, MintID: intent.MintID,
		Contract: intent.Contract, To: intent.To, Amount: total, FeeMode: "ORGANIZATION", FeeMax: intent.FeeMax,
		Product: intent.Product, WhitelistedID: intent.WhitelistedID, Swap: intent.Swap,
	}, payout, intent.FeeDeducted, required, approvals)
	return intent
}
