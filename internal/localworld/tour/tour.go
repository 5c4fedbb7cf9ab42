// Package tour runs the story of the service against a running local world. It uses only what an
// integrator and the operator have: the two interfaces, the chain's own RPC and a webhook receiver.
// Every step prints what really happened, and the first step that fails ends the tour with an
// error.
package tour

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/webhook"
)

// Options say which world to tour.
type Options struct {
	Info   localworld.Info
	Output io.Writer
	// Decide approves or removes a held withdrawal as the person with this e-mail does, for example with
	// the coffer command.
	Decide func(ctx context.Context, email, withdrawalID string, approve bool) error
	// DecideSwap approves or rejects a swap of the organization's own money that waits for it, as Decide does.
	DecideSwap func(ctx context.Context, email, swapID string, approve bool) error
	// ApprovePayout approves a batch payout that waits for it by its content hash, as Decide does.
	ApprovePayout func(ctx context.Context, email, batchID, contentHash string) error
	// Command runs a command of coffer and returns what it prints.
	Command func(ctx context.Context, args ...string) (string, error)
	// Check runs the verifier and returns the breaches that it found.
	Check func(ctx context.Context) ([]string, error)
	// Holds returns the balance of an address in the final block, on chains other than Ethereum,
	// which the tour reads itself.
	Holds func(ctx context.Context, m localworld.Mint, address string) (money.Amount, error)
	// Interrupt, if set, kills the service while it pays a list and starts it again, to show that nothing depends on
	// one process that stays up.
	Interrupt func(ctx context.Context) (localworld.Interruption, error)
}

// stepMax is how long one step may take before it counts as failed.
const stepMax = 4 * time.Minute

// tourRun is a tour in progress.
type tourRun struct {
	Options
	api           *api
	eth           *ethclient.Client
	receiver      *receiver
	endpoint      string // the webhook endpoint's id; "" when there is none
	firstSequence int64  // the sequence of the last event before the endpoint
	customer      string
	steps         int
	usdc          localworld.Mint
	ether         localworld.Mint
	operator      *api
	lateSwap      webhook.CustomerSwap // that startLateSwap requested
}

// Play runs the tour from the first address to the last check.
func Play(ctx context.Context, o Options) (err error) {
	s := &tourRun{Options: o, api: newAPI(o.Info.BaseURL, "x-api-key", o.Info.APIKey), customer: "user_" + randomHex(4)}
	s.operator = newAPI(o.Info.OperatorURL+"/v1", "x-operator-key", o.Info.Operator.APIKey)
	started := time.Now()
	if err := s.connect(ctx); err != nil {
		return err
	}
	defer s.eth.Close()
	defer s.receiver.closeServer()
	defer func() { err = errors.Join(err, s.unsubscribe(ctx)) }()
	for _, chapter := range []func(context.Context) error{
		s.startListening, s.tourDeposit, s.tourNativeCoin, s.startLateSwap, s.tourWithdrawal, s.tourApproval,
		s.tourTwoApprovals, s.tourRemoval, s.tourRefusals, s.tourScreening, s.tourOtherChains, s.tourSwaps,
		s.tourRefundedSwap, s.tourDepositSwap, s.tourOrganizationSwaps, s.tourCheckouts, s.tourPayouts,
		s.tourLateSwap, s.tourBilling, s.checkFeedOrder, s.checkBooks, s.unsubscribe,
	} {
		if err := chapter(ctx); err != nil {
			fmt.Fprintf(s.Output, "\n  x  %v\n", err)
			return err
		}
	}
	fmt.Fprintf(
		s.Output, "\nThe tour is complete: %d steps in %s.\n", s.steps, time.Since(started).Round(100*time.Millisecond),
	)
	return nil
}

