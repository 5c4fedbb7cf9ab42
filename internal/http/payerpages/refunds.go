package payerpages

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
)

// RefundPrefix begins the paths of refunds.
const RefundPrefix = "/r/"

// refundIDPrefix is that of the ids of refunds.
const refundIDPrefix = "ref"

// Refunds is what the pages of refunds need of the feature. Each method needs the key of the refund. A wrong key, one
// that was replaced and an absent refund have one answer, the fault NOT_FOUND. A refusal says why an address is not
// accepted; "" if it is.
type Refunds interface {
	// Refund returns what the holder of the key may see.
	Refund(ctx context.Context, refundID, key string) (RefundView, error)
	// ReadAddress returns an address in the form that the payer has to confirm. It changes nothing.
	ReadAddress(ctx context.Context, refundID, key, address string) (canonical string, refusal RefundRefusal, err error)
	// Claim says where the refund goes. The same address again changes nothing.
	Claim(ctx context.Context, refundID, key, address string) (RefundRefusal, error)
	// Challenge returns the text that proves an address. It changes nothing.
	Challenge(ctx context.Context, refundID, key, address string) (RefundChallenge, RefundRefusal, error)
	// Prove claims a refund with a signature of the address.
	Prove(ctx context.Context, refundID, key string, proof RefundProof) (RefundRefusal, error)
	// RefundKey gives the holder of a checkout's key a new key of its refund that waits for an address.
	RefundKey(ctx context.Context, checkoutID, pageKey string) (refundID, key string, err error)
}

// RefundState is how far a refund has come.
type RefundState string

// States of refunds.
const (
	RefundWaits     RefundState = "AWAITING_ADDRESS"
	RefundRequested RefundState = "REQUESTED"
	RefundChecked   RefundState = "CHECKED" // a payment exists, and is in no block
	RefundSent      RefundState = "SENT"
	RefundCompleted RefundState = "COMPLETED"
	RefundCancelled RefundState = "CANCELLED"
	RefundExpired   RefundState = "EXPIRED"
)

// RefundProblem is why the last address was not paid.
type RefundProblem string

// Problems of refunds.
const (
	NoRefundProblem      RefundProblem = ""
	RiskRefundProblem    RefundProblem = "RISK"
	FailedRefundProblem  RefundProblem = "FAILED"
	EndedRefundProblem   RefundProblem = "ENDED"
	AddressRefundProblem RefundProblem = "ADDRESS"
)

// RefundRefusal is why an address or a signature is not accepted.
type RefundRefusal string

// Refusals of addresses.
const (
	AddressInvalid     RefundRefusal = "INVALID"
	AddressOfExchange  RefundRefusal = "EXCHANGE"
	AddressShared      RefundRefusal = "SHARED"
	AddressOfSender    RefundRefusal = "SENDER"
	ProofWrong         RefundRefusal = "PROOF"
	ProofExpired       RefundRefusal = "PROOF_EXPIRED"
	ProofImpossible    RefundRefusal = "PROOF_IMPOSSIBLE"
	ProofUndeployed    RefundRefusal = "PROOF_UNDEPLOYED"
	NetworkUnavailable RefundRefusal = "UNAVAILABLE"
	RefundMoved        RefundRefusal = "STATE" // it waits for no address any more
)

// status returns the status of the answer to a form with the refusal.
func (r RefundRefusal) status() int {
	switch r {
	case AddressInvalid:
		return http.StatusBadRequest
	case RefundMoved:
		return http.StatusConflict
	}
	return http.StatusUnprocessableEntity
}

// isOfProof reports whether the refusal is about a signature.
func (r RefundRefusal) isOfProof() bool {
	return r == ProofWrong || r == ProofExpired || r == ProofImpossible || r == ProofUndeployed
}

// ProofKind says which wallets sign with an address of a refund's chain.
type ProofKind string

// Kinds of proofs.
const (
	NoProof      ProofKind = ""
	EVMProof     ProofKind = "EVM"
	SolanaProof  ProofKind = "SOLANA"
	BitcoinProof ProofKind = "BITCOIN"
)

// RefundView is everything that a page shows of a refund, to the holder of its key. It has nothing of the customer, and
// not the shop's own words for the refund.
type RefundView struct {
	RefundID  string
	State     RefundState
	ShopName  string
	Accent    string
	Symbol    string
	ChainName string
	Amount    string // in whole coins
	// IsFeeDeducted says that the network's fee comes out of the amount.
	IsFeeDeducted   bool
	ExpiresAt       time.Time
	Problem         RefundProblem
	Address         string // where it goes; "" while it waits for an address
	IsAddressProven bool
	TxHash          string // of the payment; "" before
	ExplorerURL     string // of the transaction at another site; "" if none is known
	Proof           ProofKind
	IsLocal         bool
}

// RefundChallenge is a text that proves an address.
type RefundChallenge struct {
	Address   string
	ExpiresAt time.Time
	Text      string
}

