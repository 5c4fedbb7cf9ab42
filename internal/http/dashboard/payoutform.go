package dashboard

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
)

// uploadAct makes a draft of a list.
const uploadAct = "upload"

// The fields of the form that takes a list.
const (
	listFileName = "file"
	listTextName = "text"
	unitName     = "unit"
	modeName     = "mode"
)

// The values of the field unitName.
const (
	wholeUnit  = "WHOLE"
	atomicUnit = "ATOMIC"
)

const (
	// uploadBytesMax bounds the body of the form. It is more than a list may have, so that a list that is a little
	// too large gets the sentence about lists.
	uploadBytesMax = 3 * rowfile.BytesMax
	// shownBadRowsMax is how many rows that cannot be read stand on one page.
	shownBadRowsMax = 50
)

// payoutFormPage takes a list of payments and makes a draft of it. Nothing is held. Rule PAGE-101.
func (d *dashboard) payoutFormPage() pages.Page {
	return pages.Page{
		Path: "/payouts/new", Title: "New payout", Action: identity.ManageBatchPayouts, Load: d.loadPayoutForm,
		Acts: []pages.Act{{
			Name: uploadAct, Keyed: true, BodyBytesMax: uploadBytesMax,
			Fields: []pages.Field{
				{Name: listFileName, BytesMax: uploadBytesMax, Optional: true, IsFile: true},
				{Name: listTextName, BytesMax: uploadBytesMax, Optional: true, IsVerbatim: true},
				{Name: unitName, BytesMax: wordBytesMax, Missing: "Choose how amounts are written."},
				{Name: modeName, BytesMax: wordBytesMax, Missing: "Choose what happens to rows that cannot be paid."},
			},
			FindDone: func(*pages.Request) (string, error) { return "", nil }, // Create finds what the key made.
			Run:      d.uploadPayout,
		}},
	}
}

// readList reads the list of a form, which is a file or a text. What begins with a bracket is JSON. Errors: faults at
// the field.
func readList(r *pages.Request) (lines []rowfile.Line, field string, err error) {
	text := r.Values[listFileName]
	// A browser writes the line ends of a field with two characters.
	pasted := strings.ReplaceAll(r.Values[listTextName], "\r\n", "\n")
	field = listFileName
	switch {
	case text != "" && strings.TrimSpace(pasted) != "":
		return nil, field, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Choose a file or paste a list, and not both.").WithParam(field)
	case text == "" && strings.TrimSpace(pasted) == "":
		return nil, field, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Choose a file, or paste a list.").WithParam(field)
	case text == "":
		text, field = pasted, listTextName
	}
	read := rowfile.ReadCSV
	if start := strings.TrimLeft(strings.TrimPrefix(text, "\ufeff"), " \t\r\n"); strings.HasPrefix(start, "[") ||
		strings.HasPrefix(start, "{") {
		read = rowfile.ReadJSON
	}
	lines, err = read([]byte(text))
	var refusal *rowfile.FileError
	if errors.As(err, &refusal) {
		return nil, field, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s",
			ui.EscapeForeign(refusal.Error())).WithParam(field)
	}
	return lines, field, err
}

func (d *dashboard) uploadPayout(r *pages.Request) (string, error) {
	lines, field, err := readList(r)
	if err != nil {
		return "", err
	}
	b, err := d.conf.Payouts.Create(r.Context(), r.Session.OrgID, payout.CreateRequest{
		Lines: lines, UseDecimal: r.Values[unitName] == wholeUnit, Mode: contenthash.Mode(r.Values[modeName]),
		IdempotencyKey: new(r.Key()), Actor: actor(r),
	})
	f := fault.Find(err)
	switch {
	case err == nil:
		return payoutPath(r, b.ID), nil
	case fault.HasCode(err, fault.IdempotencyConflict):
		existingID, _ := f.Extra["existingId"].(string)
		return "", r.NewKeyConflict("the batch payout "+existingID, payoutPath(r, existingID))
	case f != nil && f.Param == "":
		if _, hasProblems := f.Details[payout.ProblemsDetail]; hasProblems { // The page lists them.
			return "", fault.New(f.Kind, f.Code, f.Effect, "No row of this list can be paid as it is written.").
				WithParam(field)
		}
	}
	return "", err
}

// badRow is a row of a list that cannot be read.
type badRow struct {
	Position, Line string
	Values         []ui.Fact // as they were given; empty if they could not be told apart
	Problems       []rowProblem
}

