package flagged

import (
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/wire"
)

// Rules DEP-28, DEP-29 and RISK-3. A deposit from a risky sender stays where it is until a person
// approves it, and is swept then like any other.
func TestAnApprovedDepositIsSweptAndAFlaggedOneIsNot(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	good, bad := h.newStranger(risk.Medium), h.newStranger(risk.Severe)
	clean := h.customerAddress("clean")
	h.sendPayment(good, usdc, clean, 500*dollars)
	id := h.flagDeposit(bad, usdc, "ann", 700*dollars)
	h.settleAll()
	h.wantBalance("clean", usdc, 500*dollars)
	h.wantBalance("ann", usdc, 0)
	h.wantHolds(usdc, clean, 0)
	h.wantHolds(usdc, h.customerAddress("ann"), 700*dollars)
	_, err := h.Sweeper.SweepAll(h.ctx)
	h.mustSucceed(err)
	h.settleAll()
	h.wantHolds(usdc, h.customerAddress("ann"), 700*dollars)
	h.wantEvents(id, "CUSTOMER_DEPOSIT")
	_, err = h.Deposits.Approve(h.ctx, id, h.organizationDecider(), "known to us")
	h.mustSucceed(err)
	h.checkBooks()
	h.wantBalance("ann", usdc, 700*dollars)
	h.settleAll()
	h.settleAll()
	h.wantHolds(usdc, h.customerAddress("ann"), 0)
	h.wantHolds(usdc, evmAddress(h.treasury.Address), 1200*dollars)
	h.wantEvents(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_APPROVED")
}

// Rule DEP-31. A return of a token sends the whole amount, with gas from the treasury, and is
// announced when it is final.
func TestARejectedTokenGoesBackWholeToWhoSentIt(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	bad := h.newStranger(risk.Severe)
	id := h.flagDeposit(bad, usdc, "ann", 700*dollars)
	rejecting, err := h.Deposits.Reject(h.ctx, id, h.organizationDecider(), "")
	h.mustSucceed(err)
	d := wire.Deposit(rejecting)
	if d.Status != "REJECTING" {
		t.Fatalf("got %s, want REJECTING", d.Status)
	}
	h.checkBooks()
	for range 40 {
		// The first is from the creation of the token.
		if len(h.oracle.ReceivedBy(lowerHex(h.token), lowerHex(keyAddress(bad)))) > 1 {
			break
		}
		h.wantEvents(id, "CUSTOMER_DEPOSIT")
		h.passBlocks(1)
	}
	if d = h.loadDeposit(id); d.Status != "REJECTING" {
		t.Errorf("got %s when it is in a block, want REJECTING until that is final", d.Status)
	}
	h.wantEvents(id, "CUSTOMER_DEPOSIT")
	d = h.waitStatus(id, "REJECTED")
	h.runAllSteps()
	h.wantEvents(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REJECTED")
	got := h.oracle.ReceivedBy(lowerHex(h.token), lowerHex(keyAddress(bad)))
	if len(got) != 2 || got[1].Amount.Cmp(big.NewInt(700*dollars)) != 0 || d.Resolution.TxHash == nil ||
		*d.Resolution.TxHash != got[1].Tx {
		t.Errorf("the sender received %+v, want all of it once, in %v", got, d.Resolution.TxHash)
	}
	if n := h.queryNumber(
		`SELECT count(*) FROM gas_top_ups WHERE status = 'DONE' AND wallet_id = $1`, h.walletID("ann"),
	); n != 1 {
		t.Errorf("got %d top-ups, want one", n)
	}
	h.wantBalance("ann", usdc, 0)
	h.wantHolds(usdc, h.customerAddress("ann"), 0)
	if f := h.loadFunds("ann", usdc); !f.Held.IsZero() || !f.Reserved.IsZero() || !f.Spendable().IsZero() {
		t.Errorf("got %+v, want nothing left", f)
	}
}

// Rule DEP-31. A return of native coin keeps what the network may take. What is kept belongs to the
// organization, which is charged the network's fee.
func TestARejectedCoinGoesBackLessTheFee(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	bad := h.newStranger(risk.Severe)
	id := h.flagDeposit(bad, eth, "ann", params.Ether)
	_, err := h.Deposits.Reject(h.ctx, id, h.organizationDecider(), "")
	h.mustSucceed(err)
	h.waitStatus(id, "REJECTED")
	h.runAllSteps()
	got := h.oracle.ReceivedBy("", lowerHex(keyAddress(bad)))
	kept := money.MustParse(h.queryText(`SELECT fee_kept::text FROM deposit_resolutions WHERE deposit_id = $1`, id))
	sent, err := money.Units(params.Ether).Sub(kept)
	h.mustSucceed(err)
	if len(got) != 1 || got[0].Amount.String() != sent.String() || kept.IsZero() {
		t.Errorf("the sender received %+v, want %v once, %v kept", got, sent, kept)
	}
	h.holdsAccount(ledger.Account{OrgID: h.org, MintID: eth, Kind: ledger.Product, Subject: "CUSTODIAL"}, kept)
	h.wantBalance("ann", eth, 0)
	_, err = h.Sweeper.SweepAll(h.ctx) // the kept amount is swept like the organization's other funds
	h.mustSucceed(err)
	h.settleAll()
	if f := h.loadFunds("ann", eth); !f.Held.IsZero() || !f.Spendable().IsZero() {
		t.Errorf("got %+v, want nothing of the coin left to hold or to sweep", f)
	}
	h.wantEvents(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REJECTED")
}

// Rule DEP-32.
func TestADepositSmallerThanTheFeeStaysInTheQueue(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	bad := h.newStranger(risk.Severe)
	h.setThresholds(`"MEDIUM"`, `"0"`)
	id := h.flagDeposit(bad, eth, "ann", 5_000_000_000_000) // a cent and a half
	for n := range 2 {
		_, err := h.Deposits.Reject(h.ctx, id, h.organizationDecider(), "")
		h.wantFault(err, fault.InsufficientGas)
		d := h.loadDeposit(id)
		if d.Status != "FLAGGED" || len(d.ResolutionAttempts) != n+1 ||
			d.ResolutionAttempts[n].Reason != "INSUFFICIENT_GAS" || d.Resolution != nil {
			t.Errorf("got %s with %+v, want it in the queue with its attempts", d.Status, d.ResolutionAttempts)
		}
		h.checkBooks()
	}
	_, err := h.Deposits.Approve(h.ctx, id, h.organizationDecider(), "")
	h.mustSucceed(err)
	h.settleAll()
	h.wantBalance("ann", eth, 5_000_000_000_000)
}

// Rule DEP-31. Only the operator redirects a deposit.
func TestARedirectedDepositGoesWhereTheOperatorSays(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	bad := h.newStranger(risk.Severe)
	id := h.flagDeposit(bad, usdc, "ann", 700*dollars)
	court := common.HexToAddress("0x00000000000000000000000000000000000C0047")
	to := deposit.Redirection{ToAddress: court.Hex(), Reason: deposit.LawEnforcement, Reference: "order 12"}
	_, err := h.Deposits.Redirect(h.ctx, id, h.organizationDecider(), to)
	h.wantFault(err, fault.OperatorOnly)
	ours := to
	ours.ToAddress = h.customerAddress("bob").Hex()
	_, err = h.Deposits.Redirect(h.ctx, id, operatorDecider(), ours)
	h.wantFault(err, fault.DestinationNotAllowed)
	_, err = h.Deposits.Redirect(h.ctx, id, operatorDecider(), to)
	h.mustSucceed(err)
	h.waitStatus(id, "REDIRECTED")
	h.runAllSteps()
	got := h.oracle.ReceivedBy(lowerHex(h.token), lowerHex(court))
	if len(got) != 1 || got[0].Amount.Cmp(big.NewInt(700*dollars)) != 0 {
		t.Errorf("the court received %+v, want all of it once", got)
	}
	h.wantEvents(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REDIRECTED")
}

// Rule DEP-32. The signer refuses before anything can reach the chain.
func TestWhatTheSignerRefusesIsInTheQueueAgain(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, &local.Limit{
		PaymentMax: money.Units(800 * dollars), OrganizationMax: money.Units(1000 * dollars),
		OverallMax: money.Units(1000 * dollars),
	})
	bad, worse := h.newStranger(risk.Severe), h.newStranger(risk.High)
	first, second := h.flagDeposit(bad, usdc, "ann", 700*dollars), h.flagDeposit(worse, usdc, "bob", 600*dollars)
	_, err := h.Deposits.Reject(h.ctx, first, h.organizationDecider(), "")
	h.mustSucceed(err)
	h.waitStatus(first, "REJECTED")
	_, err = h.Deposits.Reject(h.ctx, second, h.organizationDecider(), "")
	h.mustSucceed(err)
	d := h.waitStatus(second, "FLAGGED")
	if len(d.ResolutionAttempts) != 1 || d.ResolutionAttempts[0].Reason == "" ||
		d.ResolutionAttempts[0].Action != "REJECT" {
		t.Fatalf("got %+v, want the attempt kept", d.ResolutionAttempts)
	}
	if n := h.queryNumber(`SELECT count(*) FROM dispatch_orders o JOIN deposit_resolutions r ON r.resolution_id = o.order_id
		WHERE r.deposit_id = $1 AND o.status = 'REFUSED'`, second); n != 1 {
		t.Errorf("got %d refused orders, want one", n)
	}
	if n := h.queryNumber(
		`SELECT count(*) FROM dispatch_attempts a JOIN deposit_resolutions r ON r.resolution_id = a.order_id WHERE r.deposit_id = $1`,
		second,
	); n != 0 {
		t.Errorf("got %d transactions, want none", n)
	}
	h.wantEvents(second, "CUSTOMER_DEPOSIT")
	h.advanceClock(25 * time.Hour) // the limit is per day
	_, err = h.Deposits.Reject(h.ctx, second, h.organizationDecider(), "")
	h.mustSucceed(err)
	d = h.waitStatus(second, "REJECTED")
	if len(d.ResolutionAttempts) != 1 || len(h.oracle.ReceivedBy(lowerHex(h.token), lowerHex(keyAddress(worse)))) != 2 {
		t.Errorf("got %+v, want one attempt that failed and one payment", d.ResolutionAttempts)
	}
}

// overtakePayment lets something happen on the chain before the transaction in the mempool, which
// is sent again afterwards.
func (h *testEnv) overtakePayment(id string, happens func()) {
	h.Helper()
	h.mustSucceed(h.node.DropTransaction(h.ctx, h.returnTx(id)))
	happens()
	h.mineBlocks(1)
	h.advanceClock(6 * turn)
}

// returnTx returns the broadcast transaction of a deposit's return, or "" if there is none.
func (h *testEnv) returnTx(id string) common.Hash {
	h.Helper()
	return common.HexToHash(h.queryText(`SELECT coalesce((SELECT a.tx_hash FROM dispatch_attempts a JOIN deposit_resolutions r ON r.resolution_id = a.order_id
		WHERE r.deposit_id = $1 AND r.status <> 'FAILED' AND a.sent_at IS NOT NULL ORDER BY a.version DESC LIMIT 1), '')`,
		id))
}

// waitReturnSent mines blocks until a return is in the mempool.
func (h *testEnv) waitReturnSent(id string) {
	h.Helper()
	for range 40 {
		if h.returnTx(id) != (common.Hash{}) {
			return
		}
		h.mineBlocks(1)
		h.advanceClock(turn)
		h.runAllSteps()
	}
	h.Fatalf("the return of %s is not out", id)
}

// Rule DEP-32, F11. A return that may have reached the chain is in no queue any more. The operator
// sends it again.
func TestAReturnThatRevertsIsTheOperatorsToComplete(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	bad := h.newStranger(risk.Severe)
	id := h.flagDeposit(bad, usdc, "ann", 700*dollars)
	_, err := h.Deposits.Reject(h.ctx, id, h.organizationDecider(), "")
	h.mustSucceed(err)
	h.waitReturnSent(id)
	h.overtakePayment(id, func() { h.callToken("blacklist", keyAddress(bad)) })
	h.waitStatus(id, "RESOLUTION_STUCK")
	h.wantEvents(id, "CUSTOMER_DEPOSIT")
	h.settleAll()
	h.wantHolds(usdc, h.customerAddress("ann"), 700*dollars)
	for name, act := range map[string]func() error{
		"approve": func() error { _, err := h.Deposits.Approve(h.ctx, id, operatorDecider(), ""); return err },
		"reject":  func() error { _, err := h.Deposits.Reject(h.ctx, id, operatorDecider(), ""); return err },
		"redirect": func() error {
			_, err := h.Deposits.Redirect(h.ctx, id, operatorDecider(), deposit.Redirection{
				ToAddress: keyAddress(bad).Hex(), Reason: deposit.ComplianceHold, Reference: "x",
			})
			return err
		},
	} {
		t.Logf("%s", name)
		h.wantFault(act(), fault.ResolutionStuckCode)
	}
	_, err = h.Sweeper.SweepAll(h.ctx)
	h.mustSucceed(err)
	h.settleAll()
	h.wantHolds(usdc, h.customerAddress("ann"), 700*dollars)
	h.callToken("unBlacklist", keyAddress(bad))
	h.mineBlocks(1)
	_, err = h.Deposits.Complete(h.ctx, id, h.organizationDecider(), "")
	h.wantFault(err, fault.OperatorOnly)
	_, err = h.Deposits.Complete(h.ctx, id, operatorDecider(), "the token lets it through again")
	h.mustSucceed(err)
	h.waitStatus(id, "REJECTED")
	h.runAllSteps()
	h.wantEvents(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REJECTED")
	if got := h.oracle.ReceivedBy(lowerHex(h.token), lowerHex(keyAddress(bad))); len(got) != 2 ||
		got[1].Amount.Cmp(big.NewInt(700*dollars)) != 0 {
		t.Errorf("the sender received %+v, want all of it once", got)
	}
}

// Rule DEP-32. The operator is asked to look at a return that is not final after an hour, and the
// return still resolves the deposit when it becomes final.
func TestAReturnThatIsOutForAnHourIsResolvedWhenItIsFinal(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	bad := h.newStranger(risk.Severe)
	id := h.flagDeposit(bad, usdc, "ann", 700*dollars)
	_, err := h.Deposits.Reject(h.ctx, id, h.organizationDecider(), "")
	h.mustSucceed(err)
	h.waitReturnSent(id)
	h.advanceClock(59 * time.Minute)
	h.runAllSteps()
	if d := h.loadDeposit(id); d.Status != "REJECTING" {
		t.Errorf("within the hour: got %s, want REJECTING", d.Status)
	}
	h.advanceClock(2 * time.Minute)
	h.runAllSteps()
	if d := h.loadDeposit(id); d.Status != "RESOLUTION_STUCK" {
		t.Fatalf("after an hour: got %s, want RESOLUTION_STUCK", d.Status)
	}
	h.wantEvents(id, "CUSTOMER_DEPOSIT")
	_, err = h.Deposits.Complete(h.ctx, id, operatorDecider(), "")
	h.wantFault(err, fault.ResolutionInProgress)
	h.waitStatus(id, "REJECTED")
	h.runAllSteps()
	h.wantEvents(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REJECTED")
	if got := h.oracle.ReceivedBy(lowerHex(h.token), lowerHex(keyAddress(bad))); len(got) != 2 {
		t.Errorf("the sender received %+v, want it once", got)
	}
}

// I-25, S07 and F10. At every stage of a sweep from the address, the sweep takes what was credited
// and nothing that is flagged.
func TestADepositFlaggedWhileItsAddressIsSweptStays(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"before the plan", "between plan and signature", "after the broadcast"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t, nil)
			good, bad := h.newStranger(risk.Low), h.newStranger(risk.Severe)
			ann := h.customerAddress("ann")
			flag := func() {
				h.sendPayment(bad, usdc, ann, 300*dollars)
				h.mineBlocks(finality + 1)
				h.advanceClock(turn)
				h.runStepsUpTo("credits")
				if got := h.listDeposits(deposit.Filter{Status: "FLAGGED"}); len(got) != 1 {
					t.Fatalf("got %d flagged, want one", len(got))
				}
			}
			if at == "before the plan" {
				flag()
			}
			h.sendPayment(good, usdc, ann, 500*dollars)
			h.mineBlocks(finality + 1)
			h.advanceClock(turn)
			h.runStepsUpTo("sweeps")
			if n := h.queryNumber(
				`SELECT count(*) FROM sweeps WHERE status = 'OPEN' AND wallet_id = $1 AND amount = $2`,
				h.walletID("ann"), 500*dollars,
			); n != 1 {
				t.Fatalf("got %d sweeps of what was credited, want one", n)
			}
			switch at {
			case "between plan and signature":
				flag()
			case "after the broadcast":
				for range 40 {
					if h.queryNumber(
						`SELECT count(*) FROM dispatch_orders WHERE purpose = 'SWEEP' AND status = 'BROADCAST'`,
					) == 1 {
						break
					}
					h.runAllSteps()
					if h.queryNumber(
						`SELECT count(*) FROM dispatch_orders WHERE purpose = 'SWEEP' AND status = 'BROADCAST'`,
					) == 0 {
						h.mineBlocks(1)
						h.advanceClock(turn)
					}
				}
				flag()
			}
			h.settleAll()
			h.settleAll()
			h.wantHolds(usdc, ann, 300*dollars)
			h.wantHolds(usdc, evmAddress(h.treasury.Address), 500*dollars)
			h.wantBalance("ann", usdc, 500*dollars)
		})
	}
}

// I-26. The gas for credited deposits comes from the treasury, and the flagged coin at the same
// address stays whole.
func TestAFlaggedCoinPaysNoGas(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	good, bad := h.newStranger(risk.Low), h.newStranger(risk.Severe)
	ann := h.customerAddress("ann")
	id := h.flagDeposit(bad, eth, "ann", params.Ether)
	h.sendPayment(good, usdc, ann, 500*dollars)
	h.settleAll()
	h.settleAll()
	h.wantHolds(usdc, ann, 0)
	if n := h.queryNumber(
		`SELECT count(*) FROM gas_top_ups WHERE status = 'DONE' AND wallet_id = $1`, h.walletID("ann"),
	); n != 1 {
		t.Errorf("got %d top-ups, want one: the coin on the address pays nothing", n)
	}
	if got := h.chainBalance(eth, ann); got.Cmp(big.NewInt(params.Ether)) < 0 {
		t.Errorf("%v of the coin is left, want all that is flagged", got)
	}
	if f := h.loadFunds("ann", eth); f.Held != money.Units(params.Ether) {
		t.Errorf("got %+v, want all of it held", f)
	}
	_, err := h.Deposits.Approve(h.ctx, id, operatorDecider(), "")
	h.mustSucceed(err)
	h.settleAll()
	h.wantBalance("ann", eth, params.Ether)
}

// Rules DEP-31 and DEP-32. Dispatch finds out before it signs anything that a contract accepts no
// coin.
func TestAContractThatTakesNothingBackLeavesTheDepositInTheQueue(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	refuser, err := h.node.DeployContract(h.ctx, evmtoken.Refuser)
	h.mustSucceed(err)
	bad := h.newStranger(risk.Severe)
	id := h.flagDeposit(bad, eth, "ann", params.Ether)
	_, err = h.Deposits.Redirect(h.ctx, id, operatorDecider(), deposit.Redirection{
		ToAddress: refuser.Hex(), Reason: deposit.ComplianceHold, Reference: "case 3",
	})
	h.mustSucceed(err)
	h.passBlocks(1)
	d := h.waitStatus(id, "FLAGGED")
	if len(d.ResolutionAttempts) != 1 || d.ResolutionAttempts[0].Action != "REDIRECT" ||
		d.ResolutionAttempts[0].Reason != "PAYEE" {
		t.Errorf("got %+v, want the attempt kept", d.ResolutionAttempts)
	}
	_, err = h.Deposits.Reject(h.ctx, id, operatorDecider(), "")
	h.mustSucceed(err)
	h.waitStatus(id, "REJECTED")
}

// Rule RISK-4. A provider's silence never lets a deposit pass, however long it lasts.
func TestSilenceOfTheProviderFlagsInTheEnd(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	unknown := h.newStranger(risk.Low)
	delete(h.severities, chain.Address(keyAddress(unknown).Hex()))
	h.sendPayment(unknown, usdc, h.customerAddress("ann"), 500*dollars)
	h.settleAll()
	h.wantBalance("ann", usdc, 0)
	if got := h.listDeposits(deposit.Filter{Status: "SCREENING"}); len(got) != 1 {
		t.Fatalf("got %d that wait, want one", len(got))
	}
	h.advanceClock(risk.GraceDefault)
	h.runAllSteps()
	got := h.listDeposits(deposit.Filter{Status: "FLAGGED"})
	if len(got) != 1 || got[0].RiskOfFunds == nil || *got[0].RiskOfFunds != "UNKNOWN" {
		t.Fatalf("got %+v, want it flagged as unknown", got)
	}
	h.wantBalance("ann", usdc, 0)
}
