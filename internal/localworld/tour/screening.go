package tour

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/webhook"
)

// thresholds are the settings that have deposits screened.
type thresholds struct {
	Severity *string `json:"screeningSeverityThreshold"`
	USD      *string `json:"screeningUsdThreshold"`
}

// screened tells what risk screening does, by the local list, and leaves the
// settings as they were.
func (s *story) screened(ctx context.Context) (err error) {
	s.title("Risk screening is switched on")
	settings := "/organizations/" + url.PathEscape(s.Info.OrganizationID) + "/settings"
	var before thresholds
	if err := s.operator.get(ctx, settings, &before); err != nil {
		return err
	}
	severity, dollars := "MEDIUM", "100.00"
	if err := s.operator.send(ctx, http.MethodPatch, settings, thresholds{&severity, &dollars}); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.operator.send(context.WithoutCancel(ctx), http.MethodPatch, settings, before))
	}()
	s.step("the operator has deposits above $%s screened; what is above %s is held", dollars, severity)
	if err := s.flag(ctx); err != nil {
		return err
	}
	return s.block(ctx)
}

// list has the local list say of an address that it is a thief's.
func (s *story) list(ctx context.Context, a common.Address) error {
	err := s.operator.send(ctx, http.MethodPut, "/local-risk/"+a.Hex(), map[string]any{
		"severity": "SEVERE", "score": 97, "entity": "A thief of the tour", "categories": []string{"THEFT"},
	})
	if err == nil {
		s.step("the operator puts %s on the local list: SEVERE", a.Hex())
	}
	return err
}

func (s *story) unlist(ctx context.Context, a common.Address, err *error) {
	*err = errors.Join(*err, s.operator.do(context.WithoutCancel(ctx), http.MethodDelete, "/local-risk/"+a.Hex(), nil, nil))
}

// flag has a clean deposit and a thief's come at the same time, and sends the thief's
// back.
func (s *story) flag(ctx context.Context) (err error) {
	thief, err := localworld.NewStranger()
	if err != nil {
		return err
	}
	from := thief.Address()
	if err := s.list(ctx, from); err != nil {
		return err
	}
	defer s.unlist(ctx, from, &err)
	stolen, clean := units(400, s.usdc), units(150, s.usdc)
	if _, err := s.Info.Faucet(ctx, s.ether, from, units(1, s.ether)); err != nil {
		return err
	}
	if _, err := s.Info.Faucet(ctx, s.usdc, from, stolen); err != nil {
		return err
	}
	if err := s.until(ctx, "the thief has the tokens", func() (bool, error) {
		has, err := s.onChain(ctx, s.usdc, from)
		return err == nil && has.Cmp(stolen) == 0, err
	}); err != nil {
		return err
	}
	before, err := s.balance(ctx, s.usdc)
	if err != nil {
		return err
	}
	address, err := s.address(ctx, s.usdc)
	if err != nil {
		return err
	}
	cleanHash, err := s.pay(ctx, s.usdc, address, clean)
	if err != nil {
		return err
	}
	stolenHash, err := s.Info.PayFrom(ctx, thief, s.usdc, common.HexToAddress(address), stolen)
	if err != nil {
		return fmt.Errorf("pay from the thief's account: %w", err)
	}
	s.step("sent 150 USDC from the faucet, and 400 USDC from the thief")

	var good, bad webhook.Deposit
	if _, err := s.event(ctx, webhook.CustomerDeposit, &good, func() bool { return good.TxHash == cleanHash }); err != nil {
		return err
	}
	if v := good.Screening; good.IsFlagged || good.Status != "CREDITED" || v.Status != "PASSED" || text(v.Severity) != "LOW" || text(v.Provider) != "LOCAL" {
		return fmt.Errorf("the clean deposit is %s with the verdict %s %s by %s, flagged: %t", good.Status, v.Status, text(v.Severity), text(v.Provider), good.IsFlagged)
	}
	s.step("the clean one is %s; verdict %s: %s, says %s", good.Status, good.Screening.Status, *good.Screening.Severity, *good.Screening.Provider)
	if _, err := s.event(ctx, webhook.CustomerDeposit, &bad, func() bool { return bad.TxHash == stolenHash.Hex() }); err != nil {
		return err
	}
	if !bad.IsFlagged || bad.Status != "FLAGGED" || text(bad.RiskOfFunds) != "SEVERE" || bad.FlagReason == nil || text(bad.FlagReason.Entity) != "A thief of the tour" {
		return fmt.Errorf("the thief's deposit is %s, flagged: %t, riskOfFunds %s", bad.Status, bad.IsFlagged, text(bad.RiskOfFunds))
	}
	s.step("the thief's is %s: CUSTOMER_DEPOSIT says isFlagged true, riskOfFunds %s, entity %q", bad.Status, *bad.RiskOfFunds, *bad.FlagReason.Entity)
	credited, err := plus(before.Available, clean)
	if err != nil {
		return err
	}
	if err := s.until(ctx, "the balance has the clean deposit alone", func() (bool, error) {
		b, err := s.balance(ctx, s.usdc)
		return err == nil && b.Available == credited, err
	}); err != nil {
		return err
	}
	s.step("available grew by the clean 150 USDC alone, to %s", credited)
	return s.sendBack(ctx, bad, from, stolen, credited)
}

