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

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"
	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// wallet is an account of a payer on one chain, with its key.
type wallet struct {
	chain    string
	address  string
	ethereum *ecdsa.PrivateKey
	solana   ed25519.PrivateKey
	bitcoin  *btcec.PrivateKey
	outputs  []btcd.Output // what it can spend on Bitcoin
	sent     []string      // the hashes of what it sent
}

// walletFee pays for a transaction of a wallet on Bitcoin, in satoshi.
const walletFee = 20_000

func (p *payer) newWallet(chainName string) *wallet {
	p.Helper()
	w := &wallet{chain: chainName}
	var err error
	switch chainName {
	case "ETHEREUM":
		w.ethereum, err = anvil.NewKey()
		p.must(err)
		w.address = crypto.PubkeyToAddress(w.ethereum.PublicKey).Hex()
	case "SOLANA":
		w.solana, err = surfpool.NewKey()
		p.must(err)
		w.address = string(surfpool.AddressOf(w.solana))
	default:
		w.bitcoin, err = btcd.NewKey()
		p.must(err)
		w.address = string(btcd.KeyAddress(w.bitcoin))
	}
	return w
}

// fund gives a wallet an amount and what pays for the network.
func (p *payer) fund(w *wallet, m localworld.Mint, units *big.Int) {
	p.Helper()
	if w.chain == "BITCOIN" {
		faucet := p.faucets[w.chain]
		faucet.Lock()
		defer faucet.Unlock()
		tx, err := p.BitcoinNode().PayAddress(p.ctx, chain.Address(w.address), units.Int64()+walletFee)
		p.must(err)
		w.outputs = append(w.outputs, btcd.Output{OutPoint: wire.OutPoint{Hash: tx.TxHash()}, TxOut: *tx.TxOut[0]})
		return
	}
	coin := p.mint(p.T, w.chain, map[string]string{"ETHEREUM": "ETH", "SOLANA": "SOL"}[w.chain])
	p.send(coin, w.address, whole(coin, 1))
	p.send(m, w.address, units)
	p.waitUntil("the wallet can pay", func() bool {
		return p.holds(coin, w.address).Sign() > 0 && p.holds(m, w.address).Cmp(units) >= 0
	})
}

// holds reads the balance of an address from the chain.
func (p *payer) holds(m localworld.Mint, address string) *big.Int {
	p.Helper()
	switch {
	case m.Chain == "BITCOIN":
		satoshi, err := p.BitcoinNode().Balance(p.ctx, chain.Address(address))
		p.must(err)
		return big.NewInt(satoshi)
	case m.Chain == "SOLANA":
		return p.holdsOnSolana(m, chain.Address(address))
	case m.ContractAddress == nil:
		units, err := p.EthereumNode().Eth.BalanceAt(p.ctx, common.HexToAddress(address), nil)
		p.must(err)
		return units
	}
	units, err := p.EthereumNode().TokenBalance(p.ctx, common.HexToAddress(*m.ContractAddress),
		common.HexToAddress(address))
	p.must(err)
	return units
}

// holdsOnSolana reads a balance that includes the newest transaction: the node runs one as soon as it comes.
func (p *payer) holdsOnSolana(m localworld.Mint, address chain.Address) *big.Int {
	p.Helper()
	rpc, processed := p.SolanaNode().RPC, map[string]string{"commitment": "processed"}
	if m.ContractAddress == nil {
		var got struct{ Value uint64 }
		p.must(rpc.CallContext(p.ctx, &got, "getBalance", address, processed))
		return new(big.Int).SetUint64(got.Value)
	}
	account := solanaToken(m).AssociatedAccount(address)
	var info struct{ Value any }
	p.must(rpc.CallContext(p.ctx, &info, "getAccountInfo", account, processed))
	if info.Value == nil {
		return new(big.Int)
	}
	var got struct{ Value struct{ Amount string } }
	p.must(rpc.CallContext(p.ctx, &got, "getTokenAccountBalance", account, processed))
	units, isNumber := new(big.Int).SetString(got.Value.Amount, 10)
	if !isNumber {
		p.Fatalf("%s holds %q", account, got.Value.Amount)
	}
	return units
}

