package tron

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
)

// blockJSON is a block as nodes write it.
type blockJSON struct {
	ID     string `json:"blockID"`
	Header struct {
		Raw struct {
			Time      int64  `json:"timestamp"`
			Root      string `json:"txTrieRoot"`
			Parent    string `json:"parentHash"`
			Number    int64  `json:"number"`
			WitnessID int64  `json:"witness_id"`
			Witness   string `json:"witness_address"`
			Version   int32  `json:"version"`
			StateRoot string `json:"accountStateRoot"`
		} `json:"raw_data"`
	} `json:"block_header"`
	Txs []txJSON `json:"transactions"`
}

type txJSON struct {
	ID         string                      `json:"txID"`
	Raw        string                      `json:"raw_data_hex"`
	Signatures []string                    `json:"signature"`
	Results    []map[string]jsontext.Value `json:"ret"`
}

// header is a header that matches its block's identifier.
type header struct {
	id     [idBytes]byte
	parent [idBytes]byte
	root   [idBytes]byte
	height uint64
	millis int64 // milliseconds of Unix time
}

func (h header) idText() string { return hex.EncodeToString(h.id[:]) }

func (h header) toChainBlock() chain.Block {
	return chain.Block{
		Height: h.height, Hash: h.idText(), Parent: hex.EncodeToString(h.parent[:]),
		Time: time.UnixMilli(h.millis).UTC(),
	}
}

// tx is a transaction of a block, with the result that the block states.
type tx struct {
	trontx.ParsedTx
	succeeded bool
}

var errNoBlock = errors.New("has no such block")

// readHeader reads a block's header by height or identifier, or the newest one for "". Error:
// errNoBlock.
func (p *provider) readHeader(ctx context.Context, state view, blockRef string) (header, error) {
	h, _, err := p.fetchBlock(ctx, state, blockRef, false)
	return h, err
}

// readBlock reads a block with its transactions.
func (p *provider) readBlock(ctx context.Context, state view, blockRef string) (header, []tx, error) {
	h, g, err := p.fetchBlock(ctx, state, blockRef, true)
	if err != nil {
		return header{}, nil, err
	}
	txs, err := g.verifyTxs(h.root)
	if err != nil {
		return header{}, nil, fmt.Errorf("%s: block %d: %w", p.name, h.height, err)
	}
	return h, txs, nil
}

func (p *provider) fetchBlock(
	ctx context.Context, state view, blockRef string, withTxs bool,
) (header, blockJSON, error) {
	params := requestParams{"detail": withTxs}
	if blockRef != "" {
		params["id_or_num"] = blockRef
	}
	var g blockJSON
	if err := p.callMethod(ctx, &g, state, "getblock", params); err != nil {
		return header{}, blockJSON{}, err
	}
	if g.ID == "" {
		return header{}, blockJSON{}, fmt.Errorf("%s: %w: %.70q", p.name, errNoBlock, blockRef)
	}
	h, err := g.toHeader()
	switch {
	case err != nil:
		return header{}, blockJSON{}, fmt.Errorf("%s: block %.70q: %w", p.name, g.ID, err)
	case blockRef != "" && blockRef != h.idText() && blockRef != strconv.FormatUint(h.height, 10):
		return header{}, blockJSON{}, fmt.Errorf(
			"%s: gave block %d, %s, for %.70q", p.name, h.height, h.idText(), blockRef,
		)
	}
	return h, g, nil
}

// toHeader encodes the header again and checks the block's identifier against its hash. The
// identifier begins with the height.
func (g *blockJSON) toHeader() (h header, err error) {
	raw := g.Header.Raw
	if h.id, err = parseBlockID(g.ID); err != nil {
		return h, err
	}
	if h.parent, err = parseBlockID(raw.Parent); err != nil {
		return h, err
	}
	if h.root, err = parseBlockID(raw.Root); err != nil {
		return h, fmt.Errorf("the root of its transactions: %w", err)
	}
	if raw.Number < 0 || raw.Time < 0 {
		return h, errors.New("its height or time is below zero")
	}
	h.height, h.millis = uint64(raw.Number), raw.Time
	witness, err := hex.DecodeString(raw.Witness)
	if err != nil {
		return h, errors.New("its witness is not in hexadecimal")
	}
	state, err := hex.DecodeString(raw.StateRoot)
	if err != nil {
		return h, errors.New("the root of its state is not in hexadecimal")
	}
	var b []byte
	addNumber := func(n protowire.Number, v int64) {
		if v != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
		}
	}
	addBytes := func(n protowire.Number, v []byte) {
		if len(v) != 0 {
			b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
		}
	}
	addNumber(1, raw.Time)
	addBytes(2, h.root[:])
	addBytes(3, h.parent[:])
	addNumber(7, raw.Number)
	addNumber(8, raw.WitnessID)
	addBytes(9, witness)
	addNumber(10, int64(raw.Version))
	addBytes(11, state)
	sum := sha256.Sum256(b)
	binary.BigEndian.PutUint64(sum[:8], h.height)
	if sum != h.id {
		return h, fmt.Errorf("its header has the hash %x", sum)
	}
	return h, nil
}