// sendBack rejects a flagged deposit and finds it where it came from.
func (s *story) sendBack(ctx context.Context, bad webhook.Deposit, from common.Address, amount *big.Int, credited string) error {
	path := "/deposits/" + bad.DepositID + "/reject"
	var refused *refusal
	if err := s.api.post(ctx, path, map[string]any{}, nil); !errors.As(err, &refused) || refused.Code != "FEATURE_DISABLED" {
		return fmt.Errorf("the organization's key decided about what is flagged: %w", err)
	}
	s.step("the organization's key may not decide about it: %d %s", refused.Status, refused.Code)
	var d webhook.Deposit
	if err := s.operator.post(ctx, path, map[string]any{"note": "the tour sends it back"}, &d); err != nil {
		return err
	}
	if d.Status != "REJECTING" && d.Status != "REJECTED" {
		return fmt.Errorf("rejected, and it is %s", d.Status)
	}
	s.step("the operator rejects it: %s", d.Status)
	if _, err := s.event(ctx, webhook.CustomerDepositRejected, &d, func() bool { return d.DepositID == bad.DepositID }); err != nil {
		return err
	}
	r := d.Resolution
	if d.Status != "REJECTED" || r == nil || r.Decision != "REJECTED" || r.TxHash == nil || text(r.ToAddress) != from.Hex() || text(r.Amount) != amount.String() {
		return fmt.Errorf("CUSTOMER_DEPOSIT_REJECTED tells of another end: %s %+v", d.Status, r)
	}
	receipt, err := s.eth.TransactionReceipt(ctx, common.HexToHash(*r.TxHash))
	if err != nil {
		return fmt.Errorf("look for the transfer back, %s: %w", *r.TxHash, err)
	}
	moved := len(receipt.Logs) == 1 && receipt.Logs[0].Topics[0] == evmtoken.Token.ABI().Events["Transfer"].ID &&
		common.BytesToAddress(receipt.Logs[0].Topics[1][:]) == common.HexToAddress(bad.Address) && common.BytesToAddress(receipt.Logs[0].Topics[2][:]) == from
	if receipt.Status != types.ReceiptStatusSuccessful || !moved {
		return fmt.Errorf("%s is no transfer from %s back to %s", *r.TxHash, bad.Address, from)
	}
	has, err := s.onChain(ctx, s.usdc, from)
	if err != nil {
		return err
	}
	if has.Cmp(amount) != 0 {
		return fmt.Errorf("the sender has %s on the chain, want exactly %s back", has, amount)
	}
	s.step("CUSTOMER_DEPOSIT_REJECTED: sent back by %s in block %d", *r.TxHash, receipt.BlockNumber)
	after, err := s.balance(ctx, s.usdc)
	if err != nil {
		return err
	}
	if after.Available != credited {
		return fmt.Errorf("available is %s after the way back, want %s", after.Available, credited)
	}
	s.step("final: its sender has exactly %s again, and the customer's balance never had it", has)
	return nil
}

// block has a withdrawal to a thief's address refused for good.
func (s *story) block(ctx context.Context) (err error) {
	s.title("A withdrawal to a thief is blocked")
	to := somewhere()
	if err := s.list(ctx, to); err != nil {
		return err
	}
	defer s.unlist(ctx, to, &err)
	before, err := s.balance(ctx, s.usdc)
	if err != nil {
		return err
	}
	body := map[string]any{"mintId": s.usdc.ID, "customerId": s.customer, "amount": "1000000", "toAddress": to.Hex(), "idempotencyKey": "tour-" + random(8)}
	var first, again *refusal
	if err := s.api.post(ctx, "/withdraw", body, nil); !errors.As(err, &first) || first.Status != http.StatusUnavailableForLegalReasons || first.WithdrawalID == "" {
		return fmt.Errorf("got %v, want 451 with a record", err)
	}
	s.step("%d %s, %q", first.Status, first.Code, first.Message)
	if err := s.api.post(ctx, "/withdraw", body, nil); !errors.As(err, &again) || *again != *first {
		return fmt.Errorf("the same key got %v, want the first answer", err)
	}
	var w webhook.Withdrawal
	if err := s.api.get(ctx, "/withdrawals/"+first.WithdrawalID, &w); err != nil {
		return err
	}
	after, err := s.balance(ctx, s.usdc)
	if err != nil {
		return err
	}
	if w.Status != "BLOCKED" || w.TxHash != nil || after != before {
		return fmt.Errorf("blocked, and it is %s with %v of it sent; the balance went from %+v to %+v", w.Status, w.TxHash, before, after)
	}
	s.step("the same key gets the same answer; withdrawal %s is %s, pendingWithdraw %s and available %s as before", w.WithdrawalID, w.Status, after.PendingWithdraw, after.Available)
	return nil
}

// text is what a member says, or "null".
func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// plus adds to an amount as the interface writes it.
func plus(a string, b *big.Int) (string, error) {
	sum, ok := new(big.Int).SetString(a, 10)
	if !ok {
		return "", fmt.Errorf("%q is no amount", a)
	}
	return sum.Add(sum, b).String(), nil
}
