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

// thresholds are the settings that turn the screening of deposits on.
type thresholds struct {
	Severity *string `json:"screeningSeverityThreshold"`
	USD      *string `json:"screeningUsdThreshold"`
}

// tourScreening shows what risk screening does with the local list, and restores the settings at
// the end.
func (s *tourRun) tourScreening(ctx context.Context) (err error) {
	s.printTitle("Risk screening is switched on")
	settings := "/organizations/" + url.PathEscape(s.Info.OrganizationID) + "/settings"
	var settingsBefore thresholds
	if err := s.operator.getJSON(ctx, settings, &settingsBefore); err != nil {
		return err
	}
	severity, dollars := "MEDIUM", "100.00"
	if err := s.operator.sendJSON(ctx, http.MethodPatch, settings, thresholds{&severity, &dollars}); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(
			err, s.operator.sendJSON(context.WithoutCancel(ctx), http.MethodPatch, settings, settingsBefore),
		)
	}()
	s.printStep("the operator has deposits above $%s screened; a sender above %s is flagged", dollars, severity)
	if err := s.tourFlaggedDeposit(ctx); err != nil {
		return err
	}
	return s.tourBlockedWithdrawal(ctx)
}

// listAddress puts an address on the local list as a thief's.
func (s *tourRun) listAddress(ctx context.Context, a common.Address) error {
	err := s.operator.sendJSON(ctx, http.MethodPut, "/local-risk/"+a.Hex(), map[string]any{
		"severity": "SEVERE", "score": 97, "entity": "A thief pays in", "categories": []string{"THEFT"},
	})
	if err == nil {
		s.printStep("the operator puts %s on the local list: SEVERE", a.Hex())
	}
	return err
}

func (s *tourRun) unlistAddress(ctx context.Context, a common.Address, err *error) {
	*err = errors.Join(
		*err, s.operator.callAPI(context.WithoutCancel(ctx), http.MethodDelete, "/local-risk/"+a.Hex(), nil, nil),
	)
}