// RefundProof is an address with the signature of its text.
type RefundProof struct {
	Address   string
	ExpiresAt time.Time
	Signature string
}

// Names in the forms and requests of refunds. Scripts send a key in a header, which stands in no form.
const (
	keyName       = "key"
	addressName   = "address"
	expiresName   = "expires"
	signatureName = "signature"

	claimKeyHeader    = "Coffer-Claim-Key"
	checkoutKeyHeader = "Coffer-Checkout-Key"

	claimLinkID = "claim-link" // of the link with the key, which the script follows
)

// Longer texts are none of these.
const (
	keyBytesMax       = 300 // a whole address of a page may be pasted
	addressBytesMax   = 200
	signatureBytesMax = 3300 // of a contract with many owners
)

// refundPage is the page of a refund with what a template needs of it.
type refundPage struct {
	RefundView
	request  *request
	language *translation
	Shop     string
	// Key is what the payer pasted; "" if a script sent it. The forms of the page repeat it.
	Key        string
	IsKeyWrong bool
	Refusal    RefundRefusal
	Entered    string // what the payer wrote as the address
	Confirmed  string // the address that the payer has to confirm
	Challenge  *RefundChallenge
}

// text returns a text of the page, with the values that many texts have.
func (p *refundPage) text(key string, values ...string) string {
	return p.language.text(key, append([]string{
		"shop", p.Shop, "amount", unbroken(p.Amount + " " + p.Symbol), "symbol", p.Symbol, "chain", p.ChainName,
	}, values...)...)
}

// split returns what stands before and after a placeholder of a text, for a value that is an element of its own.
func (p *refundPage) split(key, name string) (before, after string) {
	before, after, _ = strings.Cut(p.text(key), "{"+name+"}")
	return before, after
}

// tell says how far the refund has come. Rules CO-99 and CO-132.
func (p *refundPage) tell() story {
	key := "refund." + string(p.State)
	t := wait
	switch p.State {
	case RefundWaits:
		t = plain
	case RefundSent, RefundCompleted:
		t = good
	case RefundCancelled, RefundExpired:
		t = bad
	}
	return story{Tone: t, Heading: p.text(key), Text: p.text(key + ".text")}
}

// isMoving reports whether the state changes without the payer.
func (p *refundPage) isMoving() bool {
	return p.State == RefundRequested || p.State == RefundChecked || p.State == RefundSent
}

// frame returns the document of the page. Without a key it is the same document for every path.
func (p *refundPage) frame() frame {
	f := frame{
		Language: p.language, Accent: cleanAccent(p.Accent), IsLocal: p.IsLocal, Title: p.text("refund.title"),
		LanguageLinks: languageLinks(p.request, "", []string{}), HasClaim: true, HoldsKey: p.Key != "",
		ClaimPath: p.request.link(""),
	}
	if p.State != "" {
		summary := p.tell()
		f.Title, f.Announcement = summary.Heading+" · "+p.Shop, summary.Heading+" "+summary.Text
	}
	return f
}

// taprootPrefixes begin the taproot addresses of every network.
var taprootPrefixes = []string{"bc1p", "tb1p", "bcrt1p"}

// needsNewForm reports whether wallets sign with the address of the challenge only in the form of BIP-322. With the
// other addresses of Bitcoin they have an older form, which no one has to choose.
func (p *refundPage) needsNewForm() bool {
	return slices.ContainsFunc(taprootPrefixes, func(prefix string) bool {
		return strings.HasPrefix(p.Challenge.Address, prefix)
	})
}

// groupAddress cuts an address into groups of four characters, so that people can compare it.
func groupAddress(address string) (groups []string) {
	const letters = 4
	for len(address) > letters {
		groups, address = append(groups, address[:letters]), address[letters:]
	}
	return append(groups, address)
}

// readKey returns the key of a request, and what of it the forms of the answer have to repeat. Payers may paste the
// whole address of the page.
func readKey(r *request, header string) (key, pasted string) {
	if key = r.Header.Get(header); key != "" {
		return key, ""
	}
	key = strings.TrimSpace(r.PostForm.Get(keyName))
	if len(key) > keyBytesMax {
		return "", ""
	}
	if i := strings.LastIndex(key, "k="); i >= 0 {
		key = key[i+len("k="):]
	}
	return key, key
}

// readField returns a field of a form, and "" for one that is too long.
func readField(r *request, name string, bytesMax int) string {
	text := strings.TrimSpace(r.PostForm.Get(name))
	if len(text) > bytesMax {
		return ""
	}
	return text
}

// askForKey serves the page that asks for the key. It looks nothing up, so it is the same for every refund and for
// none, in the same time. Rule CO-93.
func (s *server) askForKey(r *request) error {
	s.writeRefund(r, http.StatusOK, &refundPage{request: r, language: r.language})
	return nil
}

func (s *server) writeRefund(r *request, status int, p *refundPage) {
	main := refundKeyForm(p)
	if p.State != "" {
		main = refundMain(p)
	}
	s.write(r, status, p.frame(), main)
}

