package billing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Terms are what is printed about a party, and how its invoices are made. Those of the installation are the
// seller's. An organization has its own, and leaves out what is as for all.
type Terms struct {
	OrgID            string // "" of the installation
	Version          int
	Party            document.Party
	TaxRateBps       *int
	TaxNote          *string
	InvoiceSeries    *string
	CreditNoteSeries *string
	BillingDay       *int // of the month after
	Language         *string
	CreatedAt        time.Time
	ChangedBy        string // kind and id of the actor
}

// What the installation has unless it says otherwise.
const (
	invoiceSeriesDefault    = "INV"
	creditNoteSeriesDefault = "CN"
	billingDayDefault       = 3
	languageDefault         = "en"
)

const (
	nameRunesMax    = 200
	addressLinesMax = 8
	lineRunesMax    = 100
	noteRunesMax    = 1000
	termsLock       = "billing terms"
)

var seriesPattern = regexp.MustCompile(`^[A-Z0-9]{1,12}$`)

// isPlain reports whether a text is one line of graphic characters without space around it.
func isPlain(text string) bool {
	return strings.TrimSpace(text) == text &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.Is(unicode.Zl, r) })
}

// normalize completes the terms of the installation, and checks terms. Error: fault INVALID_REQUEST.
func (t Terms) normalize() (Terms, error) {
	if t.OrgID == "" {
		t.TaxRateBps, t.TaxNote = cmp.Or(t.TaxRateBps, new(0)), cmp.Or(t.TaxNote, new(""))
		t.InvoiceSeries = cmp.Or(t.InvoiceSeries, new(invoiceSeriesDefault))
		t.CreditNoteSeries = cmp.Or(t.CreditNoteSeries, new(creditNoteSeriesDefault))
		t.BillingDay, t.Language = cmp.Or(t.BillingDay, new(billingDayDefault)), cmp.Or(t.Language,
			new(languageDefault))
	}
	checkLine := func(name, text string, runesMin, runesMax int) error {
		if n := len([]rune(text)); n < runesMin || n > runesMax || !isPlain(text) {
			return refuse(name, "%s has to be a text of %d to %d characters in one line.", name, runesMin, runesMax)
		}
		return nil
	}
	errs := []error{
		checkLine("legalName", t.Party.Name, 1, nameRunesMax),
		checkLine("taxId", t.Party.TaxID, 0, lineRunesMax), checkLine("email", t.Party.Email, 0, 254),
	}
	if n := len(t.Party.Address); n < 1 || n > addressLinesMax {
		errs = append(errs, refuse("address", "address has to have 1 to %d lines.", addressLinesMax))
	}
	for _, line := range t.Party.Address {
		errs = append(errs, checkLine("address", line, 1, lineRunesMax))
	}
	if t.TaxRateBps != nil && (*t.TaxRateBps < 0 || *t.TaxRateBps > 10_000) {
		errs = append(errs, refuse("taxRateBps", "taxRateBps has to be between 0 and 10000."))
	}
	if t.TaxNote != nil {
		errs = append(errs, checkLine("taxNote", *t.TaxNote, 0, noteRunesMax))
	}
	for name, series := range map[string]*string{
		"invoiceSeries": t.InvoiceSeries, "creditNoteSeries": t.CreditNoteSeries,
	} {
		if series != nil && !seriesPattern.MatchString(*series) {
			errs = append(errs, refuse(name, "%s has to be 1 to 12 letters A to Z and digits.", name))
		}
	}
	if t.InvoiceSeries != nil && t.CreditNoteSeries != nil && *t.InvoiceSeries == *t.CreditNoteSeries {
		errs = append(errs, refuse("creditNoteSeries", "Credit notes have a series of their own."))
	}
	if t.BillingDay != nil && (*t.BillingDay < 1 || *t.BillingDay > 28) {
		errs = append(errs, refuse("billingDay", "billingDay has to be between 1 and 28."))
	}
	if languages := document.Languages(); t.Language != nil && !slices.Contains(languages, *t.Language) {
		errs = append(errs, refuse("language", "language has to be one of %s.", strings.Join(languages, ", ")))
	}
	for _, err := range errs {
		if err != nil {
			return t, err
		}
	}
	return t, nil
}

const selectTerms = `
	SELECT coalesce(t.org_id, ''), t.version, t.legal_name, t.address, t.tax_id, t.email, t.tax_rate_bps, t.tax_note,
		t.invoice_series, t.credit_note_series, t.billing_day, t.language, t.created_at, t.changed_by
	FROM billing_terms t`

func scanTerms(row pgx.CollectableRow) (t Terms, err error) {
	err = row.Scan(&t.OrgID, &t.Version, &t.Party.Name, &t.Party.Address, &t.Party.TaxID, &t.Party.Email, &t.TaxRateBps,
		&t.TaxNote, &t.InvoiceSeries, &t.CreditNoteSeries, &t.BillingDay, &t.Language, &t.CreatedAt, &t.ChangedBy)
	return t, err
}

