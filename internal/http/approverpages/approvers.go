package approverpages

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/assertion"
)

// The names of the acts about passkeys of approvers.
const (
	makeSignerAct  = "make"
	enrolSignerAct = "enrol"
	admitSignerAct = "admit"
	retireActName  = "retire"
)

// listPage lists the passkeys with which people approve payments, and the rule. Rule PAGE-108.
func (p *Pages) listPage() pages.Page {
	return pages.Page{
		Path: ListPath, Title: "Approvers and rule", Action: p.conf.Reads,
		Group: p.conf.Group, Icon: "shield", Live: []string{"APPROVER_KEY", "APPROVAL_RULE"}, Load: p.loadApprovers,
	}
}

// newPage makes a passkey and has it sign its own enrolment.
func (p *Pages) newPage() pages.Page {
	return pages.Page{
		Path: NewPath, Title: "A passkey for approvals", Action: p.conf.Makes,
		Load: p.loadNewApprover,
		Acts: []pages.Act{
			{
				Name: makeSignerAct, Action: p.conf.Signs, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{
					rightField,
					{Name: ui.CredentialIDName, BytesMax: base64BytesMax, Optional: true, Scripted: true},
					{Name: ui.PublicKeyName, BytesMax: publicKeyBytesMax, Optional: true, Scripted: true},
				},
				Run: p.showEnrolment,
			},
			{
				Name: enrolSignerAct, Action: p.conf.Signs, StepUp: pages.SudoStepUp,
				Fields: SignatureFields(rightField, pages.Field{
					Name: ui.PublicKeyName, BytesMax: publicKeyBytesMax, Optional: true, Scripted: true,
				}),
				Run: p.enrolApprover,
			},
		},
	}
}

var rightField = pages.Field{Name: "right", BytesMax: wordBytesMax, Missing: "Choose what the passkey is for."}

// keyPage shows one passkey with what people can sign about it. Rule PAGE-109.
func (p *Pages) keyPage() pages.Page {
	return pages.Page{
		Path: KeyPath, Title: "Passkey of an approver", Action: p.conf.Reads,
		Live: []string{"APPROVER_KEY"}, Load: p.loadApprover,
		Acts: []pages.Act{
			{
				Name: admitSignerAct, Action: p.conf.Signs, Fields: SignatureFields(),
				FindDone: p.findAdmitted, Run: p.admitApprover,
			},
			{
				Name: retireActName, Action: p.conf.Signs, Fields: SignatureFields(),
				FindDone: p.findRetired, Run: p.retireApprover,
			},
		},
	}
}

// keyState is what the signer recorded of an organization, as the pages show it.
type keyState struct {
	keys    []approver.Key
	rule    *signer.ApprovalRule
	pending *approver.Proposal
}

// hasRule reports whether the signer recorded a rule. From then on colleagues admit passkeys.
func (s keyState) hasRule() bool {
	return s.rule != nil || s.pending != nil && s.pending.UsableFrom != nil
}

func (p *Pages) loadState(r *pages.Request) (s keyState, err error) {
	if p.conf.Approvers == nil {
		return s, nil
	}
	err = p.conf.Read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if s.keys, err = p.conf.Approvers.ListKeys(ctx, tx, p.conf.OrgID(r)); err != nil {
			return err
		}
		if s.rule, err = p.conf.Approvers.LoadRule(ctx, tx, p.conf.OrgID(r)); err != nil {
			return err
		}
		s.pending, err = p.conf.Approvers.LoadPendingRule(ctx, tx, p.conf.OrgID(r))
		return err
	})
	return s, err
}

// approverRow is a passkey in the list.
type approverRow struct {
	Path, Name, Email, Right, Fingerprint, Command string
	Chip                                           ui.Chip
	Added                                          ui.Moment
	UsableFrom                                     *ui.Moment
	IsWaiting                                      bool
}

