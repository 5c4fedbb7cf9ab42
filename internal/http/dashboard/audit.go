package dashboard

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// The longest filters of the audit log. A resource may be a customer, whose id has at most 128 bytes.
const (
	actionBytesMax   = 60
	resourceBytesMax = 128
)

// detailRunesMax bounds one detail of an entry on the page. The table has all of it.
const detailRunesMax = 300

// auditPage shows which actor did what to which resource, and how far that is sealed.
func (d *dashboard) auditPage() pages.Page {
	return pages.Page{
		Path: "/audit", Title: "Audit log", Action: identity.ReadAuditLog, OwnActs: true,
		Live: []string{
			"WITHDRAWAL", "DEPOSIT", "SWAP", "TRANSFER", "CUSTOMER", "FREEZE", "WHITELISTED_ADDRESS",
			"WEBHOOK_ENDPOINT", "API_KEY", "ORGANIZATION", "USER", "INVITATION", "ADDRESS", "WALLET", "SENDER", "MINT",
			"PRODUCT", checkoutKind, "CHECKOUT_SETTINGS", linkKind, refundKind, "APPROVER_KEY", "APPROVAL_RULE",
		},
		Group: "", Icon: "history", Shortcut: "l",
		Query: []kernel.Parameter{
			{Name: "action", Kind: kernel.TextParameter, Max: actionBytesMax},
			{Name: "resource", Kind: kernel.TextParameter, Max: resourceBytesMax},
			pages.CursorParameter,
		},
		Load: d.loadAudit, WriteCSV: d.writeAudit,
	}
}

// auditRow is an entry of the log.
type auditRow struct {
	Act, Action        string // in words, and as the log has it
	Author             string
	Resource, Path     string
	ResourceKind       string
	Details            []auditDetail
	Recorded           ui.Moment
	IsSealed           bool
	ActionPath, OfPath string // the list of the same action, and of the same resource
}

// auditDetail is a member of the detail of an entry.
type auditDetail struct{ Name, Value string }

// auditView is what the page shows.
type auditView struct {
	Path, CSVPath       string
	Action, Resource    string
	IsFiltered, IsOwn   bool
	Rows                []auditRow
	FirstPath, NextPath string
	Seal                sealView
}

// sealView says how far the log of the organization is sealed.
type sealView struct {
	HasSeal, IsSigned bool
	Newest            ui.Moment
	Hash              string
}

// auditFilter returns the entries that the request asks for and that the person may read. A person whose
// roles read the own acts alone gets those. Rule PAGE-12.
func auditFilter(r *pages.Request, action identity.Action) audit.Filter {
	f := audit.Filter{
		OrgID: r.Session.OrgID, Action: r.Query["action"], ResourceID: r.Query["resource"],
	}
	if !r.IsAllowed(identity.ReadAuditLog) || !r.IsAllowed(action) {
		f.MemberID = r.Session.Member.ID
	}
	return f
}

