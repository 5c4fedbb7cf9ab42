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
	coinUnits         = 1_0000_0000 // satoshi of a bitcoin
	esploraMark       = "esplora+"
	esploraQuestions  = 4  // at once, to one server
	esploraPage       = 25 // transactions of an address in one answer
	esploraRefusalMax = 200
	// pagesMax is how many pages of an address are read: those of wallets of ours are few.
	pagesMax = 400
)

// Esplora tells whether an endpoint is a server of Esplora's HTTP interface, and gives its
// URL.
func Esplora(endpoint string) (to string, is bool) { return strings.CutPrefix(endpoint, esploraMark) }

// explore answers questions, which are in the words of nodes, out of what an Esplora
// server says. A question that it has no answer to is refused as by a node that does not
// know the method. Everything else that is not exactly an answer (a page of a proxy, too
// many requests, a text where a number should be) is an error of that question.
func (p *provider) explore(ctx context.Context, all []*question) error {
	var g errgroup.Group
	g.SetLimit(esploraQuestions)
	for _, q := range all {
		g.Go(func() error {
			q.err = p.Said(q.method, p.translate(ctx, q))
			return nil
		})
	}
	_ = g.Wait() // each error is with its question
	return p.standAt(ctx, all)
}

// standAt says of which newest block the outputs are told. It is asked after them, and the
// asker has seen the same one before.
func (p *provider) standAt(ctx context.Context, all []*question) error {
	best := ""
	for _, q := range all {
		c, ok := q.result.(**coinAsked)
		if !ok || *c == nil {
			continue
		}
		if best == "" {
			hash, err := p.text(ctx, "/blocks/tip/hash", 0)
			if err != nil {
				return p.Said(q.method, err)
			}
			best = hash
		}
		(*c).Best = best
	}
	return nil
}

// errOtherShape is a question whose asker wants another form of answer than is known here.
var errOtherShape = errors.New("the answer is asked for in another form")

// translate answers one question.
func (p *provider) translate(ctx context.Context, q *question) error {
	of := func(i int) string { return fmt.Sprint(q.params[i]) }
	verbose := len(q.params) > 1 && q.params[len(q.params)-1] != 0 && q.params[len(q.params)-1] != false
	// say reads a text as the answer.
	say := func(path string, missing int) error {
		text, err := p.text(ctx, path, missing)
		if err != nil {
			return err
		}
		quoted, err := json.Marshal(text)
		if err != nil {
			return err
		}
		return into(quoted, q.result)
	}
	switch {
	case q.method == "getblockcount":
		text, err := p.text(ctx, "/blocks/tip/height", 0)
		if err != nil {
			return err
		}
		return into(jsontext.Value(text), q.result)
	case q.method == "getblockhash":
		return say("/block-height/"+of(0), codeParameter)
	case q.method == "getblockheader" && verbose:
		return p.document(ctx, "/block/"+of(0), q.result)
	case q.method == "getblockheader":
		return say("/block/"+of(0)+"/header", codeNotFound)
	case q.method == "getblock" && !verbose:
		raw, err := p.answer(ctx, "/block/"+of(0)+"/raw", codeNotFound)
		if block, ok := q.result.(*rawHex); ok && err == nil {
			*block = raw
			return nil
		}
		return cmp.Or(err, errOtherShape)
	case q.method == "getrawtransaction" && verbose:
		at, err := p.confirmed(ctx, of(0))
		if where, ok := q.result.(*placed); ok && err == nil {
			where.Block = at.Block
			return nil
		}
		return cmp.Or(err, errOtherShape)
	case q.method == "getrawtransaction":
		return say("/tx/"+of(0)+"/hex", codeNotFound)
	case q.method == "gettxout" && !verbose:
		c, err := p.output(ctx, of(0), of(1))
		if coin, ok := q.result.(**coinAsked); ok && err == nil {
			*coin = c
			return nil
		}
		return cmp.Or(err, errOtherShape)
	case q.method == "sendrawtransaction":
		return p.broadcast(ctx, of(0), q.result)
	case q.method == "estimatesmartfee":
		return p.estimate(ctx, of(0), q.result)
	}
	return &refusal{codeNoMethod, "Esplora has no such answer"}
}