func (s *tourRun) connect(ctx context.Context) (err error) {
	chain, ok := s.Info.Chains["ETHEREUM"]
	if !ok {
		return errors.New("this world has no Ethereum")
	}
	if s.eth, err = ethclient.DialContext(ctx, chain.RPCURL); err != nil {
		return fmt.Errorf("reach the chain: %w", err)
	}
	if s.receiver, err = newReceiver(); err != nil {
		return err
	}
	for _, m := range s.Info.Mints {
		switch {
		case m.Chain == "ETHEREUM" && m.Symbol == "USDC":
			s.usdc = m
		case m.Chain == "ETHEREUM" && m.ContractAddress == nil:
			s.ether = m
		}
	}
	if s.usdc.ID == 0 || s.ether.ID == 0 {
		return errors.New("this world has no USDC or no ETH on Ethereum")
	}
	return nil
}

// printTitle begins a chapter.
func (s *tourRun) printTitle(format string, args ...any) {
	fmt.Fprintf(s.Output, "\n"+format+"\n", args...)
}

func (s *tourRun) printStep(format string, args ...any) {
	s.steps++
	fmt.Fprintf(s.Output, "  %2d  "+format+"\n", append([]any{s.steps}, args...)...)
}

func (s *tourRun) startListening(ctx context.Context) error {
	s.printTitle("The marketplace listens")
	var endpoint struct {
		EndpointID string `json:"endpointId"`
		Secret     string `json:"secret"`
	}
	if err := s.api.postJSON(
		ctx, "/webhook-endpoints",
		map[string]any{"url": s.receiver.url, "description": "the tour", "events": []string{"*"}}, &endpoint,
	); err != nil {
		return err
	}
	s.endpoint = endpoint.EndpointID
	s.receiver.setSecret(endpoint.Secret)
	earlier, err := s.readFeed(ctx, 0)
	if err != nil {
		return err
	}
	s.firstSequence = int64(len(earlier))
	s.printStep("webhook endpoint %s receives at %s", endpoint.EndpointID, s.receiver.url)
	return nil
}

// unsubscribeMax is how long unsubscribe waits for its answer.
const unsubscribeMax = 10 * time.Second

// unsubscribe deletes the endpoint, whose receiver ends with the tour: its deliveries would fail
// from then on. It also does so once after an interrupted or failed tour.
func (s *tourRun) unsubscribe(ctx context.Context) error {
	if s.endpoint == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeMax)
	defer cancel()
	if err := s.api.callAPI(ctx, http.MethodDelete, "/webhook-endpoints/"+s.endpoint, nil, nil); err != nil {
		return fmt.Errorf("delete the tour's webhook endpoint: %w", err)
	}
	s.printTitle("The marketplace stops listening")
	s.printStep("webhook endpoint %s is deleted", s.endpoint)
	s.endpoint = ""
	return nil
}

// tourDeposit shows a deposit, from the address to the credited balance and the signed event.
func (s *tourRun) tourDeposit(ctx context.Context) error {
	s.printTitle("A customer pays in")
	address, err := s.createDepositAddress(ctx, s.usdc)
	if err != nil {
		return err
	}
	s.printStep("deposit address of %s on Ethereum: %s", s.customer, address)
	repeated, err := s.createDepositAddress(ctx, s.usdc)
	if err != nil {
		return err
	}
	if repeated != address {
		return fmt.Errorf("the second call returned another address, %s", repeated)
	}
	s.printStep("the second call returns the same address")

	amount := atomicUnits(250, s.usdc)
	hash, err := s.payFromFaucet(ctx, s.usdc, address, amount)
	if err != nil {
		return err
	}
	s.printStep("sent 250 USDC from outside: %s", hash)
	shown := false
	err = s.waitUntil(ctx, "the deposit is credited", func() (bool, error) {
		b, err := s.loadBalance(ctx, s.usdc)
		if err == nil && !shown && b.PendingDeposit == amount.String() && b.Available == "0" {
			shown = true
			s.printStep("seen and not final yet: pendingDeposit %s, available 0", b.PendingDeposit)
		}
		return err == nil && b.Available == amount.String(), err
	})
	if err != nil {
		return err
	}
	// The final block is read after the balance, so that a slow reader causes no false alarm.
	final, err := s.eth.HeaderByNumber(ctx, big.NewInt(int64(rpc.FinalizedBlockNumber)))
	if err != nil {
		return fmt.Errorf("read the finalized block: %w", err)
	}
	receipt, err := s.eth.TransactionReceipt(ctx, common.HexToHash(hash))
	if err != nil {
		return fmt.Errorf("read the receipt of %s: %w", hash, err)
	}
	if final.Number.Cmp(receipt.BlockNumber) < 0 {
		return fmt.Errorf(
			"the deposit of block %d was credited while block %d was the newest final one", receipt.BlockNumber,
			final.Number,
		)
	}
	s.printStep("final: available is %s", amount)
	var d webhook.Deposit
	e, err := s.waitEvent(ctx, webhook.CustomerDeposit, &d, func() bool { return d.TxHash == hash })
	if err != nil {
		return err
	}
	if d.Amount != amount.String() || d.IsFlagged || d.Status != "CREDITED" || *d.CustomerID != s.customer {
		return fmt.Errorf("CUSTOMER_DEPOSIT is about another deposit: %+v", d)
	}
	s.printStep("CUSTOMER_DEPOSIT %s number %d, signature verified (HMAC), deposit %s", e.ID, e.Sequence, d.DepositID)
	return nil
}

