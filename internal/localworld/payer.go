package localworld

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/client"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/webhook"
)

// PayScenario is a way in which a payer pays a checkout.
type PayScenario struct {
	Name    string
	Action  string // what the payer does
	Outcome string // what becomes of the checkout
}

// PayScenarios are all ways, the usual one first.
var PayScenarios = []PayScenario{
	{"exact", "pays what the option asks for", "PROCESSING at once and COMPLETED when the block is final"},
	{
		"under", "pays half of what the option asks for",
		"OPEN with UNDERPAID and at least 30 minutes more; the option asks for the rest",
	},
	{"over", "pays half as much again as the option asks for", "COMPLETED with OVERPAID; the surplus is credited, too"},
	{"twice", "pays what the option asks for two times", "COMPLETED with OVERPAID"},
	{
		"late", "waits until the time of the checkout is over, and pays then",
		"PAID_LATE, and COMPLETED only if the terms accept late payments",
	},
	{
		"wrong-token", "pays a coin that the checkout does not accept",
		"its status stays, with WRONG_TOKEN; the payment is credited, and a person accepts it or gives it back",
	},
	{
		"other-network", "opens the option, and pays the same coin on another network that the checkout accepts",
		"COMPLETED: each network has an address of its own",
	},
	{
		"below-minimum", "pays less than the least deposit of the coin",
		"its status stays; the payment is UNUSABLE and in no balance",
	},
	{
		"flagged", "pays from a sender whom screening flags, with the thresholds of the organization set until then",
		"FLAGGED until a person decides with coffer deposits approve or reject",
	},
	{
		"reorged", "pays, and another block replaces the one of the payment",
		"PROCESSING and then OPEN with at least ten minutes more; the payment is ORPHANED",
	},
}

// Payer pays a checkout as a person with a wallet does. It uses the API, the operator's interface and the chains.
type Payer struct {
	Info   Info
	Report func(format string, args ...any)

	trigger Trigger
	api     *client.Client
}

// Pay plays a scenario with an option of a checkout, which it opens. It returns the checkout as it is when the scenario
// can be seen.
func (p *Payer) Pay(
	ctx context.Context, checkoutID string, mintID int, scenario string,
) (c webhook.Checkout, err error) {
	m, isKnown := p.Info.FindMint(mintID)
	if !isKnown {
		return c, fmt.Errorf("there is no mint %d; %s lists the mints. Nothing was sent", mintID, InfoFile)
	}
	if p.api, err = client.New(p.Info.BaseURL, p.Info.APIKey); err != nil {
		return c, err
	}
	if c, err = p.api.GetCheckout(ctx, checkoutID); err != nil {
		return c, fmt.Errorf("read the checkout: %w; nothing was sent", err)
	}
	option, err := p.api.OpenCheckoutOption(ctx, checkoutID, client.OptionRequest{MintID: mintID})
	if err != nil {
		return c, fmt.Errorf("open %s on %s: %w; nothing was sent", m.Symbol, m.Chain, err)
	}
	if option.Address == nil || option.Amount == nil {
		return c, fmt.Errorf("%s on %s has no amount now; nothing was sent", m.Symbol, m.Chain)
	}
	units, isNumber := new(big.Int).SetString(*option.Amount, 10)
	if !isNumber {
		return c, fmt.Errorf("the option asks for %q", *option.Amount)
	}
	p.Report("%s on %s is open: %s %s to %s", m.Symbol, strings.ToLower(m.Chain), showUnits(units, m), m.Symbol,
		*option.Address)
	payment := payment{mint: m, address: *option.Address, units: units}
	half := new(big.Int).Rsh(units, 1)
	switch scenario {
	case "exact", "late", "flagged", "reorged":
	case "under":
		payment.units = half
	case "over":
		payment.units = new(big.Int).Add(units, half)
	case "twice":
		if err := p.send(ctx, payment); err != nil {
			return c, err
		}
	case "wrong-token":
		payment, err = p.chooseWrongToken(c, payment)
	case "other-network":
		payment, err = p.chooseOtherNetwork(ctx, c, payment)
	case "below-minimum":
		payment.units, err = p.findBelowMinimum(ctx, m)
	default:
		var names []string
		for _, s := range PayScenarios {
			names = append(names, s.Name)
		}
		err = fmt.Errorf("%s is no scenario; name one of %s. Nothing was sent", scenario, strings.Join(names, ", "))
	}
	if err != nil {
		return c, err
	}
	switch scenario {
	case "late":
		if err := p.waitOver(ctx, c.ExpiresAt.Time); err != nil {
			return c, err
		}
	case "flagged":
		return p.payFlagged(ctx, checkoutID, payment)
	case "reorged":
		return p.payReorged(ctx, checkoutID, payment)
	}
	count := len(c.Payments)
	if scenario == "twice" {
		count++
	}
	if err := p.send(ctx, payment); err != nil {
		return c, err
	}
	return p.waitCheckout(ctx, checkoutID, "the payment is seen", func(c webhook.Checkout) bool {
		return len(c.Payments) > count
	})
}

