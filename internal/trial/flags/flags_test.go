package flags

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
)

// Rules DEP-28, DEP-29 and RISK-3: what a provider thinks ill of stays where it is until
// somebody approves it, and is swept then like any other.
func TestAnApprovedDepositIsSweptAndAFlaggedOneIsNot(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	good, bad := h.stranger(risk.Medium), h.stranger(risk.Severe)
	clean := h.customer("clean")
	h.pay(good, usdc, clean, 500*dollars)
	id := h.flagged(bad, usdc, "ann", 700*dollars)
	h.settle()
	h.has("clean", usdc, 500*dollars)
	h.has("ann", usdc, 0)
	h.wantHolds(usdc, clean, 0)
	h.wantHolds(usdc, h.customer("ann"), 700*dollars)
	_, err := h.Sweeper.All(h.ctx)
	h.must(err)
	h.settle()
	h.wantHolds(usdc, h.customer("ann"), 700*dollars)
	h.told(id, "CUSTOMER_DEPOSIT")
	_, err = h.Flags.Approve(h.ctx, id, h.organization(), "known to us")
	h.must(err)
	h.sound()
	h.has("ann", usdc, 700*dollars)
	h.settle()
	h.settle()
	h.wantHolds(usdc, h.customer("ann"), 0)
	h.wantHolds(usdc, raw(h.treasury.Address), 1200*dollars)
	h.told(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_APPROVED")
}

// Rule DEP-31: all of a token, by gas from the treasury, and told when it is final.
func TestARejectedTokenGoesBackWholeToWhoSentIt(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	bad := h.stranger(risk.Severe)
	id := h.flagged(bad, usdc, "ann", 700*dollars)
	d, err := h.Flags.Reject(h.ctx, id, h.organization(), "")
	h.must(err)
	if d.Status != "REJECTING" {
		t.Fatalf("got %s, want REJECTING", d.Status)
	}
	h.sound()
	for range 40 {
		if len(h.oracle.Received(lower(h.token), lower(address(bad)))) > 1 { // the first is of the token's making
			break
		}
		h.told(id, "CUSTOMER_DEPOSIT")
		h.pass(1)
	}
	if d = h.deposit(id); d.Status != "REJECTING" {
		t.Errorf("got %s when it is in a block, want REJECTING until that is final", d.Status)
	}
	h.told(id, "CUSTOMER_DEPOSIT")
	d = h.until(id, "REJECTED")
	h.turn()
	h.told(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REJECTED")
	got := h.oracle.Received(lower(h.token), lower(address(bad)))
	if len(got) != 2 || got[1].Amount.Cmp(big.NewInt(700*dollars)) != 0 || d.Resolution.TxHash == nil || *d.Resolution.TxHash != got[1].Tx {
		t.Errorf("the sender received %+v, want all of it once, in %v", got, d.Resolution.TxHash)
	}
	if n := h.number(`SELECT count(*) FROM gas_top_ups WHERE status = 'DONE' AND wallet_id = $1`, h.wallet("ann")); n != 1 {
		t.Errorf("got %d top-ups, want one", n)
	}
	h.has("ann", usdc, 0)
	h.wantHolds(usdc, h.customer("ann"), 0)
	if f := h.funds("ann", usdc); !f.Held.IsZero() || !f.Reserved.IsZero() || !f.Spendable().IsZero() {
		t.Errorf("got %+v, want nothing left", f)
	}
}

// Rule DEP-31: what is kept of a native coin is what the network may take, and belongs
// to the organization, whom the network's fee is billed to.
func TestARejectedCoinGoesBackLessTheFee(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	bad := h.stranger(risk.Severe)
	id := h.flagged(bad, eth, "ann", params.Ether)
	_, err := h.Flags.Reject(h.ctx, id, h.organization(), "")
	h.must(err)
	h.until(id, "REJECTED")
	h.turn()
	got := h.oracle.Received("", lower(address(bad)))
	kept := money.MustParse(h.word(`SELECT fee_kept::text FROM deposit_resolutions WHERE deposit_id = $1`, id))
	sent, err := money.Units(params.Ether).Sub(kept)
	h.must(err)
	if len(got) != 1 || got[0].Amount.String() != sent.String() || kept.IsZero() {
		t.Errorf("the sender received %+v, want %v once, %v kept", got, sent, kept)
	}
	h.holdsAccount(ledger.Account{OrgID: h.org, MintID: eth, Kind: ledger.Product, Subject: "CUSTODIAL"}, kept)
	h.has("ann", eth, 0)
	_, err = h.Sweeper.All(h.ctx) // what was kept is swept as anything of the organization's
	h.must(err)
	h.settle()
	if f := h.funds("ann", eth); !f.Held.IsZero() || !f.Spendable().IsZero() {
		t.Errorf("got %+v, want nothing of the coin left to hold or to sweep", f)
	}
	h.told(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REJECTED")
}

// Rule DEP-32.
func TestADepositSmallerThanTheFeeStaysInTheQueue(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	bad := h.stranger(risk.Severe)
	h.thresholds(`"MEDIUM"`, `"0"`)
	id := h.flagged(bad, eth, "ann", 5_000_000_000_000) // a cent and a half
	for n := range 2 {
		_, err := h.Flags.Reject(h.ctx, id, h.organization(), "")
		h.wantFault(err, fault.InsufficientGas)
		d := h.deposit(id)
		if d.Status != "FLAGGED" || len(d.ResolutionAttempts) != n+1 || d.ResolutionAttempts[n].Reason != "INSUFFICIENT_GAS" || d.Resolution != nil {
			t.Errorf("got %s with %+v, want it in the queue with its attempts", d.Status, d.ResolutionAttempts)
		}
		h.sound()
	}
	_, err := h.Flags.Approve(h.ctx, id, h.organization(), "")
	h.must(err)
	h.settle()
	h.has("ann", eth, 5_000_000_000_000)
}

// Rule DEP-31: only the operator sends a deposit elsewhere.
func TestARedirectedDepositGoesWhereTheOperatorSays(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	bad := h.stranger(risk.Severe)
	id := h.flagged(bad, usdc, "ann", 700*dollars)
	court := common.HexToAddress("0x00000000000000000000000000000000000C0047")
	to := deposit.Redirection{To: court.Hex(), Reason: deposit.LawEnforcement, Reference: "order 12"}
	_, err := h.Flags.Redirect(h.ctx, id, h.organization(), to)
	h.wantFault(err, fault.OperatorOnly)
	ours := to
	ours.To = h.customer("bob").Hex()
	_, err = h.Flags.Redirect(h.ctx, id, operator(), ours)
	h.wantFault(err, fault.DestinationNotAllowed)
	_, err = h.Flags.Redirect(h.ctx, id, operator(), to)
	h.must(err)
	h.until(id, "REDIRECTED")
	h.turn()
	got := h.oracle.Received(lower(h.token), lower(court))
	if len(got) != 1 || got[0].Amount.Cmp(big.NewInt(700*dollars)) != 0 {
		t.Errorf("the court received %+v, want all of it once", got)
	}
	h.told(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REDIRECTED")
}

// Rule DEP-32: the signer's refusal comes before anything can reach the chain.
func TestWhatTheSignerRefusesIsInTheQueueAgain(t *testing.T) {
	t.Parallel()
	h := open(t, &local.Limit{PaymentMax: money.Units(800 * dollars), OrganizationMax: money.Units(1000 * dollars), OverallMax: money.Units(1000 * dollars)})
	bad, worse := h.stranger(risk.Severe), h.stranger(risk.High)
	first, second := h.flagged(bad, usdc, "ann", 700*dollars), h.flagged(worse, usdc, "bob", 600*dollars)
	_, err := h.Flags.Reject(h.ctx, first, h.organization(), "")
	h.must(err)
	h.until(first, "REJECTED")
	_, err = h.Flags.Reject(h.ctx, second, h.organization(), "")
	h.must(err)
	d := h.until(second, "FLAGGED")
	if len(d.ResolutionAttempts) != 1 || d.ResolutionAttempts[0].Reason == "" || d.ResolutionAttempts[0].Action != "REJECT" {
		t.Fatalf("got %+v, want the attempt kept", d.ResolutionAttempts)
	}
	if n := h.number(`SELECT count(*) FROM dispatch_orders o JOIN deposit_resolutions r ON r.resolution_id = o.order_id
		WHERE r.deposit_id = $1 AND o.status = 'REFUSED'`, second); n != 1 {
		t.Errorf("got %d refused orders, want one", n)
	}
	if n := h.number(`SELECT count(*) FROM dispatch_attempts a JOIN deposit_resolutions r ON r.resolution_id = a.order_id WHERE r.deposit_id = $1`, second); n != 0 {
		t.Errorf("got %d transactions, want none", n)
	}
	h.told(second, "CUSTOMER_DEPOSIT")
	h.later(25 * time.Hour) // the limit is of a day
	_, err = h.Flags.Reject(h.ctx, second, h.organization(), "")
	h.must(err)
	d = h.until(second, "REJECTED")
	if len(d.ResolutionAttempts) != 1 || len(h.oracle.Received(lower(h.token), lower(address(worse)))) != 2 {
		t.Errorf("got %+v, want one attempt that failed and one payment", d.ResolutionAttempts)
	}
}

// overtaken has something happen on the chain before what is in the pool, which goes
// out again afterwards.
func (h *house) overtaken(id string, happens func()) {
	h.Helper()
	h.must(h.node.DropTransaction(h.ctx, h.sent(id)))
	happens()
	h.mine(1)
	h.later(6 * turn)
}

// sent is the transaction of a deposit's return that is out, "" when none is.
func (h *house) sent(id string) common.Hash {
	h.Helper()
	return common.HexToHash(h.word(`SELECT coalesce((SELECT a.tx_hash FROM dispatch_attempts a JOIN deposit_resolutions r ON r.resolution_id = a.order_id
		WHERE r.deposit_id = $1 AND r.status <> 'FAILED' AND a.sent_at IS NOT NULL ORDER BY a.version DESC LIMIT 1), '')`, id))
}

// out lets blocks go by until a return is in the pool.
func (h *house) out(id string) {
	h.Helper()
	for range 40 {
		if h.sent(id) != (common.Hash{}) {
			return
		}
		h.mine(1)
		h.later(turn)
		h.turn()
	}
	h.Fatalf("the return of %s is not out", id)
}

// Rule DEP-32, F11: what may have reached the chain is in no queue any more. The operator
// has it sent again.
func TestAReturnThatRevertsIsTheOperatorsToComplete(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	bad := h.stranger(risk.Severe)
	id := h.flagged(bad, usdc, "ann", 700*dollars)
	_, err := h.Flags.Reject(h.ctx, id, h.organization(), "")
	h.must(err)
	h.out(id)
	h.overtaken(id, func() { h.act("blacklist", address(bad)) })
	h.until(id, "RESOLUTION_STUCK")
	h.told(id, "CUSTOMER_DEPOSIT")
	h.settle()
	h.wantHolds(usdc, h.customer("ann"), 700*dollars)
	for name, act := range map[string]func() error{
		"approve": func() error { _, err := h.Flags.Approve(h.ctx, id, operator(), ""); return err },
		"reject":  func() error { _, err := h.Flags.Reject(h.ctx, id, operator(), ""); return err },
		"redirect": func() error {
			_, err := h.Flags.Redirect(h.ctx, id, operator(), deposit.Redirection{To: address(bad).Hex(), Reason: deposit.ComplianceHold, Reference: "x"})
			return err
		},
	} {
		t.Logf("%s", name)
		h.wantFault(act(), fault.ResolutionStuckCode)
	}
	_, err = h.Sweeper.All(h.ctx)
	h.must(err)
	h.settle()
	h.wantHolds(usdc, h.customer("ann"), 700*dollars)
	h.act("unBlacklist", address(bad))
	h.mine(1)
	_, err = h.Flags.Complete(h.ctx, id, h.organization(), "")
	h.wantFault(err, fault.OperatorOnly)
	_, err = h.Flags.Complete(h.ctx, id, operator(), "the token lets it through again")
	h.must(err)
	h.until(id, "REJECTED")
	h.turn()
	h.told(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REJECTED")
	if got := h.oracle.Received(lower(h.token), lower(address(bad))); len(got) != 2 || got[1].Amount.Cmp(big.NewInt(700*dollars)) != 0 {
		t.Errorf("the sender received %+v, want all of it once", got)
	}
}

// Rule DEP-32: what is not final after an hour is for the operator to look at, and is
// resolved all the same when it becomes final.
func TestAReturnThatIsOutForAnHourIsResolvedWhenItIsFinal(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	bad := h.stranger(risk.Severe)
	id := h.flagged(bad, usdc, "ann", 700*dollars)
	_, err := h.Flags.Reject(h.ctx, id, h.organization(), "")
	h.must(err)
	h.out(id)
	h.later(59 * time.Minute)
	h.turn()
	if d := h.deposit(id); d.Status != "REJECTING" {
		t.Errorf("within the hour: got %s, want REJECTING", d.Status)
	}
	h.later(2 * time.Minute)
	h.turn()
	if d := h.deposit(id); d.Status != "RESOLUTION_STUCK" {
		t.Fatalf("after an hour: got %s, want RESOLUTION_STUCK", d.Status)
	}
	h.told(id, "CUSTOMER_DEPOSIT")
	_, err = h.Flags.Complete(h.ctx, id, operator(), "")
	h.wantFault(err, fault.ResolutionInProgress)
	h.until(id, "REJECTED")
	h.turn()
	h.told(id, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REJECTED")
	if got := h.oracle.Received(lower(h.token), lower(address(bad))); len(got) != 2 {
		t.Errorf("the sender received %+v, want it once", got)
	}
}

// I-25, S07 and F10: whatever a sweep of the address is at, it takes what was credited
// and nothing of what is flagged.
func TestADepositFlaggedWhileItsAddressIsSweptStays(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"before the plan", "between plan and signature", "after the broadcast"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			h := open(t, nil)
			good, bad := h.stranger(risk.Low), h.stranger(risk.Severe)
			ann := h.customer("ann")
			flag := func() {
				h.pay(bad, usdc, ann, 300*dollars)
				h.mine(finality + 1)
				h.later(turn)
				h.through("credits")
				if got := h.deposits(deposit.Filter{Status: "FLAGGED"}); len(got) != 1 {
					t.Fatalf("got %d flagged, want one", len(got))
				}
			}
			if at == "before the plan" {
				flag()
			}
			h.pay(good, usdc, ann, 500*dollars)
			h.mine(finality + 1)
			h.later(turn)
			h.through("sweeps")
			if n := h.number(`SELECT count(*) FROM sweeps WHERE status = 'OPEN' AND wallet_id = $1 AND amount = $2`, h.wallet("ann"), 500*dollars); n != 1 {
				t.Fatalf("got %d sweeps of what was credited, want one", n)
			}
			switch at {
			case "between plan and signature":
				flag()
			case "after the broadcast":
				for range 40 {
					if h.number(`SELECT count(*) FROM dispatch_orders WHERE purpose = 'SWEEP' AND status = 'BROADCAST'`) == 1 {
						break
					}
					h.turn()
					if h.number(`SELECT count(*) FROM dispatch_orders WHERE purpose = 'SWEEP' AND status = 'BROADCAST'`) == 0 {
						h.mine(1)
						h.later(turn)
					}
				}
				flag()
			}
			h.settle()
			h.settle()
			h.wantHolds(usdc, ann, 300*dollars)
			h.wantHolds(usdc, raw(h.treasury.Address), 500*dollars)
			h.has("ann", usdc, 500*dollars)
		})
	}
}

// I-26: the gas for what is clean comes from the treasury, and the coin that is flagged
// beside it is all there.
func TestAFlaggedCoinPaysNoGas(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	good, bad := h.stranger(risk.Low), h.stranger(risk.Severe)
	ann := h.customer("ann")
	id := h.flagged(bad, eth, "ann", params.Ether)
	h.pay(good, usdc, ann, 500*dollars)
	h.settle()
	h.settle()
	h.wantHolds(usdc, ann, 0)
	if n := h.number(`SELECT count(*) FROM gas_top_ups WHERE status = 'DONE' AND wallet_id = $1`, h.wallet("ann")); n != 1 {
		t.Errorf("got %d top-ups, want one: the coin on the address pays nothing", n)
	}
	if got := h.holds(eth, ann); got.Cmp(big.NewInt(params.Ether)) < 0 {
		t.Errorf("%v of the coin is left, want all that is flagged", got)
	}
	if f := h.funds("ann", eth); f.Held != money.Units(params.Ether) {
		t.Errorf("got %+v, want all of it held", f)
	}
	_, err := h.Flags.Approve(h.ctx, id, operator(), "")
	h.must(err)
	h.settle()
	h.has("ann", eth, params.Ether)
}

// Rules DEP-31 and DEP-32: a contract that takes no coin back is found out before
// anything is signed.
func TestAContractThatTakesNothingBackLeavesTheDepositInTheQueue(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	refuser, err := h.node.Deploy(h.ctx, evmtoken.Refuser)
	h.must(err)
	bad := h.stranger(risk.Severe)
	id := h.flagged(bad, eth, "ann", params.Ether)
	_, err = h.Flags.Redirect(h.ctx, id, operator(), deposit.Redirection{To: refuser.Hex(), Reason: deposit.ComplianceHold, Reference: "case 3"})
	h.must(err)
	h.pass(1)
	d := h.until(id, "FLAGGED")
	if len(d.ResolutionAttempts) != 1 || d.ResolutionAttempts[0].Action != "REDIRECT" || d.ResolutionAttempts[0].Reason != "PAYEE" {
		t.Errorf("got %+v, want the attempt kept", d.ResolutionAttempts)
	}
	_, err = h.Flags.Reject(h.ctx, id, operator(), "")
	h.must(err)
	h.until(id, "REJECTED")
}

// Rule RISK-4: nobody's silence passes, however long it lasts.
func TestSilenceOfTheProviderFlagsInTheEnd(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	unknown := h.stranger(risk.Low)
	delete(h.says, chain.Address(address(unknown).Hex()))
	h.pay(unknown, usdc, h.customer("ann"), 500*dollars)
	h.settle()
	h.has("ann", usdc, 0)
	if got := h.deposits(deposit.Filter{Status: "SCREENING"}); len(got) != 1 {
		t.Fatalf("got %d that wait, want one", len(got))
	}
	h.later(risk.GraceDefault)
	h.turn()
	got := h.deposits(deposit.Filter{Status: "FLAGGED"})
	if len(got) != 1 || got[0].RiskOfFunds == nil || *got[0].RiskOfFunds != "UNKNOWN" {
		t.Fatalf("got %+v, want it flagged as unknown", got)
	}
	h.has("ann", usdc, 0)
}
