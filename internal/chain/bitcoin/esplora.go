package bitcoin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/wire/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
)

const (
	coinUnits          = 1_0000_0000 // satoshi of a bitcoin
	esploraPrefix      = "esplora+"
	esploraParallelMax = 4  // at the same time, to one server
	esploraPage        = 25 // transactions of an address in one answer
	esploraRefusalMax  = 200
	// pagesMax is how many pages of an address are read; Coffer's wallets have few.
	pagesMax = 400
)

// CutEsploraPrefix reports whether an endpoint is a server of Esplora's HTTP interface, and returns
// its URL.
func CutEsploraPrefix(endpoint string) (server string, isEsplora bool) {
	return strings.CutPrefix(endpoint, esploraPrefix)
}

// callEsplora answers calls in the form of nodes from the answers of an Esplora server. It refuses
// an unsupported call like a node that does not know the method. Anything that is not exactly an
// answer (a proxy's page, too many requests, a text instead of a number) is an error of that call.
func (p *provider) callEsplora(ctx context.Context, calls []*rpcCall) error {
	var g errgroup.Group
	g.SetLimit(esploraParallelMax)
	for _, q := range calls {
		g.Go(func() error {
			q.err = p.WrapError(q.method, p.translateCall(ctx, q))
			return nil
		})
	}
	_ = g.Wait() // each error is in its call
	return p.setBestBlock(ctx, calls)
}

// setBestBlock adds the newest block to the answers about outputs. It is read after them; the
// caller has read the same one before.
func (p *provider) setBestBlock(ctx context.Context, calls []*rpcCall) error {
	best := ""
	for _, q := range calls {
		c, ok := q.result.(**txOutAnswer)
		if !ok || *c == nil {
			continue
		}
		if best == "" {
			hash, err := p.fetchText(ctx, "/blocks/tip/hash", 0)
			if err != nil {
				return p.WrapError(q.method, err)
			}
			best = hash
		}
		(*c).Best = best
	}
	return nil
}

// errAnswerForm says that the caller wants an unsupported form of the answer.
var errAnswerForm = errors.New("the answer is asked for in another form")

// translateCall answers one call.
func (p *provider) translateCall(ctx context.Context, q *rpcCall) error {
	param := func(i int) string { return fmt.Sprint(q.params[i]) }
	verbose := len(q.params) > 1 && q.params[len(q.params)-1] != 0 && q.params[len(q.params)-1] != false
	// answerText uses a text as the answer.
	answerText := func(path string, missing int) error {
		text, err := p.fetchText(ctx, path, missing)
		if err != nil {
			return err
		}
		quoted, err := json.Marshal(text)
		if err != nil {
			return err
		}
		return decodeResult(quoted, q.result)
	}
	switch {
	case q.method == "getblockcount":
		text, err := p.fetchText(ctx, "/blocks/tip/height", 0)
		if err != nil {
			return err
		}
		return decodeResult(jsontext.Value(text), q.result)
	case q.method == "getblockhash":
		return answerText("/block-height/"+param(0), codeParameter)
	case q.method == "getblockheader" && verbose:
		return p.fetchJSON(ctx, "/block/"+param(0), q.result)
	case q.method == "getblockheader":
		return answerText("/block/"+param(0)+"/header", codeNotFound)
	case q.method == "getblock" && !verbose:
		raw, err := p.fetchPath(ctx, "/block/"+param(0)+"/raw", codeNotFound)
		if block, ok := q.result.(*rawHex); ok && err == nil {
			*block = raw
			return nil
		}
		return cmp.Or(err, errAnswerForm)
	case q.method == "getrawtransaction" && verbose:
		status, err := p.fetchStatus(ctx, param(0))
		if location, ok := q.result.(*txLocation); ok && err == nil {
			location.Block = status.Block
			return nil
		}
		return cmp.Or(err, errAnswerForm)
	case q.method == "getrawtransaction":
		return answerText("/tx/"+param(0)+"/hex", codeNotFound)
	case q.method == "gettxout" && !verbose:
		c, err := p.fetchOutput(ctx, param(0), param(1))
		if coin, ok := q.result.(**txOutAnswer); ok && err == nil {
			*coin = c
			return nil
		}
		return cmp.Or(err, errAnswerForm)
	case q.method == "sendrawtransaction":
		return p.postTx(ctx, param(0), q.result)
	case q.method == "estimatesmartfee":
		return p.fetchEstimate(ctx, param(0), q.result)
	}
	return &nodeError{codeNoMethod, "Esplora has no such answer"}
}