// LoadTerms returns the terms in force of an organization, or of the installation for "". Error: fault NOT_FOUND.
func LoadTerms(ctx context.Context, tx pg.Tx, org string) (Terms, error) {
	rows, err := tx.Query(ctx,
		selectTerms+` WHERE t.org_id IS NOT DISTINCT FROM nullif($1, '') ORDER BY t.version DESC LIMIT 1`, org)
	if err != nil {
		return Terms{}, fmt.Errorf("read the billing terms of %q: %w", org, err)
	}
	t, err := pgx.CollectExactlyOneRow(rows, scanTerms)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "There are no such billing "+
			"terms yet.")
	}
	if err != nil {
		return t, fmt.Errorf("read the billing terms of %q: %w", org, err)
	}
	return t, nil
}

// TermsByOrg returns the terms in force of an organization, or of the installation for "". Error: fault NOT_FOUND.
func (s *Service) TermsByOrg(ctx context.Context, org string) (t Terms, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		t, err = LoadTerms(ctx, tx, org)
		return err
	})
	return t, err
}

// TermsOutcome is the result of a request to save terms.
type TermsOutcome struct {
	Terms Terms // in force now
	// PendingChange is the change request for the second operator; nil if the terms are saved.
	PendingChange *changerequest.Request
}

// SaveTerms saves the next version of the terms of a party, or makes a change request where dual control is on.
// A party that has these terms keeps its version. Errors: faults INVALID_REQUEST, NOT_FOUND, and those of
// changerequest.CreateRequest. Rules BI-15 and OP-7.
func (s *Service) SaveTerms(
	ctx context.Context, tx pg.Tx, key operator.Key, rule changerequest.Rule, t Terms,
) (outcome TermsOutcome, err error) {
	if t, err = t.normalize(); err != nil {
		return outcome, err
	}
	if err := CheckOrganization(ctx, tx, t.OrgID); err != nil {
		return outcome, err
	}
	needsSecond, err := rule.IsActive(ctx, tx, identity.ChangeBillingTerms)
	if err != nil {
		return outcome, err
	}
	if !needsSecond {
		outcome.Terms, err = saveTerms(ctx, tx, t, key.Actor())
		return outcome, err
	}
	before := changerequest.Values{}
	outcome.Terms, err = LoadTerms(ctx, tx, t.OrgID)
	switch {
	case fault.HasCode(err, fault.CodeNotFound):
		outcome.Terms = Terms{OrgID: t.OrgID}
	case err != nil:
		return outcome, err
	default:
		before = outcome.Terms.values()
	}
	if outcome.Terms.Version > 0 && isSame(before, t.values()) {
		return outcome, nil
	}
	// The version is among the values, so that an approver approves a change of what was in force.
	before[termsVersion] = jsonOf(outcome.Terms.Version)
	wanted := t.values()
	wanted[termsVersion] = jsonOf(outcome.Terms.Version + 1)
	r, err := changerequest.CreateRequest(ctx, tx, key, t.OrgID, changerequest.BillingTerms, before, wanted)
	outcome.PendingChange = &r
	return outcome, err
}

// ApplyApproved returns the function that saves the terms of an approved change request. Error: INVALID_STATE if other
// terms were saved since the request.
func (s *Service) ApplyApproved(approver operator.Key) func(context.Context, pg.Tx, changerequest.Request) error {
	return func(ctx context.Context, tx pg.Tx, r changerequest.Request) error {
		t, version, err := readTerms(r)
		if err != nil {
			return fmt.Errorf("read the terms of %s: %w", r.ID, err)
		}
		if t, err = t.normalize(); err != nil {
			return err
		}
		saved, err := saveTerms(ctx, tx, t, approver.Actor())
		if err == nil && saved.Version != version {
			return refuseState("The terms have changed since this change request.").
				WithAdvice("The requester has to withdraw the request and make a new one.")
		}
		return err
	}
}

