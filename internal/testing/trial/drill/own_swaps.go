package drill

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"

	"github.com/cofferpay/coffer/internal/localworld/swapdesk"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/webhook"
)

// ownThreshold is below what each swap of the organization is worth, so that people decide about each.
const ownThreshold = "40.00"

// ownSwap is a swap of the organization's own money. Its output goes to an address of the whitelist that receives
// nothing else, so that the oracle sees a second payment.
type ownSwap struct {
	key, vault, listedID string
	current              webhook.OrganizationSwap
	payout               webhook.Withdrawal
}

// callOperator calls the operator's interface until it answers with success.
func (h *drillEnv) callOperator(ctx context.Context, method, path string, body, target any) error {
	return retryUntilDone(ctx, method+" "+path+" is answered", func(ctx context.Context) error {
		return h.callOperatorOnce(ctx, method, path, body, target)
	})
}

// enableOwnSwaps lets the organization swap its own money, above the threshold with an approval, and gives it some.
func (d *swapDrill) enableOwnSwaps(ctx context.Context, paidIn *big.Int) error {
	threshold := ownThreshold
	err := d.callOperator(ctx, http.MethodPatch, "/organizations/"+d.world.Info.OrganizationID+"/settings",
		map[string]any{"organizationSwapsEnabled": true, "twoFactorUsdThreshold": threshold}, nil)
	if err != nil {
		return err
	}
	return d.payIn(ctx, orgProduct, paidIn)
}

// requestOwn puts an address on the whitelist and requests a swap whose output goes there. It waits for approval.
func (d *swapDrill) requestOwn(ctx context.Context, key string) (*ownSwap, error) {
	w := &ownSwap{key: key, vault: d.net.unusedAddress([]byte(d.dir + key))}
	d.ownSwaps = append(d.ownSwaps, w)
	var entry struct {
		ID     string `json:"whitelistedAddressId"`
		Status string `json:"status"`
	}
	err := d.callOperator(ctx, http.MethodPost,
		"/organizations/"+url.PathEscape(d.world.Info.OrganizationID)+"/whitelisted-addresses",
		map[string]any{"chain": "ETHEREUM", "address": w.vault, "label": "The vault of " + key}, &entry)
	if err != nil {
		return w, err
	}
	w.listedID = entry.ID
	return w, retryUntilDone(ctx, key+" is requested", func(ctx context.Context) error {
		status, err := d.callOnce(ctx, http.MethodPost, "/organization-swap", d.ownBody(w), &w.current)
		if err == nil && status != http.StatusAccepted { // the entry is usable a moment later
			err = fmt.Errorf("status %d", status)
		}
		if err == nil && w.current.Status != "AWAITING_APPROVAL" {
			err = fmt.Errorf("it is %s", w.current.Status)
		}
		return err
	})
}

func (d *swapDrill) ownBody(w *ownSwap) map[string]any {
	return map[string]any{
		"product": orgProduct, "fromMintId": d.mint.ID, "toMintId": d.outputMint.ID, "amountIn": d.unitsEach.String(),
		"whitelistedAddressId": w.listedID, "idempotencyKey": w.key,
	}
}

func (d *swapDrill) approveOwn(ctx context.Context, w *ownSwap) error {
	_, err := d.runCoffer(ctx, 0, "swaps", "approve", w.current.SwapID, "--as", d.world.Info.Users[0].Email)
	return err
}

// startOwn requests a swap, approves it while its provider behaves in a way, and waits until it has a status.
func (d *swapDrill) startOwn(ctx context.Context, key string, mode swapdesk.Mode, status string) error {
	w, err := d.requestOwn(ctx, key)
	if err != nil {
		return err
	}
	if err := d.world.Info.SetSwapBehaviour(ctx, string(mode), 0, 0); err != nil {
		return err
	}
	return errors.Join(d.approveOwn(ctx, w), d.waitOwnStatus(ctx, w, status))
}

func (d *swapDrill) waitOwnStatus(ctx context.Context, w *ownSwap, status string) error {
	return retryUntilDone(ctx, w.key+" is "+status, func(ctx context.Context) error {
		err := d.loadOwn(ctx, w)
		if err == nil && w.current.Status != status {
			err = fmt.Errorf("it is %s, with the payout %q that is %s", w.current.Status,
				orEmpty(w.current.WithdrawalID), w.payout.Status)
		}
		return err
	})
}