// tourNativeCoin deposits native coin, once as a payment and once inside a contract call.
func (s *tourRun) tourNativeCoin(ctx context.Context) error {
	s.printTitle("Native coin counts too")
	address, err := s.createDepositAddress(ctx, s.ether)
	if err != nil {
		return err
	}
	amount := new(big.Int).Div(atomicUnits(3, s.ether), big.NewInt(2))
	hash, err := s.payFromFaucet(ctx, s.ether, address, amount)
	if err != nil {
		return err
	}
	s.printStep("sent 1.5 ETH to the same address: %s", hash)
	if err := s.waitUntil(ctx, "the native coin is credited", func() (bool, error) {
		b, err := s.loadBalance(ctx, s.ether)
		return err == nil && b.Available == amount.String(), err
	}); err != nil {
		return err
	}
	s.printStep("final: available is %s wei", amount)
	return nil
}

// tourWithdrawal shows a withdrawal that no gate holds: requested twice, paid once.
func (s *tourRun) tourWithdrawal(ctx context.Context) error {
	s.printTitle("The customer pays out")
	recipient := newAddress()
	amount := atomicUnits(100, s.usdc)
	body := map[string]any{
		"mintId": s.usdc.ID, "customerId": s.customer, "amount": "100", "useDecimal": true,
		"toAddress": recipient.Hex(), "idempotencyKey": "tour-" + randomHex(8),
	}
	var w, replay webhook.Withdrawal
	if err := s.api.postJSON(ctx, "/withdraw", body, &w); err != nil {
		return err
	}
	s.printStep("withdrawal %s of 100 USDC to %s: %s", w.WithdrawalID, recipient.Hex(), w.Status)
	if w.Status != "PROCESSING" {
		return fmt.Errorf("it is %s, for %v; no rule should hold it", w.Status, w.ApprovalReasons)
	}
	if err := s.api.postJSON(ctx, "/withdraw", body, &replay); err != nil {
		return err
	}
	if replay.WithdrawalID != w.WithdrawalID {
		return fmt.Errorf("the same key made another withdrawal, %s", replay.WithdrawalID)
	}
	s.printStep("the same request with the same key returns the same withdrawal")
	return s.waitPaid(ctx, w, recipient, s.usdc, amount)
}

// waitPaid waits for a withdrawal's event, its end, and the tokens at the destination.
func (s *tourRun) waitPaid(
	ctx context.Context, w webhook.Withdrawal, recipient common.Address, m localworld.Mint, amount *big.Int,
) error {
	var sent webhook.Withdrawal
	if _, err := s.waitEvent(
		ctx, webhook.CustomerWithdraw, &sent, func() bool { return sent.WithdrawalID == w.WithdrawalID },
	); err != nil {
		return err
	}
	if sent.TxHash == nil || sent.Status != "BROADCAST" {
		return fmt.Errorf("CUSTOMER_WITHDRAW without a broadcast payment: %+v", sent)
	}
	s.printStep("CUSTOMER_WITHDRAW: broadcast as %s", *sent.TxHash)
	if err := s.waitUntil(ctx, "the withdrawal is completed", func() (bool, error) {
		err := s.api.getJSON(ctx, "/withdrawals/"+w.WithdrawalID, &w)
		return w.Status == "COMPLETED", err
	}); err != nil {
		return err
	}
	got, err := s.chainBalance(ctx, m, recipient)
	if err != nil {
		return err
	}
	if got.Cmp(amount) != 0 {
		return fmt.Errorf("the receiver has %s on the chain, want exactly %s", got, amount)
	}
	fee := "unknown"
	if w.NetworkFee != nil {
		fee = *w.NetworkFee
	}
	s.printStep(
		"final: the receiver has exactly %s on the chain; the network fee of %s wei is the organization's", got, fee,
	)
	return nil
}

