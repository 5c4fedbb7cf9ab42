package payerpages

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
)

// solanaPath ends the path at which wallets of Solana get their transaction. It speaks the transaction request of
// Solana Pay: GET says who asks, and POST answers with what the payer signs.
const solanaPath = "/solana"

// accountBytesMax is longer than every address of Solana, and than every amount.
const accountBytesMax = 100

// openToOrigins lets every origin read the answer, as Solana Pay requires: a wallet that is a page or an extension has
// an origin of its own. No credential belongs to the path, and none is allowed, so an origin learns what everyone with
// the address of the checkout may ask. Rule CO-139.
func openToOrigins(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
}

// preflightSeconds is how long a browser remembers the answer to allowWallets.
const preflightSeconds = "600"

// allowWallets answers the question that browsers ask before a request of another origin.
func (s *server) allowWallets(r *request) error {
	h := r.w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Accept, Accept-Encoding, Accept-Language, Content-Type")
	h.Set("Access-Control-Max-Age", preflightSeconds)
	r.w.WriteHeader(http.StatusNoContent)
	return nil
}

// describeRequest says who asks for the payment. A wallet shows it before it asks for the transaction.
func (s *server) describeRequest(r *request) error {
	view, err := s.conf.Checkouts.View(r.Context(), r.checkoutID)
	if err != nil {
		return err
	}
	s.writeJSON(r, http.StatusOK, struct {
		Label string `json:"label"`
		Icon  string `json:"icon"`
	}{cleanName(view.ShopName), s.conf.Origin + s.assets.icon})
	return nil
}

// requestPayment answers with the transaction that pays what is still due, for the account to sign. It changes nothing,
// also if it is never signed. Rules CO-116 and CO-117.
func (s *server) requestPayment(r *request) error {
	var body struct {
		Account string `json:"account"`
		Amount  string `json:"amount"`
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &body) != nil {
		return errBadForm
	}
	if body.Account == "" || len(body.Account) > accountBytesMax || len(body.Amount) > accountBytesMax {
		s.writeProblem(r, AccountProblem)
		return nil
	}
	paid, problem, err := s.conf.Checkouts.RequestPayment(r.Context(), r.checkoutID, WalletRequest{
		MintID: readMint(r.URL.Query().Get(mintName)), Account: body.Account, Amount: body.Amount,
	})
	if err != nil {
		return err
	}
	if problem != nil {
		s.writeProblem(r, *problem)
		return nil
	}
	s.writeJSON(r, http.StatusOK, struct {
		Transaction string `json:"transaction"`
		Message     string `json:"message"`
	}{
		base64.StdEncoding.EncodeToString(paid.Transaction),
		r.language.text("wallet.message", "amount", paid.Amount, "symbol", paid.Symbol, "shop",
			cleanName(paid.ShopName)),
	})
	return nil
}

// status returns the status of the answer to a wallet that gets no transaction.
func (p WalletProblem) status() int {
	switch p {
	case AccountProblem:
		return http.StatusBadRequest
	case ClosedProblem, AmountProblem:
		return http.StatusConflict
	case NodeProblem:
		return http.StatusServiceUnavailable
	}
	return http.StatusUnprocessableEntity
}

// writeProblem says why there is no transaction.
func (s *server) writeProblem(r *request, problem WalletProblem) {
	if problem == NodeProblem {
		r.w.Header().Set("Retry-After", "60")
	}
	s.writeMessage(r, problem.status(), r.language.text("solana."+string(problem)))
}

// writeMessage writes a text that a wallet shows to the payer, as Solana Pay has it for errors.
func (s *server) writeMessage(r *request, status int, message string) {
	s.writeJSON(r, status, struct {
		Message string `json:"message"`
	}{message})
}

func (s *server) writeJSON(r *request, status int, answer any) {
	content, err := json.Marshal(answer)
	if err != nil {
		panic("payerpages: cannot write an answer: " + err.Error())
	}
	h := r.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Language", r.language.tag)
	h.Set("Vary", "Accept-Language")
	r.w.WriteHeader(status)
	_, _ = r.w.Write(content) // The wallet is gone.
}