// fetchPath requests a path. A missing object is a refusal with the number missing, unless that is
// zero; a proxy's page that says "not found" does not count.
func (p *provider) fetchPath(ctx context.Context, path string, missing int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	a, err := p.Get(ctx, path)
	switch {
	case err != nil:
		return nil, err
	case a.Status == http.StatusNotFound && missing != 0 && isServerMessage(a.Body):
		return nil, &nodeError{missing, strings.TrimSpace(string(a.Body))}
	case a.Status != http.StatusOK:
		return nil, a.UnexpectedError()
	}
	return a.Body, nil
}

// isServerMessage reports whether a refusal is the server's own, and not a page of a proxy.
func isServerMessage(body []byte) bool {
	return len(bytes.TrimSpace(body)) > 0 && len(body) <= esploraRefusalMax && !bytes.ContainsAny(body, "<>")
}

func (p *provider) fetchText(ctx context.Context, path string, missing int) (string, error) {
	body, err := p.fetchPath(ctx, path, missing)
	return string(bytes.TrimSpace(body)), err
}

func (p *provider) fetchJSON(ctx context.Context, path string, result any) error {
	body, err := p.fetchPath(ctx, path, 0)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, result)
}

// confirmation is where Esplora says that a transaction is.
type confirmation struct {
	Confirmed *bool  `json:"confirmed"`
	Height    uint64 `json:"block_height"`
	Block     string `json:"block_hash"`
}

func (c *confirmation) validate() error {
	if c == nil || c.Confirmed == nil || *c.Confirmed != (c.Block != "") {
		return errors.New("neither says that a block has it nor that none has")
	}
	return nil
}

// fetchStatus returns the block of a transaction; an unconfirmed and an unknown one have none.
func (p *provider) fetchStatus(ctx context.Context, tx string) (c confirmation, err error) {
	if err := p.fetchJSON(ctx, "/tx/"+tx+"/status", &c); err != nil {
		return c, err
	}
	return c, c.validate()
}

// fetchOutput returns an output that a block has created, in the form of gettxout, or nil. Esplora
// calls outputs that never existed unspent, so the transaction is requested too. A reported spend
// has to be in the transaction that is named for it, and its block has to be on the chain.
func (p *provider) fetchOutput(ctx context.Context, tx, n string) (*txOutAnswer, error) {
	status, err := p.fetchStatus(ctx, tx)
	if err != nil || status.Block == "" {
		return nil, err
	}
	var spend struct {
		Is *bool         `json:"spent"`
		By string        `json:"txid"`
		In uint32        `json:"vin"`
		At *confirmation `json:"status"`
	}
	if err := p.fetchJSON(ctx, "/tx/"+tx+"/outspend/"+n, &spend); err != nil {
		return nil, err
	}
	if spend.Is == nil {
		return nil, errors.New("neither spent nor unspent")
	}
	if !*spend.Is {
		return &txOutAnswer{}, nil
	}
	if err := spend.At.validate(); err != nil {
		return nil, fmt.Errorf("spent: %w", err)
	}
	if spend.At.Block == "" {
		return &txOutAnswer{}, nil // an unconfirmed spend takes nothing
	}
	actual, err := p.fetchText(ctx, "/block-height/"+strconv.FormatUint(spend.At.Height, 10), codeParameter)
	if err == nil && actual != spend.At.Block {
		err = fmt.Errorf("spent in block %.70q at height %d, which is %.70q", spend.At.Block, spend.At.Height, actual)
	}
	if err != nil {
		return nil, err
	}
	if _, err := parseHash(spend.By); err != nil {
		return nil, err
	}
	digits, err := p.fetchText(ctx, "/tx/"+spend.By+"/hex", codeNotFound)
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return nil, errors.New("what spends it is not in hexadecimal")
	}
	spender, err := readTx(raw)
	if err != nil {
		return nil, fmt.Errorf("what spends it: %w", err)
	}
	if uint64(spend.In) >= uint64(len(spender.TxIn)) || spender.TxHash().String() != spend.By ||
		spender.TxIn[spend.In].PreviousOutPoint.String() != tx+":"+n {
		return nil, fmt.Errorf("%.70q does not spend it", spend.By)
	}
	return &txOutAnswer{spent: max(spend.At.Height, 1)}, nil
}

// postTx broadcasts a transaction. A refusal of the node behind the server is a text.
func (p *provider) postTx(ctx context.Context, tx string, result any) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	a, err := p.PostText(ctx, "/tx", tx)
	switch {
	case err != nil:
		return err
	case a.Status == http.StatusBadRequest && isServerMessage(a.Body):
		return &nodeError{0, strings.TrimSpace(string(a.Body))}
	case a.Status != http.StatusOK:
		return a.UnexpectedError()
	}
	quoted, err := json.Marshal(string(bytes.TrimSpace(a.Body)))
	if err != nil {
		return err
	}
	return decodeResult(quoted, result)
}