// approversView is what the list shows.
type approversView struct {
	Words       Words
	IsOff       bool
	Rows        []approverRow
	Ended       []approverRow
	Rule        []string
	Pending     string
	PendingFrom *ui.Moment
	CoolingOff  []approverRow
	Alone       []string // people with one passkey for a right
	CanEnrol    bool
	EnrolPath   string
	RulePath    string
}

func approverChip(status approver.Status) ui.Chip {
	switch status {
	case approver.StatusWaiting:
		return ui.Chip{Kind: ui.Wait, Word: "Waits to be admitted"}
	case approver.StatusCoolingOff:
		return ui.Chip{Kind: ui.Wait, Word: "Cools off"}
	case approver.StatusUsable:
		return ui.Chip{Kind: ui.Good, Word: "Counts"}
	case approver.StatusRefused:
		return ui.Chip{Kind: ui.Bad, Word: "Refused"}
	case approver.StatusRetired:
		return ui.Chip{Kind: ui.Quiet, Word: "Retired"}
	}
	return ui.Chip{Kind: ui.Quiet, Word: "Unknown"}
}

func (p *Pages) newApproverRow(r *pages.Request, nameOf func(person string) string, k approver.Key) approverRow {
	row := approverRow{
		Path: r.Path("approvers", k.ID), Name: nameOf(k.Person), Email: k.Email, Right: p.conf.Words.RightText(k.Right),
		Chip: approverChip(k.Status(r.Now)), Added: r.Moment(k.CreatedAt),
		IsWaiting:   k.Status(r.Now) == approver.StatusWaiting,
		Fingerprint: k.Request().Fingerprint(p.conf.Approvers.Installation()),
	}
	row.Command = fmt.Sprintf("coffer signer approvers found %s %s %s %s", k.OrgID, k.Email, k.Right, row.Fingerprint)
	if k.UsableFrom != nil {
		row.UsableFrom = new(r.Moment(*k.UsableFrom))
	}
	return row
}

func (p *Pages) loadApprovers(r *pages.Request) (templ.Component, error) {
	view := approversView{
		Words: p.conf.Words, IsOff: p.conf.Approvers == nil, CanEnrol: r.IsAllowed(p.conf.Signs),
		EnrolPath: p.enrolPath(r), RulePath: r.Path("approvers", "rule"),
	}
	state, err := p.loadState(r)
	if err != nil {
		return nil, err
	}
	nameOf, err := p.conf.LoadNames(r)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, k := range state.keys {
		row := p.newApproverRow(r, nameOf, k)
		switch k.Status(r.Now) {
		case approver.StatusRetired, approver.StatusRefused:
			view.Ended = append(view.Ended, row)
			continue
		case approver.StatusCoolingOff:
			view.CoolingOff = append(view.CoolingOff, row)
		}
		view.Rows = append(view.Rows, row)
		counts[row.Email+" for “"+row.Right+"”"]++
	}
	for _, row := range view.Rows {
		if holder := row.Email + " for “" + row.Right + "”"; counts[holder] < keysEnough {
			view.Alone = append(view.Alone, holder)
		}
	}
	mints, err := p.loadMints(r)
	if err != nil {
		return nil, err
	}
	view.Rule = p.ruleTexts(state.rule, mints)
	if proposal := state.pending; proposal != nil {
		view.Pending = fmt.Sprintf("Version %d is proposed, and %s signed it.", proposal.Rule.Version,
			ui.FormatCount(len(proposal.SignedBy), "passkey"))
		if proposal.UsableFrom != nil {
			view.Pending = "Version " + strconv.Itoa(proposal.Rule.Version) + " is signed and cools off."
			view.PendingFrom = new(r.Moment(*proposal.UsableFrom))
		}
		view.Pending += " " + strings.Join(p.ruleTexts(&proposal.Rule, mints), " ")
	}
	return approversOverview(view), nil
}

// newApproverView is what the page shows on which a passkey is made.
type newApproverView struct {
	ListPath string
	WhyNone  string // why no passkey is made here; "" where one is
	Form     ui.Form
	Kinds    []ui.MakeSignerView
}