// answer asks for what is at a path. What is missing there is a refusal with a number,
// unless that is zero; a page that says so is not believed.
func (p *provider) answer(ctx context.Context, path string, missing int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	a, err := p.Get(ctx, path)
	switch {
	case err != nil:
		return nil, err
	case a.Status == http.StatusNotFound && missing != 0 && sentence(a.Body):
		return nil, &refusal{missing, strings.TrimSpace(string(a.Body))}
	case a.Status != http.StatusOK:
		return nil, a.Unexpected()
	}
	return a.Body, nil
}

// sentence tells whether a refusal is a server's own, and not the page of what stands
// before it.
func sentence(body []byte) bool {
	return len(bytes.TrimSpace(body)) > 0 && len(body) <= esploraRefusalMax && !bytes.ContainsAny(body, "<>")
}

func (p *provider) text(ctx context.Context, path string, missing int) (string, error) {
	body, err := p.answer(ctx, path, missing)
	return string(bytes.TrimSpace(body)), err
}

func (p *provider) document(ctx context.Context, path string, result any) error {
	body, err := p.answer(ctx, path, 0)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, result)
}

// confirmation is where a transaction is, as Esplora has it.
type confirmation struct {
	Is     *bool  `json:"confirmed"`
	Height uint64 `json:"block_height"`
	Block  string `json:"block_hash"`
}

func (c *confirmation) check() error {
	if c == nil || c.Is == nil || *c.Is != (c.Block != "") {
		return errors.New("neither says that a block has it nor that none has")
	}
	return nil
}

// confirmed is the block that has a transaction; one that waits and one that is not known
// have none.
func (p *provider) confirmed(ctx context.Context, tx string) (c confirmation, err error) {
	if err := p.document(ctx, "/tx/"+tx+"/status", &c); err != nil {
		return c, err
	}
	return c, c.check()
}

// output is an output that a block has made, as gettxout tells of it, or nil. Esplora calls
// unspent what never was, so it is asked for the transaction too. What a block is said to
// have spent has to be so in the transaction that is named for it, and the block has to be
// on the chain.
func (p *provider) output(ctx context.Context, tx, n string) (*coinAsked, error) {
	made, err := p.confirmed(ctx, tx)
	if err != nil || made.Block == "" {
		return nil, err
	}
	var spend struct {
		Is *bool         `json:"spent"`
		By string        `json:"txid"`
		In uint32        `json:"vin"`
		At *confirmation `json:"status"`
	}
	if err := p.document(ctx, "/tx/"+tx+"/outspend/"+n, &spend); err != nil {
		return nil, err
	}
	if spend.Is == nil {
		return nil, errors.New("neither spent nor unspent")
	}
	if !*spend.Is {
		return &coinAsked{}, nil
	}
	if err := spend.At.check(); err != nil {
		return nil, fmt.Errorf("spent: %w", err)
	}
	if spend.At.Block == "" {
		return &coinAsked{}, nil // what waits takes nothing
	}
	at, err := p.text(ctx, "/block-height/"+strconv.FormatUint(spend.At.Height, 10), codeParameter)
	if err == nil && at != spend.At.Block {
		err = fmt.Errorf("spent in block %.70q at height %d, which is %.70q", spend.At.Block, spend.At.Height, at)
	}
	if err != nil {
		return nil, err
	}
	if _, err := hashText(spend.By); err != nil {
		return nil, err
	}
	digits, err := p.text(ctx, "/tx/"+spend.By+"/hex", codeNotFound)
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return nil, errors.New("what spends it is not in hexadecimal")
	}
	by, err := readTx(raw)
	if err != nil {
		return nil, fmt.Errorf("what spends it: %w", err)
	}
	if uint64(spend.In) >= uint64(len(by.TxIn)) || by.TxHash().String() != spend.By ||
		by.TxIn[spend.In].PreviousOutPoint.String() != tx+":"+n {
		return nil, fmt.Errorf("%.70q does not spend it", spend.By)
	}
	return &coinAsked{spent: max(spend.At.Height, 1)}, nil
}

// broadcast gives a transaction away. What the node behind the server said against it comes
// as a text.
func (p *provider) broadcast(ctx context.Context, tx string, result any) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	a, err := p.PostText(ctx, "/tx", tx)
	switch {
	case err != nil:
		return err
	case a.Status == http.StatusBadRequest && sentence(a.Body):
		return &refusal{0, strings.TrimSpace(string(a.Body))}
	case a.Status != http.StatusOK:
		return a.Unexpected()
	}
	quoted, err := json.Marshal(string(bytes.TrimSpace(a.Body)))
	if err != nil {
		return err
	}
	return into(quoted, result)
}

