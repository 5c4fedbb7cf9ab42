package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"

	"github.com/cofferpay/coffer/internal/localworld/swapdesk"
	"github.com/cofferpay/coffer/webhook"
)

// depositSwap is a deposit swap of a customer of its own, into which a token is paid that is no mint.
type depositSwap struct {
	body             map[string]any
	customer         string
	units            *big.Int // of the token
	created, current webhook.DepositSwap
}

// depositSwapUnits are what is paid into a deposit swap, in units of the token.
var depositSwapUnits = wholeCoins(20)

// newDepositSwap returns a deposit swap that is not requested yet.
func (s *cellRun) newDepositSwap(ctx context.Context) (*depositSwap, error) {
	token := s.world.Info.Swaps.Tokens[0]
	var list struct {
		Data []struct{ OriginTokenID string }
	}
	query := url.Values{"chain": {token.Chain}, "search": {token.ContractAddress}}
	if _, err := s.callAPI(ctx, http.MethodGet, "/deposit-swap/tokens?"+query.Encode(), nil, &list); err != nil {
		return nil, err
	}
	if len(list.Data) != 1 {
		return nil, fmt.Errorf("the service lists %+v for %s, want the token alone", list.Data, token.Symbol)
	}
	d := &depositSwap{customer: "user_" + s.name, units: depositSwapUnits}
	d.body = map[string]any{
		"customerId": d.customer, "originTokenId": list.Data[0].OriginTokenID, "amountIn": d.units.String(),
		"refundAddress": ethereum{}.unusedAddress([]byte(s.dir + s.name)), "idempotencyKey": s.name,
	}
	s.depositSwaps = append(s.depositSwaps, d)
	return d, nil
}

// requestDepositSwap requests a deposit swap until it is answered.
func (s *cellRun) requestDepositSwap(ctx context.Context, d *depositSwap) error {
	status, err := s.callAPI(ctx, http.MethodPost, "/deposit-swap", d.body, &d.created)
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("POST /deposit-swap: got %d, want 201", status)
	}
	return err
}

// payDepositSwap pays the provider as a customer does.
func (s *cellRun) payDepositSwap(ctx context.Context, d *depositSwap) error {
	_, err := s.world.Info.PayAddress(
		ctx, s.world.Info.Swaps.Tokens[0].FaucetMint(), d.created.DepositAddress, d.units,
	)
	return err
}

// playDepositSwap plays the request of a deposit swap through the point. The customer then pays.
func playDepositSwap(ctx context.Context, s *cellRun) error {
	d, err := s.newDepositSwap(ctx)
	if err != nil {
		return err
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		s.startAsync(func() error { return s.requestDepositSwap(ctx, d) })
		return nil
	})
	if err := errors.Join(err, s.waitAsync(ctx)); err != nil {
		return err
	}
	if err := s.payDepositSwap(ctx, d); err != nil {
		return err
	}
	return s.waitDepositSwapEnd(ctx, d)
}

// playScreenedDepositSwap plays what a deposit swap brings through the point. Who paid the provider is screened:
// the amount is above the thresholds that the organization has for that time.
func playScreenedDepositSwap(ctx context.Context, s *cellRun) error {
	if err := s.setThresholds(ctx, `"MEDIUM"`, `"0.01"`); err != nil {
		return err
	}
	play := func() error {
		d, err := s.newDepositSwap(ctx)
		if err != nil {
			return err
		}
		if err := s.requestDepositSwap(ctx, d); err != nil {
			return err
		}
		err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
			return s.payDepositSwap(ctx, d)
		})
		if err != nil {
			return err
		}
		return s.waitDepositSwapEnd(ctx, d)
	}
	return errors.Join(play(), s.setThresholds(context.WithoutCancel(ctx), "null", "null"))
}

// waitDepositSwapEnd waits until a deposit swap is credited once, and its service has seen who paid. A request
// with the same key returns the same address.
func (s *cellRun) waitDepositSwapEnd(ctx context.Context, d *depositSwap) error {
	err := waitUntil(ctx, "the deposit swap is credited", drainMax, func(ctx context.Context) (bool, error) {
		if _, err := s.callAPI(
			ctx, http.MethodGet, "/deposit-swap/"+d.created.DepositSwapID, nil, &d.current,
		); err != nil {
			return false, err
		}
		if d.current.Status != paid || d.current.ReceivedAmount == nil || d.current.OriginTxHash == nil {
			text, err := json.Marshal(d.current)
			return false, errors.Join(err, fmt.Errorf("it is %s", text))
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	first := d.created
	if err := s.requestDepositSwap(ctx, d); err != nil {
		return err
	}
	if d.created.DepositSwapID != first.DepositSwapID || d.created.DepositAddress != first.DepositAddress {
		return fmt.Errorf(
			"the same key got %s %s and then %s %s", first.DepositSwapID, first.DepositAddress,
			d.created.DepositSwapID, d.created.DepositAddress,
		)
	}
	out, err := parseUnits(d.current.AmountOut)
	if err != nil {
		return fmt.Errorf("%s: %w", first.DepositSwapID, err)
	}
	s.deposited.Add(s.deposited, out)
	var rows, arrivals int
	err = s.queryRow(ctx, `
		SELECT (SELECT count(*) FROM deposit_swaps WHERE idempotency_key = $1),
			(SELECT count(*) FROM deposits WHERE deposit_swap_id = $2 AND status = 'CREDITED')`,
		[]any{s.name, first.DepositSwapID}, &rows, &arrivals)
	if err == nil && (rows != 1 || arrivals != 1) {
		err = fmt.Errorf(
			"the key has %d rows, and the deposit swap %d credited deposits, want one each", rows, arrivals,
		)
	}
	return errors.Join(err, s.checkBalance(ctx, d.customer, out))
}

// addDepositSwap compares a deposit swap with the transfers of the swap provider, and adds it to the sums.
func addDepositSwap(d *depositSwap, transfers swapdesk.Transfers, sums *swapSums) error {
	out, err := parseUnits(d.current.AmountOut)
	if err != nil {
		return fmt.Errorf("%s: %w", d.created.DepositSwapID, err)
	}
	sums.depositSwapsIn.Add(sums.depositSwapsIn, d.units)
	sums.depositSwapsOut.Add(sums.depositSwapsOut, out)
	return compareTransfers(
		d.created.DepositSwapID, d.created.DepositAddress, transfers,
		map[string]*big.Int{"RECEIVED": d.units, "DELIVERY": out},
	)
}
