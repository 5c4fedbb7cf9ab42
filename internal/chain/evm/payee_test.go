package evm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
)

// twoFaced is the code of a payee that uses 800,000 gas and succeeds where the gas price is zero,
// as in a simulation without fees, and fails where it is not.
const twoFaced = "3a15600657fe5b620075305b6001900380600b5700"

// burner returns the code of a payee that uses 26 gas in each of so many rounds.
func burner(rounds int) string { return fmt.Sprintf("62%06x5b600190038060045700", rounds) }

// deploy puts a contract with this code on the chain.
func (l *lab) deploy(t testing.TB, runtime string) chain.Address {
	t.Helper()
	size := len(runtime) / 2
	hash, err := l.node.SendTx(t.Context(), nil, nil,
		hexutil.MustDecode(fmt.Sprintf("0x61%04x600e60003961%04x6000f3%s", size, size, runtime)))
	if err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
	r, err := l.node.WaitReceipt(t.Context(), hash)
	if err != nil || r.Status != 1 {
		t.Fatalf("got %+v, %v, want a contract", r, err)
	}
	return evmtx.Canonical(r.ContractAddress)
}

// Rule WD-52. The payee succeeded in the simulation and took all gas of the
// transaction.
func TestAPayeeCannotTellTheSimulationByItsFees(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := chain.Payment{From: l.Payer(t), To: l.deploy(t, twoFaced), Amount: money.Units(1000)}
	fees, err := l.chain.Sender.Quote(t.Context(), p)
	var reverted *chain.RevertedError
	if !errors.As(err, &reverted) {
		t.Errorf("got %+v, %v, want a refusal", fees, err)
	}
}

// Rule WD-52.
func TestAPayeeMayUseSoMuchGasAboveWhatTheChainChargesForItsData(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	modest, greedy := l.deploy(t, burner(3_000)), l.deploy(t, burner(5_000))
	p := chain.Payment{From: l.Payer(t), Amount: money.Units(1000)}
	var reverted *chain.RevertedError
	quote := func(c chain.Chain, to chain.Address) (chain.Fees, error) {
		p.To = to
		return c.Sender.Quote(t.Context(), p)
	}
	if fees, err := quote(l.chain, l.Account(t)); err != nil || fees.GasLimit != 21_000 {
		t.Errorf("an account: got %+v, %v, want 21000 gas", fees, err)
	}
	if fees, err := quote(l.chain, modest); err != nil || fees.GasLimit < 99_000 || fees.GasLimit > 121_000 {
		t.Errorf("79,000 gas: got %+v, %v, want no more than 100,000 above 21,000", fees, err)
	}
	if fees, err := quote(l.chain, greedy); !errors.As(err, &reverted) || !strings.Contains(reverted.Reason, "121000") {
		t.Errorf("130,000 gas: got %+v, %v, want a refusal that names the limit", fees, err)
	}
	more := config(l.node.URL)
	more.PayeeGasMax = 200_000
	if fees, err := quote(newChain(t, more), greedy); err != nil || fees.GasLimit < 151_000 || fees.GasLimit > 221_000 {
		t.Errorf("130,000 gas of 200,000: got %+v, %v, want it quoted", fees, err)
	}

	// A chain that charges for its data in gas, as Arbitrum does: 400,000 of each transfer.
	proxy := newProxy(t, l.node)
	charged := newChain(t, config(proxy.URL))
	proxy.SetRule("eth_estimateGas", func(e *exchange) {
		var c struct{ From, To string }
		if err := json.Unmarshal(e.Params[0], &c); err != nil {
			t.Error(err)
		}
		if e.SetResult(`"0x668a0"`); c.From == c.To { // 420,000
			e.SetResult(`"0x61a80"`)
		}
	})
	if fees, err := quote(charged, modest); err != nil || fees.GasLimit < 480_000 || fees.GasLimit > 580_000 {
		t.Errorf("charged for data: got %+v, %v, want it quoted above that", fees, err)
	}
	proxy.SetRule("eth_estimateGas", func(e *exchange) {
		var c struct{ From, To string }
		if err := json.Unmarshal(e.Params[0], &c); err != nil {
			t.Error(err)
		}
		if e.SetResult(`"0x927c0"`); c.From == c.To { // 600,000
			e.SetResult(`"0x61a80"`)
		}
	})
	if fees, err := quote(charged, modest); !errors.As(err, &reverted) {
		t.Errorf("200,000 above its data: got %+v, %v, want a refusal", fees, err)
	}
}

// Rule WD-52.
func TestANativePaymentIsSimulatedWithTheFieldsThatAreSent(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	proxy := newProxy(t, l.node)
	c := newChain(t, config(proxy.URL))
	type sent struct {
		From, To, Value, Gas               string
		MaxFeePerGas, MaxPriorityFeePerGas string
	}
	var mu sync.Mutex
	var last sent
	proxy.SetRule("eth_call", func(e *exchange) {
		mu.Lock()
		defer mu.Unlock()
		last = sent{}
		if err := json.Unmarshal(e.Params[0], &last); err != nil {
			t.Error(err)
		}
	})
	p := chain.Payment{From: l.Payer(t), To: l.deploy(t, burner(100)), Amount: money.Units(1000)}
	fees, err := c.Sender.Quote(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := sent{
		strings.ToLower(string(p.From)), strings.ToLower(string(p.To)), "0x3e8",
		hexutil.EncodeUint64(fees.GasLimit), hexutil.EncodeBig(fees.FeeCap.Big()), hexutil.EncodeBig(fees.TipCap.Big()),
	}
	if last != want {
		t.Errorf("got %+v, want %+v", last, want)
	}
}

// A payment is simulated with its real fees only where the payer could pay them. Otherwise gas is
// missing, and the payee has not refused.
func TestAPayerWithoutCoinForTheFeeIsShortAndNotRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	payee := l.deploy(t, burner(1_000))
	p := chain.Payment{From: l.Account(t), To: payee, Amount: money.Units(params.GWei)}
	for _, beside := range []uint64{0, 30_000} {
		l.Fund(t, p.From, "", money.Units(params.GWei+beside*params.GWei))
		fees, err := l.chain.Sender.Quote(t.Context(), p)
		var short *chain.InsufficientFeeError
		if !errors.As(err, &short) || short.Fee.IsZero() {
			t.Errorf("%d gwei beside the amount: got %+v, %v, want what is missing", beside, fees, err)
		}
	}
	p.To = l.Account(t)
	if fees, err := l.chain.Sender.Quote(t.Context(), p); err != nil || fees.GasLimit != 21_000 {
		t.Errorf("to an account without code: got %+v, %v, want it quoted before its gas is there", fees, err)
	}
}

func TestTheGasOfAPayeeIsBounded(t *testing.T) {
	t.Parallel()
	cfg := config("http://127.0.0.1:1")
	cfg.PayeeGasMax = 1_000_000
	if _, err := evm.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "payee gas") {
		t.Errorf("got %v, want a refusal", err)
	}
}
