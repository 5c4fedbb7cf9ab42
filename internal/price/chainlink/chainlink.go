// Package chainlink reads prices from feeds on a chain.
//
// A feed writes when the price moves by a configured share, and after its heartbeat at the latest.
// So its price is valid in the block in which it is read, as long as its last update is younger
// than the heartbeat. The package never takes an incomplete round, a price that is not above zero,
// or the answer of a node that is behind for a price.
package chainlink

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/price"
)

// Name is the name of the source in quotes.
const Name = "CHAINLINK"

const (
	wordBytes   = 32
	roundWords  = 5
	decimalsMax = 36
	// lateMax is how much later than its heartbeat a feed may write.
	lateMax  = 2 * time.Minute
	aheadMax = time.Minute
	// sequencerGrace is how long a chain must have been back before its feeds count again.
	sequencerGrace = time.Hour
)

var (
	selectorLatestRoundData = []byte{0xfe, 0xaf, 0x96, 0x8c}
	selectorDecimals        = []byte{0x31, 0x3c, 0xe5, 0x67}
)

// Feed is the feed of a mint's price in dollars.
type Feed struct {
	Caller    chain.ContractCaller
	Contract  chain.Address
	Heartbeat time.Duration // after which it writes at the latest
	// Sequencer is the feed that reports whether the chain's own sequencer works, on chains that
	// have one; "" elsewhere.
	Sequencer chain.Address
}

// Source reads the feeds of mints.
type Source struct {
	Feeds map[int]Feed     // by mint
	Clock func() time.Time // nil: the system's clock
}

// USD returns the feed's price. Error: price.ErrUnavailable.
func (s Source) USD(ctx context.Context, mintID int) (price.Quote, error) {
	f, ok := s.Feeds[mintID]
	if !ok {
		return price.Quote{}, fmt.Errorf("mint %d has no feed: %w", mintID, price.ErrUnavailable)
	}
	now := time.Now()
	if s.Clock != nil {
		now = s.Clock()
	}
	q, err := f.readPrice(ctx, now)
	if err != nil {
		return price.Quote{}, fmt.Errorf("feed %s: %w: %w", f.Contract, err, price.ErrUnavailable)
	}
	return q, nil
}

func (f Feed) readPrice(ctx context.Context, now time.Time) (price.Quote, error) {
	if f.Sequencer != "" {
		r, _, err := readLatestRound(ctx, f.Caller, f.Sequencer)
		switch {
		case err != nil:
			return price.Quote{}, fmt.Errorf("its sequencer: %w", err)
		case r.answer.Sign() != 0:
			return price.Quote{}, errors.New("the chain's sequencer does not work")
		case now.Sub(r.started) < sequencerGrace:
			return price.Quote{}, errors.New("the chain's sequencer has worked for less than an hour")
		}
	}
	digits, err := f.readDecimals(ctx)
	if err != nil {
		return price.Quote{}, err
	}
	r, blockTime, err := readLatestRound(ctx, f.Caller, f.Contract)
	if err != nil {
		return price.Quote{}, err
	}
	switch {
	case r.answer.Sign() <= 0:
		return price.Quote{}, errors.New("a price that is not above zero")
	case r.updated.Unix() == 0 || r.started.Unix() == 0:
		return price.Quote{}, errors.New("an incomplete round")
	case r.answeredIn.Cmp(r.id) < 0:
		return price.Quote{}, errors.New("an answer of an earlier round")
	case r.updated.Sub(now) > aheadMax:
		return price.Quote{}, errors.New("a round of the future")
	case now.Sub(r.updated) > f.Heartbeat+lateMax:
		return price.Quote{}, fmt.Errorf("it has not written for longer than its heartbeat of %s", f.Heartbeat)
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(digits), nil)
	usd, err := price.FromRat(new(big.Rat).SetFrac(r.answer, unit))
	if err != nil {
		return price.Quote{}, err
	}
	return price.Quote{Price: usd, QuotedAt: blockTime, Source: Name}, nil
}

// round is the answer of selectorLatestRoundData.
type round struct {
	id, answer, answeredIn *big.Int
	started, updated       time.Time
}

// readLatestRound asks every node and returns the round of the node that is furthest behind. Nodes
// contradict each other if they return different contents of one round.
func readLatestRound(ctx context.Context, c chain.ContractCaller, contract chain.Address) (round, time.Time, error) {
	results, err := c.Call(ctx, contract, selectorLatestRoundData)
	if err != nil {
		return round{}, time.Time{}, err
	}
	var oldest round
	var blockTime time.Time
	for i, a := range results {
		r, err := decodeRound(a.Data)
		if err != nil {
			return round{}, time.Time{}, err
		}
		if i > 0 && r.id.Cmp(oldest.id) == 0 && (r.answer.Cmp(oldest.answer) != 0 || !r.updated.Equal(oldest.updated)) {
			return round{}, time.Time{}, errors.New("nodes contradict each other")
		}
		if i == 0 || a.At.Time.Before(blockTime) {
			oldest, blockTime = r, a.At.Time
		}
	}
	if len(results) == 0 {
		return round{}, time.Time{}, errors.New("no node answered")
	}
	return oldest, blockTime, nil
}

func decodeRound(data []byte) (r round, err error) {
	if len(data) != roundWords*wordBytes {
		return r, fmt.Errorf("an answer of %d bytes: the contract does not exist", len(data))
	}
	words := make([]*big.Int, roundWords)
	for i := range words {
		words[i] = new(big.Int).SetBytes(data[i*wordBytes : (i+1)*wordBytes])
	}
	if data[wordBytes]&0x80 != 0 { // of the answer, which has a sign
		words[1].Sub(words[1], new(big.Int).Lsh(big.NewInt(1), 256))
	}
	r.id, r.answer, r.answeredIn = words[0], words[1], words[4]
	for i, target := range map[int]*time.Time{2: &r.started, 3: &r.updated} {
		if !words[i].IsInt64() || words[i].Int64() > 1<<40 {
			return r, errors.New("an invalid time")
		}
		*target = time.Unix(words[i].Int64(), 0).UTC()
	}
	return r, nil
}

// readDecimals returns how many digits of the answer are decimals; the nodes have to agree on it.
func (f Feed) readDecimals(ctx context.Context) (int64, error) {
	results, err := f.Caller.Call(ctx, f.Contract, selectorDecimals)
	if err != nil {
		return 0, err
	}
	var digits int64 = -1
	for _, a := range results {
		if len(a.Data) != wordBytes {
			return 0, fmt.Errorf("an answer of %d bytes: the contract does not exist", len(a.Data))
		}
		n := new(big.Int).SetBytes(a.Data)
		if !n.IsInt64() || n.Int64() > decimalsMax || digits >= 0 && n.Int64() != digits {
			return 0, errors.New("impossible decimals")
		}
		digits = n.Int64()
	}
	if digits < 0 {
		return 0, errors.New("no node answered")
	}
	return digits, nil
}
