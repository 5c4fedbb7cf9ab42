package evmtoken_test

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
)

// world is a chain with the contract, whose faucet is the account that pays.
type world struct {
	testing.TB
	*anvil.Node
	payer common.Address
}

func newWorld(t testing.TB) world {
	t.Helper()
	w := world{t, anviltest.Start(t, anvil.Config{}), common.Address{}}
	w.payer = w.FaucetAddress()
	w.deploy()
	return w
}

// deploy deploys the contract as an operator does: any account sends the deployment data to the standard deployer.
func (w world) deploy() {
	w.Helper()
	if !w.send(payoutcontract.Deployer, payoutcontract.DeploymentData()) {
		w.Fatal("the deployer refused the contract")
	}
	code, err := w.Eth.CodeAt(w.Context(), payoutcontract.Address, nil)
	if err != nil || !payoutcontract.IsRuntimeCode(code) {
		w.Fatalf("the derived address has %x, %v, want the code of the contract", code, err)
	}
}

// receipt sends a transaction of the payer and returns its receipt.
func (w world) receipt(to common.Address, data []byte) *types.Receipt {
	w.Helper()
	hash, err := w.SendTx(w.Context(), &to, nil, data)
	if err != nil {
		w.Fatal(err)
	}
	receipt, err := w.WaitReceipt(w.Context(), hash)
	if err != nil {
		w.Fatal(err)
	}
	return receipt
}

func (w world) send(to common.Address, data []byte) (succeeded bool) {
	w.Helper()
	return w.receipt(to, data).Status == types.ReceiptStatusSuccessful
}

// token deploys a token, mints to the payer and allows the contract to move all of it.
func (w world) token(c evmtoken.Contract, units int64) common.Address {
	w.Helper()
	at, err := w.DeployContract(w.Context(), c, "Some Token", "SOME", uint8(6))
	if err != nil {
		w.Fatal(err)
	}
	if !w.send(at, c.CallData("mint", w.payer, big.NewInt(units))) {
		w.Fatalf("%s: mint failed", c)
	}
	w.allow(at)
	return at
}

func (w world) allow(token common.Address) {
	w.Helper()
	data, err := evmtx.ApproveData(evmtx.PayoutContract, true)
	if err != nil {
		w.Fatal(err)
	}
	if !w.send(token, data) {
		w.Fatal("approve failed")
	}
}

func (w world) balance(token, account common.Address) int64 {
	w.Helper()
	units, err := w.TokenBalance(w.Context(), token, account)
	if err != nil {
		w.Fatal(err)
	}
	return units.Int64()
}

type item struct {
	to    common.Address
	units uint64
}

// payData returns the call that pays items, also for lists that the service never sends.
func payData(token common.Address, items []item) []byte {
	word := func(n uint64) []byte { return common.BigToHash(new(big.Int).SetUint64(n)).Bytes() }
	data := append(payoutcontract.PaySelector[:], common.LeftPadBytes(token[:], 32)...)
	data = append(append(data, word(64)...), word(uint64(len(items)))...)
	for _, i := range items {
		data = append(append(data, i.to[:]...), common.BigToHash(new(big.Int).SetUint64(i.units)).Bytes()[20:]...)
	}
	return data
}

func payee(n uint64) common.Address {
	return common.BigToAddress(new(big.Int).SetUint64(0xc0ffee0000 + n))
}

// One random list after the other is paid, with payees that a token refuses, payees that occur twice, amounts of zero
// and amounts that the payer lacks. Each list is paid as a whole or not at all, and the contract holds nothing.
// Rule BP-21.
func TestARandomListIsPaidAsAWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	random := rand.New(rand.NewPCG(21, 4))
	for _, c := range []evmtoken.Contract{evmtoken.Token, evmtoken.Tether, evmtoken.FalseToken} {
		token := w.token(c, 100_000)
		paid, refused := 0, 0
		for range 25 {
			items := make([]item, random.IntN(30))
			sum, isPayable := uint64(0), true
			for i := range items {
				items[i] = item{payee(random.Uint64N(12)), random.Uint64N(700)}
				if random.IntN(60) == 0 {
					items[i].units = 200_000 // more than there ever is
					isPayable = false
				}
				if c != evmtoken.FalseToken && random.IntN(80) == 0 {
					items[i].to, isPayable = common.Address{}, false
				}
				sum += items[i].units
			}
			before := map[common.Address]int64{w.payer: w.balance(token, w.payer)}
			if uint64(before[w.payer]) < sum {
				isPayable = false
			}
			want := map[common.Address]int64{}
			for _, i := range items {
				if _, isKnown := before[i.to]; !isKnown {
					before[i.to] = w.balance(token, i.to)
				}
				want[i.to] += int64(i.units)
			}
			want[w.payer] -= int64(sum)
			if got := w.send(payoutcontract.Address, payData(token, items)); got != isPayable {
				t.Fatalf("%s: %v: got paid %v, want %v", c, items, got, isPayable)
			}
			if isPayable {
				paid++
			} else {
				refused++
				clear(want)
			}
			for account, units := range before {
				if got := w.balance(token, account); got != units+want[account] {
					t.Errorf("%s: %v: %s went from %d to %d, want %d more", c, items, account, units, got,
						want[account])
				}
			}
			if got := w.balance(token, payoutcontract.Address); got != 0 {
				t.Fatalf("%s: the contract holds %d", c, got)
			}
		}
		if paid == 0 || refused == 0 {
			t.Errorf("%s: got %d lists paid and %d refused, want some of both", c, paid, refused)
		}
	}
}

