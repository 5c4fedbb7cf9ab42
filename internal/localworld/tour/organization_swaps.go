package tour

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/webhook"
)

const (
	swapProduct = "CUSTODIAL"
	// ownCoins are moved to the product, and ownThreshold separates the two swaps of them: the first is worth
	// about $300, and the second about $600.
	ownCoins, smallSwap, largeSwap = "0.35", "0.1", "0.2"
	ownThreshold                   = "500.00"
)

// swapSettings are the settings of swaps of the organization's own money.
type swapSettings struct {
	IsEnabled bool    `json:"organizationSwapsEnabled"`
	Threshold *string `json:"twoFactorUsdThreshold"`
}

// tourOrganizationSwaps shows swaps of the organization's own money, whose output goes to an address of the
// whitelist. It restores the settings at the end.
func (s *tourRun) tourOrganizationSwaps(ctx context.Context) (err error) {
	if !s.hasSwaps() {
		return nil
	}
	s.printTitle("The marketplace swaps its own ETH and has the USDC paid out")
	settings := "/organizations/" + url.PathEscape(s.Info.OrganizationID) + "/settings"
	var before swapSettings
	if err := s.operator.getJSON(ctx, settings, &before); err != nil {
		return err
	}
	threshold := ownThreshold
	if err := s.operator.sendJSON(ctx, http.MethodPatch, settings, swapSettings{true, &threshold}); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.operator.sendJSON(context.WithoutCancel(ctx), http.MethodPatch, settings, before))
	}()
	s.printStep("the operator allows these swaps; above $%s people have to approve", ownThreshold)
	if err := s.earnCoins(ctx); err != nil {
		return err
	}
	entry, err := s.listPayee(ctx)
	if err != nil {
		return err
	}
	small, err := s.requestOwnSwap(ctx, smallSwap, entry, "PENDING")
	if err != nil {
		return err
	}
	paid, err := s.completeOwnSwap(ctx, small, new(big.Int))
	if err != nil {
		return err
	}
	return s.tourApprovedSwap(ctx, entry, paid)
}

// tourApprovedSwap shows a swap above the threshold: the approval of a person covers its payment, too. paid is
// what the address has before.
func (s *tourRun) tourApprovedSwap(ctx context.Context, entry payee, paid *big.Int) error {
	s.printTitle("A larger one needs an approval")
	person := s.Info.Users[0].Email
	w, err := s.requestOwnSwap(ctx, largeSwap, entry, "AWAITING_APPROVAL")
	if err != nil {
		return err
	}
	if err := s.DecideSwap(ctx, person, w.SwapID, false); err != nil {
		return err
	}
	if err := s.api.getJSON(ctx, "/organization-swap/"+url.PathEscape(w.SwapID), &w); err != nil {
		return err
	}
	if w.Status != "REJECTED" || w.RefundStatus != "RESTORED" {
		return fmt.Errorf("the rejected swap is %+v", w)
	}
	s.printStep("rejected by %s: nothing left the product", person)
	if w, err = s.requestOwnSwap(ctx, largeSwap, entry, "AWAITING_APPROVAL"); err != nil {
		return err
	}
	if err := s.DecideSwap(ctx, person, w.SwapID, true); err != nil {
		return err
	}
	if err := s.DecideSwap(ctx, person, w.SwapID, true); err == nil {
		return fmt.Errorf("%s approved %s twice", person, w.SwapID)
	}
	s.printStep("approved by %s: the swap, and the payment of what it brings", person)
	_, err = s.completeOwnSwap(ctx, w, paid)
	return err
}

// earnCoins moves coins of the customer to the organization, as a charge does.
func (s *tourRun) earnCoins(ctx context.Context) error {
	var moved webhook.Transfer
	if err := s.api.postJSON(ctx, "/transfers", map[string]any{
		"mintId": s.ether.ID, "amount": ownCoins, "useDecimal": true, "idempotencyKey": "tour-" + randomHex(8),
		"from": map[string]any{"customerId": s.customer}, "to": map[string]any{"product": swapProduct},
	}, &moved); err != nil {
		return err
	}
	s.printStep("transfer %s: the customer pays the marketplace %s ETH", moved.TransferID, ownCoins)
	return nil
}

// payee is an address of the whitelist.
type payee struct {
	ID      string `json:"whitelistedAddressId"`
	Address string `json:"address"`
	Status  string `json:"status"`
}

// listPayee has the operator put a new address on the whitelist, and waits until it may be paid.
func (s *tourRun) listPayee(ctx context.Context) (entry payee, err error) {
	address, err := newSolanaAddress()
	if err != nil {
		return entry, err
	}
	path := "/organizations/" + url.PathEscape(s.Info.OrganizationID) + "/whitelisted-addresses"
	if err := s.operator.postJSON(ctx, path, map[string]any{
		"chain": "SOLANA", "address": address, "label": "The exchange of the tour",
	}, &entry); err != nil {
		return entry, err
	}
	listedID := entry.ID
	if err := s.waitUntil(ctx, "the address on the whitelist is usable", func() (bool, error) {
		var list struct {
			Data []payee `json:"data"`
		}
		err := s.api.getJSON(ctx, "/whitelisted-addresses?limit=200&order=desc", &list)
		for _, listed := range list.Data {
			if listed.ID == listedID {
				entry = listed
			}
		}
		return entry.Status == "USABLE", err
	}); err != nil {
		return entry, err
	}
	s.printStep("the operator puts %s on the whitelist, and the signer endorses it", entry.Address)
	return entry, nil
}

