package payers

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// wallet is an account of a payer on Ethereum, with its key.
type wallet struct {
	key     *ecdsa.PrivateKey
	address common.Address
	sent    []string // the hashes of what it sent
}

func (p *payer) newWallet() *wallet {
	p.Helper()
	key, err := anvil.NewKey()
	p.must(err)
	return &wallet{key: key, address: crypto.PubkeyToAddress(key.PublicKey)}
}

// fund gives a wallet an amount and what pays for the network.
func (p *payer) fund(w *wallet, m localworld.Mint, units *big.Int) {
	p.Helper()
	ether := p.mint(p.T, "ETHEREUM", "ETH")
	p.send(ether, w.address.Hex(), whole(ether, 1))
	p.send(m, w.address.Hex(), units)
	p.waitUntil("the wallet can pay", func() bool {
		coins, err := p.EthereumNode().Eth.BalanceAt(p.ctx, w.address, nil)
		p.must(err)
		return coins.Sign() > 0 && p.holds(m, w.address).Cmp(units) >= 0
	})
}

// holds reads the balance of an address from the chain.
func (p *payer) holds(m localworld.Mint, address common.Address) *big.Int {
	p.Helper()
	var units *big.Int
	var err error
	if m.ContractAddress == nil {
		units, err = p.EthereumNode().Eth.BalanceAt(p.ctx, address, nil)
	} else {
		units, err = p.EthereumNode().TokenBalance(p.ctx, common.HexToAddress(*m.ContractAddress), address)
	}
	p.must(err)
	return units
}

// sign signs a transaction and sends it.
func (p *payer) sign(w *wallet, to common.Address, value *big.Int, data []byte) string {
	p.Helper()
	faucet := p.faucets["ETHEREUM"]
	faucet.Lock()
	defer faucet.Unlock()
	hash, err := p.EthereumNode().SendTxFrom(p.ctx, w.key, &to, value, data)
	p.must(err)
	w.sent = append(w.sent, hash.Hex())
	return hash.Hex()
}

// pay pays from a wallet.
func (p *payer) pay(w *wallet, m localworld.Mint, address string, units *big.Int) {
	p.Helper()
	to := common.HexToAddress(address)
	if m.ContractAddress == nil {
		p.sign(w, to, units, nil)
		return
	}
	p.sign(w, common.HexToAddress(*m.ContractAddress), nil, evmtoken.Token.CallData("transfer", to, units))
}

// askWallet begins each script of a wallet: what the page asks waits until the test, which has the key, answers.
const askWallet = `
	window.cofferStays = true;
	window.asks = [];
	const ask = (method, params) => new Promise((resolve) => window.asks.push({ method, params, resolve }));
	window.takeAsk = () => {
		const id = window.asks.findIndex((a) => !a.isTaken);
		if (id < 0) return '';
		window.asks[id].isTaken = true;
		return JSON.stringify({ id, method: window.asks[id].method, params: window.asks[id].params ?? [] });
	};
	window.answerAsk = (id, answer) => { window.asks[id].resolve(answer); return true; };
`

// ethereumWallet announces a wallet as EIP-6963 says.
const ethereumWallet = `(() => {` + askWallet + `
	dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: {
		info: { uuid: 'real', name: 'Real wallet', icon: '', rdns: 'example.real' },
		provider: { request: ({ method, params }) => ask(method, params) },
	} }));
	return true;
})()`

// solanaWallet registers a wallet as the Wallet Standard says. Its account stands in place of the marks.
const solanaWallet = `(() => {` + askWallet + `
	const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes));
	const account = {
		address: %q, publicKey: new Uint8Array(%s), chains: ['solana:localnet'],
		features: ['solana:signAndSendTransaction'],
	};
	const wallet = {
		version: '1.0.0', name: 'Real wallet', icon: '', chains: ['solana:localnet'], accounts: [account],
		features: {
			'standard:connect': { version: '1.0.0', connect: async () => ({ accounts: [account] }) },
			'solana:signAndSendTransaction': {
				version: '1.0.0', supportedTransactionVersions: ['legacy', 0],
				signAndSendTransaction: async ({ transaction, chain }) =>
					[{ signature: new Uint8Array(await ask('sign', [toBase64(transaction), chain])) }],
			},
		},
	};
	const callback = (api) => api.register(wallet);
	dispatchEvent(new CustomEvent('wallet-standard:register-wallet', { detail: callback }));
	addEventListener('wallet-standard:app-ready', ({ detail }) => callback(detail));
	return true;
})()`