func (p *Pages) loadNewApprover(r *pages.Request) (templ.Component, error) {
	state, err := p.loadState(r)
	if err != nil {
		return nil, err
	}
	view := newApproverView{ListPath: r.Path("approvers"), Form: r.Form}
	switch {
	case p.conf.Approvers == nil, !p.conf.Approvers.TakesKeysOf(p.conf.RelyingParty, p.conf.Origin):
		view.WhyNone = p.conf.Words.WhyNone
	case !r.IsAllowed(p.conf.Signs):
		view.WhyNone = "Your role shows this page and makes no passkey."
	}
	for _, right := range []signer.Right{signer.RightApprove, signer.RightEnrol} {
		kind := ui.MakeSignerView{
			Path: r.Path("approvers", "new", makeSignerAct), RPID: p.conf.RelyingParty,
			RPName: "Coffer", Person: p.conf.Person(r).Name, Display: p.conf.Words.RightText(right),
			Hidden: []ui.Hidden{{Name: "right", Value: string(right)}},
			Button: "Make a passkey: " + p.conf.Words.RightText(right),
		}
		for _, k := range state.keys {
			if k.Person == p.personName(r) && k.Right == right && k.RetiredAt == nil && k.Refusal == "" {
				kind.Keys = append(kind.Keys, signerKey(k))
			}
		}
		view.Kinds = append(view.Kinds, kind)
	}
	return newApproverForm(view), nil
}

// readEnrolment returns the enrolment of a form, with an id.
func (p *Pages) readEnrolment(r *pages.Request, keyID string) (e signer.EnrolRequest, err error) {
	if p.conf.Approvers == nil {
		return e, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"This installation has no passkeys of approvers.")
	}
	email, err := approver.NormalizeEmail(p.conf.Person(r).Email)
	if err != nil {
		return e, err
	}
	e = signer.EnrolRequest{Email: email, Enrolment: signer.Enrolment{
		OrgID: p.conf.OrgID(r), ID: keyID, Person: p.personName(r), Right: signer.Right(r.Values["right"]),
		RPID: p.conf.RelyingParty, Origin: p.conf.Origin,
	}}
	if p.conf.Words.RightText(e.Right) == "" {
		return e, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Choose what the passkey is for.").WithParam("right")
	}
	e.CredentialID, err = base64.RawURLEncoding.DecodeString(r.Values[ui.CredentialIDName])
	if err == nil {
		e.PublicKey, err = base64.RawURLEncoding.DecodeString(r.Values[ui.PublicKeyName])
	}
	if err == nil {
		_, err = assertion.ParsePublicKey(e.PublicKey)
	}
	if err != nil || len(e.CredentialID) == 0 || len(e.CredentialID) > assertion.CredentialIDBytesMax {
		return e, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The form came without a passkey, which needs scripts, or with a kind of key that approvals do not take.")
	}
	return e, nil
}

// showEnrolment shows the words that a new passkey signs to prove that its person has it.
func (p *Pages) showEnrolment(r *pages.Request) (string, error) {
	e, err := p.readEnrolment(r, approver.NewKeyID(r.Now))
	if err != nil {
		return "", err
	}
	statement := signer.EnrolStatement(e, p.conf.Approvers.Context(e.Person, NewNotAfter(r, EnrolmentLasts)))
	r.ShowOnce(enrolmentToSign(r.Path("approvers", "new"), ui.SignView{
		Act: enrolSignerAct, Path: r.Path("approvers", "new", enrolSignerAct), Words: StatementWords(statement),
		RPID: e.RPID, Button: "Sign and enrol this passkey",
		Hidden: []ui.Hidden{
			{Name: "right", Value: string(e.Right)}, {Name: ui.PublicKeyName, Value: r.Values[ui.PublicKeyName]},
		},
		Keys: []ui.SignerKey{{ID: e.ID, CredentialID: r.Values[ui.CredentialIDName]}},
	}))
	return "", nil
}

