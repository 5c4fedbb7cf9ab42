package stories

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/pquerna/otp/totp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/dashboard"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/caller"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/webhook"
)

const (
	goodPassword = "a long sentence that is hard to guess"
	wrongCode    = "000000"
	codePeriod   = 30 // seconds for which an authenticator app shows a code
	lookInterval = 100 * time.Millisecond
	storyMax     = 25 * time.Minute // against a hang alone: a busy machine takes a tenth of it
)

var desk = browser.Appearance{Width: 1280, Height: 900}

// scenario is the world of all stories.
type scenario struct {
	*localworld.World
	dir         string
	eth         *ethclient.Client
	spans       *tracetest.SpanRecorder
	usdc, ether localworld.Mint

	faucet sync.Mutex // the faucet has one account, whose payments have an order

	mu    sync.Mutex
	steps map[string]int64 // the last code of each authenticator app, as its number since 1970
}

// story is one story in the world.
type story struct {
	*testing.T
	*scenario
	ctx context.Context
}

// newScenario starts a world whose organization screens deposits above a hundred dollars and has a quorum of
// two. Spans are recorded from its start.
func newScenario(t *testing.T) *scenario {
	t.Helper()
	n := &scenario{dir: t.TempDir(), spans: tracetest.NewSpanRecorder(), steps: map[string]int64{}}
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(n.spans))
	trace.SetProvider(provider)
	t.Cleanup(func() { trace.SetProvider(nil) })
	var err error
	n.World, err = localworld.Start(t.Context(), localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: n.dir, BlockTime: 250 * time.Millisecond, Calm: true,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	// The world has used the code before the present one.
	for _, u := range slices.Concat(n.Info.Users, n.Info.Operators) {
		n.steps[u.Email] = time.Now().Unix()/codePeriod - 1
	}
	for _, m := range n.Info.Mints {
		switch m.Symbol {
		case "USDC":
			n.usdc = m
		case "ETH":
			n.ether = m
		}
	}
	if n.eth, err = ethclient.DialContext(t.Context(), n.Info.Chains["ETHEREUM"].RPCURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.eth.Close)
	s := n.newStory(t)
	s.callOperator(http.MethodPatch, "/organizations/"+n.Info.OrganizationID+"/settings", map[string]any{
		"screeningSeverityThreshold": "MEDIUM", "screeningUsdThreshold": "100.00", "approvalQuorum": 2,
	}, nil)
	return n
}

func (n *scenario) newStory(t *testing.T) *story {
	ctx, cancel := context.WithTimeout(t.Context(), storyMax)
	t.Cleanup(cancel)
	return &story{T: t, scenario: n, ctx: ctx}
}

// newCaller returns a caller of the interface with a key.
func (s *story) newCaller(key string) caller.Caller {
	return caller.Caller{T: s.T, Ctx: s.ctx, Key: key, Base: func() string { return s.Info.BaseURL }}
}

