package swapdesk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

const (
	bodyBytesMax = 64 << 10
	hugeBytes    = 10 << 20
)

// API returns the handler of 1Click's API.
func (d *Server) API() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v0/tokens", d.answerTokens)
	mux.HandleFunc("POST /v0/quote", d.answerQuote)
	mux.HandleFunc("POST /v0/deposit/submit", d.answerSubmit)
	mux.HandleFunc("GET /v0/status", d.answerStatus)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeMessage(w, http.StatusNotFound, "Cannot "+r.Method+" "+r.URL.Path)
	})
	return mux
}

// applyCallMode does what a mode of the API says, and reports whether the call is answered with that.
func (d *Server) applyCallMode(w http.ResponseWriter, r *http.Request, c call, assets ...Asset) bool {
	modes := callModes
	if c != callDry && c != callFirm {
		modes = callModes[1:] // only quotes are rejected
	}
	d.mu.Lock()
	b, err := d.takeBehaviour(modes, c, assets...)
	d.mu.Unlock()
	if err != nil {
		writeMessage(w, http.StatusInternalServerError, "Internal server error")
		return true
	}
	switch b.Mode {
	case ModeReject:
		message := b.Message
		if message == "" {
			message = "Failed to get quote"
		}
		writeMessage(w, http.StatusBadRequest, message)
	case ModeDown:
		panic(http.ErrAbortHandler) // the server ends the connection without an answer
	case ModeSlow:
		select {
		case <-time.After(b.Delay.orUsual(usualSlowDelay)):
		case <-r.Context().Done():
		}
		return false
	case ModeGarbage:
		writeGarbage(w, b.Form)
	default:
		return false
	}
	return true
}

func writeGarbage(w http.ResponseWriter, form string) {
	w.Header().Set("Content-Type", "application/json")
	switch form {
	case formHuge:
		filler := bytes.Repeat([]byte(" "), hugeBytes)
		_, _ = w.Write(append(append([]byte(`{"correlationId":"`), filler...), `"}`...))
	case formHalf:
		_, _ = io.WriteString(w, `{"correlationId":"a60bbb06-4609-4976","quoteResponse":{"quote":{"amou`)
	case formUnknown:
		_, _ = io.WriteString(w, `{"correlationId":"a60bbb06","status":"TELEPORTING","surprise":[1,2,3]}`)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!DOCTYPE html><html><body><h1>Checking your browser</h1></body></html>")
	}
}

// token is an element of the answer of GET /v0/tokens.
type token struct {
	AssetID         string      `json:"assetId"`
	Decimals        int         `json:"decimals"`
	Blockchain      string      `json:"blockchain"`
	Symbol          string      `json:"symbol"`
	Price           json.Number `json:"price"`
	PriceUpdatedAt  string      `json:"priceUpdatedAt"`
	ContractAddress *string     `json:"contractAddress,omitempty"`
}

func (d *Server) answerTokens(w http.ResponseWriter, r *http.Request) {
	if d.applyCallMode(w, r, callTokens) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Now().UTC().Format(timeFormat)
	tokens := []token{}
	for _, listed := range d.cfg.Assets {
		a, _ := d.asset(listed.ID())
		t := token{
			AssetID: a.ID(), Decimals: a.Decimals, Blockchain: a.Blockchain, Symbol: a.Symbol,
			Price: json.Number(a.Price.String()), PriceUpdatedAt: now,
		}
		if a.Contract != "" {
			t.ContractAddress = &a.Contract
		}
		tokens = append(tokens, t)
	}
	writeJSON(w, http.StatusOK, tokens)
}

func (d *Server) answerQuote(w http.ResponseWriter, r *http.Request) {
	var request quoteRequest
	if !readJSON(w, r, &request) {
		return
	}
	c := callFirm
	if request.Dry != nil && *request.Dry {
		c = callDry
	}
	origin, destination := d.assets[request.OriginAsset], d.assets[request.DestinationAsset]
	if d.applyCallMode(w, r, c, origin, destination) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.checkRequest(request, d.cfg.Now())
	var a answer
	if err == nil {
		a, err = d.makeQuote(t)
	}
	var refusal refused
	switch {
	case errors.As(err, &refusal):
		writeMessage(w, http.StatusBadRequest, refusal.Error())
	case err != nil:
		d.cfg.Log.ErrorContext(r.Context(), "the local swap provider could not quote", "error", err)
		writeMessage(w, http.StatusInternalServerError, "Internal server error")
	default:
		writeJSON(w, http.StatusCreated, a)
	}
}

