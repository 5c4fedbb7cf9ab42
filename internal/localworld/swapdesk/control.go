package swapdesk

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Control returns the handler of the listener that sets the desk's behaviour and shows what it did:
//
//	GET  /desk                    the API's URL, the key of the quotes, the assets and the behaviour
//	PUT  /behaviour               a Behaviour
//	PUT  /prices                  {"mint": 4, "price": "3100.00"}, or "asset" with its id for "mint"; without
//	                              a price the usual one
//	PUT  /terms                   {"depositWindow": "5s"} of later quotes; without it the usual one
//	POST /release                 {"depositAddress": "…"}, or {} for all: ends the wait of Stall and Late, and
//	                              refunds what came and is too little
//	GET  /transfers               what was received, delivered and refunded, with the sums of final ones
//	GET  /swaps                   every firm quote with its state
func (d *Server) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /desk", d.showInfo)
	mux.HandleFunc("PUT /behaviour", d.setBehaviour)
	mux.HandleFunc("PUT /prices", d.setPrice)
	mux.HandleFunc("PUT /terms", d.setTerms)
	mux.HandleFunc("POST /release", d.releaseSwaps)
	mux.HandleFunc("GET /transfers", d.showTransfers)
	mux.HandleFunc("GET /swaps", d.showSwaps)
	return mux
}

// Info is the answer of GET /desk.
type Info struct {
	URL       string      `json:"url,omitempty"`
	PublicKey string      `json:"publicKey"`
	Behaviour Behaviour   `json:"behaviour"`
	Assets    []AssetInfo `json:"assets"`
}

// AssetInfo is an asset with its present price.
type AssetInfo struct {
	AssetID string     `json:"assetId"`
	Mint    int        `json:"mint"`
	Chain   chain.Name `json:"chain"`
	Symbol  string     `json:"symbol"`
	Price   money.USD  `json:"price"`

	Decimals int `json:"decimals"`
}

func (d *Server) showInfo(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	info := Info{URL: d.URL(), PublicKey: d.PublicKey(), Behaviour: d.settings.Behaviour, Assets: []AssetInfo{}}
	if info.Behaviour.Mode == "" {
		info.Behaviour.Mode = ModeNone
	}
	for _, listed := range d.cfg.Assets {
		a, _ := d.asset(listed.ID())
		info.Assets = append(info.Assets, AssetInfo{a.ID(), a.Mint, a.Chain, a.Symbol, a.Price, a.Decimals})
	}
	writeJSON(w, http.StatusOK, info)
}

