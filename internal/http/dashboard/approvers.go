package dashboard

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
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

const (
	// signatureLasts is how far ahead the end of a signature is that a page asks for.
	signatureLasts = time.Hour
	// enrolmentLasts is that of an enrolment, which other people have to admit meanwhile.
	enrolmentLasts = approver.SignatureMax - 5*time.Minute
	// signAgainText says to a person that an earlier signature counts no more.
	signAgainText = "Your signature has ended, or ends in a few minutes, and too few people have signed. It counts " +
		"no more: sign again."
	// swapSignatureLasts is that of a swap, whose output arrives and is paid later.
	swapSignatureLasts = approver.SignatureMax - 5*time.Minute
	// base64BytesMax bounds a field of a signature, and publicKeyBytesMax a public key.
	base64BytesMax    = 4096
	publicKeyBytesMax = 2048
	// keysEnough is how many passkeys for a right a person needs: with one, a lost device takes the right away.
	keysEnough = 2
)

// signatureFields are the fields of a signature, which the script fills in.
func signatureFields(first ...pages.Field) []pages.Field {
	for _, name := range ui.SignatureNames {
		first = append(first, pages.Field{Name: name, BytesMax: base64BytesMax, Optional: true, Scripted: true})
	}
	return first
}

// readSignature returns the signature of a form. Fault: INVALID_REQUEST for one that is missing or malformed.
func readSignature(r *pages.Request) (s signer.KeySignature, err error) {
	s.KeyID, s.NotAfter = r.Values[ui.KeyIDName], r.Values[ui.NotAfterName]
	for name, part := range map[string]*[]byte{
		ui.CredentialIDName: &s.Assertion.CredentialID, ui.AuthenticatorDataName: &s.Assertion.AuthenticatorData,
		ui.ClientDataJSONName: &s.Assertion.ClientDataJSON, ui.SignatureName: &s.Assertion.Signature,
	} {
		if *part, err = base64.RawURLEncoding.DecodeString(r.Values[name]); err != nil || len(*part) == 0 {
			return s, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"The form came without the signature of a passkey, which needs scripts.").
				WithAdvice("Allow scripts for this page, and sign what it shows.")
		}
	}
	return s, nil
}

// approversPage lists the passkeys with which people approve payments, and the rule. Rule PAGE-108.
func (d *dashboard) approversPage() pages.Page {
	return pages.Page{
		Path: "/approvers", Title: "Approvers and rule", Action: identity.ReadOrganization,
		Group: "Organization", Icon: "shield", Live: []string{"APPROVER_KEY", "APPROVAL_RULE"}, Load: d.loadApprovers,
	}
}

// newApproverPage makes a passkey and has it sign its own enrolment.
func (d *dashboard) newApproverPage() pages.Page {
	return pages.Page{
		Path: "/approvers/new", Title: "A passkey for approvals", Action: identity.DecideWithdrawal,
		Load: d.loadNewApprover,
		Acts: []pages.Act{
			{
				Name: makeSignerAct, Action: identity.DecideWithdrawal, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{
					rightField,
					{Name: ui.CredentialIDName, BytesMax: base64BytesMax, Optional: true, Scripted: true},
					{Name: ui.PublicKeyName, BytesMax: publicKeyBytesMax, Optional: true, Scripted: true},
				},
				Run: d.showEnrolment,
			},
			{
				Name: enrolSignerAct, Action: identity.DecideWithdrawal, StepUp: pages.SudoStepUp,
				Fields: signatureFields(rightField, pages.Field{
					Name: ui.PublicKeyName, BytesMax: publicKeyBytesMax, Optional: true, Scripted: true,
				}),
				Run: d.enrolApprover,
			},
		},
	}
}

var rightField = pages.Field{Name: "right", BytesMax: wordBytesMax, Missing: "Choose what the passkey is for."}