// payment is what the payer sends.
type payment struct {
	mint    Mint
	address string
	units   *big.Int
}

// showUnits writes an amount in whole tokens.
func showUnits(units *big.Int, m Mint) string {
	amount, err := money.FromBig(units)
	if err != nil {
		return units.String() + " units"
	}
	return amount.Decimal(m.Decimals)
}

// send pays from the faucet.
func (p *Payer) send(ctx context.Context, s payment) error {
	hash, err := p.Info.PayAddress(ctx, s.mint, s.address, s.units)
	if err != nil {
		return fmt.Errorf("pay %s %s to %s: %w", showUnits(s.units, s.mint), s.mint.Symbol, s.address, err)
	}
	p.Report("sent %s %s on %s: %s", showUnits(s.units, s.mint), s.mint.Symbol, strings.ToLower(s.mint.Chain), hash)
	return nil
}

// chooseWrongToken returns a payment of another coin to the same address, whose symbol the checkout does not accept.
func (p *Payer) chooseWrongToken(c webhook.Checkout, s payment) (payment, error) {
	var accepted []string
	for _, mintID := range c.AcceptedMintIDs {
		if m, isKnown := p.Info.FindMint(mintID); isKnown {
			accepted = append(accepted, m.Symbol)
		}
	}
	for _, m := range p.Info.Mints {
		if m.Chain != s.mint.Chain || slices.Contains(accepted, m.Symbol) {
			continue
		}
		whole := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(m.Decimals)), nil)
		return payment{mint: m, address: s.address, units: whole.Mul(whole, big.NewInt(5))}, nil
	}
	return s, fmt.Errorf("the checkout accepts every coin that the local %s has; make one that accepts fewer. "+
		"Nothing was sent", strings.ToLower(s.mint.Chain))
}

// chooseOtherNetwork returns a payment of the same coin on another network, with the address that the checkout has
// there.
func (p *Payer) chooseOtherNetwork(ctx context.Context, c webhook.Checkout, s payment) (payment, error) {
	for _, mintID := range c.AcceptedMintIDs {
		m, isKnown := p.Info.FindMint(mintID)
		if !isKnown || m.Symbol != s.mint.Symbol || m.Chain == s.mint.Chain {
			continue
		}
		option, err := p.api.OpenCheckoutOption(ctx, c.CheckoutID, client.OptionRequest{MintID: m.ID})
		if err != nil {
			return s, fmt.Errorf("open %s on %s: %w; nothing was sent", m.Symbol, m.Chain, err)
		}
		if option.Address == nil || option.Amount == nil {
			return s, fmt.Errorf("%s on %s has no amount now; nothing was sent", m.Symbol, m.Chain)
		}
		units, isNumber := new(big.Int).SetString(*option.Amount, 10)
		if !isNumber {
			return s, fmt.Errorf("the option asks for %q", *option.Amount)
		}
		return payment{mint: m, address: *option.Address, units: units}, nil
	}
	return s, fmt.Errorf("the checkout accepts %s on no other local network, and the local world has one EVM chain. "+
		"Nothing was sent", s.mint.Symbol)
}

// findBelowMinimum returns a unit less than the least deposit of a mint.
func (p *Payer) findBelowMinimum(ctx context.Context, m Mint) (*big.Int, error) {
	mints, err := p.api.ListMints(ctx, client.ListMintsParams{Chain: m.Chain})
	if err != nil {
		return nil, fmt.Errorf("read the least deposit of %s: %w; nothing was sent", m.Symbol, err)
	}
	for _, listed := range mints.Data {
		minimum, isNumber := new(big.Int).SetString(listed.MinDepositAmount, 10)
		if listed.ID != m.ID || !isNumber {
			continue
		}
		if units := minimum.Sub(minimum, big.NewInt(1)); units.Sign() > 0 {
			return units, nil
		}
	}
	return nil, fmt.Errorf("nothing is below the least deposit of %s on %s. Nothing was sent", m.Symbol, m.Chain)
}

