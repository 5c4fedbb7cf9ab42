package swapdesk_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

func TestTokensHaveThePricesOfTheWorld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	status, answer := b.call(http.MethodGet, b.api.URL+"/v0/tokens", nil)
	var tokens []struct {
		AssetID, Blockchain, Symbol, PriceUpdatedAt string
		Decimals                                    int
		Price                                       json.Number
		ContractAddress                             *string
	}
	if err := json.Unmarshal(answer, &tokens); err != nil || status != http.StatusOK || len(tokens) != 7 {
		t.Fatalf("got %d %s, %v", status, answer, err)
	}
	if got := tokens[0]; got.AssetID != "local:ethereum:"+usdc || got.Blockchain != "eth" || got.Decimals != 6 ||
		*got.ContractAddress != usdc {
		t.Errorf("got %+v", got)
	}
	if got := tokens[2]; got.AssetID != "local:ethereum:native" || got.ContractAddress != nil || got.Price != "3000" {
		t.Errorf("got %+v", got)
	}
	// The price control moves tokens and quotes, until it is taken back, and over a restart.
	b.call(http.MethodPut, b.ctl.URL+"/prices", map[string]any{"mint": 4, "price": "1500.00"})
	b.reopen()
	if q := b.verified(nil); q.AmountOut.String() != "1496750000" {
		t.Errorf("got %s at half the price", q.AmountOut)
	}
	_, answer = b.call(http.MethodGet, b.api.URL+"/v0/tokens", nil)
	if !bytes.Contains(answer, []byte(`"price":1500,`)) {
		t.Errorf("got %s", answer)
	}
	b.call(http.MethodPut, b.ctl.URL+"/prices", map[string]any{"mint": 4})
	if q := b.verified(nil); q.AmountOut.String() != quotedUSDC {
		t.Errorf("got %s at the usual price", q.AmountOut)
	}
	for _, body := range []map[string]any{
		{"mint": 99, "price": "1.00"}, {"mint": 4, "price": "0"}, {"mint": 4, "price": "-1"},
	} {
		if status, _ := b.call(http.MethodPut, b.ctl.URL+"/prices", body); status/100 != 4 {
			t.Errorf("got %d for %v", status, body)
		}
	}
}

func TestRequestsThatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, changes := range map[string]map[string]any{
		"another kind of swap":     {"swapType": "EXACT_OUTPUT"},
		"a memo":                   {"depositMode": "MEMO"},
		"from an account":          {"depositType": "INTENTS"},
		"to an account":            {"recipientType": "INTENTS"},
		"a refund to an account":   {"refundType": "INTENTS"},
		"an unknown origin":        {"originAsset": "nep141:wrap.near"},
		"an unknown destination":   {"destinationAsset": "local:ethereum:0x0"},
		"the same asset":           {"destinationAsset": "local:ethereum:native", "recipient": "ETHEREUM-x"},
		"all as slippage and more": {"slippageTolerance": 10001},
		"a broken slippage":        {"slippageTolerance": 0.5},
		"nothing":                  {"amount": "0"},
		"a fraction":               {"amount": "1.5"},
		"a sign":                   {"amount": "-1"},
		"almost nothing":           {"amount": "100000000000000"},
		"no deadline":              {"deadline": ""},
		"a deadline that passed":   {"deadline": b.now.Add(-time.Second).Format(time.RFC3339)},
		"a refund elsewhere":       {"refundTo": "SOLANA-refund"},
		"a recipient elsewhere":    {"recipient": "ETHEREUM-refund"},
		"a virtual chain":          {"virtualChainRecipient": "x"},
		"no word whether dry":      {"dry": nil},
	} {
		for _, isDry := range []bool{true, false} {
			status, answer := b.call(http.MethodPost, b.api.URL+"/v0/quote", b.request(isDry, changes))
			var problem struct{ Message string }
			err := json.Unmarshal(answer, &problem)
			if err != nil || status != http.StatusBadRequest || problem.Message == "" {
				t.Errorf("%s: got %d %s", name, status, answer)
			}
		}
	}
	status, _ := b.call(http.MethodGet, b.api.URL+"/v0/status?depositAddress=unknown", nil)
	if status != http.StatusNotFound {
		t.Errorf("got %d for an unknown address", status)
	}
	q := b.verified(nil)
	if status, _ := b.call(
		http.MethodGet, b.api.URL+"/v0/status?depositMemo=1&depositAddress="+q.DepositAddress, nil,
	); status != http.StatusNotFound {
		t.Errorf("got %d for an address with a memo", status)
	}
	for _, body := range []any{map[string]any{"depositAddress": q.DepositAddress}, "text"} {
		if status, _ := b.call(http.MethodPost, b.api.URL+"/v0/deposit/submit", body); status != http.StatusBadRequest {
			t.Errorf("got %d for %v", status, body)
		}
	}
	if status, _ := b.call(http.MethodGet, b.api.URL+"/v1/quote", nil); status != http.StatusNotFound {
		t.Errorf("got %d for another path", status)
	}
}