// asked is what a page asked a wallet for.
type asked struct {
	ID     int               `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// param reads one parameter of what was asked.
func param[T any](p *payer, a asked, i int) (value T) {
	p.Helper()
	if i >= len(a.Params) {
		p.Fatalf("the page asked for %s with %d parameters", a.Method, len(a.Params))
	}
	if err := json.Unmarshal(a.Params[i], &value); err != nil {
		p.Fatalf("the page asked for %s with %s: %v", a.Method, a.Params[i], err)
	}
	return value
}

// serve answers what the page asks its wallet for, until an expression is true there.
func (p *payer) serve(expression string, answer func(a asked) any) {
	p.Helper()
	p.waitUntil(expression, func() bool {
		if raw := browser.Evaluate[string](p.tab, "window.takeAsk?.() ?? ''"); raw != "" {
			var a asked
			p.must(json.Unmarshal([]byte(raw), &a))
			given, err := json.Marshal(answer(a))
			p.must(err)
			browser.Evaluate[bool](p.tab, fmt.Sprintf("window.answerAsk(%d, %s)", a.ID, given))
		}
		return browser.Evaluate[bool](p.tab, expression)
	})
}

// answerEthereum answers as a wallet on Ethereum whose person agrees to everything.
func (p *payer) answerEthereum(w *wallet) func(asked) any {
	chainID := "0x" + fmt.Sprintf("%x", p.Info.Chains["ETHEREUM"].ChainID)
	return func(a asked) any {
		p.Helper()
		switch a.Method {
		case "eth_requestAccounts":
			return []string{w.address.Hex()}
		case "wallet_switchEthereumChain":
			if want := param[struct{ ChainID string }](p, a, 0).ChainID; want != chainID {
				p.Errorf("the page wants the chain %s, not %s", want, chainID)
			}
			return nil
		case "eth_chainId":
			return chainID
		case "eth_sendTransaction":
			tx := param[struct {
				From, To common.Address
				Value    *hexutil.Big
				Data     hexutil.Bytes
			}](p, a, 0)
			if tx.From != w.address {
				p.Errorf("the page wants a payment from %s, not from %s", tx.From, w.address)
			}
			return p.sign(w, tx.To, tx.Value.ToInt(), tx.Data)
		case "personal_sign":
			text, err := hexutil.Decode(param[string](p, a, 0))
			p.must(err)
			signature, err := crypto.Sign(accounts.TextHash(text), w.key)
			p.must(err)
			signature[crypto.RecoveryIDOffset] += 27 // as wallets write it
			return "0x" + hex.EncodeToString(signature)
		}
		p.Errorf("the page asked the wallet for %s", a.Method)
		return nil
	}
}

// isPaid is true on an open page that was not loaded again and says that the money arrived.
func (p *payer) isPaid() string {
	paid, _ := say("state.completed").in(p, "en")
	return fmt.Sprintf("window.cofferStays === true && document.querySelector('h1').textContent === %q", paid)
}

// A wallet of the browser signs and sends what the page asks for, and the open page says at the end that it is paid.
// Rule CO-131.
func playEthereumWallet(t *testing.T, n *scenario) {
	for _, symbol := range []string{"USDC", "ETH"} {
		m := n.mint(t, "ETHEREUM", symbol)
		p := n.play(t, priceText, false, m)
		w := p.newWallet()
		address, units := p.choose(m)
		p.fund(w, m, new(big.Int).Add(units, half(units)))
		before := p.holds(m, common.HexToAddress(address))
		browser.Evaluate[bool](p.tab, ethereumWallet)
		p.press("#wallet-real")
		p.serve(p.isPaid(), p.answerEthereum(w))
		p.hear(say("wallet.sent"))
		c := p.becomes("COMPLETED", "NONE")
		if len(w.sent) != 1 || len(c.Payments) != 1 || !strings.EqualFold(c.Payments[0].TxHash, w.sent[0]) ||
			c.Payments[0].Amount != units.String() {
			p.Errorf("the wallet sent %q, and the checkout has %+v; want one payment of %s", w.sent, c.Payments, units)
		}
		if before.Sign() != 0 {
			p.Errorf("the address had %s before", before)
		}
		p.look("paid by a wallet", []said{say("state.completed")})
		p.finish()
	}
}

// A wallet of the Wallet Standard signs the transaction that the server made, and sends it. Rule CO-131.
func playSolanaWallet(t *testing.T, n *scenario) {
	for _, symbol := range []string{"USDC", "SOL"} {
		m := n.mint(t, "SOLANA", symbol)
		p := n.play(t, priceText, false, m)
		node := p.SolanaNode()
		key, err := surfpool.NewKey()
		p.must(err)
		account := surfpool.AddressOf(key)
		_, units := p.choose(m)
		_, err = node.PayLamports(p.ctx, account, surfpool.LamportsPerSOL)
		p.must(err)
		if m.ContractAddress != nil {
			p.waitForAccount()
			_, err = node.PayToken(p.ctx, chain.Address(*m.ContractAddress), account, 2*units.Uint64())
			p.must(err)
		}
		bytes, err := json.Marshal(toNumbers(key.Public().(ed25519.PublicKey)))
		p.must(err)
		browser.Evaluate[bool](p.tab, fmt.Sprintf(solanaWallet, account, bytes))
		p.press("#wallets button")
		var sent []chain.TxHash
		p.serve(p.isPaid(), func(a asked) any {
			if a.Method != "sign" || param[string](p, a, 1) != "solana:localnet" {
				p.Fatalf("the page asked the wallet for %s %s", a.Method, a.Params)
			}
			raw, err := base64.StdEncoding.DecodeString(param[string](p, a, 0))
			p.must(err)
			request, err := solanatx.DecodeRequest(raw)
			p.must(err)
			if request.Payer != account || request.Amount.String() != units.String() {
				p.Errorf("the transaction pays %s from %s, want %s from %s", request.Amount, request.Payer, units,
					account)
			}
			const head = 1 + ed25519.SignatureSize
			signature := ed25519.Sign(key, raw[head:])
			copy(raw[1:head], signature)
			hash, err := node.SendRaw(p.ctx, raw)
			p.must(err)
			sent = append(sent, hash)
			return toNumbers(signature)
		})
		p.hear(say("wallet.sent"))
		c := p.becomes("COMPLETED", "NONE")
		if len(sent) != 1 || len(c.Payments) != 1 || c.Payments[0].TxHash != string(sent[0]) ||
			c.Payments[0].Amount != units.String() {
			p.Errorf("the wallet sent %q, and the checkout has %+v; want one payment of %s", sent, c.Payments, units)
		}
		p.look("paid by a wallet", []said{say("state.completed")})
		p.finish()
	}
}

// waitForAccount waits until the service has created the token account of the address at which wallets pay. The open
// page offers wallets then. Rule CO-139.
func (p *payer) waitForAccount() {
	p.Helper()
	p.waitUntil("the page offers wallets", func() bool {
		return browser.Evaluate[bool](p.tab, "document.querySelector('#wallets[data-network]') !== null")
	})
}

// toNumbers writes bytes as a script reads them.
func toNumbers(bytes []byte) []int {
	numbers := make([]int, len(bytes))
	for i, b := range bytes {
		numbers[i] = int(b)
	}
	return numbers
}