// tourFlaggedDeposit makes a clean deposit and a thief's at the same time, and returns the thief's.
func (s *tourRun) tourFlaggedDeposit(ctx context.Context) (err error) {
	thief, err := localworld.NewExternalAccount()
	if err != nil {
		return err
	}
	thiefAddress := thief.Address()
	if err := s.listAddress(ctx, thiefAddress); err != nil {
		return err
	}
	defer s.unlistAddress(ctx, thiefAddress, &err)
	stolen, clean := atomicUnits(400, s.usdc), atomicUnits(150, s.usdc)
	if _, err := s.Info.SendFromFaucet(ctx, s.ether, thiefAddress, atomicUnits(1, s.ether)); err != nil {
		return err
	}
	if _, err := s.Info.SendFromFaucet(ctx, s.usdc, thiefAddress, stolen); err != nil {
		return err
	}
	if err := s.waitUntil(ctx, "the thief has the tokens", func() (bool, error) {
		held, err := s.chainBalance(ctx, s.usdc, thiefAddress)
		return err == nil && held.Cmp(stolen) == 0, err
	}); err != nil {
		return err
	}
	balanceBefore, err := s.loadBalance(ctx, s.usdc)
	if err != nil {
		return err
	}
	address, err := s.createDepositAddress(ctx, s.usdc)
	if err != nil {
		return err
	}
	cleanHash, err := s.payFromFaucet(ctx, s.usdc, address, clean)
	if err != nil {
		return err
	}
	stolenHash, err := s.Info.PayFrom(ctx, thief, s.usdc, common.HexToAddress(address), stolen)
	if err != nil {
		return fmt.Errorf("pay from the thief's account: %w", err)
	}
	s.printStep("sent 150 USDC from the faucet, and 400 USDC from the thief")

	var good, bad webhook.Deposit
	if _, err := s.waitEvent(
		ctx, webhook.CustomerDeposit, &good, func() bool { return good.TxHash == cleanHash },
	); err != nil {
		return err
	}
	if v := good.Screening; good.IsFlagged || good.Status != "CREDITED" || v.Status != "PASSED" ||
		orNull(v.Severity) != "LOW" || orNull(v.Provider) != "LOCAL" {
		return fmt.Errorf(
			"the clean deposit is %s with the verdict %s %s by %s, flagged: %t", good.Status, v.Status,
			orNull(v.Severity), orNull(v.Provider), good.IsFlagged,
		)
	}
	s.printStep(
		"the clean one is %s; verdict %s: %s, says %s", good.Status, good.Screening.Status, *good.Screening.Severity,
		*good.Screening.Provider,
	)
	if _, err := s.waitEvent(
		ctx, webhook.CustomerDeposit, &bad, func() bool { return bad.TxHash == stolenHash.Hex() },
	); err != nil {
		return err
	}
	if !bad.IsFlagged || bad.Status != "FLAGGED" || orNull(bad.RiskOfFunds) != "SEVERE" || bad.FlagReason == nil ||
		orNull(bad.FlagReason.Entity) != "A thief pays in" {
		return fmt.Errorf(
			"the thief's deposit is %s, flagged: %t, riskOfFunds %s", bad.Status, bad.IsFlagged,
			orNull(bad.RiskOfFunds),
		)
	}
	s.printStep(
		"the thief's is %s: CUSTOMER_DEPOSIT says isFlagged true, riskOfFunds %s, entity %q", bad.Status,
		*bad.RiskOfFunds, *bad.FlagReason.Entity,
	)
	credited, err := addAmounts(balanceBefore.Available, clean)
	if err != nil {
		return err
	}
	if err := s.waitUntil(ctx, "the balance contains only the clean deposit", func() (bool, error) {
		b, err := s.loadBalance(ctx, s.usdc)
		return err == nil && b.Available == credited, err
	}); err != nil {
		return err
	}
	s.printStep("available grew only by the clean 150 USDC, to %s", credited)
	return s.rejectDeposit(ctx, bad, thiefAddress, stolen, credited)
}

// rejectDeposit rejects a flagged deposit and finds the amount at its sender.
func (s *tourRun) rejectDeposit(
	ctx context.Context, bad webhook.Deposit, sender common.Address, amount *big.Int, credited string,
) error {
	path := "/deposits/" + bad.DepositID + "/reject"
	var refused *apiError
	if err := s.api.postJSON(ctx, path, map[string]any{}, nil); !errors.As(err, &refused) ||
		refused.Code != "FEATURE_DISABLED" {
		return fmt.Errorf("the organization's key decided about a flagged deposit: %w", err)
	}
	s.printStep("the organization's key may not decide about it: %d %s", refused.Status, refused.Code)
	var d webhook.Deposit
	if err := s.operator.postJSON(ctx, path, map[string]any{"note": "the tour sends it back"}, &d); err != nil {
		return err
	}
	if d.Status != "REJECTING" && d.Status != "REJECTED" {
		return fmt.Errorf("rejected, and it is %s", d.Status)
	}
	s.printStep("the operator rejects it: %s", d.Status)
	if _, err := s.waitEvent(
		ctx, webhook.CustomerDepositRejected, &d, func() bool { return d.DepositID == bad.DepositID },
	); err != nil {
		return err
	}
	r := d.Resolution
	if d.Status != "REJECTED" || r == nil || r.Decision != "REJECTED" || r.TxHash == nil ||
		orNull(r.ToAddress) != sender.Hex() || orNull(r.Amount) != amount.String() {
		return fmt.Errorf("CUSTOMER_DEPOSIT_REJECTED has another outcome: %s %+v", d.Status, r)
	}
	receipt, err := s.eth.TransactionReceipt(ctx, common.HexToHash(*r.TxHash))
	if err != nil {
		return fmt.Errorf("look for the transfer back, %s: %w", *r.TxHash, err)
	}
	moved := len(receipt.Logs) == 1 && receipt.Logs[0].Topics[0] == evmtoken.Token.ABI().Events["Transfer"].ID &&
		common.BytesToAddress(receipt.Logs[0].Topics[1][:]) == common.HexToAddress(bad.Address) &&
		common.BytesToAddress(receipt.Logs[0].Topics[2][:]) == sender
	if receipt.Status != types.ReceiptStatusSuccessful || !moved {
		return fmt.Errorf("%s is not a transfer from %s back to %s", *r.TxHash, bad.Address, sender)
	}
	held, err := s.chainBalance(ctx, s.usdc, sender)
	if err != nil {
		return err
	}
	if held.Cmp(amount) != 0 {
		return fmt.Errorf("the sender has %s on the chain, want exactly %s back", held, amount)
	}
	s.printStep("CUSTOMER_DEPOSIT_REJECTED: sent back by %s in block %d", *r.TxHash, receipt.BlockNumber)
	balanceAfter, err := s.loadBalance(ctx, s.usdc)
	if err != nil {
		return err
	}
	if balanceAfter.Available != credited {
		return fmt.Errorf("available is %s after the return, want %s", balanceAfter.Available, credited)
	}
	s.printStep("final: its sender has exactly %s again, and the customer's balance never included it", held)
	return nil
}

