package dashboard

import (
	"cmp"
	"context"
	"net/url"
	"slices"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// searchMax is how many transactions a search shows of each field that matches. A list has them all.
const searchMax = 10

// searchParameter is the text of a search.
var searchParameter = kernel.Parameter{Name: "q", Kind: kernel.TextParameter, Max: referenceBytesMax}

// searchPage finds transactions of all kinds by an exact id, hash, address, customer or reference.
func (d *dashboard) searchPage() pages.Page {
	return pages.Page{
		Path: "/transactions/search", Title: "Search", Action: identity.ReadOrganization,
		Query: []kernel.Parameter{searchParameter}, Load: d.loadSearch,
	}
}

// searchView is what a search shows.
type searchView struct {
	ListPath, SearchPath, Text string
	Rows                       []transactionRow
	Lists                      []listLink // lists that have more of what was found
}

// listLink leads to a list with a filter.
type listLink struct{ Text, Path string }

func (d *dashboard) loadSearch(r *pages.Request) (templ.Component, error) {
	text := r.Query[searchParameter.Name]
	path, err := d.findByID(r, text)
	if err != nil {
		return nil, err
	}
	if path != "" {
		return pages.RedirectTo(path), nil
	}
	view := searchView{ListPath: r.Path("transactions"), SearchPath: r.Path("transactions", "search"), Text: text}
	if text != "" {
		if err := d.search(r, text, &view); err != nil {
			return nil, err
		}
	}
	return searchResults(view), nil
}

// findByID returns the page of the transaction with this id, and "" if there is none.
func (d *dashboard) findByID(r *pages.Request, text string) (path string, err error) {
	switch {
	case id.IsValid("dep", text):
		err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
			_, err := deposit.Load(ctx, tx, r.Session.OrgID, text)
			return err
		})
		path = transactionPath(r, depositKind, text)
	case id.IsValid("wd", text):
		_, err = d.conf.Withdrawals.ByID(r.Context(), r.Session.OrgID, text)
		path = transactionPath(r, withdrawalKind, text)
	case id.IsValid("tr", text):
		_, err = d.conf.Transfers.ByID(r.Context(), r.Session.OrgID, text)
		path = transactionPath(r, transferKind, text)
	case id.IsValid("cs", text):
		_, err = d.conf.Swaps.ByID(r.Context(), r.Session.OrgID, text)
		path = swapPath(r, text)
	case id.IsValid("os", text):
		_, err = d.conf.Swaps.OrganizationByID(r.Context(), r.Session.OrgID, text)
		path = ownSwapPath(r, text)
	case id.IsValid("ds", text):
		_, err = d.conf.DepositSwaps.ByID(r.Context(), r.Session.OrgID, text)
		path = depositSwapPath(r, text)
	}
	if fault.HasCode(err, fault.CodeNotFound) {
		return "", nil
	}
	return path, err
}

// search looks for a text in each field that an index has. Rule PAGE-10.
func (d *dashboard) search(r *pages.Request, text string, view *searchView) error {
	customer, hash := transactionFilter{customerID: text}, transactionFilter{txHash: resource.CanonicalHash(text)}
	address, reference := transactionFilter{address: text}, transactionFilter{reference: text}
	for _, field := range []struct {
		name      string
		parameter kernel.Parameter
		filter    transactionFilter
		kinds     []transactionKind
	}{
		{"of this customer", resource.CustomerFilter, customer, transactionKinds},
		{"of this transaction", resource.TxHashFilter, hash, []transactionKind{depositKind, withdrawalKind}},
		{"of this address", resource.AddressFilter, address, []transactionKind{depositKind, withdrawalKind}},
		{"with this reference", referenceParameter, reference, []transactionKind{withdrawalKind, transferKind}},
	} {
		if len(text) > field.parameter.Max {
			continue
		}
		for _, kind := range field.kinds {
			field.filter.kind = kind
			rows, nextCursor, err := d.listTransactions(r, field.filter, pagination.Page{Limit: searchMax, Desc: true})
			if err != nil {
				return err
			}
			view.addRows(kind, rows)
			if nextCursor != nil {
				query := url.Values{kindParameter.Name: {string(kind)}, field.parameter.Name: {text}}
				view.Lists = append(view.Lists, listLink{
					Text: "All " + kind.folder() + " " + field.name, Path: view.ListPath + "?" + query.Encode(),
				})
			}
		}
	}
	slices.SortStableFunc(view.Rows, func(a, b transactionRow) int {
		return cmp.Or(b.createdAt.Compare(a.createdAt), cmp.Compare(b.ID, a.ID))
	})
	return nil
}

// addRows adds rows that no other field has found.
func (v *searchView) addRows(kind transactionKind, rows []transactionRow) {
	for _, row := range rows {
		if !slices.ContainsFunc(v.Rows, func(shown transactionRow) bool { return shown.ID == row.ID }) {
			row.Kind = kind.singular()
			v.Rows = append(v.Rows, row)
		}
	}
}

// singular names one transaction of the kind.
func (k transactionKind) singular() string {
	switch k {
	case withdrawalKind:
		return "Withdrawal"
	case transferKind:
		return "Transfer"
	}
	return "Deposit"
}
