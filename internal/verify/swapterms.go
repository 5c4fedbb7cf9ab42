package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// VerifyQuote verifies a quote with the pinned keys of a provider.
type VerifyQuote func(provider string, scheme signedquote.Scheme, raw []byte) (signedquote.Quote, error)

// WithQuotes has check I-64 verify every stored quote again, too, and adds the check that does so for deposit
// swaps. It needs each key that ever signed a quote of a swap: after a rotation the old keys as well. The
// scheduled run does without, because a key that was replaced is no reason to stop all payments, and the
// signer verified each quote before it wrote the intent into its journal.
func WithQuotes(verify VerifyQuote) Option {
	return func(checks *[]Check) {
		if i := slices.IndexFunc(*checks, func(c Check) bool { return c.ID == "I-64" }); i >= 0 {
			*checks = slices.Clone(*checks)
			(*checks)[i].inspect = newSwapTermsCheck(verify)
		}
		*checks = append(*checks, newDepositSwapQuoteCheck(verify))
	}
}

// swapPayment is an order of a swap with all that has to agree with it.
type swapPayment struct {
	orderID, orgID    string
	chain             chain.Name
	payee, offeredTo  chain.Address // as we write it, and as the provider does
	amount            money.Amount
	mintID            int
	customerID        string
	payBy             time.Time
	terms             signer.SwapTerms
	provider, scheme  string
	signedQuote       []byte
	digestHolds       bool // the stored digest is the one of the stored quote
	isAsRow           bool // the order pays what the row of the swap says
	toMint            int
	toChain           chain.Name
	toContract        chain.Address
	estimated, minOut money.Amount
	delivery, refund  signer.WalletRef // of the wallets of the row
	deliverTo, backTo chain.Address
	journaled         *signer.Intent // nil: the copy of the journal has none
}

// newSwapTermsCheck compares each payment to a swap provider with the row, the offer and the wallets of
// its swap, and with the intent in the copy of the signer's journal. verify may be nil.
func newSwapTermsCheck(verify VerifyQuote) func(context.Context, pg.Tx) ([]Breach, error) {
	return func(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
		journaled, found, err := loadSwapIntents(ctx, tx)
		if err != nil {
			return nil, err
		}
		rows, err := tx.Query(ctx, `
			SELECT o.order_id, o.org_id, o.chain, o.to_address, coalesce(f.deposit_address, ''), o.amount, o.mint_id,
				coalesce(o.customer_id, ''), o.pay_by,
				o.swap, s.provider, coalesce(f.scheme, ''), coalesce(f.signed_quote, ''),
					coalesce(f.quote_digest = sha256(f.signed_quote), false),
				(s.org_id, s.from_chain, s.from_mint_id, s.amount_in, s.deposit_address, s.customer_id, s.product,
					s.pay_by) IS NOT DISTINCT FROM (o.org_id, o.chain, o.mint_id, o.amount, o.to_address,
						o.customer_id, o.product, o.pay_by),
				s.to_mint_id, m.chain, m.contract, s.estimated_out, s.min_out,
				coalesce(d.org_id, ''), coalesce(d.family, ''), coalesce(d.purpose, ''), coalesce(d.subject, ''),
					coalesce(d.address, ''),
				coalesce(r.org_id, ''), coalesce(r.family, ''), coalesce(r.purpose, ''), coalesce(r.subject, ''),
					coalesce(r.address, '')
			FROM dispatch_orders o JOIN swaps s ON s.swap_id = o.order_id JOIN mints m ON m.mint_id = s.to_mint_id
				LEFT JOIN swap_offers f ON f.swap_id = s.swap_id
				LEFT JOIN wallets d ON d.wallet_id = s.delivery_wallet_id LEFT
					JOIN wallets r ON r.wallet_id = s.refund_wallet_id
			WHERE o.purpose = 'SWAP' ORDER BY o.order_id`)
		if err != nil {
			return nil, err
		}
		var p swapPayment
		var terms []byte
		_, err = pgx.ForEachRow(rows, []any{
			&p.orderID, &p.orgID, &p.chain, &p.payee, &p.offeredTo, &p.amount, &p.mintID, &p.customerID, &p.payBy,
			&terms,
			&p.provider, &p.scheme, &p.signedQuote, &p.digestHolds, &p.isAsRow, &p.toMint, &p.toChain, &p.toContract,
			&p.estimated, &p.minOut, &p.delivery.OrgID, &p.delivery.Family, &p.delivery.Purpose, &p.delivery.Subject,
			&p.deliverTo, &p.refund.OrgID, &p.refund.Family, &p.refund.Purpose, &p.refund.Subject, &p.backTo,
		}, func() error {
			p.terms = signer.SwapTerms{}
			if err := json.Unmarshal(terms, &p.terms); err != nil {
				p.terms = signer.SwapTerms{}
			}
			p.journaled = journaled[p.orderID]
			for _, problem := range p.listProblems(verify) {
				found = append(found, Breach{OrgID: p.orgID, Subject: "swap " + p.orderID, Detail: problem})
			}
			return nil
		})
		return found, err
	}
}