// estimate is the rate for a number of blocks, or for the next lower one that has any. It
// comes in satoshi for one virtual byte; nodes write it in bitcoins for a thousand.
func (p *provider) estimate(ctx context.Context, blocks string, result any) error {
	target, err := strconv.Atoi(blocks)
	if err != nil {
		return err
	}
	rates := map[int]jsontext.Value{}
	if err := p.document(ctx, "/fee-estimates", &rates); err != nil {
		return err
	}
	if len(rates) == 0 {
		return nil // it has seen too little
	}
	targets := slices.Sorted(maps.Keys(rates))
	of := targets[0]
	for _, t := range targets {
		if t <= target {
			of = t
		}
	}
	rate, err := perThousand(string(rates[of]))
	if err != nil {
		return err
	}
	return into(fmt.Appendf(nil, `{"feerate":%d.%08d}`, rate/coinUnits, rate%coinUnits), result)
}

// perThousand is a thousand times a decimal number, rounded up.
func perThousand(text string) (uint64, error) {
	whole, rest, _ := strings.Cut(text, ".")
	rest += "000"
	n, err := strconv.ParseUint(whole+rest[:3], 10, 64)
	digits := strings.Trim(rest[3:], "0123456789") == ""
	if err != nil || !digits || n > supply {
		return 0, fmt.Errorf("%.40q is no rate", text)
	}
	if strings.Trim(rest[3:], "0") != "" {
		n++
	}
	return n, nil
}

// deed is a transaction of an address as Esplora tells of it.
type deed struct {
	ID string `json:"txid"`
	In []struct {
		ID     string `json:"txid"`
		N      uint32 `json:"vout"`
		Reward bool   `json:"is_coinbase"`
	} `json:"vin"`
	Out []struct {
		Script string `json:"scriptpubkey"`
		Value  int64  `json:"value"`
	} `json:"vout"`
	At *confirmation `json:"status"`
}

// explored adds up what blocks up to the one that is asked for did to each address. The
// newest block has to be the same before and after: the pages begin behind the last
// transaction of the one before, which a fork may have taken away.
func (p *provider) explored(ctx context.Context, w *wallets) error {
	before, err := p.text(ctx, "/blocks/tip/hash", 0)
	if err != nil {
		return p.Said("blocks/tip", err)
	}
	for _, a := range slices.Compact(slices.Sorted(slices.Values(w.of))) {
		if err := p.deeds(ctx, w, a); err != nil {
			return p.Said("address/txs", err)
		}
	}
	after, err := p.text(ctx, "/blocks/tip/hash", 0)
	if err == nil && before != after {
		err = errMoved
	}
	return p.Said("blocks/tip", err)
}

// deeds adds up the transactions of an address, the newest of which come first.
func (p *provider) deeds(ctx context.Context, w *wallets, a chain.Address) error {
	script, err := bitcointx.Script(p.network, a)
	if err != nil {
		return err
	}
	spent := map[wire.OutPoint]bool{}
	mine := map[wire.OutPoint]int64{}
	path := "/address/" + string(a) + "/txs/chain"
	for last, pages := "", 0; ; pages++ {
		if pages == pagesMax {
			return fmt.Errorf("%s has more than %d transactions", a, pagesMax*esploraPage)
		}
		var page []deed
		if err := p.document(ctx, path+last, &page); err != nil {
			return err
		}
		for _, d := range page {
			id, err := hashText(d.ID)
			if err != nil {
				return err
			}
			if err := d.At.check(); err != nil || d.At.Block == "" {
				return errors.Join(fmt.Errorf("%s is in no block", id), err)
			}
			if d.At.Height > w.height {
				continue
			}
			reward := false
			for _, in := range d.In {
				if reward = reward || in.Reward; in.Reward {
					continue
				}
				of, err := hashText(in.ID)
				if err != nil {
					return err
				}
				spent[wire.OutPoint{Hash: of, Index: in.N}] = true
			}
			if reward && d.At.Height+maturity > w.height {
				continue
			}
			for n, o := range d.Out {
				if o.Script == hex.EncodeToString(script) {
					mine[wire.OutPoint{Hash: id, Index: uint32(n)}] = o.Value
				}
			}
		}
		if len(page) < esploraPage {
			break
		}
		last = "/" + page[len(page)-1].ID
	}
	for out, satoshi := range mine {
		if satoshi < 0 || satoshi > supply {
			return fmt.Errorf("an output of %d satoshi", satoshi)
		}
		if !spent[out] {
			w.add(script, satoshi)
		}
	}
	return nil
}
