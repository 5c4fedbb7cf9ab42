package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld/swapdesk"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/webhook"
)

// swapProduct is the product whose balance the swaps of the organization convert. It has nothing else.
const swapProduct = "CUSTODIAL"

// ownSwap is a swap of the organization's own money.
type ownSwap struct {
	body             map[string]any
	created, current webhook.OrganizationSwap
	payout           webhook.Withdrawal
	payee            string // the address on the whitelist, of this swap alone
}

// prepareOwnSwap gives the product the amount of one swap, puts an address on the whitelist, and returns a swap that
// is not requested yet.
func (s *cellRun) prepareOwnSwap(ctx context.Context) (*ownSwap, error) {
	if err := s.changeSettings(ctx, org.Changes{"organizationSwapsEnabled": json.RawMessage("true")}); err != nil {
		return nil, err
	}
	amount := s.site.swaps.units
	status, err := s.callAPI(ctx, http.MethodPost, "/transfers", map[string]any{
		"idempotencyKey": s.name, "mintId": s.mint.ID, "amount": amount.String(),
		"from": map[string]string{"customerId": richCustomer}, "to": map[string]string{"product": swapProduct},
	}, nil)
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("POST /transfers to the product: got %d, want 201", status)
	}
	if err != nil {
		return nil, err
	}
	s.transferredOut.Add(s.transferredOut, amount)
	w := &ownSwap{payee: ethereum{}.unusedAddress([]byte(s.dir + s.name))}
	listedID, err := s.listPayee(ctx, w.payee)
	if err != nil {
		return nil, err
	}
	w.body = map[string]any{
		"product": swapProduct, "fromMintId": s.mint.ID, "toMintId": s.swapTo.ID, "amountIn": amount.String(),
		"whitelistedAddressId": listedID, "idempotencyKey": s.name,
	}
	s.ownSwaps = append(s.ownSwaps, w)
	return w, nil
}

// listPayee has the operator put an address on the whitelist, and waits until it may be paid.
func (s *cellRun) listPayee(ctx context.Context, address string) (listedID string, err error) {
	type entry struct{ WhitelistedAddressID, Status string }
	var made entry
	status, err := s.callOperator(
		ctx, http.MethodPost, "/organizations/"+s.world.Info.OrganizationID+"/whitelisted-addresses",
		map[string]any{"chain": chain.Ethereum, "address": address, "label": s.name}, &made,
	)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("list %s: got %d", address, status)
	}
	if err != nil {
		return "", err
	}
	return made.WhitelistedAddressID, waitUntil(
		ctx, "the address may be paid", sceneMax, func(ctx context.Context) (bool, error) {
			var list struct{ Data []entry }
			_, err := s.callAPI(ctx, http.MethodGet, "/whitelisted-addresses?limit=200&order=desc", nil, &list)
			for _, listed := range list.Data {
				if listed.WhitelistedAddressID == made.WhitelistedAddressID {
					return listed.Status == "USABLE", err
				}
			}
			return false, err
		},
	)
}

// requestOwnSwap requests a swap of the organization until it is answered.
func (s *cellRun) requestOwnSwap(ctx context.Context, w *ownSwap) error {
	status, err := s.callAPI(ctx, http.MethodPost, "/organization-swap", w.body, &w.created)
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("POST /organization-swap: got %d, want 202", status)
	}
	return err
}

// playOwnSwap plays a swap of the organization through the point: its output arrives in the product and is paid
// out to the address on the whitelist, once.
func playOwnSwap(ctx context.Context, s *cellRun) error {
	w, err := s.prepareOwnSwap(ctx)
	if err != nil {
		return err
	}
	if s.fault == Stop {
		// The second service does not wait for the end of the stopped one's claim on the swap.
		s.afterFault = s.expireLeases
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		s.startAsync(func() error { return s.requestOwnSwap(ctx, w) })
		return nil
	})
	if err := errors.Join(err, s.waitAsync(ctx)); err != nil {
		return err
	}
	return s.waitOwnSwapEnd(ctx, w)
}