// verifyTxs returns the transactions of the block if they make the root of its header.
func (g *blockJSON) verifyTxs(root [idBytes]byte) ([]tx, error) {
	leaves := make([][idBytes]byte, len(g.Txs))
	txs := make([]tx, len(g.Txs))
	for i, t := range g.Txs {
		var err error
		if txs[i], leaves[i], err = t.toTx(); err != nil {
			return nil, fmt.Errorf("%w: transaction %d: %w", chain.ErrUndecodable, i, err)
		}
	}
	if got := merkleRoot(leaves); got != root {
		return nil, fmt.Errorf("its transactions have the root %x, and its header has %x", got, root)
	}
	isDuplicate := map[chain.TxHash]bool{}
	for _, t := range txs {
		if isDuplicate[t.Hash] {
			return nil, fmt.Errorf("transaction %s is there twice", t.Hash)
		}
		isDuplicate[t.Hash] = true
	}
	return txs, nil
}

// contractResults has the number of each result of a transaction's contract.
var contractResults = map[string]uint64{
	"DEFAULT": 0, "SUCCESS": 1, "REVERT": 2, "BAD_JUMP_DESTINATION": 3, "OUT_OF_MEMORY": 4, "PRECOMPILED_CONTRACT": 5,
	"STACK_TOO_SMALL": 6, "STACK_TOO_LARGE": 7, "ILLEGAL_OPERATION": 8, "STACK_OVERFLOW": 9, "OUT_OF_ENERGY": 10,
	"OUT_OF_TIME":         11,
	"JVM_STACK_OVER_FLOW": 12, "UNKNOWN": 13, "TRANSFER_FAILED": 14, "INVALID_CODE": 15,
}

const success = "SUCCESS"

// toTx encodes a transaction again, as the root covers it: the signed bytes, the signatures and the
// result.
func (t txJSON) toTx() (tx, [idBytes]byte, error) {
	fail := func(format string, args ...any) (tx, [idBytes]byte, error) {
		return tx{}, [idBytes]byte{}, fmt.Errorf(format, args...)
	}
	raw, err := hex.DecodeString(t.Raw)
	if err != nil || len(raw) == 0 {
		return fail("it has no bytes")
	}
	parsed, err := trontx.ParseTx(raw)
	if err != nil {
		return fail("%w", err)
	}
	if string(parsed.Hash) != t.ID {
		return fail("its bytes are those of %s, not of %.70q", parsed.Hash, t.ID)
	}
	b := appendField(nil, 1, raw)
	for _, s := range t.Signatures {
		signature, err := hex.DecodeString(s)
		if err != nil {
			return fail("a signature is not in hexadecimal")
		}
		b = appendField(b, 2, signature)
	}
	if len(t.Results) > 1 {
		return fail("it has %d results", len(t.Results))
	}
	out := tx{ParsedTx: parsed}
	for _, r := range t.Results {
		result, ok, err := readResult(r)
		if err != nil {
			return fail("%w", err)
		}
		out.succeeded = ok
		b = appendField(b, 5, result)
	}
	return out, sha256.Sum256(b), nil
}

func appendField(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

// readResult encodes a result. Blocks contain no other members than these three; a block that has
// one is not understood.
func readResult(r map[string]jsontext.Value) (b []byte, ok bool, err error) {
	addNumber := func(n protowire.Number, v uint64) {
		if v != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
		}
	}
	for name := range r {
		if name != "fee" && name != "ret" && name != "contractRet" {
			return nil, false, fmt.Errorf("its result has %.40q", name)
		}
	}
	if v, exists := r["fee"]; exists {
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			return nil, false, errors.New("the fee in its result is not a number")
		}
		addNumber(1, uint64(n))
	}
	failed := false
	switch v := string(r["ret"]); v {
	case "", `"SUCESS"`: // as the chain spells it
	case `"FAILED"`:
		failed = true
		addNumber(2, 1)
	default:
		return nil, false, fmt.Errorf("its result is %.40s", v)
	}
	if v, exists := r["contractRet"]; exists {
		name, err := strconv.Unquote(string(v))
		n, isKnown := contractResults[name]
		if err != nil || !isKnown {
			return nil, false, fmt.Errorf("its result is %.40s", string(v))
		}
		ok = name == success && !failed
		addNumber(3, n)
	}
	return b, ok, nil
}

// merkleRoot returns the root of a tree of hashes. It hashes pairs together; a hash without a
// partner moves up unchanged.
func merkleRoot(level [][idBytes]byte) [idBytes]byte {
	if len(level) == 0 {
		return [idBytes]byte{}
	}
	for len(level) > 1 {
		var parents [][idBytes]byte
		for i := 0; i < len(level); i += 2 {
			if i+1 == len(level) {
				parents = append(parents, level[i])
				continue
			}
			parents = append(parents, sha256.Sum256(append(level[i][:], level[i+1][:]...)))
		}
		level = parents
	}
	return level[0]
}

// heightText returns a height as requests to nodes write it. Nodes know no height above 2^63.
func heightText(height uint64) string { return strconv.FormatUint(min(height, math.MaxInt64), 10) }