// tourBlockedWithdrawal shows that a withdrawal to a thief's address is blocked for good.
func (s *tourRun) tourBlockedWithdrawal(ctx context.Context) (err error) {
	s.printTitle("A withdrawal to a thief is blocked")
	thief := newAddress()
	if err := s.listAddress(ctx, thief); err != nil {
		return err
	}
	defer s.unlistAddress(ctx, thief, &err)
	balanceBefore, err := s.loadBalance(ctx, s.usdc)
	if err != nil {
		return err
	}
	body := map[string]any{
		"mintId": s.usdc.ID, "customerId": s.customer, "amount": "1000000", "toAddress": thief.Hex(),
		"idempotencyKey": "tour-" + randomHex(8),
	}
	var first, repeated *apiError
	if err := s.api.postJSON(ctx, "/withdraw", body, nil); !errors.As(err, &first) ||
		first.Status != http.StatusUnavailableForLegalReasons || first.WithdrawalID == "" {
		return fmt.Errorf("got %v, want 451 with a record", err)
	}
	s.printStep("%d %s, %q", first.Status, first.Code, first.Message)
	if err := s.api.postJSON(ctx, "/withdraw", body, nil); !errors.As(err, &repeated) || *repeated != *first {
		return fmt.Errorf("the same key got %v, want the first answer", err)
	}
	var w webhook.Withdrawal
	if err := s.api.getJSON(ctx, "/withdrawals/"+first.WithdrawalID, &w); err != nil {
		return err
	}
	balanceAfter, err := s.loadBalance(ctx, s.usdc)
	if err != nil {
		return err
	}
	if w.Status != "BLOCKED" || w.TxHash != nil || balanceAfter != balanceBefore {
		return fmt.Errorf(
			"blocked, and it is %s with %v of it sent; the balance went from %+v to %+v", w.Status, w.TxHash,
			balanceBefore, balanceAfter,
		)
	}
	s.printStep(
		"the same key gets the same answer; withdrawal %s is %s, pendingWithdraw %s and available %s as before",
		w.WithdrawalID, w.Status, balanceAfter.PendingWithdraw, balanceAfter.Available,
	)
	return nil
}

// orNull returns the value of a member, or "null".
func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// addAmounts adds to an amount in the form of the interface.
func addAmounts(a string, b *big.Int) (string, error) {
	sum, ok := new(big.Int).SetString(a, 10)
	if !ok {
		return "", fmt.Errorf("%q is not an amount", a)
	}
	return sum.Add(sum, b).String(), nil
}