// loadSwapIntents reads the payments to swap providers that the signer journaled, by their id.
func loadSwapIntents(ctx context.Context, tx pg.Tx) (intents map[string]*signer.Intent, found []Breach, err error) {
	rows, err := tx.Query(ctx, `
		SELECT journal_id, seq, body FROM signer_journal
		WHERE substr(body, 1, 15) = '{"kind":"ADMIT"' AND position('"purpose":"SWAP"'::bytea IN body) > 0 ORDER BY
			journal_id, seq`)
	if err != nil {
		return nil, nil, err
	}
	intents = map[string]*signer.Intent{}
	var journalID string
	var seq int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&journalID, &seq, &body}, func() error {
		var r signer.Record
		entry := fmt.Sprintf("entry %d of %s", seq, journalID)
		switch err := json.Unmarshal(body, &r); {
		case err != nil:
			found = append(found, Breach{Subject: entry, Detail: "cannot be read: " + err.Error()})
		case r.Admit == nil || r.Admit.Purpose != signer.SwapPayment:
		case intents[r.Admit.ID] != nil && !intents[r.Admit.ID].HasSameWords(*r.Admit):
			found = append(found, Breach{
				OrgID: r.Admit.From.OrgID, Subject: "swap " + r.Admit.ID, Detail: "has another payment in " + entry,
			})
		default:
			intents[r.Admit.ID] = r.Admit
		}
		return nil
	})
	return intents, found, err
}

// listProblems returns what does not agree with a payment.
func (p swapPayment) listProblems(verify VerifyQuote) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	compare := func(term string, got, want any) {
		if got != want {
			add("its payment has the %s %v, and its swap %v", term, got, want)
		}
	}
	if !p.isAsRow {
		add("its row has another payment than its order, of %v of mint %d to %s", p.amount, p.mintID, p.payee)
	}
	if !isSameAddress(p.offeredTo, p.payee) {
		add("pays %s, and the offer names %s", p.payee, p.offeredTo)
	}
	if !p.digestHolds {
		add("the digest of its quote is not the one of its quote")
	}
	compare("provider", p.terms.Provider, p.provider)
	compare("scheme", string(p.terms.Scheme), p.scheme)
	if !bytes.Equal(p.terms.SignedQuote, p.signedQuote) {
		add("its payment rests on another quote than its offer")
	}
	// A wallet of a swap has the usual form of its chain, whatever name the terms have for it.
	delivery, refund := p.terms.Delivery, p.terms.Refund
	delivery.Form, refund.Form = "", ""
	compare("delivery wallet", delivery, p.delivery)
	compare("refund wallet", refund, p.refund)
	compare("bought mint", p.terms.ToMintID, p.toMint)
	compare("destination", p.terms.ToChain, p.toChain)
	compare("bought contract", p.terms.ToContract, p.toContract)
	compare("estimate", p.terms.EstimatedOut, p.estimated)
	compare("least amount out", p.terms.MinOut, p.minOut)
	compare("end", p.terms.PayBy, signer.FormatMicros(p.payBy))
	if admitted := p.journaled; admitted != nil && (!admitted.Swap.Equal(&p.terms) || admitted.To != p.payee ||
		admitted.Amount != p.amount ||
		admitted.Chain != p.chain || admitted.MintID != p.mintID || admitted.CustomerID != p.customerID ||
		admitted.From.OrgID != p.orgID) {
		add("the signer admitted another payment: %v of mint %d on %s to %s", admitted.Amount, admitted.MintID,
			admitted.Chain, admitted.To)
	}
	if verify == nil {
		return problems
	}
	q, err := verify(p.provider, signedquote.Scheme(p.scheme), p.signedQuote)
	if err != nil {
		add("its quote does not verify: %v", err)
		return problems
	}
	if !isSameAddress(chain.Address(q.DepositAddress), p.payee) {
		add("pays %s, and %s signed %s", p.payee, p.provider, q.DepositAddress)
	}
	if !isSameAddress(chain.Address(q.Recipient), p.deliverTo) {
		add("is delivered to %s, and its wallet is %s", q.Recipient, p.deliverTo)
	}
	for _, refundTo := range q.RefundTo {
		if !isSameAddress(chain.Address(refundTo), p.backTo) {
			add("is refunded to %s, and its wallet is %s", refundTo, p.backTo)
		}
	}
	if len(q.RefundTo) == 0 {
		add("is refunded to no one")
	}
	if q.AmountIn != p.amount || q.AmountOut != p.estimated {
		add("was offered %v for %v, and pays %v for %v", q.AmountOut, q.AmountIn, p.amount, p.estimated)
	}
	if p.minOut.Less(q.MinAmountOut) {
		add("accepts %v, and its quote promises %v", p.minOut, q.MinAmountOut)
	}
	return problems
}