func solanaToken(m localworld.Mint) surfpool.Mint {
	return surfpool.Mint{
		Address: chain.Address(*m.ContractAddress), Program: solanatx.TokenProgram, Decimals: byte(m.Decimals),
	}
}

// sign signs a transaction on Ethereum and sends it.
func (p *payer) sign(w *wallet, to common.Address, value *big.Int, data []byte) string {
	p.Helper()
	faucet := p.faucets[w.chain]
	faucet.Lock()
	defer faucet.Unlock()
	hash, err := p.EthereumNode().SendTxFrom(p.ctx, w.ethereum, &to, value, data)
	p.must(err)
	w.sent = append(w.sent, hash.Hex())
	return hash.Hex()
}

// pay pays from a wallet. On Bitcoin it spends all that the wallet has, so that no change is left.
func (p *payer) pay(w *wallet, m localworld.Mint, address string, units *big.Int) {
	p.Helper()
	to := chain.Address(address)
	switch {
	case w.chain == "BITCOIN":
		output, err := btcd.NewOutput(to, units.Int64())
		p.must(err)
		tx, err := p.BitcoinNode().BuildSpend(w.bitcoin, w.outputs, walletFee, output)
		p.must(err)
		p.must(p.BitcoinNode().SendTx(p.ctx, tx))
		w.sent = append(w.sent, tx.TxID())
	case w.chain == "SOLANA":
		sender := chain.Address(w.address)
		tx := surfpool.Transaction{Keys: []ed25519.PrivateKey{w.solana}}
		if m.ContractAddress == nil {
			tx.Instructions = append(tx.Instructions, surfpool.TransferLamports(sender, to, units.Uint64()))
		} else {
			token := solanaToken(m)
			tx.Instructions = append(tx.Instructions, token.CreateAccount(sender, to), token.TransferTokens(
				token.AssociatedAccount(sender), token.AssociatedAccount(to), sender, units.Uint64()))
		}
		hash, err := p.SolanaNode().SendAndCheck(p.ctx, tx)
		p.must(err)
		w.sent = append(w.sent, string(hash))
	case m.ContractAddress == nil:
		p.sign(w, common.HexToAddress(address), units, nil)
	default:
		p.sign(w, common.HexToAddress(*m.ContractAddress), nil,
			evmtoken.Token.CallData("transfer", common.HexToAddress(address), units))
	}
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
		features: ['solana:signAndSendTransaction', 'solana:signMessage'],
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
			'solana:signMessage': {
				version: '1.1.0',
				signMessage: async ({ account, message }) => [{
					signedMessage: message,
					signature: new Uint8Array(await ask('signMessage', [toBase64(message), account.address])),
				}],
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
			return []string{w.address}
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
			if tx.From.Hex() != w.address {
				p.Errorf("the page wants a payment from %s, not from %s", tx.From, w.address)
			}
			return p.sign(w, tx.To, tx.Value.ToInt(), tx.Data)
		case "personal_sign":
			text, err := hexutil.Decode(param[string](p, a, 0))
			p.must(err)
			signature, err := crypto.Sign(accounts.TextHash(text), w.ethereum)
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
		w := p.newWallet(m.Chain)
		address, units := p.choose(m)
		p.fund(w, m, new(big.Int).Add(units, half(units)))
		before := p.holds(m, address)
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

// injectSolana puts a wallet of the Wallet Standard into the page.
func (p *payer) injectSolana(w *wallet) {
	p.Helper()
	key, err := json.Marshal(toNumbers(w.solana.Public().(ed25519.PublicKey)))
	p.must(err)
	browser.Evaluate[bool](p.tab, fmt.Sprintf(solanaWallet, w.address, key))
}

// answerSolana answers as a wallet of the Wallet Standard whose person signs every message.
func (p *payer) answerSolana(w *wallet) func(asked) any {
	return func(a asked) any {
		p.Helper()
		if a.Method != "signMessage" || param[string](p, a, 1) != w.address {
			p.Fatalf("the page asked the wallet for %s %s", a.Method, a.Params)
		}
		text, err := base64.StdEncoding.DecodeString(param[string](p, a, 0))
		p.must(err)
		return toNumbers(ed25519.Sign(w.solana, text))
	}
}

// signBitcoin signs a text as BIP-322 says, in its simple form: with the witness that would spend a transaction which
// has the text in it.
func (p *payer) signBitcoin(w *wallet, text string) string {
	p.Helper()
	script, err := bitcointx.Script(chain.Local, chain.Address(w.address))
	p.must(err)
	digest := chainhash.TaggedHash([]byte("BIP0322-signed-message"), []byte(text))
	spent, signed := wire.NewMsgTx(0), wire.NewMsgTx(0)
	spent.AddTxIn(&wire.TxIn{
		PreviousOutPoint: wire.OutPoint{Index: wire.MaxPrevOutIndex},
		SignatureScript:  append([]byte{txscript.OP_0, txscript.OP_DATA_32}, digest[:]...),
	})
	spent.AddTxOut(wire.NewTxOut(0, script))
	signed.AddTxIn(&wire.TxIn{PreviousOutPoint: wire.OutPoint{Hash: spent.TxHash()}})
	signed.AddTxOut(wire.NewTxOut(0, []byte{txscript.OP_RETURN}))
	hashes := txscript.NewTxSigHashes(signed, txscript.NewCannedPrevOutputFetcher(script, 0))
	witness, err := txscript.WitnessSignature(signed, hashes, 0, 0, script, txscript.SigHashAll, w.bitcoin, true)
	p.must(err)
	raw := []byte{byte(len(witness))}
	for _, item := range witness {
		raw = append(append(raw, byte(len(item))), item...)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// A wallet of the Wallet Standard signs the transaction that the server made, and sends it. Rule CO-131.
func playSolanaWallet(t *testing.T, n *scenario) {
	for _, symbol := range []string{"USDC", "SOL"} {
		m := n.mint(t, "SOLANA", symbol)
		p := n.play(t, priceText, false, m)
		w := p.newWallet(m.Chain)
		_, units := p.choose(m)
		if m.ContractAddress != nil {
			p.waitForAccount()
		}
		p.fund(w, m, new(big.Int).Add(units, half(units)))
		p.injectSolana(w)
		p.press("#wallets button")
		p.serve(p.isPaid(), func(a asked) any {
			if a.Method != "sign" || param[string](p, a, 1) != "solana:localnet" {
				p.Fatalf("the page asked the wallet for %s %s", a.Method, a.Params)
			}
			raw, err := base64.StdEncoding.DecodeString(param[string](p, a, 0))
			p.must(err)
			request, err := solanatx.DecodeRequest(raw)
			p.must(err)
			if string(request.Payer) != w.address || request.Amount.String() != units.String() {
				p.Errorf("the transaction pays %s from %s, want %s from %s", request.Amount, request.Payer, units,
					w.address)
			}
			const head = 1 + ed25519.SignatureSize
			signature := ed25519.Sign(w.solana, raw[head:])
			copy(raw[1:head], signature)
			hash, err := p.SolanaNode().SendRaw(p.ctx, raw)
			p.must(err)
			w.sent = append(w.sent, string(hash))
			return toNumbers(signature)
		})
		p.hear(say("wallet.sent"))
		c := p.becomes("COMPLETED", "NONE")
		if len(w.sent) != 1 || len(c.Payments) != 1 || c.Payments[0].TxHash != w.sent[0] ||
			c.Payments[0].Amount != units.String() {
			p.Errorf("the wallet sent %q, and the checkout has %+v; want one payment of %s", w.sent, c.Payments, units)
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
