package chainlink

import (
	"context"
	"encoding/hex"
	"errors"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// node answers of each contract.
type node struct {
	age    time.Duration // of its block
	places []byte
	feed   []byte
	uptime []byte
}

type nodes []node

func (n nodes) Call(_ context.Context, to chain.Address, data []byte) ([]chain.Called, error) {
	if len(n) == 0 {
		return nil, errors.New("connection refused")
	}
	var all []chain.Called
	for _, node := range n {
		out := node.feed
		switch {
		case hex.EncodeToString(data) == "313ce567":
			out = node.places
		case to == "uptime":
			out = node.uptime
		case hex.EncodeToString(data) != "feaf968c":
			return nil, errors.New("another question")
		}
		all = append(all, chain.Called{At: chain.Block{Time: noon.Add(-node.age)}, Data: out})
	}
	return all, nil
}

func word(n int64) []byte {
	v := big.NewInt(n)
	if n < 0 {
		v.Add(v, new(big.Int).Lsh(big.NewInt(1), 256))
	}
	return v.FillBytes(make([]byte, 32))
}

// rounds is an answer of latestRoundData.
func rounds(id, answer int64, started, updated time.Duration, answeredIn int64) []byte {
	return slices.Concat(word(id), word(answer), word(noon.Add(-started).Unix()), word(noon.Add(-updated).Unix()), word(answeredIn))
}

func zeroTimes(data []byte) []byte {
	data = slices.Clone(data)
	clear(data[96:128])
	return data
}

// Rule PRICE-1.
func TestAFeedIsBelievedOnlyInItsHeartbeat(t *testing.T) {
	t.Parallel()
	good := rounds(7, 301234560000, time.Hour, time.Hour, 7)
	up := rounds(1, 0, 2*time.Hour, 2*time.Hour, 1)
	for name, c := range map[string]struct {
		nodes     nodes
		sequencer bool
		want      string // "": unavailable
	}{
		"good":                          {nodes{{0, word(8), good, nil}}, false, "3012.3456"},
		"18 decimals":                   {nodes{{0, word(18), rounds(7, 999810000000000000, 0, 0, 7), nil}}, false, "0.99981"},
		"no decimals":                   {nodes{{0, word(0), rounds(7, 3, 0, 0, 7), nil}}, false, "3"},
		"just in its heartbeat":         {nodes{{0, word(8), rounds(7, 1e8, 0, time.Hour+2*time.Minute, 7), nil}}, false, "1"},
		"after its heartbeat":           {nodes{{0, word(8), rounds(7, 1e8, 0, time.Hour+2*time.Minute+time.Second, 7), nil}}, false, ""},
		"a price of zero":               {nodes{{0, word(8), rounds(7, 0, 0, 0, 7), nil}}, false, ""},
		"a price below zero":            {nodes{{0, word(8), rounds(7, -1, 0, 0, 7), nil}}, false, ""},
		"a round that is not complete":  {nodes{{0, word(8), zeroTimes(good), nil}}, false, ""},
		"an answer of an earlier round": {nodes{{0, word(8), rounds(7, 1e8, 0, 0, 6), nil}}, false, ""},
		"a round of tomorrow":           {nodes{{0, word(8), rounds(7, 1e8, 0, -24*time.Hour, 7), nil}}, false, ""},
		"no contract":                   {nodes{{0, nil, nil, nil}}, false, ""},
		"no round":                      {nodes{{0, word(8), nil, nil}}, false, ""},
		"half a round":                  {nodes{{0, word(8), good[:128], nil}}, false, ""},
		"decimals of 37":                {nodes{{0, word(37), good, nil}}, false, ""},
		"decimals below zero":           {nodes{{0, word(-1), good, nil}}, false, ""},
		"nobody":                        {nodes{}, false, ""},
		"two that agree":                {nodes{{0, word(8), good, nil}, {0, word(8), good, nil}}, false, "3012.3456"},
		"two of another round each":     {nodes{{0, word(8), rounds(8, 2e8, 0, 0, 8), nil}, {time.Minute, word(8), rounds(7, 1e8, 0, 0, 7), nil}}, false, "1"},
		"two that contradict":           {nodes{{0, word(8), good, nil}, {0, word(8), rounds(7, 1e8, time.Hour, time.Hour, 7), nil}}, false, ""},
		"two of other decimals":         {nodes{{0, word(8), good, nil}, {0, word(9), good, nil}}, false, ""},
		"sequencer up":                  {nodes{{0, word(8), good, up}}, true, "3012.3456"},
		"sequencer down":                {nodes{{0, word(8), good, rounds(1, 1, 2*time.Hour, 0, 1)}}, true, ""},
		"sequencer just back":           {nodes{{0, word(8), good, rounds(1, 0, 59*time.Minute, 0, 1)}}, true, ""},
		"sequencer does not say":        {nodes{{0, word(8), good, nil}}, true, ""},
	} {
		f := Feed{Caller: c.nodes, Contract: "feed", Heartbeat: time.Hour}
		if c.sequencer {
			f.Sequencer = "uptime"
		}
		s := Source{Feeds: map[int]Feed{4: f}, Clock: func() time.Time { return noon }}
		q, err := s.USD(t.Context(), 4)
		if c.want == "" && !errors.Is(err, price.ErrUnavailable) || c.want != "" && (err != nil || q.Price != money.MustParseUSD(c.want)) {
			t.Errorf("%s: got %+v %v, want %q", name, q, err, c.want)
		}
	}
	s := Source{Feeds: map[int]Feed{4: {Caller: nodes{{10 * time.Minute, word(8), good, nil}}, Heartbeat: time.Hour}}, Clock: func() time.Time { return noon }}
	if q, err := s.USD(t.Context(), 4); err != nil || !q.At.Equal(noon.Add(-10*time.Minute)) {
		t.Errorf("a node that is behind: got %+v %v, want the age of its block", q, err)
	}
	if _, err := s.USD(t.Context(), 1); !errors.Is(err, price.ErrUnavailable) {
		t.Errorf("no feed: got %v, want unavailable", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(rounds(7, 301234560000, 0, 0, 7))
	f.Add(rounds(7, -1, 0, 0, 7))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if err == nil && (r.id.Sign() < 0 || r.answer.BitLen() > 256 || r.updated.Unix() < 0) {
			t.Fatalf("%x: got %+v", data, r)
		}
	})
}