// isSameAddress compares addresses of which one may be in the form of a provider. The case of letters
// does not matter in a hexadecimal one.
func isSameAddress(a, b chain.Address) bool {
	if strings.HasPrefix(string(b), "0x") || strings.HasPrefix(string(b), "0X") {
		return strings.EqualFold(string(a), string(b))
	}
	return a == b && a != ""
}

// checkSwapsInTime compares, for each payment to a swap provider, the time of the first signature in
// the copy of the signer's journal with the end of its time. The rows of dispatch do not count: they
// store a signature when the answer of the signer arrives, which may be later.
func checkSwapsInTime(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
	payBy, orgs := map[string]time.Time{}, map[string]string{}
	rows, err := tx.Query(ctx, `SELECT order_id, org_id, pay_by FROM dispatch_orders WHERE purpose = 'SWAP'`)
	if err != nil {
		return nil, err
	}
	var orderID, orgID string
	var latest time.Time
	_, err = pgx.ForEachRow(rows, []any{&orderID, &orgID, &latest}, func() error {
		payBy[orderID], orgs[orderID] = latest, orgID
		return nil
	})
	if err != nil || len(payBy) == 0 {
		return nil, err
	}
	rows, err = tx.Query(ctx, `
		SELECT body FROM signer_journal
		WHERE substr(body, 1, 14) = '{"kind":"SIGN"' AND (position('"intentId":"cs_'::bytea IN body) > 0
			OR position('"intentId":"os_'::bytea IN body) > 0)
		ORDER BY journal_id, seq`)
	if err != nil {
		return nil, err
	}
	signedAt := map[string]time.Time{}
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&body}, func() error {
		var r signer.Record
		if err := json.Unmarshal(body, &r); err != nil || r.Sign == nil || r.Sign.Act != signer.Pay {
			return nil // what cannot be read has another hash than its entry: I-45-journal
		}
		signed, err := time.Parse(time.RFC3339, r.RecordedAt)
		if err != nil {
			return nil
		}
		// A journal that continues a lost one has the signatures of both.
		if first, isKnown := signedAt[r.Sign.IntentID]; !isKnown || signed.Before(first) {
			signedAt[r.Sign.IntentID] = signed
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for swapID, signed := range signedAt {
		if latest, isKnown := payBy[swapID]; isKnown && signed.After(latest) {
			found = append(found, Breach{
				OrgID: orgs[swapID], Subject: "swap " + swapID,
				Detail: fmt.Sprintf("was paid by a signature of %s, and had to be signed by %s",
					signed.UTC().Format(time.RFC3339), latest.UTC().Format(time.RFC3339)),
			})
		}
	}
	slices.SortFunc(found, func(a, b Breach) int { return strings.Compare(a.Subject, b.Subject) })
	return found, nil
}