func (p *Pages) enrolApprover(r *pages.Request) (string, error) {
	signature, err := ReadSignature(r)
	if err != nil {
		return "", err
	}
	e, err := p.readEnrolment(r, signature.KeyID)
	if err != nil {
		return "", err
	}
	e.Possession = signature
	err = p.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := p.conf.Approvers.Enrol(ctx, tx, p.actor(r), e)
		return err
	})
	if err != nil {
		return "", err
	}
	p.finishKey(r, e.ID)
	return r.Path("approvers", e.ID), nil
}

// finishKey asks the signer at once. What fails here is repeated by the loop of package approver.
func (p *Pages) finishKey(r *pages.Request, keyID string) {
	if err := p.conf.Approvers.FinishKey(r.Context(), keyID); err != nil {
		p.log().Warn("the signer has not answered about a passkey; it is asked again",
			"passkey", keyID, "error", err)
	}
}

// findKey returns the passkey of the path. Fault: NOT_FOUND.
func (p *Pages) findKey(r *pages.Request) (found approver.Key, state keyState, err error) {
	if state, err = p.loadState(r); err != nil {
		return found, state, err
	}
	for _, k := range state.keys {
		if k.ID == r.PathParam("approverKeyId") {
			return k, state, nil
		}
	}
	return found, state, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"%s", p.conf.Words.NoSuchKey)
}

// approverView is what the page of a passkey shows.
type approverView struct {
	ListPath      string
	Founding      string // who admits a passkey that waits
	Row           approverRow
	Facts         []ui.Fact
	Form          ui.Form
	Admit, Retire *ui.SignView
	WhyNotAdmit   string
	WhyNotRetire  string
	Elsewhere     *ElsewhereView // where people admit and retire it; nil: here
}

func (p *Pages) loadApprover(r *pages.Request) (templ.Component, error) {
	k, state, err := p.findKey(r)
	if err != nil {
		return nil, err
	}
	nameOf, err := p.conf.LoadNames(r)
	if err != nil {
		return nil, err
	}
	view := approverView{
		ListPath: r.Path("approvers"), Row: p.newApproverRow(r, nameOf, k), Form: r.Form, Facts: p.aboutApprover(r, k),
		Founding: p.conf.Words.Founding,
	}
	if !r.IsAllowed(p.conf.Signs) {
		return approverDetail(view), nil
	}
	status := k.Status(r.Now)
	if view.Elsewhere = p.newElsewhere(r); view.Elsewhere != nil {
		if status == approver.StatusRetired || status == approver.StatusRefused {
			view.Elsewhere = nil
		}
		return approverDetail(view), nil
	}
	usable := p.ownKeys(r, state.keys, signer.RightEnrol)
	words := p.conf.Approvers.Context(p.personName(r), NewNotAfter(r, SignatureLasts))
	newView := func(act, button string, s signer.Statement, signers []ui.SignerKey) *ui.SignView {
		return &ui.SignView{
			Form: r.Form, Act: act, Path: r.Path("approvers", k.ID, act), Words: StatementWords(s),
			RPID: p.conf.RelyingParty, Keys: signers, Button: button, IsDanger: act == retireActName,
		}
	}
	if status == approver.StatusWaiting {
		switch {
		case !state.hasRule():
			view.WhyNotAdmit = p.conf.Words.FirstRule
		case k.Person == p.personName(r):
			view.WhyNotAdmit = "A colleague admits your passkey, or a person at the signer's host founds it."
		case len(usable) == 0:
			view.WhyNotAdmit = "Who admits a passkey needs an own one for “" + p.conf.Words.Enrol +
				"” that counts already."
		default:
			view.Admit = newView(admitSignerAct, "Sign and admit this passkey",
				signer.EnrolStatement(k.Request(), words), usable)
		}
	}
	if status == approver.StatusRetired || status == approver.StatusRefused {
		return approverDetail(view), nil
	}
	if k.Person == p.personName(r) || status == approver.StatusCoolingOff {
		usable = p.ownKeys(r, state.keys, "")
	}
	if len(usable) == 0 {
		view.WhyNotRetire = "Who retires a passkey needs an own one that counts already. " +
			"Ask a colleague who has one."
		return approverDetail(view), nil
	}
	view.Retire = newView(retireActName, "Sign and retire this passkey permanently",
		signer.RetireStatement(signer.Retirement{OrgID: k.OrgID, ID: k.ID}, words), usable)
	return approverDetail(view), nil
}