// Rule BP-21.
func TestATokenThatDoesNotPayFailsTheWholeCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	items := []item{{payee(1), 10}, {payee(2), 20}}
	refusing := w.token(evmtoken.FalseToken, 100)
	w.send(refusing, evmtoken.FalseToken.CallData("refuse", true))
	if w.send(payoutcontract.Address, payData(refusing, items)) {
		t.Error("a token that answers false: got success, want a revert")
	}
	w.send(refusing, evmtoken.FalseToken.CallData("refuse", false))
	w.send(refusing, evmtoken.FalseToken.CallData("deny", true))
	if w.send(payoutcontract.Address, payData(refusing, items)) || w.balance(refusing, payee(1)) != 0 {
		t.Error("a token that moves and answers false: got success, want all of it undone")
	}
	without := common.HexToAddress("0xa11ce0000000000000000000000000000000a11c")
	if w.send(payoutcontract.Address, payData(without, items)) {
		t.Error("a token without code: got success, want a revert")
	}
	// A token that keeps a fee moves what it moves; the service compares the balances afterwards.
	fee := w.token(evmtoken.FeeToken, 10_000)
	if !w.send(payoutcontract.Address, payData(fee, []item{{payee(3), 1000}, {payee(4), 1000}})) {
		t.Error("a token with a fee: got a revert, want its own transfers")
	}
	if got := w.balance(fee, payee(3)); got != 990 || w.balance(fee, payoutcontract.Address) != 0 {
		t.Errorf("a token with a fee: got %d at the payee, want 990 and nothing at the contract", got)
	}
}

// The contract moves tokens of its caller alone: what another account allowed it is out of reach. It takes no coin.
// Rule BP-21.
func TestTheContractMovesTokensOfItsCallerOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token(evmtoken.Token, 1000)
	stranger := common.HexToAddress("0x57a6e50000000000000000000000000000057a6e")
	_, err := w.Eth.CallContract(w.Context(), ethCall(stranger, payData(token, []item{{stranger, 1}})), nil)
	if err == nil {
		t.Error("a call by an account that has nothing: got success, want a revert")
	}
	for name, data := range map[string][]byte{
		"alone": nil, "with a call": payData(token, []item{{payee(1), 1}}), "with another call": {1, 2, 3, 4},
	} {
		hash, err := w.SendTx(w.Context(), &payoutcontract.Address, big.NewInt(1), data)
		if err != nil {
			t.Fatal(err)
		}
		receipt, err := w.WaitReceipt(w.Context(), hash)
		if err != nil || receipt.Status == types.ReceiptStatusSuccessful {
			t.Errorf("coin %s: got %+v, %v, want it refused", name, receipt, err)
		}
	}
	if coin, err := w.Eth.BalanceAt(w.Context(), payoutcontract.Address, nil); err != nil || coin.Sign() != 0 {
		t.Errorf("the contract has %v wei, %v, want none", coin, err)
	}
}

// What a payment costs alone and with others, to payees that have the token and to new ones. The figures are those of
// BENCHMARKS.md. Rule BP-22.
func TestAPaymentCostsLessTogether(t *testing.T) {
	t.Parallel()
	most := map[string]anvil.PaymentGas{ // with 24 together
		anvil.ProxiedToken: {NewPayee: 32_100, KnownPayee: 14_600},
		anvil.PlainToken:   {NewPayee: 28_400, KnownPayee: 10_800},
	}
	measured, err := anviltest.Start(t, anvil.Config{}).MeasurePayments(t.Context(), 1, 2, 8, evmtx.PaymentsMax)
	if err != nil || len(measured) != 8 {
		t.Fatalf("got %v, %v, want four figures of two tokens", measured, err)
	}
	for _, m := range measured {
		t.Logf("%s, %d together: %d gas to a new payee, %d to a known one", m.Token, m.Payments, m.NewPayee,
			m.KnownPayee)
		c := most[m.Token]
		if m.Payments == evmtx.PaymentsMax && (m.NewPayee > c.NewPayee || m.KnownPayee > c.KnownPayee) {
			t.Errorf("%s, %d together: got %d and %d gas, want at most %d and %d", m.Token, m.Payments, m.NewPayee,
				m.KnownPayee, c.NewPayee, c.KnownPayee)
		}
	}
}

func ethCall(from common.Address, data []byte) ethereum.CallMsg {
	return ethereum.CallMsg{From: from, To: &payoutcontract.Address, Data: data}
}