// rowProblem is what is wrong with a value of a row. Column is "" for the row as a whole.
type rowProblem struct{ Column, Sentence string }

func newBadRow(position int, line rowfile.Line, problems []rowfile.Problem) badRow {
	row := badRow{Position: strconv.Itoa(position), Line: strconv.Itoa(line.Line)}
	for i, value := range line.Values() {
		if value != "" {
			row.Values = append(row.Values, ui.Fact{Name: rowfile.Columns[i], Value: ui.Foreign(value)})
		}
	}
	for _, p := range problems {
		row.Problems = append(row.Problems, rowProblem{p.Column, ui.EscapeForeign(p.Message)})
	}
	return row
}

// coinRow is a coin that a list can pay.
type coinRow struct{ Number, Figure, Symbol, Network string }

// payoutFormView is what the form shows.
type payoutFormView struct {
	ListPath, Path, Key string
	Form                ui.Form
	Unit, Mode          optionInput
	Text                ui.AreaInput
	Coins               []coinRow
	Bad                 []badRow
	BadText             string // how many rows cannot be read; "" for none
	Example             string
	RowsMax             string
}

func (d *dashboard) loadPayoutForm(r *pages.Request) (templ.Component, error) {
	var mints mint.Catalogue
	var balances []report.ProductBalance
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		balances, err = report.LoadProductBalances(ctx, tx, r.Session.OrgID)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := payoutFormView{
		ListPath: r.Path("payouts"), Path: r.Path("payouts", "new"), Key: r.FormKey(uploadAct), Form: r.Form,
		RowsMax: ui.GroupDigits(strconv.Itoa(rowfile.RowsMax)),
		Unit: optionInput{
			Act: uploadAct, Name: unitName, Label: "How amounts are written",
			Hint: "A point separates decimals. Separators of thousands are errors.",
			Options: []option{
				{wholeUnit, "In whole coins, such as 125.5"}, {atomicUnit, "In atomic units, such as 125500000"},
			},
		},
		Mode: optionInput{
			Act: uploadAct, Name: modeName, Label: "If a row cannot be paid",
			Options: []option{
				{string(contenthash.Strict), "Pay nothing: every row is paid, or none"},
				{string(contenthash.Partial), "Leave it out, and pay the others"},
			},
		},
		Text: ui.AreaInput{Act: uploadAct, Name: listTextName, Label: "Or paste the list"},
	}
	exampleMint := "3"
	for i, m := range mints.List(mint.Filter{}) {
		if _, isRunning := d.conf.Chains[m.Chain]; !isRunning || !m.WithdrawEnabled {
			continue
		}
		row := coinRow{strconv.Itoa(m.ID), "0", m.Symbol, networkName(m.Chain)}
		k := slices.IndexFunc(balances, func(b report.ProductBalance) bool {
			return b.Product == ledger.BatchProduct && b.Mint.ID == m.ID
		})
		if k >= 0 {
			row.Figure = balances[k].Available.Decimal(m.Decimals)
		}
		if i == 0 {
			exampleMint = row.Number
		}
		view.Coins = append(view.Coins, row)
	}
	view.Example = "reference,mintId,toAddress,amount\ninvoice-1001," + exampleMint +
		",(the address),125.50\ninvoice-1002," + exampleMint + ",(the address),80"
	if err := d.addUnreadable(r, &view); err != nil {
		return nil, err
	}
	return payoutForm(view), nil
}

// addUnreadable lists what is wrong with the rows of a list that was refused.
func (d *dashboard) addUnreadable(r *pages.Request, view *payoutFormView) error {
	if r.Form.Act != uploadAct {
		return nil
	}
	lines, _, err := readList(r)
	if err != nil {
		return nil // The field says it.
	}
	problems, err := d.conf.Payouts.Check(r.Context(), lines, r.Values[unitName] == wholeUnit)
	if err != nil {
		return err
	}
	byRow := map[int][]rowfile.Problem{}
	for _, p := range problems {
		byRow[p.Row] = append(byRow[p.Row], p)
	}
	for _, line := range lines {
		if found := byRow[line.Number]; len(found) > 0 && len(view.Bad) < shownBadRowsMax {
			view.Bad = append(view.Bad, newBadRow(line.Number, line, found))
		}
	}
	if n := len(byRow); n > 0 {
		view.BadText = countRows(n) + " cannot be read"
		if n > len(view.Bad) {
			view.BadText += ". The first " + strconv.Itoa(len(view.Bad)) + " are shown"
		}
	}
	return nil
}
