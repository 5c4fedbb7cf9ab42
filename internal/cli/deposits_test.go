package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/webhook"
)

// flaggedDeposits plays deposits from a sender whom screening knows: they are flagged and
// announced, and then approved, rejected and redirected at a terminal, until the chain has the
// result. Rule DEP-55.
func flaggedDeposits(t *testing.T, w *localworld.World) {
	t.Helper()
	info := w.Info
	call := func(base, header, key, method, path string, body, into any) {
		t.Helper()
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(header, key)
		r.Header.Set("Content-Type", "application/json")
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		if err != nil || got.StatusCode > 299 {
			t.Fatalf("%s %s: got %v %s %v", method, path, got.StatusCode, text, err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	ours := func(method, path string, body, into any) {
		t.Helper()
		call(info.BaseURL, "x-api-key", info.APIKey, method, path, body, into)
	}
	coffer := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := cli.Run(t.Context(), append(args, "--config", info.Config), &out, &errs); code != want {
			t.Fatalf("coffer %s: got %d %s %s, want %d", strings.Join(args, " "), code, out.String(), errs.String(),
				want)
		}
		return out.String() + errs.String()
	}
	key, err := crypto.HexToECDSA(strings.TrimPrefix(info.Chains["ETHEREUM"].FaucetKey, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	faucet := crypto.PubkeyToAddress(key.PublicKey)
	eth, err := ethclient.DialContext(t.Context(), info.Chains["ETHEREUM"].RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	defer eth.Close()
	token := info.Mints[0]
	has := func(who common.Address) *big.Int {
		t.Helper()
		at := common.HexToAddress(*token.ContractAddress)
		got, err := eth.CallContract(t.Context(),
			ethereum.CallMsg{To: &at, Data: evmtoken.Token.CallData("balanceOf", who)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return new(big.Int).SetBytes(got)
	}

	call(info.OperatorURL+"/v1", "x-operator-key", info.Operator.APIKey, "PATCH",
		"/organizations/"+info.OrganizationID+"/settings",
		map[string]any{"screeningSeverityThreshold": "MEDIUM", "screeningUsdThreshold": "1"}, &struct{}{})
	coffer(0, "local", "risk", "set", faucet.Hex(), "SEVERE", "--score", "98", "--entity", "a mixer")
	coffer(0, "deposits")
	var given struct{ Address string }
	ours("POST", "/deposit", map[string]any{"mintId": token.ID, "customerId": "flagged"}, &given)
	before := has(faucet)
	const each = 5_000_000
	for range 3 {
		if _, err := info.SendFromFaucet(
			t.Context(), token, common.HexToAddress(given.Address), big.NewInt(each),
		); err != nil {
			t.Fatal(err)
		}
	}
	var held struct{ Data []webhook.Deposit }
	until(t, "three deposits are flagged", func() bool {
		ours("GET", "/deposits?status=FLAGGED&order=asc", nil, &held)
		return len(held.Data) == 3
	})
	queue := coffer(0, "deposits", "flagged")
	for _, d := range held.Data {
		if !d.IsFlagged || d.RiskOfFunds == nil || *d.RiskOfFunds != "SEVERE" ||
			!strings.Contains(queue, d.DepositID) || !strings.Contains(queue, "a mixer") {
			t.Errorf("got %+v and %s, want it flagged and in the queue with its reason", d, queue)
		}
	}
	first, second, third := held.Data[0].DepositID, held.Data[1].DepositID, held.Data[2].DepositID
	as := info.Users[0].Email
	elsewhere := common.HexToAddress("0x2222222222222222222222222222222222222222")

	if got := coffer(
		1, "deposits", "redirect", third, "--to", elsewhere.Hex(), "--reference", "case 77", "--as", as,
	); !strings.Contains(got, "Only the operator") {
		t.Errorf("a person's redirect: got %s, want it refused", got)
	}
	if got := coffer(
		0, "deposits", "approve", first, "--as", as, "--note", "known",
	); !strings.Contains(got, "CREDITED") || !strings.Contains(got, as) {
		t.Errorf("approve: got %s, want who approved", got)
	}
	if got := coffer(1, "deposits", "reject", first, "--as", as); !strings.Contains(got, "Nothing was changed") {
		t.Errorf("reject after the approval: got %s, want it refused", got)
	}
	if got := coffer(0, "deposits", "reject", second, "--as", as); !strings.Contains(got, faucet.Hex()) {
		t.Errorf("reject: got %s, want to whom it goes", got)
	}
	if got := coffer(
		0, "deposits", "redirect", third, "--to", elsewhere.Hex(), "--reason", "LAW_ENFORCEMENT", "--reference",
		"case 77",
	); !strings.Contains(got, elsewhere.Hex()) {
		t.Errorf("redirect: got %s, want where it goes", got)
	}
	states := map[string]string{}
	until(t, "what was decided is final", func() bool {
		for _, id := range []string{first, second, third} {
			var d webhook.Deposit
			ours("GET", "/deposits/"+id, nil, &d)
			states[id] = d.Status
			if d.Status == "REJECTED" || d.Status == "REDIRECTED" {
				receipt, err := eth.TransactionReceipt(t.Context(), common.HexToHash(*d.Resolution.TxHash))
				if err != nil || receipt.Status != 1 {
					t.Errorf("%s: got %v %v, want its transaction on the chain", id, receipt, err)
				}
			}
		}
		return states[second] == "REJECTED" && states[third] == "REDIRECTED"
	})
	if states[first] != "CREDITED" {
		t.Errorf("got %v, want the first credited", states)
	}
	if got, want := has(faucet), new(big.Int).Sub(before, big.NewInt(2*each)); got.Cmp(want) != 0 {
		t.Errorf("the faucet: got %v, want %v: one of three came back", got, want)
	}
	if got := has(elsewhere); got.Cmp(big.NewInt(each)) != 0 {
		t.Errorf("elsewhere: got %v, want %v", got, each)
	}
	var balances struct {
		Data []struct{ Available, Held string }
	}
	ours("GET", "/customers/flagged/balances", nil, &balances)
	if len(balances.Data) != 1 || balances.Data[0].Available != fmt.Sprint(each) || balances.Data[0].Held != "0" {
		t.Errorf("got %+v, want what was approved", balances)
	}
	history := coffer(0, "deposits", "flagged", "--history")
	for _, want := range []string{first, second, third, "APPROVED", "REJECTED", "LAW_ENFORCEMENT", `"case 77"`, "0x"} {
		if !strings.Contains(history, want) {
			t.Errorf("history: got %s, want %s in it", history, want)
		}
	}
	var feed struct{ Data []webhook.Envelope }
	types := map[string]int{}
	until(t, "everything was told", func() bool {
		clear(types)
		ours(
			"GET",
			"/events?limit=200&types=CUSTOMER_DEPOSIT,CUSTOMER_DEPOSIT_APPROVED,CUSTOMER_DEPOSIT_REJECTED,CUSTOMER_DEPOSIT_REDIRECTED",
			nil, &feed,
		)
		for _, e := range feed.Data {
			var d webhook.Deposit
			if err := json.Unmarshal(e.Data, &d); err == nil && states[d.DepositID] != "" {
				types[string(e.Type)]++
			}
		}
		return len(types) == 4
	})
	if got, want := fmt.Sprint(types),
		"map[CUSTOMER_DEPOSIT:3 CUSTOMER_DEPOSIT_APPROVED:1 CUSTOMER_DEPOSIT_REDIRECTED:1 CUSTOMER_DEPOSIT_REJECTED:1]"; got != want {
		t.Errorf("events: got %v, want %v", got, want)
	}
	coffer(0, "local", "risk", "clear", faucet.Hex())
	coffer(0, "verify")
	if got := coffer(0, "freezes", "list"); strings.Contains(got, "frz_") {
		t.Errorf("got %s, want nothing frozen", got)
	}
}