// fetchEstimate returns the rate for a number of blocks, or for the next lower number with an
// estimate. Esplora gives satoshi per virtual byte; nodes give bitcoins per thousand.
func (p *provider) fetchEstimate(ctx context.Context, blocks string, result any) error {
	target, err := strconv.Atoi(blocks)
	if err != nil {
		return err
	}
	rates := map[int]jsontext.Value{}
	if err := p.fetchJSON(ctx, "/fee-estimates", &rates); err != nil {
		return err
	}
	if len(rates) == 0 {
		return nil // it has seen too little
	}
	targets := slices.Sorted(maps.Keys(rates))
	nearest := targets[0]
	for _, t := range targets {
		if t <= target {
			nearest = t
		}
	}
	rate, err := perThousand(string(rates[nearest]))
	if err != nil {
		return err
	}
	return decodeResult(fmt.Appendf(nil, `{"feerate":%d.%08d}`, rate/coinUnits, rate%coinUnits), result)
}

// perThousand returns a thousand times a decimal number, rounded up.
func perThousand(text string) (uint64, error) {
	whole, rest, _ := strings.Cut(text, ".")
	rest += "000"
	n, err := strconv.ParseUint(whole+rest[:3], 10, 64)
	digits := strings.Trim(rest[3:], "0123456789") == ""
	if err != nil || !digits || n > satoshiSupply {
		return 0, fmt.Errorf("%.40q is not a fee rate", text)
	}
	if strings.Trim(rest[3:], "0") != "" {
		n++
	}
	return n, nil
}

// addressTx is a transaction of an address as Esplora returns it.
type addressTx struct {
	ID     string `json:"txid"`
	Inputs []struct {
		ID     string `json:"txid"`
		N      uint32 `json:"vout"`
		Reward bool   `json:"is_coinbase"`
	} `json:"vin"`
	Outputs []struct {
		Script string `json:"scriptpubkey"`
		Value  int64  `json:"value"`
	} `json:"vout"`
	Status *confirmation `json:"status"`
}

// sumEsplora sums each address's transactions in the blocks up to the requested one. The tip has to
// be the same before and after: a page begins after the last transaction of the page before, which
// a reorg may have removed.
func (p *provider) sumEsplora(ctx context.Context, w *wallets) error {
	before, err := p.fetchText(ctx, "/blocks/tip/hash", 0)
	if err != nil {
		return p.WrapError("blocks/tip", err)
	}
	for _, a := range slices.Compact(slices.Sorted(slices.Values(w.addresses))) {
		if err := p.sumAddress(ctx, w, a); err != nil {
			return p.WrapError("address/txs", err)
		}
	}
	after, err := p.fetchText(ctx, "/blocks/tip/hash", 0)
	if err == nil && before != after {
		err = errTipMoved
	}
	return p.WrapError("blocks/tip", err)
}

// sumAddress sums the transactions of an address, the newest first.
func (p *provider) sumAddress(ctx context.Context, w *wallets, a chain.Address) error {
	script, err := bitcointx.Script(p.network, a)
	if err != nil {
		return err
	}
	spent := map[wire.OutPoint]bool{}
	received := map[wire.OutPoint]int64{}
	path := "/address/" + string(a) + "/txs/chain"
	for last, pages := "", 0; ; pages++ {
		if pages == pagesMax {
			return fmt.Errorf("%s has more than %d transactions", a, pagesMax*esploraPage)
		}
		var page []addressTx
		if err := p.fetchJSON(ctx, path+last, &page); err != nil {
			return err
		}
		for _, d := range page {
			id, err := parseHash(d.ID)
			if err != nil {
				return err
			}
			if err := d.Status.validate(); err != nil || d.Status.Block == "" {
				return errors.Join(fmt.Errorf("%s is in no block", id), err)
			}
			if d.Status.Height > w.height {
				continue
			}
			reward := false
			for _, input := range d.Inputs {
				if reward = reward || input.Reward; input.Reward {
					continue
				}
				prevHash, err := parseHash(input.ID)
				if err != nil {
					return err
				}
				spent[wire.OutPoint{Hash: prevHash, Index: input.N}] = true
			}
			if reward && d.Status.Height+coinbaseMaturity > w.height {
				continue
			}
			for n, o := range d.Outputs {
				if o.Script == hex.EncodeToString(script) {
					received[wire.OutPoint{Hash: id, Index: uint32(n)}] = o.Value
				}
			}
		}
		if len(page) < esploraPage {
			break
		}
		last = "/" + page[len(page)-1].ID
	}
	for out, satoshi := range received {
		if satoshi < 0 || satoshi > satoshiSupply {
			return fmt.Errorf("an output of %d satoshi", satoshi)
		}
		if !spent[out] {
			w.credit(script, satoshi)
		}
	}
	return nil
}