func (d *Server) answerSubmit(w http.ResponseWriter, r *http.Request) {
	var body struct {
		TxHash         string `json:"txHash"`
		DepositAddress string `json:"depositAddress"`
		Memo           string `json:"memo"`
	}
	if d.applyCallMode(w, r, callSubmit) || !readJSON(w, r, &body) {
		return
	}
	if body.TxHash == "" || body.DepositAddress == "" {
		writeMessage(w, http.StatusBadRequest, "txHash and depositAddress must not be empty")
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.swaps[body.DepositAddress]
	if s == nil {
		writeMessage(w, http.StatusNotFound, "Deposit address "+body.DepositAddress+" not found")
		return
	}
	// The hash proves nothing: the desk reads the chain by itself.
	if !s.IsSubmitted {
		s.IsSubmitted = true
		if err := d.store.appendRecords(record{Swap: s}); err != nil {
			writeMessage(w, http.StatusInternalServerError, "Internal server error")
			return
		}
	}
	writeJSON(w, http.StatusCreated, s.describe())
}

func (d *Server) answerStatus(w http.ResponseWriter, r *http.Request) {
	if d.applyCallMode(w, r, callStatus) {
		return
	}
	address := r.URL.Query().Get("depositAddress")
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.swaps[address]
	if s == nil || r.URL.Query().Get("depositMemo") != "" {
		writeMessage(w, http.StatusNotFound, "Deposit address "+address+" not found")
		return
	}
	writeJSON(w, http.StatusOK, s.describe())
}

// statusReport is the answer of GET /v0/status.
type statusReport struct {
	CorrelationID string      `json:"correlationId"`
	QuoteResponse answer      `json:"quoteResponse"`
	Status        string      `json:"status"`
	UpdatedAt     string      `json:"updatedAt"`
	SwapDetails   swapDetails `json:"swapDetails"`
}

// swapDetails has null for what is not known yet.
type swapDetails struct {
	IntentHashes             []string      `json:"intentHashes"`
	NearTxHashes             []string      `json:"nearTxHashes"`
	AmountIn                 *string       `json:"amountIn"`
	AmountInFormatted        *string       `json:"amountInFormatted"`
	AmountInUsd              *string       `json:"amountInUsd"`
	AmountOut                *string       `json:"amountOut"`
	AmountOutFormatted       *string       `json:"amountOutFormatted"`
	AmountOutUsd             *string       `json:"amountOutUsd"`
	Slippage                 *int          `json:"slippage"`
	OriginChainTxHashes      []transaction `json:"originChainTxHashes"`
	DestinationChainTxHashes []transaction `json:"destinationChainTxHashes"`
	RefundedAmount           *string       `json:"refundedAmount"`
	RefundedAmountFormatted  *string       `json:"refundedAmountFormatted"`
	RefundedAmountUsd        *string       `json:"refundedAmountUsd"`
	RefundReason             *string       `json:"refundReason"`
	DepositedAmount          *string       `json:"depositedAmount"`
	DepositedAmountFormatted *string       `json:"depositedAmountFormatted"`
	DepositedAmountUsd       *string       `json:"depositedAmountUsd"`
	WithdrawFee              *string       `json:"withdrawFee"`
	Referral                 *string       `json:"referral"`
}

type transaction struct {
	Hash        string `json:"hash"`
	ExplorerURL string `json:"explorerUrl"`
}

// absentMembers are null in the quote of a status where the request did not have them.
var absentMembers = []string{"referral", "virtualChainRecipient", "virtualChainRefundRecipient"}

// describe tells a swap as the API does.
func (s *swap) describe() statusReport {
	report := statusReport{
		CorrelationID: newUUID(), QuoteResponse: s.Answer, Status: s.status(),
		UpdatedAt: s.UpdatedAt.UTC().Format(timeFormat),
		SwapDetails: swapDetails{
			IntentHashes: []string{}, NearTxHashes: []string{}, OriginChainTxHashes: []transaction{},
			DestinationChainTxHashes: []transaction{}, WithdrawFee: &s.Answer.Quote.WithdrawFee,
		},
	}
	report.QuoteResponse.QuoteRequest = maps.Clone(s.Answer.QuoteRequest)
	for _, name := range absentMembers {
		if _, isThere := report.QuoteResponse.QuoteRequest[name]; !isThere {
			report.QuoteResponse.QuoteRequest[name] = nil
		}
	}
	details := &report.SwapDetails
	for _, arrival := range s.Deposits {
		details.OriginChainTxHashes = append(details.OriginChainTxHashes, transaction{Hash: arrival.Hash})
	}
	if len(s.Deposits) > 0 {
		details.DepositedAmount, details.DepositedAmountFormatted, details.DepositedAmountUsd = formatAmount(
			s.deposited(), s.Origin,
		)
	}
	var delivered, refunded money.Amount
	hasRefund := false
	for _, p := range s.Payments {
		switch p.Kind {
		case kindDelivery:
			delivered = sumAmounts(delivered, p.Amount)
			if p.State != paymentPlanned {
				details.DestinationChainTxHashes = append(
					details.DestinationChainTxHashes, transaction{Hash: p.Signed.Hash},
				)
			}
		case kindRefund:
			refunded, hasRefund = sumAmounts(refunded, p.Amount), true
		}
	}
	if s.Claimed != nil {
		refunded, hasRefund = *s.Claimed, true
	}
	if hasRefund {
		details.RefundedAmount, details.RefundedAmountFormatted, details.RefundedAmountUsd = formatAmount(
			refunded, s.Origin,
		)
	}
	if s.Reason != "" {
		details.RefundReason = &s.Reason
	}
	if report.Status == statusSuccess {
		if len(s.Payments) == 0 {
			delivered = s.AmountOut // LieSuccess
		}
		slippage := 0
		details.Slippage = &slippage
		details.AmountIn, details.AmountInFormatted, details.AmountInUsd = formatAmount(s.AmountIn, s.Origin)
		details.AmountOut, details.AmountOutFormatted, details.AmountOutUsd = formatAmount(delivered, s.Destination)
	}
	return report
}

// formatAmount returns an amount in the three forms of the API.
func formatAmount(amount money.Amount, a Asset) (units, formatted, value *string) {
	texts := [3]string{amount.String(), amount.Decimal(a.Decimals), formatValue(amount, a)}
	return &texts[0], &texts[1], &texts[2]
}

// readJSON reads the body of a request, or answers 400.
func readJSON(w http.ResponseWriter, r *http.Request, value any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyBytesMax)).Decode(value); err != nil {
		writeMessage(w, http.StatusBadRequest, fmt.Sprintf("the body is no JSON of this call: %v", err))
		return false
	}
	return true
}

func writeMessage(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"message": message, "statusCode": status})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic("swapdesk: an answer that is no JSON: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone
}