// tourApproval shows a held withdrawal that a person approves.
func (s *tourRun) tourApproval(ctx context.Context) error {
	s.printTitle("A waiting withdrawal needs an approval")
	recipient := newAddress()
	w, err := s.requestHeld(ctx, recipient, "0.25")
	if err != nil {
		return err
	}
	if err := s.Decide(ctx, s.Info.Users[0].Email, w.WithdrawalID, true); err != nil {
		return err
	}
	s.printStep("approved by %s", s.Info.Users[0].Email)
	return s.waitPaid(ctx, w, recipient, s.ether, new(big.Int).Div(atomicUnits(1, s.ether), big.NewInt(4)))
}

// approvalQuorum is the setting that says how many people have to approve a held withdrawal.
type approvalQuorum struct {
	Quorum int `json:"approvalQuorum"`
}

// approversNeeded is the quorum of tourTwoApprovals.
const approversNeeded = 2

// tourTwoApprovals shows a held withdrawal that two people approve. It restores the quorum at the end.
func (s *tourRun) tourTwoApprovals(ctx context.Context) (err error) {
	s.printTitle("Two people approve another one")
	people := s.listApprovers()
	if len(people) < approversNeeded {
		return fmt.Errorf("this world has %d people who approve withdrawals, and the tour needs two: start a new one",
			len(people))
	}
	settings := "/organizations/" + url.PathEscape(s.Info.OrganizationID) + "/settings"
	var before approvalQuorum
	if err := s.operator.getJSON(ctx, settings, &before); err != nil {
		return err
	}
	if err := s.operator.sendJSON(ctx, http.MethodPatch, settings, approvalQuorum{approversNeeded}); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.operator.sendJSON(context.WithoutCancel(ctx), http.MethodPatch, settings, before))
	}()
	s.printStep("the operator sets the quorum of the organization to %d", approversNeeded)
	recipient := newAddress()
	w, err := s.requestHeld(ctx, recipient, "0.125")
	if err != nil {
		return err
	}
	if err := s.Decide(ctx, people[0], w.WithdrawalID, true); err != nil {
		return err
	}
	if err := s.Decide(ctx, people[0], w.WithdrawalID, true); err == nil {
		return fmt.Errorf("%s approved %s twice", people[0], w.WithdrawalID)
	}
	if err := s.checkApprovals(ctx, w.WithdrawalID, 1, true); err != nil {
		return err
	}
	s.printStep("approved by %s, whose second approval is refused: 1 of %d, and it waits", people[0], approversNeeded)
	if err := s.Decide(ctx, people[1], w.WithdrawalID, true); err != nil {
		return err
	}
	if err := s.checkApprovals(ctx, w.WithdrawalID, approversNeeded, false); err != nil {
		return err
	}
	s.printStep("approved by %s: %d of %d", people[1], approversNeeded, approversNeeded)
	return s.waitPaid(ctx, w, recipient, s.ether, new(big.Int).Div(atomicUnits(1, s.ether), big.NewInt(8)))
}

// listApprovers returns the e-mails of people whose role approves withdrawals.
func (s *tourRun) listApprovers() (emails []string) {
	for _, u := range s.Info.Users {
		if slices.ContainsFunc(u.Roles, func(role string) bool { return role == "OWNER" || role == "APPROVER" }) {
			emails = append(emails, u.Email)
		}
	}
	return emails
}