// CheckOrganization returns fault NOT_FOUND for an organization that does not exist. The installation, "", does.
func CheckOrganization(ctx context.Context, tx pg.Tx, org string) error {
	if org == "" {
		return nil
	}
	var isKnown bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM organizations WHERE org_id = $1)`, org).Scan(&isKnown)
	if err != nil {
		return fmt.Errorf("look for organization %s: %w", org, err)
	}
	if !isKnown {
		return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "This organization does not exist.").
			WithStep(fault.ListOrganizations)
	}
	return nil
}

func saveTerms(ctx context.Context, tx pg.Tx, t Terms, actor audit.Actor) (Terms, error) {
	if err := pg.LockExclusive(ctx, tx, termsLock); err != nil {
		return t, err
	}
	before, err := LoadTerms(ctx, tx, t.OrgID)
	if err != nil && !fault.HasCode(err, fault.CodeNotFound) {
		return t, err
	}
	if err == nil && isSame(before.values(), t.values()) {
		return before, nil
	}
	t.Version, t.CreatedAt, t.ChangedBy = before.Version+1, tx.Now, actor.Kind+" "+actor.ID
	_, err = tx.Exec(ctx, `
		INSERT INTO billing_terms (org_id, version, legal_name, address, tax_id, email, tax_rate_bps, tax_note,
			invoice_series, credit_note_series, billing_day, language, created_at, changed_by)
		VALUES (nullif($1, ''), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		t.OrgID, t.Version, t.Party.Name, t.Party.Address, t.Party.TaxID, t.Party.Email, t.TaxRateBps, t.TaxNote,
		t.InvoiceSeries, t.CreditNoteSeries, t.BillingDay, t.Language, t.CreatedAt, t.ChangedBy)
	if err != nil {
		return t, fmt.Errorf("save the billing terms of %q: %w", t.OrgID, err)
	}
	detail := map[string]any{"version": t.Version, "to": t.values()}
	if before.Version > 0 {
		detail["from"] = before.values()
	}
	return t, audit.Record(ctx, tx, audit.Entry{
		OrgID: t.OrgID, Actor: actor, Action: "billing_terms.saved", ResourceKind: "BILLING_TERMS",
		ResourceID: cmp.Or(t.OrgID, "installation"), Detail: detail,
	})
}

const termsVersion = "version"

// values returns the terms by the names of the interface.
func (t Terms) values() changerequest.Values {
	return changerequest.Values{
		"legalName": jsonOf(t.Party.Name), "address": jsonOf(t.Party.Address), "taxId": jsonOf(t.Party.TaxID),
		"email": jsonOf(t.Party.Email), "taxRateBps": jsonOf(t.TaxRateBps), "taxNote": jsonOf(t.TaxNote),
		"invoiceSeries": jsonOf(t.InvoiceSeries), "creditNoteSeries": jsonOf(t.CreditNoteSeries),
		"billingDay": jsonOf(t.BillingDay), "language": jsonOf(t.Language),
	}
}

// IsWantedBy reports whether a change request would save just these terms.
func (t Terms) IsWantedBy(r changerequest.Request) bool {
	if r.Kind != changerequest.BillingTerms {
		return false
	}
	wanted, _, err := readTerms(r)
	normal, errTerms := t.normalize()
	return err == nil && errTerms == nil && wanted.OrgID == t.OrgID && isSame(wanted.values(), normal.values())
}

func isSame(a, b changerequest.Values) bool {
	return maps.EqualFunc(a, b, func(x, y json.RawMessage) bool { return slices.Equal(x, y) })
}

func jsonOf(v any) json.RawMessage {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic("billing: a value cannot be encoded: " + err.Error())
	}
	return encoded
}

// readTerms returns the terms that a change request wants, and their version.
func readTerms(r changerequest.Request) (t Terms, version int, err error) {
	t.OrgID = r.OrgID
	for name, target := range map[string]any{
		"legalName": &t.Party.Name, "address": &t.Party.Address, "taxId": &t.Party.TaxID, "email": &t.Party.Email,
		"taxRateBps": &t.TaxRateBps, "taxNote": &t.TaxNote, "invoiceSeries": &t.InvoiceSeries,
		"creditNoteSeries": &t.CreditNoteSeries, "billingDay": &t.BillingDay, "language": &t.Language,
		termsVersion: &version,
	} {
		if err := json.Unmarshal(r.Wanted[name], target); err != nil {
			return t, 0, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return t, version, nil
}

// printed is what an invoice of an organization prints and takes from the terms in force.
type printed struct {
	seller, buyer                   document.Party
	taxRateBps                      int
	taxNote, language               string
	invoiceSeries, creditNoteSeries string
	day                             int
}

// loadPrinted returns the terms of an organization with those of the installation where it leaves something
// out. Error: fault NOT_FOUND while one of both has none.
func loadPrinted(ctx context.Context, tx pg.Tx, org string) (p printed, err error) {
	seller, err := LoadTerms(ctx, tx, "")
	if err != nil {
		return p, err
	}
	buyer, err := LoadTerms(ctx, tx, org)
	if err != nil {
		return p, err
	}
	return printed{
		seller: seller.Party, buyer: buyer.Party,
		taxRateBps:       *cmp.Or(buyer.TaxRateBps, seller.TaxRateBps),
		taxNote:          *cmp.Or(buyer.TaxNote, seller.TaxNote),
		language:         *cmp.Or(buyer.Language, seller.Language),
		invoiceSeries:    *cmp.Or(buyer.InvoiceSeries, seller.InvoiceSeries),
		creditNoteSeries: *cmp.Or(buyer.CreditNoteSeries, seller.CreditNoteSeries),
		day:              *cmp.Or(buyer.BillingDay, seller.BillingDay),
	}, nil
}
