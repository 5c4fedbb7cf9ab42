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

// fakeNode answers for each contract.
type fakeNode struct {
	age    time.Duration // of its block
	places []byte
	feed   []byte
	uptime []byte
}

type fakeNodes []fakeNode

func (n fakeNodes) Call(_ context.Context, to chain.Address, data []byte) ([]chain.CallResult, error) {
	if len(n) == 0 {
		return nil, errors.New("connection refused")
	}
	var all []chain.CallResult
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
		all = append(all, chain.CallResult{At: chain.Block{Time: noon.Add(-node.age)}, Data: out})
	}
	return all, nil
}

func abiWord(n int64) []byte {
	v := big.NewInt(n)
	if n < 0 {
		v.Add(v, new(big.Int).Lsh(big.NewInt(1), 256))
	}
	return v.FillBytes(make([]byte, 32))
}

// abiRound returns an answer to selectorLatestRoundData.
func abiRound(id, answer int64, started, updated time.Duration, answeredIn int64) []byte {
	return slices.Concat(
		abiWord(id), abiWord(answer), abiWord(noon.Add(-started).Unix()), abiWord(noon.Add(-updated).Unix()),
		abiWord(answeredIn),
	)
}

func zeroTimes(data []byte) []byte {
	data = slices.Clone(data)
	clear(data[96:128])
	return data
}

// Rule PRICE-1.
func TestAFeedIsBelievedOnlyInItsHeartbeat(t *testing.T) {
	t.Parallel()
	good := abiRound(7, 301234560000, time.Hour, time.Hour, 7)
	up := abiRound(1, 0, 2*time.Hour, 2*time.Hour, 1)
	for name, c := range map[string]struct {
		nodes     fakeNodes
		sequencer bool
		want      string // "": unavailable
	}{
		"good": {fakeNodes{{0, abiWord(8), good, nil}}, false, "3012.3456"},
		"18 decimals": {
			fakeNodes{{0, abiWord(18), abiRound(7, 999810000000000000, 0, 0, 7), nil}}, false, "0.99981",
		},
		"no decimals": {fakeNodes{{0, abiWord(0), abiRound(7, 3, 0, 0, 7), nil}}, false, "3"},
		"just in its heartbeat": {
			fakeNodes{{0, abiWord(8), abiRound(7, 1e8, 0, time.Hour+2*time.Minute, 7), nil}}, false, "1",
		},
		"after its heartbeat": {
			fakeNodes{{0, abiWord(8), abiRound(7, 1e8, 0, time.Hour+2*time.Minute+time.Second, 7), nil}}, false, "",
		},
		"a price of zero":               {fakeNodes{{0, abiWord(8), abiRound(7, 0, 0, 0, 7), nil}}, false, ""},
		"a price below zero":            {fakeNodes{{0, abiWord(8), abiRound(7, -1, 0, 0, 7), nil}}, false, ""},
		"an incomplete round":           {fakeNodes{{0, abiWord(8), zeroTimes(good), nil}}, false, ""},
		"an answer of an earlier round": {fakeNodes{{0, abiWord(8), abiRound(7, 1e8, 0, 0, 6), nil}}, false, ""},
		"a round of tomorrow": {
			fakeNodes{{0, abiWord(8), abiRound(7, 1e8, 0, -24*time.Hour, 7), nil}}, false, "",
		},
		"no contract":         {fakeNodes{{0, nil, nil, nil}}, false, ""},
		"no round":            {fakeNodes{{0, abiWord(8), nil, nil}}, false, ""},
		"half a round":        {fakeNodes{{0, abiWord(8), good[:128], nil}}, false, ""},
		"decimals of 37":      {fakeNodes{{0, abiWord(37), good, nil}}, false, ""},
		"decimals below zero": {fakeNodes{{0, abiWord(-1), good, nil}}, false, ""},
		"nobody":              {fakeNodes{}, false, ""},
		"two that agree": {
			fakeNodes{{0, abiWord(8), good, nil}, {0, abiWord(8), good, nil}}, false, "3012.3456",
		},
		"two of another round each": {
			fakeNodes{{0, abiWord(8), abiRound(8, 2e8, 0, 0, 8), nil}, {
				time.Minute, abiWord(8), abiRound(7, 1e8, 0, 0, 7), nil,
			}},
			false, "1",
		},
		"two that contradict": {
			fakeNodes{{0, abiWord(8), good, nil}, {0, abiWord(8), abiRound(7, 1e8, time.Hour, time.Hour, 7), nil}},
			false, "",
		},
		"two of other decimals": {fakeNodes{{0, abiWord(8), good, nil}, {0, abiWord(9), good, nil}}, false, ""},
		"sequencer up":          {fakeNodes{{0, abiWord(8), good, up}}, true, "3012.3456"},
		"sequencer down": {
			fakeNodes{{0, abiWord(8), good, abiRound(1, 1, 2*time.Hour, 0, 1)}}, true, "",
		},
		"sequencer just back": {
			fakeNodes{{0, abiWord(8), good, abiRound(1, 0, 59*time.Minute, 0, 1)}}, true, "",
		},
		"sequencer does not say": {fakeNodes{{0, abiWord(8), good, nil}}, true, ""},
	} {
		f := Feed{Caller: c.nodes, Contract: "feed", Heartbeat: time.Hour}
		if c.sequencer {
			f.Sequencer = "uptime"
		}
		s := Source{Feeds: map[int]Feed{4: f}, Clock: func() time.Time { return noon }}
		q, err := s.USD(t.Context(), 4)
		if c.want == "" && !errors.Is(err, price.ErrUnavailable) || c.want != "" &&
			(err != nil || q.Price != money.MustParseUSD(c.want)) {
			t.Errorf("%s: got %+v %v, want %q", name, q, err, c.want)
		}
	}
	s := Source{
		Feeds: map[int]Feed{4: {Caller: fakeNodes{{10 * time.Minute, abiWord(8), good, nil}}, Heartbeat: time.Hour}},
		Clock: func() time.Time { return noon },
	}
	if q, err := s.USD(t.Context(), 4); err != nil || !q.QuotedAt.Equal(noon.Add(-10*time.Minute)) {
		t.Errorf("a node that is behind: got %+v %v, want the age of its block", q, err)
	}
	if _, err := s.USD(t.Context(), 1); !errors.Is(err, price.ErrUnavailable) {
		t.Errorf("no feed: got %v, want unavailable", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(abiRound(7, 301234560000, 0, 0, 7))
	f.Add(abiRound(7, -1, 0, 0, 7))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRound(data)
		if err == nil && (r.id.Sign() < 0 || r.answer.BitLen() > 256 || r.updated.Unix() < 0) {
			t.Fatalf("%x: got %+v", data, r)
		}
	})
}