// waitOver waits until a time is past.
func (p *Payer) waitOver(ctx context.Context, end time.Time) error {
	left := time.Until(end) + time.Second
	if left > 0 {
		p.Report("waiting until %s, for %s; Ctrl-C sends nothing", end.Local().Format(time.TimeOnly),
			left.Round(time.Second))
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// waitCheckout waits until a checkout is as expected, and returns it.
func (p *Payer) waitCheckout(
	ctx context.Context, checkoutID, condition string, holds func(webhook.Checkout) bool,
) (c webhook.Checkout, err error) {
	err = p.trigger.waitUntil(ctx, condition, func() (bool, error) {
		c, err = p.api.GetCheckout(ctx, checkoutID)
		return err == nil && holds(c), err
	})
	return c, err
}

// hasPayment returns a condition: the checkout has a payment with a status.
func hasPayment(status string) func(webhook.Checkout) bool {
	return func(c webhook.Checkout) bool {
		return slices.ContainsFunc(c.Payments, func(p webhook.CheckoutPayment) bool { return p.Status == status })
	}
}

// payReorged pays in a block that another one replaces.
func (p *Payer) payReorged(ctx context.Context, checkoutID string, s payment) (c webhook.Checkout, err error) {
	if s.mint.Chain != string(chain.Ethereum) {
		return c, errors.New("only the local Ethereum replaces blocks; choose one of its mints. Nothing was sent")
	}
	p.trigger.Info, p.trigger.Report = p.Info, p.Report
	if err := p.trigger.connect(ctx); err != nil {
		return c, err
	}
	defer p.trigger.node.CloseClient()
	release, err := p.trigger.holdBlocks(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, release()) }()
	// What waits already stays out of the block that is replaced.
	if err := p.trigger.node.MineBlocks(ctx, 1); err != nil {
		return c, err
	}
	if err := p.send(ctx, s); err != nil {
		return c, err
	}
	if err := p.trigger.node.MineBlocks(ctx, 1); err != nil {
		return c, err
	}
	if c, err = p.waitCheckout(ctx, checkoutID, "the payment is seen", hasPayment("SEEN")); err != nil {
		return c, err
	}
	p.Report("the payment is seen, and the checkout is %s", c.Status)
	if err := p.trigger.node.ReplaceBlocks(ctx, 1); err != nil {
		return c, err
	}
	p.Report("its block is replaced by one without it")
	if err := release(); err != nil {
		return c, err
	}
	return p.waitCheckout(ctx, checkoutID, "the payment is gone", hasPayment("ORPHANED"))
}

// screeningThresholds are the settings that turn the screening of deposits on.
type screeningThresholds struct {
	Severity *string `json:"screeningSeverityThreshold"`
	USD      *string `json:"screeningUsdThreshold"`
}

// payFlagged pays from an account that the local list calls a thief's. The settings and the list are restored.
func (p *Payer) payFlagged(ctx context.Context, checkoutID string, s payment) (c webhook.Checkout, err error) {
	if s.mint.Chain != string(chain.Ethereum) {
		return c, errors.New("the payer makes accounts on the local Ethereum alone; choose one of its mints. " +
			"Nothing was sent")
	}
	native := slices.IndexFunc(p.Info.Mints, func(m Mint) bool {
		return m.Chain == s.mint.Chain && m.ContractAddress == nil
	})
	if native < 0 {
		return c, errors.New("this world has no ETH on Ethereum")
	}
	thief, err := NewExternalAccount()
	if err != nil {
		return c, err
	}
	settings := "/organizations/" + p.Info.OrganizationID + "/settings"
	var before screeningThresholds
	if err := p.callOperator(ctx, http.MethodGet, settings, nil, &before); err != nil {
		return c, err
	}
	severity, dollars := "MEDIUM", "0"
	err = p.callOperator(ctx, http.MethodPatch, settings, screeningThresholds{&severity, &dollars}, nil)
	if err != nil {
		return c, err
	}
	defer func() {
		err = errors.Join(err, p.callOperator(context.WithoutCancel(ctx), http.MethodPatch, settings, before, nil))
	}()
	listed := "/local-risk/" + thief.String()
	entry := map[string]any{
		"severity": "SEVERE", "score": 97, "entity": "A thief pays",
		"categories": []string{"THEFT"},
	}
	if err := p.callOperator(ctx, http.MethodPut, listed, entry, nil); err != nil {
		return c, err
	}
	defer func() {
		err = errors.Join(err, p.callOperator(context.WithoutCancel(ctx), http.MethodDelete, listed, nil, nil))
	}()
	p.Report("screening is on for every amount, and %s is on the local list: SEVERE", thief)
	ether := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(p.Info.Mints[native].Decimals)), nil)
	if s.mint.ContractAddress == nil {
		ether.Add(ether, s.units)
	} else if _, err := p.Info.SendFromFaucet(ctx, s.mint, thief.Address(), s.units); err != nil {
		return c, err
	}
	if _, err := p.Info.SendFromFaucet(ctx, p.Info.Mints[native], thief.Address(), ether); err != nil {
		return c, err
	}
	// The account has its coins with the next block.
	var hash common.Hash
	err = p.trigger.waitUntil(ctx, "the sender can pay", func() (bool, error) {
		sent, err := p.Info.PayFrom(ctx, thief, s.mint, common.HexToAddress(s.address), s.units)
		hash = sent
		return err == nil, nil
	})
	if err != nil {
		return c, err
	}
	p.Report("sent %s %s from that sender: %s", showUnits(s.units, s.mint), s.mint.Symbol, hash)
	return p.waitCheckout(ctx, checkoutID, "the payment is flagged", hasPayment("FLAGGED"))
}

// callOperator calls the operator's interface.
func (p *Payer) callOperator(ctx context.Context, method, path string, body, target any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.Info.OperatorURL+"/v1"+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("x-operator-key", p.Info.Operator.APIKey)
	req.Header.Set("content-type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("reach the operator's interface: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the answer of the operator's interface: %w", err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, answer)
	}
	if target == nil {
		return nil
	}
	return json.Unmarshal(answer, target)
}