// withRefund runs act with the refund of a request. Without its key the answer is the page that asks for it.
func (s *server) withRefund(act func(r *request, p *refundPage, key string) error) func(*request) error {
	return func(r *request) error {
		if err := r.ParseForm(); err != nil {
			return errBadForm
		}
		key, pasted := readKey(r, claimKeyHeader)
		p := &refundPage{request: r, language: r.language, Key: pasted}
		err := s.loadRefund(r, p, key)
		if err == nil {
			err = act(r, p, key)
		}
		if fault.HasCode(err, fault.CodeNotFound) {
			s.writeRefund(r, http.StatusNotFound, &refundPage{request: r, language: r.language, IsKeyWrong: true})
			return nil
		}
		return err
	}
}

// loadRefund reads the refund of a page as it is now.
func (s *server) loadRefund(r *request, p *refundPage, key string) error {
	view, err := s.conf.Refunds.Refund(r.Context(), r.refundID, key)
	if err != nil {
		return err
	}
	p.RefundView, p.Shop = view, cleanName(view.ShopName)
	return nil
}

// showRefund shows a refund to the holder of its key.
func (s *server) showRefund(r *request, p *refundPage, _ string) error {
	s.writeRefund(r, http.StatusOK, p)
	return nil
}

// answerRefusal writes the page as it is now, with the reason of a refusal.
func (s *server) answerRefusal(r *request, p *refundPage, key string, refusal RefundRefusal) error {
	if err := s.loadRefund(r, p, key); err != nil {
		return err
	}
	if p.Refusal = refusal; refusal == "" {
		s.writeRefund(r, http.StatusOK, p)
		return nil
	}
	s.writeRefund(r, refusal.status(), p)
	return nil
}

// readAddress shows an address in groups, for the payer to confirm.
func (s *server) readAddress(r *request, p *refundPage, key string) error {
	p.Entered = readField(r, addressName, addressBytesMax)
	canonical, refusal, err := s.conf.Refunds.ReadAddress(r.Context(), r.refundID, key, p.Entered)
	if err != nil {
		return err
	}
	if refusal == "" {
		p.Confirmed = canonical
	}
	return s.answerRefusal(r, p, key, refusal)
}

// claimRefund claims with the address that the payer confirmed. Rule CO-94.
func (s *server) claimRefund(r *request, p *refundPage, key string) error {
	p.Entered = readField(r, addressName, addressBytesMax)
	refusal, err := s.conf.Refunds.Claim(r.Context(), r.refundID, key, p.Entered)
	if err != nil {
		return err
	}
	return s.answerRefusal(r, p, key, refusal)
}

// challengeAddress shows the text that proves an address.
func (s *server) challengeAddress(r *request, p *refundPage, key string) error {
	p.Entered = readField(r, addressName, addressBytesMax)
	challenge, refusal, err := s.conf.Refunds.Challenge(r.Context(), r.refundID, key, p.Entered)
	if err != nil {
		return err
	}
	if refusal == "" {
		p.Challenge = &challenge
	}
	return s.answerRefusal(r, p, key, refusal)
}

// proveAddress claims with a signature.
func (s *server) proveAddress(r *request, p *refundPage, key string) error {
	p.Entered = readField(r, addressName, addressBytesMax)
	seconds, err := strconv.ParseInt(r.PostForm.Get(expiresName), 10, 64)
	if err != nil {
		return errBadForm
	}
	refusal, err := s.conf.Refunds.Prove(r.Context(), r.refundID, key, RefundProof{
		Address: p.Entered, ExpiresAt: time.Unix(seconds, 0),
		Signature: readField(r, signatureName, signatureBytesMax),
	})
	if err != nil {
		return err
	}
	return s.answerRefusal(r, p, key, refusal)
}

// giveRefundKey leads the holder of a checkout's key to its refund. A form is redirected; a script, which would not see
// where to, gets a page with the link. Rule CO-98.
func (s *server) giveRefundKey(r *request) error {
	if err := r.ParseForm(); err != nil {
		return errBadForm
	}
	key, pasted := readKey(r, checkoutKeyHeader)
	refundID, claimKey, err := s.conf.Refunds.RefundKey(r.Context(), r.checkoutID, key)
	if fault.HasCode(err, fault.CodeNotFound) {
		s.refuse(r, http.StatusNotFound, "refund.none")
		return nil
	}
	if err != nil {
		return err
	}
	target := request{base: RefundPrefix + refundID, language: r.language, isNamed: r.isNamed}
	path := target.link("") + "#k=" + claimKey
	if pasted != "" {
		http.Redirect(r.w, r.Request, path, http.StatusSeeOther)
		return nil
	}
	f := frame{Language: r.language, Title: r.language.text("refund.title"), HoldsKey: true}
	s.write(r, http.StatusOK, f, refundLink(path, r.language.text("refund.claim.button")))
	return nil
}