// requestOwnSwap requests a swap of the organization's ETH to USDC, twice with one key: there is one swap.
func (s *tourRun) requestOwnSwap(
	ctx context.Context, whole string, entry payee, status string,
) (w webhook.OrganizationSwap, err error) {
	planned, err := s.swapBetween("ETHEREUM", tokenAmount{s.ether.Symbol, whole}, "SOLANA", "USDC")
	if err != nil {
		return w, err
	}
	body := map[string]any{
		"product": swapProduct, "fromMintId": planned.source.ID, "toMintId": planned.destination.ID,
		"amountIn": planned.amount.String(), "whitelistedAddressId": entry.ID, "idempotencyKey": "tour-" + randomHex(8),
	}
	var replay webhook.OrganizationSwap
	if err := s.api.postJSON(ctx, "/organization-swap", body, &w); err != nil {
		return w, err
	}
	if err := s.api.postJSON(ctx, "/organization-swap", body, &replay); err != nil {
		return w, err
	}
	if replay.SwapID != w.SwapID {
		return w, fmt.Errorf("the same key made another swap, %s", replay.SwapID)
	}
	if w.Status != status || w.ToAddress != entry.Address || w.Product != swapProduct {
		return w, fmt.Errorf("the swap is %+v, want it %s", w, status)
	}
	s.printStep(
		"swap %s of %s ETH to at least %s USDC for %s: %s", w.SwapID, whole,
		formatWhole(w.MinAmountOut, planned.destination), w.ToAddress, w.Status,
	)
	return w, nil
}

// completeOwnSwap waits until the output of a swap is paid to the address, which had paid before. It returns
// what the address has then.
func (s *tourRun) completeOwnSwap(
	ctx context.Context, w webhook.OrganizationSwap, paid *big.Int,
) (*big.Int, error) {
	usdc, err := s.findMint("SOLANA", "USDC")
	if err != nil {
		return nil, err
	}
	var completed webhook.OrganizationSwap
	e, err := s.waitEvent(ctx, webhook.OrganizationSwapCompleted, &completed, func() bool {
		return completed.SwapID == w.SwapID
	})
	if err != nil {
		return nil, errors.Join(err, s.describeOwnSwap(ctx, w.SwapID))
	}
	if completed.Status != "COMPLETED" || completed.AmountOut == nil || completed.OriginTxHash == nil ||
		completed.DestinationTxHash == nil || completed.WithdrawalID == nil || completed.CompletedAt == nil {
		return nil, fmt.Errorf("ORGANIZATION_SWAP_COMPLETED has %+v", completed)
	}
	s.printStep("the treasury paid the provider by %s", *completed.OriginTxHash)
	s.printStep("the provider delivered %s USDC to the product by %s", formatWhole(*completed.AmountOut, usdc),
		*completed.DestinationTxHash)
	var payout webhook.Withdrawal
	if err := s.api.getJSON(ctx, "/withdrawals/"+url.PathEscape(*completed.WithdrawalID), &payout); err != nil {
		return nil, err
	}
	if payout.Status != "COMPLETED" || payout.ToAddress != w.ToAddress || payout.Amount != *completed.AmountOut {
		return nil, fmt.Errorf("the payment of the output is %+v", payout)
	}
	out, ok := new(big.Int).SetString(*completed.AmountOut, 10)
	if !ok {
		return nil, fmt.Errorf("%q is not an amount", *completed.AmountOut)
	}
	total := new(big.Int).Add(paid, out)
	held, err := s.Holds(ctx, usdc, w.ToAddress)
	if err != nil {
		return nil, err
	}
	if held.Big().Cmp(total) != 0 {
		return nil, fmt.Errorf("the address has %s on the chain, want exactly %s", held, total)
	}
	s.printStep(
		"ORGANIZATION_SWAP_COMPLETED number %d: withdrawal %s paid it; the address has exactly %s USDC on the chain",
		e.Sequence, *completed.WithdrawalID, held.Decimal(usdc.Decimals),
	)
	return total, s.checkNothingLeft(ctx, usdc)
}

// describeOwnSwap returns how far a swap has come, as an error.
func (s *tourRun) describeOwnSwap(ctx context.Context, swapID string) error {
	var w webhook.OrganizationSwap
	if err := s.api.getJSON(ctx, "/organization-swap/"+url.PathEscape(swapID), &w); err != nil {
		return err
	}
	return fmt.Errorf("the swap is %+v", w)
}

// checkNothingLeft checks that nothing of the output stayed in the product.
func (s *tourRun) checkNothingLeft(ctx context.Context, m localworld.Mint) error {
	var list struct {
		Data []struct {
			Product string `json:"product"`
			MintID  int    `json:"mintId"`
			Total   string `json:"total"`
		} `json:"data"`
	}
	if err := s.api.getJSON(ctx, "/balances", &list); err != nil {
		return err
	}
	for _, b := range list.Data {
		if b.Product == swapProduct && b.MintID == m.ID && b.Total != "0" {
			return fmt.Errorf("the product has %s units of %s left, want none", b.Total, m.Symbol)
		}
	}
	return nil
}