func (p *Pages) aboutApprover(r *pages.Request, k approver.Key) []ui.Fact {
	facts := []ui.Fact{
		{Name: "E-mail", Value: ui.Foreign(k.Email)},
		{Name: "May sign", Value: ui.Text(p.conf.Words.RightText(k.Right))},
		{Name: "Enrolled", Value: ui.When(r.Moment(k.CreatedAt))},
		{Name: "At", Value: ui.Code(k.Origin)},
		{Name: "Id", Value: ui.Code(k.ID)},
	}
	if k.UsableFrom != nil {
		admitter := "Colleagues"
		if k.IsFounded {
			admitter = "A person at the signer's host"
		}
		facts = append(facts, ui.Fact{Name: "Admitted by", Value: ui.Text(admitter)},
			ui.Fact{Name: "Counts from", Value: ui.When(r.Moment(*k.UsableFrom))})
	}
	if k.Status(r.Now) == approver.StatusWaiting && k.WaitsFor != "" {
		facts = append(facts, ui.Fact{Name: "The signer waits for", Value: ui.Foreign(k.WaitsFor)})
	}
	if k.Status(r.Now) == approver.StatusWaiting {
		facts = append(facts, ui.Fact{Name: "To be admitted until", Value: ui.When(r.Moment(k.PossessionUntil))})
	}
	if k.Refusal != "" {
		facts = append(facts, ui.Fact{Name: "Refused because", Value: ui.Foreign(k.Refusal)})
	}
	if k.RetiredAt != nil {
		facts = append(facts, ui.Fact{Name: "Retired", Value: ui.When(r.Moment(*k.RetiredAt))})
	}
	return facts
}

// findAdmitted returns the page of a passkey that waits for no one any more.
func (p *Pages) findAdmitted(r *pages.Request) (string, error) {
	k, _, err := p.findKey(r)
	if err != nil || k.Status(r.Now) == approver.StatusWaiting {
		return "", err
	}
	return r.Path("approvers", k.ID), nil
}

// findRetired returns the page of a passkey that has ended.
func (p *Pages) findRetired(r *pages.Request) (string, error) {
	k, _, err := p.findKey(r)
	if err != nil || k.RetiredAt == nil {
		return "", err
	}
	return r.Path("approvers", k.ID), nil
}

func (p *Pages) admitApprover(r *pages.Request) (string, error) {
	return p.signAboutKey(r, func(ctx context.Context, tx pg.Tx, keyID string, signature signer.KeySignature) error {
		return p.conf.Approvers.Admit(ctx, tx, p.actor(r), p.conf.OrgID(r), keyID, signature)
	})
}

func (p *Pages) retireApprover(r *pages.Request) (string, error) {
	return p.signAboutKey(r, func(ctx context.Context, tx pg.Tx, keyID string, signature signer.KeySignature) error {
		return p.conf.Approvers.Retire(ctx, tx, p.actor(r), p.conf.OrgID(r), keyID, &signature)
	})
}

func (p *Pages) signAboutKey(
	r *pages.Request, act func(context.Context, pg.Tx, string, signer.KeySignature) error,
) (string, error) {
	k, _, err := p.findKey(r)
	if err != nil {
		return "", err
	}
	signature, err := ReadSignature(r)
	if err != nil {
		return "", err
	}
	err = p.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) error {
		return act(ctx, tx, k.ID, signature)
	})
	if err != nil {
		return "", err
	}
	p.finishKey(r, k.ID)
	return r.Path("approvers", k.ID), nil
}