// call calls the interface with the organization's first key, and wants a status.
func (s *story) call(method, path string, body any, want int, into any) {
	s.Helper()
	var raw json.RawMessage
	if got := s.newCaller(s.Info.APIKey).CallAPI(method, path, body, &raw); got != want {
		s.Fatalf("%s %s: got %d %s, want %d", method, path, got, raw, want)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(raw, into); err != nil {
		s.Fatal(err)
	}
}

// callOperator calls the operator's interface with the operator's key.
func (s *story) callOperator(method, path string, body, into any) {
	s.Helper()
	payload, err := json.Marshal(body)
	if err != nil {
		s.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.ctx, method, s.Info.OperatorURL+"/v1"+path, bytes.NewReader(payload))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("x-operator-key", s.Info.Operator.APIKey)
	r.Header.Set("content-type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	if resp.StatusCode/100 != 2 {
		s.Fatalf("%s %s: got %d %s", method, path, resp.StatusCode, raw)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(raw, into); err != nil {
		s.Fatal(err)
	}
}

// waitUntil waits until a condition holds.
func (s *story) waitUntil(condition string, holds func() bool) {
	s.Helper()
	for !holds() {
		select {
		case <-s.ctx.Done():
			s.Fatalf("waited too long until %s", condition)
		case <-time.After(lookInterval):
		}
	}
}

// code returns a code that an authenticator app shows and that was not used. The service takes the code
// after the present one as well; after that, the story waits as a person does.
func (s *story) code(user localworld.User) (text string) {
	s.Helper()
	s.waitUntil("the app shows a new code", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		current := time.Now().Unix() / codePeriod
		step := max(s.steps[user.Email]+1, current)
		if step > current+1 {
			return false
		}
		s.steps[user.Email] = step
		var err error
		if text, err = totp.GenerateCode(user.TOTPSecret, time.Unix(step*codePeriod, 0)); err != nil {
			s.Fatal(err)
		}
		return true
	})
	return text
}

// user returns a person of the world by role.
func (s *story) user(role string) localworld.User {
	s.Helper()
	for _, u := range slices.Concat(s.Info.Users, s.Info.Operators) {
		if slices.Contains(u.Roles, role) {
			return u
		}
	}
	s.Fatalf("the world has no %s", role)
	return localworld.User{}
}

// signIn opens a page as a person who is signed out, and signs in with a password and a code. Sign-in leads
// back to the page. It returns the code, which is used up.
func (s *story) signIn(tab *browser.Page, url string, user localworld.User) (used string) {
	s.Helper()
	tab.OpenURL(url, desk)
	return s.giveFactors(tab, user)
}

// giveFactors fills in the forms of sign-in.
func (s *story) giveFactors(tab *browser.Page, user localworld.User) (used string) {
	s.Helper()
	tab.Type("#password-email", user.Email)
	tab.Type("#password-password", user.Password)
	tab.Click("main button.primary")
	used = s.code(user)
	tab.Type("#confirm-code", used)
	tab.Click("main button.primary")
	return used
}

// join invites a person with a role, who accepts in the browser and makes a passkey, the only second factor.
func (s *story) join(tab *browser.Page, email, name string, role identity.Role) *browser.Authenticator {
	s.Helper()
	actor := audit.Operator("stories")
	err := s.ServiceDB().InSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := member.Add(ctx, tx, actor, s.Info.OrganizationID, email, name, role)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	_, token, err := signin.InviteFromTerminal(s.ctx, s.ServiceDB(), actor, s.Info.OrganizationID, email)
	if err != nil {
		s.Fatal(err)
	}
	device := tab.AddAuthenticator()
	tab.OpenURL(strings.TrimSuffix(s.Info.DashboardURL, dashboard.Prefix)+dashboard.InvitationPath+token.Reveal(), desk)
	tab.Type("#accept-name", name)
	tab.Type("#accept-password", goodPassword)
	tab.Click("main button.primary")
	tab.Type("#passkey-name", "Laptop")
	tab.Click("form[data-needs-passkey] button")
	s.wantText(tab, "You have no recovery codes.")
	return device
}

// plainSpaces writes the spaces of amounts, which do not break, as plain ones.
var plainSpaces = strings.NewReplacer("\u00a0", " ", "\u202f", " ")

func (s *story) wantText(tab *browser.Page, texts ...string) {
	s.Helper()
	body := plainSpaces.Replace(browser.Evaluate[string](tab, "document.body.innerText"))
	for _, text := range texts {
		if !strings.Contains(body, text) {
			s.Errorf("got a page without %q:\n%s", text, body)
		}
	}
}

// waitText waits until the page shows a text by itself.
func (s *story) waitText(tab *browser.Page, text string) {
	s.Helper()
	s.lookUntil(tab, fmt.Sprintf("document.body?.innerText.includes(%q) === true", text))
}

// wantQuiet checks that the browser complained about nothing but the statuses of refusals.
func (s *story) wantQuiet(tabs ...*browser.Page) {
	s.Helper()
	for _, tab := range tabs {
		for _, complaint := range tab.ListComplaints() {
			if !strings.Contains(complaint, "status of 4") {
				s.Errorf("the browser complained: %s", complaint)
			}
		}
	}
}

// press clicks on what stays on its page.
func (s *story) press(tab *browser.Page, selector string) {
	s.Helper()
	tab.WaitUntil(fmt.Sprintf("document.querySelector(%q)?.checkVisibility() === true", selector))
	browser.Evaluate[bool](tab, fmt.Sprintf("(document.querySelector(%q).click(), true)", selector))
}

// lookUntil looks at the page again and again until an expression is true there. A wait inside a page would
// not end when the browser keeps the page for the way back, where its scripts stand still.
func (s *story) lookUntil(tab *browser.Page, expression string) {
	s.Helper()
	s.waitUntil(expression, func() bool { return browser.Evaluate[bool](tab, expression) })
}

// cancelPasskey presses a button while the screen lock of the device confirms no person. The page says that
// nothing was done.
func (s *story) cancelPasskey(tab *browser.Page, device *browser.Authenticator, selector string) {
	s.Helper()
	device.SetVerified(false)
	s.press(tab, selector)
	tab.WaitUntil(`[...document.querySelectorAll('.passkey-problem')].some(
		(p) => p.textContent.includes('The passkey did not answer. Nothing was done.'))`)
	device.SetVerified(true)
}

// readField returns the value of a field.
func readField(tab *browser.Page, selector string) string {
	return browser.Evaluate[string](tab, fmt.Sprintf("document.querySelector(%q).value", selector))
}

// readHidden returns the hidden fields of a form, names and values in turn.
func readHidden(tab *browser.Page, selector string) []string {
	return browser.Evaluate[[]string](tab, fmt.Sprintf(
		"[...document.querySelectorAll(%q)].flatMap((i) => [i.name, i.value])", selector+" input[type=hidden]",
	))
}

// goBack uses the way back of the browser, and waits until a text is there.
func (s *story) goBack(tab *browser.Page, text string) {
	s.Helper()
	browser.Evaluate[bool](tab, "(history.back(), true)")
	s.waitText(tab, text)
}

// sendOldForm sends a form as a tab that was opened earlier does. names and values alternate in fields.
func (s *story) sendOldForm(tab *browser.Page, path string, fields ...string) {
	s.Helper()
	values, err := json.Marshal(fields)
	if err != nil {
		s.Fatal(err)
	}
	browser.Evaluate[bool](tab, fmt.Sprintf(`(() => {
		const form = document.createElement('form');
		form.method = 'post'; form.action = %q;
		const fields = %s;
		for (let i = 0; i < fields.length; i += 2) {
			const input = document.createElement('input');
			input.name = fields[i]; input.value = fields[i + 1]; form.append(input);
		}
		const button = document.createElement('button');
		button.className = 'old-form'; button.textContent = 'Send'; form.append(button);
		document.body.prepend(form); // what changes by itself stands below
		return true;
	})()`, path, values))
	tab.Press("button.old-form", 1)
}

// createAddress returns a customer's deposit address.
func (s *story) createAddress(customer string, m localworld.Mint) common.Address {
	s.Helper()
	var made struct{ Address string }
	s.call(http.MethodPost, "/deposit", map[string]any{"mintId": m.ID, "customerId": customer}, http.StatusOK, &made)
	return common.HexToAddress(made.Address)
}

func (s *story) sendFromFaucet(m localworld.Mint, to common.Address, units *big.Int) {
	s.Helper()
	s.faucet.Lock()
	defer s.faucet.Unlock()
	if _, err := s.Info.SendFromFaucet(s.ctx, m, to, units); err != nil {
		s.Fatal(err)
	}
}

// payIn pays a deposit of a customer and waits until it is credited.
func (s *story) payIn(customer string, m localworld.Mint, units *big.Int) {
	s.Helper()
	s.sendFromFaucet(m, s.createAddress(customer, m), units)
	s.newCaller(s.Info.APIKey).WaitCredited(customer, false)
}

// flagDeposit lets a thief pay 400 USDC to a customer. It returns the deposit, which is flagged, and the
// thief.
func (s *story) flagDeposit(customer string) (id string, thief common.Address) {
	s.Helper()
	account, err := localworld.NewExternalAccount()
	if err != nil {
		s.Fatal(err)
	}
	thief = account.Address()
	s.callOperator(http.MethodPut, "/local-risk/"+thief.Hex(), map[string]any{
		"severity": "SEVERE", "score": 97, "entity": "<b>A thief</b>", "categories": []string{"THEFT"},
	}, nil)
	to := s.createAddress(customer, s.usdc)
	s.sendFromFaucet(s.ether, thief, wholeUnits(s.ether, 1))
	s.sendFromFaucet(s.usdc, thief, wholeUnits(s.usdc, 400))
	s.waitUntil("the thief has the tokens", func() bool {
		return s.chainBalance(s.usdc, thief).Cmp(wholeUnits(s.usdc, 400)) == 0
	})
	if _, err := s.Info.PayFrom(s.ctx, account, s.usdc, to, wholeUnits(s.usdc, 400)); err != nil {
		s.Fatal(err)
	}
	s.waitUntil("the deposit is flagged", func() bool {
		var list struct{ Data []webhook.Deposit }
		s.call(http.MethodGet, "/deposits?customerId="+customer, nil, http.StatusOK, &list)
		if len(list.Data) == 1 && list.Data[0].Status == "FLAGGED" {
			id = list.Data[0].DepositID
		}
		return id != ""
	})
	return id, thief
}

func (s *story) loadDeposit(id string) (d webhook.Deposit) {
	s.Helper()
	s.call(http.MethodGet, "/deposits/"+id, nil, http.StatusOK, &d)
	return d
}

func (s *story) waitDeposit(id, status string) (d webhook.Deposit) {
	s.Helper()
	s.waitUntil("the deposit is "+status, func() bool {
		d = s.loadDeposit(id)
		return d.Status == status
	})
	return d
}

func (s *story) loadWithdrawal(id string) (w webhook.Withdrawal) {
	s.Helper()
	s.call(http.MethodGet, "/withdrawals/"+id, nil, http.StatusOK, &w)
	return w
}

// requestWithdrawal requests a withdrawal of whole coins of a customer.
func (s *story) requestWithdrawal(
	customer, amount string, to common.Address, isHeld bool,
) (w webhook.Withdrawal) {
	s.Helper()
	s.call(http.MethodPost, "/withdraw", map[string]any{
		"mintId": s.ether.ID, "customerId": customer, "amount": amount, "useDecimal": true, "toAddress": to.Hex(),
		"requireApproval": isHeld,
	}, http.StatusAccepted, &w)
	return w
}

// chainBalance reads the balance of an address from the chain.
func (s *story) chainBalance(m localworld.Mint, a common.Address) *big.Int {
	s.Helper()
	if m.ContractAddress == nil {
		units, err := s.eth.BalanceAt(s.ctx, a, nil)
		if err != nil {
			s.Fatal(err)
		}
		return units
	}
	contract := common.HexToAddress(*m.ContractAddress)
	answer, err := s.eth.CallContract(
		s.ctx, ethereum.CallMsg{To: &contract, Data: evmtoken.Token.CallData("balanceOf", a)}, nil,
	)
	if err != nil {
		s.Fatal(err)
	}
	return new(big.Int).SetBytes(answer)
}

func (s *story) wantHolds(m localworld.Mint, a common.Address, want *big.Int) {
	s.Helper()
	if got := s.chainBalance(m, a); got.Cmp(want) != 0 {
		s.Errorf("%s holds %s %s on the chain, want %s", a, got, m.Symbol, want)
	}
}

// newAddress returns an address that has received nothing.
func (s *story) newAddress() common.Address {
	s.Helper()
	account, err := localworld.NewExternalAccount()
	if err != nil {
		s.Fatal(err)
	}
	return account.Address()
}

func wholeUnits(m localworld.Mint, whole int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(whole), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(m.Decimals)), nil))
}