// checkApprovals checks how many approvals a withdrawal has, and whether it still waits for one.
func (s *tourRun) checkApprovals(ctx context.Context, withdrawalID string, count int, isWaiting bool) error {
	var w webhook.Withdrawal
	if err := s.api.getJSON(ctx, "/withdrawals/"+withdrawalID, &w); err != nil {
		return err
	}
	if w.Status == "AWAITING_APPROVAL" != isWaiting || w.Approvals.Received != count ||
		w.Approvals.Required != approversNeeded {
		return fmt.Errorf("%s has %d of %d approvals and is %s", withdrawalID, w.Approvals.Received,
			w.Approvals.Required, w.Status)
	}
	return nil
}

// tourRemoval shows a held withdrawal that a person removes.
func (s *tourRun) tourRemoval(ctx context.Context) error {
	s.printTitle("Another one is removed")
	balanceBefore, err := s.loadBalance(ctx, s.ether)
	if err != nil {
		return err
	}
	recipient := newAddress()
	w, err := s.requestHeld(ctx, recipient, "0.5")
	if err != nil {
		return err
	}
	if err := s.Decide(ctx, s.Info.Users[0].Email, w.WithdrawalID, false); err != nil {
		return err
	}
	if err := s.api.getJSON(ctx, "/withdrawals/"+w.WithdrawalID, &w); err != nil {
		return err
	}
	balanceAfter, err := s.loadBalance(ctx, s.ether)
	if err != nil {
		return err
	}
	if w.Status != "REJECTED" || balanceAfter.Available != balanceBefore.Available ||
		balanceAfter.PendingWithdraw != balanceBefore.PendingWithdraw {
		return fmt.Errorf(
			"removed, and it is %s with available %s (before: %s)", w.Status, balanceAfter.Available,
			balanceBefore.Available,
		)
	}
	s.printStep("removed: %s, and available is %s wei as before", w.Status, balanceAfter.Available)
	return nil
}

func (s *tourRun) requestHeld(
	ctx context.Context, recipient common.Address, coins string,
) (w webhook.Withdrawal, err error) {
	err = s.api.postJSON(ctx, "/withdraw", map[string]any{
		"mintId": s.ether.ID, "customerId": s.customer, "amount": coins, "useDecimal": true,
		"toAddress": recipient.Hex(), "requireApproval": true, "idempotencyKey": "tour-" + randomHex(8),
	}, &w)
	if err != nil {
		return w, err
	}
	if w.Status != "AWAITING_APPROVAL" {
		return w, fmt.Errorf("requireApproval was true and the withdrawal is %s", w.Status)
	}
	var waiting webhook.Withdrawal
	if _, err := s.waitEvent(
		ctx, webhook.CustomerWithdrawAwaitingApproval, &waiting,
		func() bool { return waiting.WithdrawalID == w.WithdrawalID },
	); err != nil {
		return w, err
	}
	s.printStep(
		"withdrawal %s of %s ETH is %s for %v, and the event says so", w.WithdrawalID, coins, w.Status,
		w.ApprovalReasons,
	)
	return w, nil
}

// tourRefusals shows that a refusal gives its reason and writes nothing.
func (s *tourRun) tourRefusals(ctx context.Context) error {
	s.printTitle("Invalid requests are refused")
	recipient := newAddress()
	depositAddress, err := s.createDepositAddress(ctx, s.usdc)
	if err != nil {
		return err
	}
	for _, c := range []struct{ what, amount, to, code string }{
		{"more than the balance", "100000000000", recipient.Hex(), "INSUFFICIENT_BALANCE"},
		{"a number with a sign", "+5", recipient.Hex(), "INVALID_AMOUNT"},
		{"an address with a wrong checksum", "1000000", misspellAddress(recipient), "INVALID_ADDRESS"},
		{"to a deposit address of ours", "1000000", depositAddress, "DESTINATION_NOT_ALLOWED"},
	} {
		balanceBefore, err := s.loadBalance(ctx, s.usdc)
		if err != nil {
			return err
		}
		err = s.api.postJSON(
			ctx, "/withdraw",
			map[string]any{"mintId": s.usdc.ID, "customerId": s.customer, "amount": c.amount, "toAddress": c.to}, nil,
		)
		var refused *apiError
		if !errors.As(err, &refused) || refused.Code != c.code {
			return fmt.Errorf("%s: got %v, want %s", c.what, err, c.code)
		}
		balanceAfter, err := s.loadBalance(ctx, s.usdc)
		if err != nil || balanceAfter != balanceBefore {
			return fmt.Errorf(
				"%s: refused, and the balance changed from %+v to %+v (%v)", c.what, balanceBefore, balanceAfter, err,
			)
		}
		s.printStep("%s: %d %s, %q", c.what, refused.Status, refused.Code, refused.Message)
	}
	return nil
}