// waitOwnSwapEnd waits until the output of a swap is paid out, by one withdrawal. A request with the same key
// returns the same swap.
func (s *cellRun) waitOwnSwapEnd(ctx context.Context, w *ownSwap) error {
	err := waitUntil(ctx, "the output is paid out", drainMax, func(ctx context.Context) (bool, error) {
		if _, err := s.callAPI(
			ctx, http.MethodGet, "/organization-swap/"+w.created.SwapID, nil, &w.current,
		); err != nil {
			return false, err
		}
		if w.current.Status != paid {
			return false, errors.New("the swap is " + w.current.Status)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	first := w.created.SwapID
	if err := s.requestOwnSwap(ctx, w); err != nil {
		return err
	}
	if w.created.SwapID != first {
		return fmt.Errorf("the same key got %s and then %s", first, w.created.SwapID)
	}
	if w.current.WithdrawalID == nil {
		return fmt.Errorf("%s is completed without a withdrawal", first)
	}
	if _, err := s.callAPI(
		ctx, http.MethodGet, "/withdrawals/"+*w.current.WithdrawalID, nil, &w.payout,
	); err != nil {
		return err
	}
	var swaps, payouts int
	err = s.queryRow(ctx, `
		SELECT (SELECT count(*) FROM swaps WHERE idempotency_key = $1 AND kind = 'ORGANIZATION'),
			(SELECT count(*) FROM withdrawals WHERE idempotency_key = $2)`,
		[]any{s.name, "swap " + first}, &swaps, &payouts)
	if err == nil && (swaps != 1 || payouts != 1) {
		err = fmt.Errorf("the key has %d swaps, and the swap %d withdrawals, want one each", swaps, payouts)
	}
	return err
}

// addOwnSwap compares a swap of the organization with the transfers of the swap provider and with what the address
// on the whitelist has, and adds it to the sums.
func (s *cellRun) addOwnSwap(ctx context.Context, w *ownSwap, transfers swapdesk.Transfers, sums *swapSums) error {
	amount := s.site.swaps.units
	payment, err := s.loadPayment(ctx, w.created.SwapID, amount, w.current.OriginTxHash)
	if err != nil {
		return err
	}
	out, err := parseUnits(w.current.AmountOut)
	if err != nil {
		return fmt.Errorf("%s: %w", payment.ID, err)
	}
	sums.paid.Add(sums.paid, amount)
	sums.toProduct.Add(sums.toProduct, out)
	sums.claims = append(sums.claims, payment.Claim)
	received, err := parseUnits(&w.payout.Amount)
	if err != nil {
		return fmt.Errorf("%s: %w", w.payout.WithdrawalID, err)
	}
	fee, err := parseUnits(w.payout.NetworkFee)
	if err != nil {
		return fmt.Errorf("%s: %w", w.payout.WithdrawalID, err)
	}
	if new(big.Int).Add(received, fee).Cmp(out) != 0 || w.payout.Status != paid || w.payout.TxHash == nil ||
		w.payout.ToAddress != w.payee {
		return fmt.Errorf("%s brought %s, and its payout is %+v", payment.ID, out, w.payout)
	}
	if s.site.chain == chain.Ethereum {
		sums.claims = append(sums.claims, oracle.Claim{
			ID: w.payout.WithdrawalID, To: w.payee, Amount: received, Paid: true, Tx: *w.payout.TxHash,
		})
	}
	held, err := s.world.EthereumNode().Eth.BalanceAt(ctx, common.HexToAddress(w.payee), nil)
	if err == nil && held.Cmp(received) != 0 {
		err = fmt.Errorf("%s has %s, want the %s of %s", w.payee, held, received, w.payout.WithdrawalID)
	}
	return errors.Join(err, compareTransfers(
		payment.ID, payment.written, transfers, map[string]*big.Int{"RECEIVED": amount, "DELIVERY": out},
	))
}

// checkProductEmpty checks that the swaps of the organization left nothing in the product: what it gave is
// swapped, and what came is paid out.
func (s *cellRun) checkProductEmpty(ctx context.Context) error {
	if len(s.ownSwaps) == 0 {
		return nil
	}
	var list struct {
		Data []struct {
			Product, Total string
			MintID         int
		}
	}
	if _, err := s.callAPI(ctx, http.MethodGet, "/balances", nil, &list); err != nil {
		return err
	}
	for _, b := range list.Data {
		if b.Product == swapProduct && b.Total != "0" {
			return fmt.Errorf("the product has %s of mint %d, want nothing", b.Total, b.MintID)
		}
	}
	return nil
}
