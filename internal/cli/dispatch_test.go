package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// dispatchEnv is a local world whose service a test steers by commands.
type dispatchEnv struct {
	*testing.T
	*localworld.World
	ctx context.Context
}

func newDispatchEnv(t *testing.T) *dispatchEnv {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	w, err := localworld.Start(ctx, localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: t.TempDir(), BlockTime: 300 * time.Millisecond, Calm: true,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &dispatchEnv{t, w, ctx}
}

func (s *dispatchEnv) coffer(want int, args ...string) string {
	s.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(s.ctx, append(args, "--config", s.Info.Config), &out, &errs); code != want {
		s.Fatalf("coffer %v: got %d, want %d: %s%s", args, code, want, out.String(), errs.String())
	}
	if want != 0 {
		return errs.String()
	}
	return out.String()
}

// until polls until a condition holds. It polls less often the longer it waits: most conditions are
// what a command prints, and each command opens connections of its own.
func (s *dispatchEnv) until(what string, holds func() (bool, string)) {
	s.Helper()
	const first, longest = 200 * time.Millisecond, 2 * time.Second
	for pause := time.Duration(first); ; pause = min(pause*3/2, longest) {
		ok, last := holds()
		if ok {
			return
		}
		select {
		case <-s.ctx.Done():
			s.Fatalf("%s never came; last: %s", what, last)
		case <-time.After(pause):
		}
	}
}

func (s *dispatchEnv) shows(id string, parts ...string) {
	s.Helper()
	s.until(strings.Join(parts, ", "), func() (bool, string) {
		said := s.coffer(0, "dispatch", "show", id)
		for _, p := range parts {
			if !regexp.MustCompile(p).MatchString(said) {
				return false, said
			}
		}
		return true, said
	})
}

func (s *dispatchEnv) call(path string, body map[string]any, into any) int {
	s.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		s.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.Info.BaseURL+path, bytes.NewReader(b))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("x-api-key", s.Info.APIKey)
	req.Header.Set("content-type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err = io.ReadAll(resp.Body); err == nil && resp.StatusCode < 300 {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode
}

func (s *dispatchEnv) usdc() localworld.Mint {
	s.Helper()
	for _, m := range s.Info.Mints {
		if m.Symbol == "USDC" {
			return m
		}
	}
	s.Fatal("the world has no USDC")
	return localworld.Mint{}
}

func (s *dispatchEnv) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

const stranger = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

func (s *dispatchEnv) withdraw(key string) string {
	s.Helper()
	var w struct {
		WithdrawalID string `json:"withdrawalId"`
	}
	s.until("a balance", func() (bool, string) {
		status := s.call("/withdraw", map[string]any{
			"mintId": s.usdc().ID, "customerId": "ann", "amount": "5000000", "toAddress": stranger,
			"idempotencyKey": key,
		}, &w)
		return status == http.StatusAccepted, fmt.Sprint(status)
	})
	return w.WithdrawalID
}

// H-75 and H-76 on a chain of its own, as the operator sees them. A payment that a fee spike leaves
// in the mempool is shown, bumped and cancelled. A transaction that another holder of the
// treasury's key made stops the wallet.
func TestAPersonSeesAndSteersWhatIsOnItsWayOut(t *testing.T) {
	t.Parallel()
	s := newDispatchEnv(t)
	var d struct {
		Address string `json:"address"`
	}
	if status := s.call("/deposit", map[string]any{"customerId": "ann", "mintId": s.usdc().ID}, &d); status >= 300 {
		t.Fatalf("deposit address: got %d", status)
	}
	_, err := s.Info.SendFromFaucet(s.ctx, s.usdc(), common.HexToAddress(d.Address), big.NewInt(50_000_000))
	s.must(err)
	first := s.withdraw("first")
	s.shows(first, `state +PAID`, `cost +0\.0`)
	if said := s.coffer(0, "dispatch"); strings.Contains(said, first) {
		t.Errorf("got %q, want nothing that has ended", said)
	}

	// Blocks stop; then one has a base fee too high for the broadcast payment.
	node := s.EthereumNode()
	s.must(node.SetIntervalMining(s.ctx, 0))
	second := s.withdraw("second")
	s.shows(second, `state +BROADCAST`, `1 +PAY +the order`)
	if said := s.coffer(0, "dispatch", "list"); !regexp.MustCompile(
		second + ` +PAYMENT +ETHEREUM +0x\S+ +\d+ +BROADCAST +\S+ +0x\S+ +0\.\d+ ETH +a final block`,
	).MatchString(said) {
		t.Errorf("got %q, want a line of what is out", said)
	}
	s.until("a bump", func() (bool, string) {
		var out, errs bytes.Buffer
		code := cli.Run(s.ctx, []string{"dispatch", "bump", second, "--config", s.Info.Config}, &out, &errs)
		return code == 0 && strings.Contains(out.String(), "At most one of them is mined"), errs.String()
	})
	s.shows(second, `\d +PAY +an operator .* 0x`)
	s.must(node.SetNextBlockBaseFee(s.ctx, big.NewInt(1_000_000_000_000)))
	s.must(node.MineBlocks(s.ctx, 1))
	s.shows(second, `state +BROADCAST`, `waits for .*configured cap`)
	if said := s.coffer(1, "dispatch", "bump", second); !strings.Contains(said, "fee_cap") ||
		!strings.Contains(said, "can still be mined") {
		t.Errorf("got %q, want the cap and what becomes of the money", said)
	}
	for verb, want := range map[string]string{"cancel": "PAID", "resolve": "Only a STUCK order"} {
		if said := s.coffer(1, "dispatch", verb, first); !strings.Contains(said, want) {
			t.Errorf("%s: got %q, want %q", verb, said, want)
		}
	}
	if said := s.coffer(1, "dispatch", "resolve", first, "--as", "paid"); !strings.Contains(said, "--because WHY") {
		t.Errorf("got %q, want that a word needs its reason", said)
	}
	if said := s.coffer(
		1, "dispatch", "resolve", first, "--as", "unpaid", "--because", "a guess",
	); !strings.Contains(said, "does not wait for a decision") {
		t.Errorf("got %q, want that nothing is to be decided", said)
	}
	if said := s.coffer(1, "dispatch", "show", "wd_nobody"); !strings.Contains(said, "does not exist") {
		t.Errorf("got %q, want that there is none", said)
	}
	s.must(node.SetNextBlockBaseFee(s.ctx, big.NewInt(1)))
	s.must(node.SetIntervalMining(s.ctx, time.Second))
	s.shows(second, `state +PAID`)

	// A person cancels what waits in the mempool.
	s.must(node.SetIntervalMining(s.ctx, 0))
	back := s.withdraw("back")
	s.shows(back, `state +BROADCAST`)
	if said := s.coffer(0, "dispatch", "cancel", back); !strings.Contains(said, "can still be mined first") {
		t.Errorf("got %q, want what a cancel does", said)
	}
	s.shows(back, `\d +CANCEL +an operator .*\d+s ago +0x`)
	s.must(node.SetIntervalMining(s.ctx, time.Second))
	s.shows(back, `state +FAILED`)

	// An attacker has the key of the treasury.
	m := regexp.MustCompile(s.Info.OrganizationID + `  .*\n  ETHEREUM +(0x[0-9a-fA-F]{40})`).
		FindStringSubmatch(s.coffer(0, "wallets"))
	if m == nil {
		t.Fatal("no treasury is shown")
	}
	before, err := node.Eth.NonceAt(s.ctx, common.HexToAddress(m[1]), nil)
	s.must(err)
	s.must(node.RPC.CallContext(s.ctx, nil, "anvil_impersonateAccount", m[1]))
	s.must(node.RPC.CallContext(s.ctx, nil, "eth_sendTransaction",
		map[string]any{"from": m[1], "to": stranger, "value": "0x1"}))
	s.until("a foreign transaction in a block", func() (bool, string) {
		n, err := node.Eth.NonceAt(s.ctx, common.HexToAddress(m[1]), nil)
		s.must(err)
		return n > before, fmt.Sprint(n)
	})
	third := s.withdraw("third")
	s.shows(third, `slot +none: nothing is signed`, `waits for +an operator who lifts what stops it: frozen \(WALLET\)`)
	if said := s.coffer(0, "dispatch", "cancel", third); !strings.Contains(said, "nothing of it was signed or sent") ||
		!strings.Contains(said, "REJECTED and its amount is available again") {
		t.Errorf("got %q, want where the money is", said)
	}
	if said := s.coffer(1, "dispatch", "cancel", third); !strings.Contains(said, "WITHDRAWN") {
		t.Errorf("again: got %q, want that it has ended", said)
	}
}