// checkFeedOrder checks that every event since the endpoint's creation arrived, in order, with the
// same bytes as in the feed.
func (s *tourRun) checkFeedOrder(ctx context.Context) error {
	s.printTitle("No event is missing")
	var events []feedItem
	err := s.waitUntil(ctx, "every event of the feed has been delivered", func() (held bool, err error) {
		if events, err = s.readFeed(ctx, s.firstSequence); err != nil {
			return false, err
		}
		return s.receiver.hasAll(
			events, webhook.CustomerDeposit, webhook.CustomerDepositRejected, webhook.CustomerWithdraw,
			webhook.CustomerWithdrawAwaitingApproval, webhook.CustomerSwapFailed, webhook.OrganizationSwapCompleted,
			webhook.CheckoutCompleted, webhook.CheckoutException, webhook.CheckoutRefunded,
		), nil
	})
	if err != nil {
		return err
	}
	s.printStep(
		"GET /events has the numbers %d to %d without a gap, and every delivery arrived", s.firstSequence+1,
		s.firstSequence+int64(len(events)),
	)
	return nil
}

// readFeed reads the events after a sequence. It fails if a number is missing or occurs twice.
func (s *tourRun) readFeed(ctx context.Context, sequence int64) (events []feedItem, err error) {
	for {
		var page struct {
			Data []feedItem `json:"data"`
		}
		if err := s.api.getJSON(ctx, fmt.Sprintf("/events?limit=200&after=%d", sequence), &page); err != nil {
			return nil, err
		}
		for _, item := range page.Data {
			if sequence++; item.Sequence != sequence {
				return nil, fmt.Errorf("the feed has event %d where %d belongs", item.Sequence, sequence)
			}
		}
		events = append(events, page.Data...)
		if len(page.Data) < 200 {
			return events, nil
		}
	}
}

// checkBooks checks that the ledger agrees with itself and with the chain.
func (s *tourRun) checkBooks(ctx context.Context) error {
	s.printTitle("The books agree with the chain")
	breaches, err := s.Check(ctx)
	if err != nil {
		return err
	}
	if len(breaches) > 0 {
		return fmt.Errorf("the checker found: %s", strings.Join(breaches, "; "))
	}
	s.printStep("coffer verify finds nothing wrong, in the books or against the chain")
	var reserves struct {
		Data []struct {
			MintID      int    `json:"mintId"`
			Symbol      string `json:"symbol"`
			Chain       string `json:"chain"`
			Difference  string `json:"difference"`
			Holdings    struct{ Total string }
			Liabilities struct{ Total string }
			Block       struct{ Height int64 }
		} `json:"data"`
	}
	if err := s.operator.getJSON(ctx, "/reserves", &reserves); err != nil {
		return fmt.Errorf("ask the operator's interface for the reserves: %w", err)
	}
	hasUSDC := false
	for _, r := range reserves.Data {
		hasUSDC = hasUSDC || r.MintID == s.usdc.ID
		if r.Difference != "0" || r.Holdings.Total != r.Liabilities.Total {
			return fmt.Errorf(
				"the reserves of %s on %s differ by %s: %s held, %s owed", r.Symbol, r.Chain, r.Difference,
				r.Holdings.Total, r.Liabilities.Total,
			)
		}
		s.printStep(
			"the operator's GET /reserves: %s of %s on %s held at block %d, all of it owed, difference 0",
			r.Holdings.Total, r.Symbol, r.Chain, r.Block.Height,
		)
	}
	if !hasUSDC {
		return errors.New("the reserves do not have USDC")
	}
	return nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		panic(err) // the system has no randomness
	}
	return hex.EncodeToString(b)
}