func (d *dashboard) loadAudit(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	f := auditFilter(r, identity.ReadAuditLog)
	var found pagination.Result[audit.Row]
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = audit.List(ctx, tx, f, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	entries := make([]int64, 0, len(found.Items))
	for _, item := range found.Items {
		entries = append(entries, item.ID)
	}
	seals, err := audit.LoadOrgSeals(r.Context(), d.conf.DB, r.Session.OrgID, entries)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	view := auditView{
		Path: r.Path("audit"), CSVPath: r.CSVPath(), Action: f.Action, Resource: f.ResourceID,
		IsFiltered: f.Action != "" || f.ResourceID != "", IsOwn: f.MemberID != "",
		Seal: sealView{
			HasSeal: seals.Hash != "", IsSigned: seals.IsSigned, Newest: r.Moment(seals.SealedThrough),
			Hash: seals.Hash,
		},
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	for _, item := range found.Items {
		row := newAuditRow(r, item, names)
		row.IsSealed = seals.Sealed[item.ID]
		view.Rows = append(view.Rows, row)
	}
	return auditLog(view), nil
}

func newAuditRow(r *pages.Request, item audit.Row, names people) auditRow {
	return auditRow{
		Act: describeAction(item.Action), Action: item.Action, Author: names.nameOf(item.Actor, r.Session),
		Resource: item.ResourceID, ResourceKind: describeAction(strings.ToLower(item.ResourceKind)),
		Path: pathOfResource(r, item), Details: listDetails(shownDetail(item)), Recorded: r.Moment(item.RecordedAt),
		ActionPath: r.FilterPath("action", item.Action), OfPath: r.FilterPath("resource", item.ResourceID),
	}
}

// describeAction writes the name of an action or a kind for people: withdrawal.approved becomes
// "Withdrawal approved".
func describeAction(action string) string {
	text := strings.NewReplacer(".", " ", "_", " ").Replace(action)
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// pathOfResource returns the page of the resource of an entry, and "" for one without a page.
func pathOfResource(r *pages.Request, item audit.Row) string {
	switch strings.ToUpper(item.ResourceKind) {
	case "WITHDRAWAL":
		return r.Path("approvals", "withdrawals", item.ResourceID)
	case "CUSTOMER":
		return r.Path("customers", item.ResourceID)
	case "SWAP":
		return swapPath(r, item.ResourceID)
	case "PRODUCT":
		return productPath(r, item.ResourceID)
	case linkKind:
		return linkPath(r, item.ResourceID)
	case checkoutKind:
		return checkoutPath(r, item.ResourceID)
	case refundKind:
		return refundPath(r, item.ResourceID)
	case "CHECKOUT_SETTINGS":
		return r.Path("checkouts", "settings")
	case "APPROVER_KEY":
		return r.Path("approvers", item.ResourceID)
	case "APPROVAL_RULE":
		return r.Path("approvers", "rule")
	}
	return ""
}

// sealTitle says what protects the sealed entries.
func sealTitle(isSigned bool) string {
	if isSigned {
		return "Sealed, and signed by the signer"
	}
	return "Sealed; the signer has not signed it yet"
}

// shownDetail returns the detail of an entry for the organization. The reason of a freeze that is not the
// organization's own is a sentence for the operator, and no caller of the interface sees it.
func shownDetail(item audit.Row) json.RawMessage {
	if item.ResourceKind == "FREEZE" && (item.Actor.Kind == "OPERATOR" || item.Actor.Kind == "SYSTEM") {
		return json.RawMessage("{}")
	}
	return item.Detail
}

// listDetails lists the members of the detail of an entry by name. A value is text or JSON.
func listDetails(detail json.RawMessage) (details []auditDetail) {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(detail, &members) != nil {
		return []auditDetail{{Name: "detail", Value: clipDetail(string(detail))}}
	}
	for _, name := range kernel.SortedKeys(members) {
		value := string(members[name])
		var text string
		if json.Unmarshal(members[name], &text) == nil {
			value = text
		}
		if value != "" && string(members[name]) != "null" {
			details = append(details, auditDetail{Name: name, Value: clipDetail(value)})
		}
	}
	return details
}

// clipDetail shortens a value, and says so.
func clipDetail(value string) string {
	if utf8.RuneCountInString(value) <= detailRunesMax {
		return value
	}
	return string([]rune(value)[:detailRunesMax]) + "..."
}

var auditColumns = []kernel.Column[audit.Row]{
	{Name: "recordedAt", Cell: func(a audit.Row) string { return webhook.At(a.RecordedAt).String() }},
	{Name: "actorKind", Cell: func(a audit.Row) string { return a.Actor.Kind }},
	{Name: "actorId", Cell: func(a audit.Row) string { return a.Actor.ID }},
	{Name: "action", Cell: func(a audit.Row) string { return a.Action }},
	{Name: "resourceKind", Cell: func(a audit.Row) string { return a.ResourceKind }},
	{Name: "resourceId", Cell: func(a audit.Row) string { return a.ResourceID }},
	{Name: "detail", Cell: func(a audit.Row) string { return string(shownDetail(a)) }},
}

func (d *dashboard) writeAudit(r *pages.Request, w *kernel.StreamWriter) error {
	f := auditFilter(r, identity.ExportRecords)
	return kernel.WriteTable(r.Context(), w, true, auditColumns,
		func(ctx context.Context, desc bool, row func(audit.Row) error) error {
			return d.conf.DB.SnapshotOrg(ctx, r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
				return audit.ForEach(ctx, tx, f, desc, row)
			})
		})
}