func (d *Server) setBehaviour(w http.ResponseWriter, r *http.Request) {
	var b Behaviour
	if !readJSON(w, r, &b) {
		return
	}
	isSwapMode := b.Mode == ModeNone || slices.Contains(swapModes, b.Mode)
	switch {
	case !isSwapMode && !slices.Contains(callModes, b.Mode):
		writeMessage(w, http.StatusBadRequest, "no behaviour is called "+string(b.Mode))
		return
	case b.Remaining < 0:
		writeMessage(w, http.StatusBadRequest, "next must not be negative")
		return
	case b.Call != "" && (isSwapMode || !slices.Contains(calls, b.Call)):
		writeMessage(w, http.StatusBadRequest, "call is tokens, dry, firm, submit or status, with a mode of the API")
		return
	case b.Asset != "" && d.assets[b.Asset].Chain == "":
		writeMessage(w, http.StatusNotFound, "the desk has no asset "+b.Asset)
		return
	case b.Form != "" && !slices.Contains(forms, b.Form):
		writeMessage(w, http.StatusBadRequest, "form is html, huge, half or unknown")
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.DepositAddress != "" {
		d.setSwapBehaviour(w, b, isSwapMode)
		return
	}
	d.settings.Behaviour = b
	if err := d.store.appendRecords(record{Settings: &d.settings}); err != nil {
		writeMessage(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, b)
}

// modesOfQuotes take effect when the quote is made.
var modesOfQuotes = []Mode{ModeBadSignature, ModeOtherRecipient, ModeOurAddress, ModePrice}

// setSwapBehaviour changes the mode of a swap that waits for its deposit.
func (d *Server) setSwapBehaviour(w http.ResponseWriter, b Behaviour, isSwapMode bool) {
	s := d.swaps[b.DepositAddress]
	switch {
	case s == nil:
		writeMessage(w, http.StatusNotFound, "no swap has the deposit address "+b.DepositAddress)
		return
	case s.Phase != phaseWaiting:
		writeMessage(w, http.StatusConflict, "the swap has its deposit already")
		return
	case !isSwapMode || slices.Contains(modesOfQuotes, b.Mode):
		writeMessage(w, http.StatusBadRequest, "the mode is not one of a swap that has its quote")
		return
	}
	changed := *s
	changed.Behaviour = b
	if err := d.checkOther(changed); b.needsOther() && err != nil {
		writeMessage(w, http.StatusBadRequest, err.Error())
		return
	}
	s.Behaviour = b
	if err := d.store.appendRecords(record{Swap: s}); err != nil {
		writeMessage(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, b)
}

// needsOther reports whether a mode pays another asset than the quoted ones.
func (b Behaviour) needsOther() bool {
	return b.Mode == ModeOtherToken || b.Mode == ModeOtherChain || b.Mode == ModeRefundOther
}

func (d *Server) setPrice(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Mint  int        `json:"mint"`
		Asset string     `json:"asset"`
		Price *money.USD `json:"price"`
	}
	if !readJSON(w, r, &body) {
		return
	}
	if body.Price != nil && body.Price.Cmp(money.USD{}) == 0 {
		writeMessage(w, http.StatusBadRequest, "a price is more than zero")
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	index := slices.IndexFunc(d.cfg.Assets, func(a Asset) bool {
		return body.Asset == "" && body.Mint != 0 && a.Mint == body.Mint || a.ID() == body.Asset
	})
	if index < 0 {
		writeMessage(w, http.StatusNotFound, "the desk has no asset with this mint or id")
		return
	}
	id := d.cfg.Assets[index].ID()
	if body.Price == nil {
		delete(d.settings.Prices, id)
	} else {
		if d.settings.Prices == nil {
			d.settings.Prices = map[string]money.USD{}
		}
		d.settings.Prices[id] = *body.Price
	}
	if err := d.store.appendRecords(record{Settings: &d.settings}); err != nil {
		writeMessage(w, http.StatusInternalServerError, err.Error())
		return
	}
	a, _ := d.asset(id)
	writeJSON(w, http.StatusOK, AssetInfo{a.ID(), a.Mint, a.Chain, a.Symbol, a.Price, a.Decimals})
}

func (d *Server) setTerms(w http.ResponseWriter, r *http.Request) {
	var body struct {
		DepositWindow *duration `json:"depositWindow"`
	}
	if !readJSON(w, r, &body) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settings.DepositWindow = body.DepositWindow
	if err := d.store.appendRecords(record{Settings: &d.settings}); err != nil {
		writeMessage(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, body)
}

func (d *Server) releaseSwaps(w http.ResponseWriter, r *http.Request) {
	var body struct {
		DepositAddress string `json:"depositAddress"`
	}
	if !readJSON(w, r, &body) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	released := []string{}
	for address, s := range d.unsettled {
		hasWait := s.Phase == phaseHeld || s.Phase == phaseWaiting && len(s.Deposits) > 0
		if !hasWait || s.IsReleased || body.DepositAddress != "" && body.DepositAddress != address {
			continue
		}
		s.IsReleased = true
		if err := d.store.appendRecords(record{Swap: s}); err != nil {
			writeMessage(w, http.StatusInternalServerError, err.Error())
			return
		}
		released = append(released, address)
	}
	slices.Sort(released)
	writeJSON(w, http.StatusOK, map[string]any{"released": released})
}

// Transfer is a payment to or from the desk.
type Transfer struct {
	Kind           string       `json:"kind"` // RECEIVED, DELIVERY or REFUND
	DepositAddress string       `json:"depositAddress"`
	AssetID        string       `json:"assetId"`
	Mint           int          `json:"mint"`
	Chain          chain.Name   `json:"chain"`
	Amount         money.Amount `json:"amount"`
	Address        string       `json:"address"`
	TxHash         string       `json:"txHash"`
	IsFinal        bool         `json:"isFinal"`
}

// Total has the sums of the final transfers of an asset.
type Total struct {
	AssetID   string       `json:"assetId"`
	Mint      int          `json:"mint"`
	Chain     chain.Name   `json:"chain"`
	Received  money.Amount `json:"received"`
	Delivered money.Amount `json:"delivered"`
	Refunded  money.Amount `json:"refunded"`
}

// Transfers is the answer of GET /transfers.
type Transfers struct {
	Totals    []Total    `json:"totals"`
	Transfers []Transfer `json:"transfers"`
}

func (d *Server) showTransfers(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	writeJSON(w, http.StatusOK, d.transfers())
}

// transfers lists what came and went. A payment that reverted moved nothing and is absent.
func (d *Server) transfers() Transfers {
	result := Transfers{Totals: []Total{}, Transfers: []Transfer{}}
	totals := map[string]*Total{}
	for _, a := range d.cfg.Assets {
		totals[a.ID()] = &Total{AssetID: a.ID(), Mint: a.Mint, Chain: a.Chain}
	}
	for _, s := range d.sortedSwaps() {
		for _, arrival := range s.Deposits {
			result.Transfers = append(result.Transfers, Transfer{
				"RECEIVED", s.DepositAddress, s.Origin.ID(), s.Origin.Mint, s.Origin.Chain, arrival.Amount,
				s.DepositAddress, arrival.Hash, true,
			})
			if total := totals[s.Origin.ID()]; total != nil {
				total.Received = sumAmounts(total.Received, arrival.Amount)
			}
		}
		for _, p := range s.Payments {
			if p.State == paymentPlanned || p.State == paymentReverted {
				continue
			}
			result.Transfers = append(result.Transfers, Transfer{
				string(p.Kind), s.DepositAddress, p.Asset.ID(), p.Asset.Mint, p.Asset.Chain, p.Amount, p.Recipient,
				p.Signed.Hash, p.State == paymentPaid,
			})
			total := totals[p.Asset.ID()]
			switch {
			case total == nil || p.State != paymentPaid:
			case p.Kind == kindDelivery:
				total.Delivered = sumAmounts(total.Delivered, p.Amount)
			default:
				total.Refunded = sumAmounts(total.Refunded, p.Amount)
			}
		}
	}
	for _, a := range d.cfg.Assets {
		result.Totals = append(result.Totals, *totals[a.ID()])
	}
	return result
}

// SwapInfo is an element of the answer of GET /swaps.
type SwapInfo struct {
	DepositAddress string       `json:"depositAddress"`
	Origin         string       `json:"originAsset"`
	Destination    string       `json:"destinationAsset"`
	AmountIn       money.Amount `json:"amountIn"`
	AmountOut      money.Amount `json:"amountOut"`
	Recipient      string       `json:"recipient"`
	RefundTo       string       `json:"refundTo"`
	Mode           Mode         `json:"mode"`
	Status         string       `json:"status"`
	IsDone         bool         `json:"isDone"` // all payments have ended
}

func (d *Server) showSwaps(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := []SwapInfo{}
	for _, s := range d.sortedSwaps() {
		list = append(list, SwapInfo{
			s.DepositAddress, s.Origin.ID(), s.Destination.ID(), s.AmountIn, s.AmountOut, s.Recipient, s.RefundTo,
			s.Behaviour.Mode, s.status(), s.Phase == phaseEnded,
		})
	}
	writeJSON(w, http.StatusOK, map[string]any{"swaps": list})
}

// sortedSwaps returns the swaps in the order of their quotes.
func (d *Server) sortedSwaps() []*swap {
	var list []*swap
	for _, s := range d.swaps {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *swap) int { return cmp.Compare(a.Wallet, b.Wallet) })
	return list
}