// loadOwn reads a swap and its payout. A payout that a restore left without the approvals of its swap waits for
// people, who approve it. Its id never changes.
func (d *swapDrill) loadOwn(ctx context.Context, w *ownSwap) error {
	err := d.callAPI(ctx, http.StatusOK, http.MethodGet, "/organization-swap/"+w.current.SwapID, nil, &w.current)
	if err != nil || w.current.WithdrawalID == nil {
		return err
	}
	before := w.payout.WithdrawalID
	err = d.callAPI(ctx, http.StatusOK, http.MethodGet, "/withdrawals/"+*w.current.WithdrawalID, nil, &w.payout)
	switch {
	case err != nil:
		return err
	case before != "" && before != w.payout.WithdrawalID:
		return fmt.Errorf("the payout of %s was %s and is %s", w.key, before, w.payout.WithdrawalID)
	case w.payout.Status == "AWAITING_APPROVAL":
		_, err = d.runCoffer(ctx, 0, "withdrawals", "approve", w.payout.WithdrawalID, "--as",
			d.world.Info.Users[0].Email)
	}
	return err
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// repeatOwnRequests requests every swap of the organization again: each key leads to its swap.
func (d *swapDrill) repeatOwnRequests(ctx context.Context) error {
	for _, w := range d.ownSwaps {
		var got webhook.OrganizationSwap
		err := d.callAPI(ctx, http.StatusAccepted, http.MethodPost, "/organization-swap", d.ownBody(w), &got)
		if err != nil {
			return fmt.Errorf("key %s again: %w", w.key, err)
		}
		if got.SwapID != w.current.SwapID || !strings.EqualFold(got.ToAddress, w.vault) {
			return fmt.Errorf("key %s led to %s, and leads to %s to %s now", w.key, w.current.SwapID, got.SwapID,
				got.ToAddress)
		}
	}
	return nil
}

// endOwnSwaps approves what still waits, and waits until the output of every swap is paid.
func (d *swapDrill) endOwnSwaps(ctx context.Context) error {
	for _, w := range d.ownSwaps {
		if err := d.loadOwn(ctx, w); err != nil {
			return err
		}
		if w.current.Status == "AWAITING_APPROVAL" {
			if err := d.approveOwn(ctx, w); err != nil {
				return err
			}
		}
		if err := d.waitOwnStatus(ctx, w, "COMPLETED"); err != nil {
			return err
		}
	}
	return nil
}

// ownClaims returns what the oracle has to find of the swaps of the organization: one payment to the provider and one
// payout for each. delivered is what the provider delivered for them.
func (d *swapDrill) ownClaims(ctx context.Context) (claims []oracle.Claim, delivered *big.Int, err error) {
	delivered = new(big.Int)
	for _, w := range d.ownSwaps {
		if err := d.loadOwn(ctx, w); err != nil {
			return nil, nil, err
		}
		var depositAddress string
		err := d.queryRow(ctx, `SELECT deposit_address FROM swaps WHERE swap_id = $1`, []any{w.current.SwapID},
			&depositAddress)
		if err != nil {
			return nil, nil, err
		}
		if w.current.AmountOut == nil || w.current.OriginTxHash == nil || w.payout.TxHash == nil {
			return nil, nil, fmt.Errorf("%s has no output, no payment or no payout: %+v, %+v", w.key, w.current,
				w.payout)
		}
		out, err := money.Parse(*w.current.AmountOut)
		if err != nil {
			return nil, nil, fmt.Errorf("output of %s: %w", w.key, err)
		}
		delivered.Add(delivered, out.Big())
		paidOut, err := money.Parse(w.payout.Amount)
		if err != nil {
			return nil, nil, fmt.Errorf("payout of %s: %w", w.key, err)
		}
		claims = append(claims, oracle.Claim{
			ID: w.key, Asset: d.assetID(), To: depositAddress, Amount: d.unitsEach, Paid: true,
			Tx: *w.current.OriginTxHash,
		}, oracle.Claim{
			ID: "the payout of " + w.key, To: w.vault, Amount: paidOut.Big(), Paid: true, Tx: *w.payout.TxHash,
		})
	}
	return claims, delivered, nil
}

// checkProduct compares what the product has of a mint.
func (d *swapDrill) checkProduct(ctx context.Context, mintID int, want *big.Int) error {
	var list struct {
		Data []struct {
			MintID         int
			Product, Total string
		}
	}
	if err := d.callAPI(ctx, http.StatusOK, http.MethodGet, "/balances", nil, &list); err != nil {
		return err
	}
	got := "0"
	for _, b := range list.Data {
		if b.MintID == mintID && b.Product == orgProduct {
			got = b.Total
		}
	}
	if got != want.String() {
		return fmt.Errorf("%s has %s of mint %d, want %s", orgProduct, got, mintID, want)
	}
	return nil
}