func TestModesOfTheAPI(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	firm := func() (int, []byte) { return b.call(http.MethodPost, b.api.URL+"/v0/quote", b.request(false, nil)) }
	dry := func() (int, []byte) { return b.call(http.MethodPost, b.api.URL+"/v0/quote", b.request(true, nil)) }
	wantUsual := func() {
		t.Helper()
		if status, answer := firm(); status != http.StatusCreated {
			t.Errorf("got %d %s after the behaviour", status, answer)
		}
	}
	b.behave(map[string]any{"mode": "reject", "next": 1, "call": "firm", "message": "no liquidity"})
	if status, answer := dry(); status != http.StatusCreated {
		t.Errorf("got %d %s for the dry quote", status, answer)
	}
	if status, answer := firm(); status != http.StatusBadRequest || !bytes.Contains(answer, []byte("no liquidity")) {
		t.Errorf("reject: got %d %s", status, answer)
	}
	wantUsual()
	b.behave(map[string]any{"mode": "down", "next": 2})
	if status, _ := b.call(http.MethodGet, b.api.URL+"/v0/tokens", nil); status != 0 {
		t.Errorf("down: got %d, want no answer", status)
	}
	if status, _ := firm(); status != 0 {
		t.Errorf("down: got %d, want no answer", status)
	}
	wantUsual()
	b.behave(map[string]any{"mode": "slow", "next": 1, "delay": "30ms"})
	begin := time.Now()
	wantUsual()
	if waited := time.Since(begin); waited < 30*time.Millisecond {
		t.Errorf("slow: got an answer after %s", waited)
	}
	for form, want := range map[string]string{
		"": "<html>", "html": "<html>", "half": `"amou`, "unknown": "TELEPORTING", "huge": "    ",
	} {
		b.behave(map[string]any{"mode": "garbage", "next": 1, "call": "status", "form": form})
		wantUsual()
		status, answer := b.call(http.MethodGet, b.api.URL+"/v0/status?depositAddress=x", nil)
		if status != http.StatusOK || !bytes.Contains(answer, []byte(want)) || form == "huge" && len(answer) < 10<<20 {
			t.Errorf("garbage %s: got %d and %d bytes", form, status, len(answer))
		}
	}
	// A provider whose API is down still serves deposits.
	q := b.verified(nil)
	b.behave(map[string]any{"mode": "down"})
	b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
	b.step()
	b.wantPayments(map[string]int{"SOLANA " + quotedUSDC + " " + usdc + " to SOLANA-delivery": 1})
	b.reopen()
	if status, _ := firm(); status != 0 {
		t.Errorf("got %d, want the behaviour to last over a restart", status)
	}
	b.behave(map[string]any{"mode": "none"})
	wantUsual()
	for _, behaviour := range []map[string]any{
		{"mode": "vanish"},
		{},
		{"mode": "refund", "next": -1},
		{"mode": "refund", "call": "firm"},
		{"mode": "down", "call": "vote"},
		{"mode": "garbage", "form": "poem"},
		{"mode": "late", "delay": "-1s"},
		{"mode": "late", "delay": "99h"},
		{"mode": "bad-signature", "depositAddress": q.DepositAddress},
		{"mode": "refund", "depositAddress": "unknown"},
	} {
		if status, _ := b.call(http.MethodPut, b.ctl.URL+"/behaviour", behaviour); status/100 != 4 {
			t.Errorf("got %d for %v", status, behaviour)
		}
	}
}

func TestOneSwapChangesItsMode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	q, bystander := b.verified(nil), b.verified(nil)
	b.behave(map[string]any{"mode": "refund", "depositAddress": q.DepositAddress})
	for _, address := range []string{q.DepositAddress, bystander.DepositAddress} {
		b.eth.deposit(address, q.AmountIn, b.now)
	}
	b.step()
	b.wantPayments(map[string]int{
		"ETHEREUM " + netRefund + "  to ETHEREUM-refund":            1,
		"SOLANA " + quotedUSDC + " " + usdc + " to SOLANA-delivery": 1,
	})
	if status, _ := b.call(http.MethodPut, b.ctl.URL+"/behaviour", map[string]any{
		"mode": "fail", "depositAddress": q.DepositAddress,
	}); status != http.StatusConflict {
		t.Errorf("got %d for a swap that has its deposit", status)
	}
	_, answer := b.call(http.MethodGet, b.ctl.URL+"/swaps", nil)
	if got := string(answer); strings.Count(got, `"isDone":true`) != 2 || !strings.Contains(got, `"mode":"refund"`) {
		t.Errorf("got %s", got)
	}
	_, answer = b.call(http.MethodGet, b.ctl.URL+"/desk", nil)
	if got := string(answer); !strings.Contains(got, b.desk.PublicKey()) || !strings.Contains(got, `"mode":"none"`) {
		t.Errorf("got %s", got)
	}
}

func TestTheDepositWindowCanBeSet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.call(http.MethodPut, b.ctl.URL+"/terms", map[string]any{"depositWindow": "5s"})
	b.reopen()
	if q := b.verified(nil); !q.Deadline.Equal(b.now.Add(30*time.Minute + 5*time.Second)) {
		t.Errorf("got the deadline %s", q.Deadline)
	}
	b.call(http.MethodPut, b.ctl.URL+"/terms", map[string]any{})
	if q := b.verified(nil); !q.Deadline.Equal(b.now.Add(90 * time.Minute)) {
		t.Errorf("got the deadline %s", q.Deadline)
	}
	status, _ := b.call(http.MethodPut, b.ctl.URL+"/terms", map[string]any{"depositWindow": "-5s"})
	if status/100 != 4 {
		t.Errorf("got %d for a window that ends before it begins", status)
	}
}

// A crash in the middle of a line leaves a line without an end. What it would have said did not happen.
func TestALineWithoutAnEndIsDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	q := b.verified(nil)
	b.close()
	f, err := os.OpenFile(b.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"swap":{"depositAddress":"` + q.DepositAddress + `","pha`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b.open()
	b.eth.deposit(q.DepositAddress, q.AmountIn, b.now)
	b.step()
	if s := b.status(q.DepositAddress); s.Status != "SUCCESS" {
		t.Errorf("got %+v", s)
	}
	info, err := os.Stat(b.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file that its owner alone reads", info.Mode(), err)
	}
	if got := b.transfers(); got.Totals[2].Received != money.MustParse(oneETH) {
		t.Errorf("got %+v", got)
	}
}