// approverPage shows one passkey with what people can sign about it. Rule PAGE-109.
func (d *dashboard) approverPage() pages.Page {
	return pages.Page{
		Path: "/approvers/{approverKeyId}", Title: "Passkey of an approver", Action: identity.ReadOrganization,
		Live: []string{"APPROVER_KEY"}, Load: d.loadApprover,
		Acts: []pages.Act{
			{
				Name: admitSignerAct, Action: identity.DecideWithdrawal, Fields: signatureFields(),
				FindDone: d.findAdmitted, Run: d.admitApprover,
			},
			{
				Name: retireActName, Action: identity.DecideWithdrawal, Fields: signatureFields(),
				FindDone: d.findRetired, Run: d.retireApprover,
			},
		},
	}
}

// approverState is what the signer recorded of an organization, as the pages show it.
type approverState struct {
	keys    []approver.Key
	rule    *signer.ApprovalRule
	pending *approver.Proposal
}

// hasRule reports whether the signer recorded a rule. From then on colleagues admit passkeys.
func (s approverState) hasRule() bool {
	return s.rule != nil || s.pending != nil && s.pending.UsableFrom != nil
}

func (d *dashboard) loadApproverState(r *pages.Request) (s approverState, err error) {
	if d.conf.Approvers == nil {
		return s, nil
	}
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if s.keys, err = d.conf.Approvers.ListKeys(ctx, tx, r.Session.OrgID); err != nil {
			return err
		}
		if s.rule, err = d.conf.Approvers.LoadRule(ctx, tx, r.Session.OrgID); err != nil {
			return err
		}
		s.pending, err = d.conf.Approvers.LoadPendingRule(ctx, tx, r.Session.OrgID)
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

// rightTexts say what a passkey is for, in the words that the system's own prompt shows.
var rightTexts = map[signer.Right]string{
	signer.RightApprove: "Approve payments", signer.RightEnrol: "Change who approves",
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

// personOfKey writes the person of a passkey.
func (p people) personOfKey(k approver.Key, r *pages.Request) string {
	return p.nameOf(audit.User(strings.TrimPrefix(k.Person, audit.User("").Kind+" ")), r.Session)
}

func (d *dashboard) newApproverRow(r *pages.Request, names people, k approver.Key) approverRow {
	row := approverRow{
		Path: r.Path("approvers", k.ID), Name: names.personOfKey(k, r), Email: k.Email, Right: rightTexts[k.Right],
		Chip: approverChip(k.Status(r.Now)), Added: r.Moment(k.CreatedAt),
		IsWaiting:   k.Status(r.Now) == approver.StatusWaiting,
		Fingerprint: k.Request().Fingerprint(d.conf.Approvers.Installation()),
	}
	row.Command = fmt.Sprintf("coffer signer approvers found %s %s %s %s", k.OrgID, k.Email, k.Right, row.Fingerprint)
	if k.UsableFrom != nil {
		row.UsableFrom = new(r.Moment(*k.UsableFrom))
	}
	return row
}

func (d *dashboard) loadApprovers(r *pages.Request) (templ.Component, error) {
	view := approversView{
		IsOff: d.conf.Approvers == nil, CanEnrol: r.IsAllowed(identity.DecideWithdrawal),
		EnrolPath: d.enrolPath(r), RulePath: r.Path("approvers", "rule"),
	}
	state, err := d.loadApproverState(r)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, k := range state.keys {
		row := d.newApproverRow(r, names, k)
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
	mints, err := d.loadMints(r)
	if err != nil {
		return nil, err
	}
	view.Rule = ruleTexts(state.rule, mints)
	if p := state.pending; p != nil {
		view.Pending = fmt.Sprintf("Version %d is proposed, and %s signed it.", p.Rule.Version,
			ui.FormatCount(len(p.SignedBy), "passkey"))
		if p.UsableFrom != nil {
			view.Pending = "Version " + strconv.Itoa(p.Rule.Version) + " is signed and cools off."
			view.PendingFrom = new(r.Moment(*p.UsableFrom))
		}
		view.Pending += " " + strings.Join(ruleTexts(&p.Rule, mints), " ")
	}
	return approversOverview(view), nil
}

// statementWords writes a statement for a page.
func statementWords(s signer.Statement) (words []ui.StatementWord) {
	for _, w := range s {
		words = append(words, ui.StatementWord{Name: w.Name, Text: w.Text})
	}
	return words
}

// newNotAfter returns the end of a signature that a page asks for now.
func newNotAfter(r *pages.Request, lasts time.Duration) string {
	return signer.FormatMicros(r.Now.Add(lasts))
}

// personName returns the person of a request as statements name people.
func personName(r *pages.Request) string { return approver.PersonName(actor(r)) }

// ownKeys are the person's own passkeys of this address that count now, of one right or of each.
func (d *dashboard) ownKeys(r *pages.Request, keys []approver.Key, right signer.Right) (usable []ui.SignerKey) {
	for _, k := range keys {
		if k.Person == personName(r) && (right == "" || k.Right == right) && k.Origin == d.conf.Origin.String() &&
			k.Status(r.Now) == approver.StatusUsable {
			usable = append(usable, signerKey(k))
		}
	}
	return usable
}

// signerView is the part of a page on which a person approves with a passkey.
type signerView struct {
	ui.SignView
	PeopleText        string
	WhyNot, EnrolPath string         // why the person has no passkey that counts, and where to make one
	Elsewhere         *elsewhereView // where people sign; nil: here
}

// newSignerView completes a form of an approval with the passkeys of the person, or says why there is none.
func (d *dashboard) newSignerView(r *pages.Request, people int, form ui.SignView) (*signerView, error) {
	state, err := d.loadApproverState(r)
	if err != nil {
		return nil, err
	}
	view := &signerView{
		SignView: form, EnrolPath: d.enrolPath(r), PeopleText: countSigners(people),
	}
	if view.Elsewhere = d.newElsewhere(r); view.Elsewhere != nil {
		return view, nil
	}
	view.RPID = d.conf.relyingParty()
	if view.Keys = d.ownKeys(r, state.keys, signer.RightApprove); len(view.Keys) == 0 {
		view.WhyNot = d.whyNoKey(r, state.keys)
	}
	return view, nil
}

// whyNoKey says why a person has no passkey with which to approve here and now.
func (d *dashboard) whyNoKey(r *pages.Request, keys []approver.Key) string {
	reason := "You have no passkey for “" + rightTexts[signer.RightApprove] + "”, so you cannot approve this."
	for _, k := range keys {
		if k.Person != personName(r) || k.Right != signer.RightApprove {
			continue
		}
		switch status := k.Status(r.Now); {
		case status == approver.StatusWaiting:
			reason = "Your passkey waits to be admitted, so you cannot approve this yet."
		case status == approver.StatusCoolingOff:
			return "Your passkey cools off until " + k.UsableFrom.UTC().Format("2006-01-02 15:04") +
				" UTC, so you cannot approve this yet."
		case status == approver.StatusUsable:
			reason = "Your passkey is of the pages at " + k.Origin + ", so it signs nothing here."
		}
	}
	return reason
}

func signerKey(k approver.Key) ui.SignerKey {
	return ui.SignerKey{ID: k.ID, CredentialID: base64.RawURLEncoding.EncodeToString(k.CredentialID)}
}

// newApproverView is what the page shows on which a passkey is made.
type newApproverView struct {
	ListPath string
	IsOff    bool
	Form     ui.Form
	Kinds    []ui.MakeSignerView
}

func (d *dashboard) loadNewApprover(r *pages.Request) (templ.Component, error) {
	state, err := d.loadApproverState(r)
	if err != nil {
		return nil, err
	}
	view := newApproverView{ListPath: r.Path("approvers"), IsOff: d.conf.Approvers == nil, Form: r.Form}
	for _, right := range []signer.Right{signer.RightApprove, signer.RightEnrol} {
		kind := ui.MakeSignerView{
			Path: r.Path("approvers", "new", makeSignerAct), RPID: d.conf.relyingParty(),
			RPName: "Coffer", Person: r.Session.Member.Name, Display: rightTexts[right],
			Hidden: []ui.Hidden{{Name: "right", Value: string(right)}}, Button: "Make a passkey: " + rightTexts[right],
		}
		for _, k := range state.keys {
			if k.Person == personName(r) && k.Right == right && k.RetiredAt == nil && k.Refusal == "" {
				kind.Keys = append(kind.Keys, signerKey(k))
			}
		}
		view.Kinds = append(view.Kinds, kind)
	}
	return newApproverForm(view), nil
}

// readEnrolment returns the enrolment of a form, with an id.
func (d *dashboard) readEnrolment(r *pages.Request, keyID string) (e signer.EnrolRequest, err error) {
	if d.conf.Approvers == nil {
		return e, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"This installation has no passkeys of approvers.")
	}
	email, err := approver.NormalizeEmail(r.Session.Member.Email)
	if err != nil {
		return e, err
	}
	e = signer.EnrolRequest{Email: email, Enrolment: signer.Enrolment{
		OrgID: r.Session.OrgID, ID: keyID, Person: personName(r), Right: signer.Right(r.Values["right"]),
		RPID: d.conf.relyingParty(), Origin: d.conf.Origin.String(),
	}}
	if rightTexts[e.Right] == "" {
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
func (d *dashboard) showEnrolment(r *pages.Request) (string, error) {
	e, err := d.readEnrolment(r, approver.NewKeyID(r.Now))
	if err != nil {
		return "", err
	}
	statement := signer.EnrolStatement(e, d.conf.Approvers.Context(e.Person, newNotAfter(r, enrolmentLasts)))
	r.ShowOnce(enrolmentToSign(r.Path("approvers", "new"), ui.SignView{
		Act: enrolSignerAct, Path: r.Path("approvers", "new", enrolSignerAct), Words: statementWords(statement),
		RPID: e.RPID, Button: "Sign and enrol this passkey",
		Hidden: []ui.Hidden{
			{Name: "right", Value: string(e.Right)}, {Name: ui.PublicKeyName, Value: r.Values[ui.PublicKeyName]},
		},
		Keys: []ui.SignerKey{{ID: e.ID, CredentialID: r.Values[ui.CredentialIDName]}},
	}))
	return "", nil
}

func (d *dashboard) enrolApprover(r *pages.Request) (string, error) {
	signature, err := readSignature(r)
	if err != nil {
		return "", err
	}
	e, err := d.readEnrolment(r, signature.KeyID)
	if err != nil {
		return "", err
	}
	e.Possession = signature
	err = d.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := d.conf.Approvers.Enrol(ctx, tx, actor(r), e)
		return err
	})
	if err != nil {
		return "", err
	}
	d.finishKey(r, e.ID)
	return r.Path("approvers", e.ID), nil
}

// finishKey asks the signer at once. What fails here is repeated by the loop of package approver.
func (d *dashboard) finishKey(r *pages.Request, keyID string) {
	if err := d.conf.Approvers.FinishKey(r.Context(), keyID); err != nil {
		d.logger().Warn("the signer has not answered about a passkey; it is asked again",
			"passkey", keyID, "error", err)
	}
}

// findKey returns the passkey of the path. Fault: NOT_FOUND.
func (d *dashboard) findKey(r *pages.Request) (found approver.Key, state approverState, err error) {
	if state, err = d.loadApproverState(r); err != nil {
		return found, state, err
	}
	for _, k := range state.keys {
		if k.ID == r.PathParam("approverKeyId") {
			return k, state, nil
		}
	}
	return found, state, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"Your organization has no such passkey.")
}

// approverView is what the page of a passkey shows.
type approverView struct {
	ListPath      string
	Row           approverRow
	Facts         []ui.Fact
	Form          ui.Form
	Admit, Retire *ui.SignView
	WhyNotAdmit   string
	WhyNotRetire  string
	Elsewhere     *elsewhereView // where people admit and retire it; nil: here
}

func (d *dashboard) loadApprover(r *pages.Request) (templ.Component, error) {
	k, state, err := d.findKey(r)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	view := approverView{
		ListPath: r.Path("approvers"), Row: d.newApproverRow(r, names, k), Form: r.Form, Facts: aboutApprover(r, k),
	}
	if !r.IsAllowed(identity.DecideWithdrawal) {
		return approverDetail(view), nil
	}
	status := k.Status(r.Now)
	if view.Elsewhere = d.newElsewhere(r); view.Elsewhere != nil {
		if status == approver.StatusRetired || status == approver.StatusRefused {
			view.Elsewhere = nil
		}
		return approverDetail(view), nil
	}
	usable := d.ownKeys(r, state.keys, signer.RightEnrol)
	words := d.conf.Approvers.Context(personName(r), newNotAfter(r, signatureLasts))
	newView := func(act, button string, s signer.Statement, signers []ui.SignerKey) *ui.SignView {
		return &ui.SignView{
			Form: r.Form, Act: act, Path: r.Path("approvers", k.ID, act), Words: statementWords(s),
			RPID: d.conf.relyingParty(), Keys: signers, Button: button, IsDanger: act == retireActName,
		}
	}
	if status == approver.StatusWaiting {
		switch {
		case !state.hasRule():
			view.WhyNotAdmit = "Until your organization has its first rule, colleagues cannot admit a passkey."
		case k.Person == personName(r):
			view.WhyNotAdmit = "A colleague admits your passkey, or a person at the signer's host founds it."
		case len(usable) == 0:
			view.WhyNotAdmit = "Who admits a passkey needs an own one for “Change who approves” that counts already."
		default:
			view.Admit = newView(admitSignerAct, "Sign and admit this passkey",
				signer.EnrolStatement(k.Request(), words), usable)
		}
	}
	if status == approver.StatusRetired || status == approver.StatusRefused {
		return approverDetail(view), nil
	}
	if k.Person == personName(r) || status == approver.StatusCoolingOff {
		usable = d.ownKeys(r, state.keys, "")
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

func aboutApprover(r *pages.Request, k approver.Key) []ui.Fact {
	facts := []ui.Fact{
		{Name: "E-mail", Value: ui.Foreign(k.Email)},
		{Name: "May sign", Value: ui.Text(rightTexts[k.Right])},
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
func (d *dashboard) findAdmitted(r *pages.Request) (string, error) {
	k, _, err := d.findKey(r)
	if err != nil || k.Status(r.Now) == approver.StatusWaiting {
		return "", err
	}
	return r.Path("approvers", k.ID), nil
}

// findRetired returns the page of a passkey that has ended.
func (d *dashboard) findRetired(r *pages.Request) (string, error) {
	k, _, err := d.findKey(r)
	if err != nil || k.RetiredAt == nil {
		return "", err
	}
	return r.Path("approvers", k.ID), nil
}

func (d *dashboard) admitApprover(r *pages.Request) (string, error) {
	return d.signAboutKey(r, func(ctx context.Context, tx pg.Tx, keyID string, signature signer.KeySignature) error {
		return d.conf.Approvers.Admit(ctx, tx, actor(r), r.Session.OrgID, keyID, signature)
	})
}

func (d *dashboard) retireApprover(r *pages.Request) (string, error) {
	return d.signAboutKey(r, func(ctx context.Context, tx pg.Tx, keyID string, signature signer.KeySignature) error {
		return d.conf.Approvers.Retire(ctx, tx, actor(r), r.Session.OrgID, keyID, &signature)
	})
}

func (d *dashboard) signAboutKey(
	r *pages.Request, act func(context.Context, pg.Tx, string, signer.KeySignature) error,
) (string, error) {
	k, _, err := d.findKey(r)
	if err != nil {
		return "", err
	}
	signature, err := readSignature(r)
	if err != nil {
		return "", err
	}
	err = d.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) error {
		return act(ctx, tx, k.ID, signature)
	})
	if err != nil {
		return "", err
	}
	d.finishKey(r, k.ID)
	return r.Path("approvers", k.ID), nil
}
