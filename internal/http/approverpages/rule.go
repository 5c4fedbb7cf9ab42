package approverpages

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// The names of the acts about the rule. The page has SignAct, too.
const (
	proposeRuleAct  = "propose"
	withdrawRuleAct = "withdraw"
)

const (
	quorumName      = "quorum"
	ownPaymentsName = "ownPayments"
	returnsName     = "returns"
	assetsName      = "assets"
	proposalName    = "proposalId"
	assetsBytesMax  = 8 << 10
	// assetLineWords is how many words a line of assets has: the token, the threshold and the amount of a day.
	assetLineWords = 3
)

// rulePage proposes the next rule, and has people sign it. Rule PAGE-111.
func (p *Pages) rulePage() pages.Page {
	proposal := pages.Field{Name: proposalName, BytesMax: wordBytesMax, Missing: "Open the page again."}
	fields := []pages.Field{{Name: quorumName, BytesMax: wordBytesMax, Missing: "Enter how many people sign."}}
	if p.conf.Assets != nil {
		fields = append(fields,
			pages.Field{Name: ownPaymentsName, BytesMax: wordBytesMax, Optional: true, Checkbox: true},
			pages.Field{Name: returnsName, BytesMax: wordBytesMax, Optional: true, Checkbox: true},
			pages.Field{Name: assetsName, BytesMax: assetsBytesMax, Optional: true},
		)
	}
	return pages.Page{
		Path: RulePath, Title: "The rule on approvals", Action: p.conf.Reads,
		Live: []string{"APPROVAL_RULE"}, Load: p.loadApprovalRule,
		Acts: []pages.Act{
			{
				Name: proposeRuleAct, Action: p.conf.Signs, StepUp: pages.SudoStepUp,
				Fields: fields,
				Run:    p.proposeRule,
			},
			{
				Name: SignAct, Action: p.conf.Signs, Fields: SignatureFields(proposal), Run: p.signRule,
			},
			{
				Name: withdrawRuleAct, Action: p.conf.Signs, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{proposal}, Run: p.withdrawRule,
			},
		},
	}
}

// ruleView is what the page of the rule shows.
type ruleView struct {
	ListPath, Path string
	Words          Words
	HasAssets      bool // a rule names assets, own payments and returns
	IsOff          bool
	Rule           []string
	Form           ui.Form
	Pending        *pendingRuleView
	CanPropose     bool
	Present        map[string]string // the present rule, in the fields of the form
	Tokens         []string
	Elsewhere      *ElsewhereView // where people propose and sign it; nil: here
}

// pendingRuleView is a rule that does not hold yet.
type pendingRuleView struct {
	ID, Title, State string
	UsableFrom       *ui.Moment
	Rule             []string
	Sign             *ui.SignView
	WhyNot           string // why this person cannot sign it
	CanWithdraw      bool
}

func (p *Pages) loadApprovalRule(r *pages.Request) (templ.Component, error) {
	state, err := p.loadState(r)
	if err != nil {
		return nil, err
	}
	mints, err := p.loadMints(r)
	if err != nil {
		return nil, err
	}
	view := ruleView{
		ListPath: r.Path("approvers"), Path: r.Path("approvers", "rule"), IsOff: p.conf.Approvers == nil, Form: r.Form,
		Rule: p.ruleTexts(state.rule, mints), Present: writeRule(state.rule, mints), Words: p.conf.Words,
		HasAssets: p.conf.Assets != nil,
	}
	isDecider := r.IsAllowed(p.conf.Signs)
	if isDecider {
		view.Elsewhere = p.newElsewhere(r)
	}
	if state.pending != nil {
		view.Pending = p.newPendingRule(r, *state.pending, state.keys, mints)
	}
	view.CanPropose = isDecider && !view.IsOff && view.Elsewhere == nil &&
		(state.pending == nil || !state.pending.IsOpen())
	if p.conf.Assets != nil {
		for _, m := range mints.List(mint.Filter{}) {
			view.Tokens = append(view.Tokens,
				strconv.Itoa(m.ID)+": "+ui.EscapeForeign(m.Symbol)+" on "+p.conf.Assets.NetworkName(m.Chain))
		}
	}
	return ruleOnApprovals(view), nil
}

func (p *Pages) newPendingRule(
	r *pages.Request, proposal approver.Proposal, keys []approver.Key, mints mint.Catalogue,
) *pendingRuleView {
	view := &pendingRuleView{
		ID: proposal.ID, Title: "Version " + strconv.Itoa(proposal.Rule.Version) + " is proposed",
		Rule: p.ruleTexts(&proposal.Rule, mints),
	}
	switch {
	case proposal.UsableFrom != nil:
		view.Title = "Version " + strconv.Itoa(proposal.Rule.Version) + " is signed and cools off"
		view.State = "Until then the rule before it holds."
		view.UsableFrom = new(r.Moment(*proposal.UsableFrom))
		return view
	case proposal.AskedAt != nil:
		view.State = "Enough people signed it, and the signer has not answered yet."
		return view
	}
	view.State = "It changes nothing until enough people have signed it. Signed with " +
		ui.FormatCount(len(proposal.SignedBy), "passkey") + " so far."
	if !r.IsAllowed(p.conf.Signs) || p.newElsewhere(r) != nil {
		return view
	}
	view.CanWithdraw = true
	usable := p.ownKeys(r, keys, signer.RightEnrol)
	switch {
	case slices.ContainsFunc(keys, func(k approver.Key) bool {
		return k.Person == p.personName(r) && slices.Contains(proposal.SignedBy, k.ID)
	}):
		view.WhyNot = "You signed it. Another person has to sign it, too."
	case len(usable) == 0:
		view.WhyNot = "To sign a rule, you need a passkey for “" + p.conf.Words.RightText(signer.RightEnrol) +
			"” that counts already."
	default:
		view.Sign = &ui.SignView{
			Form: r.Form, Act: SignAct, Path: r.Path("approvers", "rule", SignAct), RPID: p.conf.RelyingParty,
			Words: StatementWords(signer.RuleStatement(proposal.Rule,
				p.conf.Approvers.Context(p.personName(r), NewNotAfter(r, SignatureLasts)))),
			Hidden: []ui.Hidden{{Name: proposalName, Value: proposal.ID}}, Keys: usable, Button: "Sign this rule",
		}
	}
	return view
}

// loadMints returns the tokens that a rule may name.
func (p *Pages) loadMints(r *pages.Request) (mint.Catalogue, error) {
	if p.conf.Assets == nil {
		return mint.Catalogue{}, nil
	}
	return p.conf.Assets.LoadMints(r)
}

// writeRule writes a rule into the fields of the form.
func writeRule(rule *signer.ApprovalRule, mints mint.Catalogue) map[string]string {
	if rule == nil {
		return map[string]string{quorumName: "2"}
	}
	values := map[string]string{quorumName: strconv.Itoa(rule.Quorum)}
	if rule.OwnPayments {
		values[ownPaymentsName] = "on"
	}
	if rule.Returns {
		values[returnsName] = "on"
	}
	var lines []string
	for _, a := range rule.Assets {
		if m, ok := mints.ByContract(a.Chain, a.Contract); ok {
			lines = append(lines,
				fmt.Sprintf("%d %s %s", m.ID, a.Threshold.Decimal(m.Decimals), a.DayMax.Decimal(m.Decimals)))
		}
	}
	values[assetsName] = strings.Join(lines, "\n")
	return values
}

// readRule reads the rule of a form. Fault: INVALID_REQUEST.
func (p *Pages) readRule(r *pages.Request) (rule signer.ApprovalRule, err error) {
	rule = signer.ApprovalRule{
		OrgID: p.conf.OrgID(r), OwnPayments: r.Values[ownPaymentsName] != "", Returns: r.Values[returnsName] != "",
	}
	if rule.Quorum, err = strconv.Atoi(r.Values[quorumName]); err != nil {
		return rule, newBadRule(quorumName, "Enter a number of people.")
	}
	mints, err := p.loadMints(r)
	if err != nil {
		return rule, err
	}
	for line := range strings.Lines(r.Values[assetsName]) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		asset, err := parseAsset(words, mints)
		if err != nil {
			return rule, err
		}
		if slices.ContainsFunc(rule.Assets, func(a signer.AssetRule) bool {
			return a.Chain == asset.Chain && a.Contract == asset.Contract
		}) {
			return rule, newBadRule(assetsName, "Token "+ui.EscapeForeign(words[0])+" has two lines.")
		}
		rule.Assets = append(rule.Assets, asset)
	}
	return rule, nil
}

func parseAsset(words []string, mints mint.Catalogue) (a signer.AssetRule, err error) {
	shown := ui.EscapeForeign(strings.Join(words, " "))
	number, err := strconv.Atoi(words[0])
	if len(words) != assetLineWords || err != nil {
		return a, newBadRule(assetsName, "The line “"+shown+"” is not the number of a token and two amounts.")
	}
	m, ok := mints.ByID(number)
	if !ok {
		return a, newBadRule(assetsName, "No token has the number of the line “"+shown+"”.")
	}
	a = signer.AssetRule{Chain: m.Chain, Contract: m.Contract}
	for n, amount := range []*money.Amount{&a.Threshold, &a.DayMax} {
		if *amount, err = money.ParseDecimal(words[n+1], m.Decimals); err != nil {
			return a, newBadRule(assetsName, fmt.Sprintf(
				"The line “%s” has an amount that is no number with at most %d decimals.", shown, m.Decimals))
		}
	}
	return a, nil
}

func newBadRule(field, reason string) error {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", reason).WithParam(field)
}

// changeRule runs an act of package approver and shows the page of the rule.
func (p *Pages) changeRule(r *pages.Request, act func(context.Context, pg.Tx) error) (string, error) {
	if p.conf.Approvers == nil {
		return "", fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"This installation has no passkeys of approvers.")
	}
	if err := p.conf.DB.InSystem(r.Context(), act); err != nil {
		return "", err
	}
	return r.Path("approvers", "rule"), nil
}

func (p *Pages) proposeRule(r *pages.Request) (string, error) {
	rule, err := p.readRule(r)
	if err != nil {
		return "", err
	}
	return p.changeRule(r, func(ctx context.Context, tx pg.Tx) error {
		_, err := p.conf.Approvers.ProposeRule(ctx, tx, p.actor(r), rule)
		if f := fault.Find(err); f != nil && strings.HasPrefix(f.Param, assetsName) {
			return f.WithParam(assetsName) // the form has one field for all assets
		}
		return err
	})
}

func (p *Pages) signRule(r *pages.Request) (string, error) {
	signature, err := ReadSignature(r)
	if err != nil {
		return "", err
	}
	path, err := p.changeRule(r, func(ctx context.Context, tx pg.Tx) error {
		return p.conf.Approvers.SignRule(ctx, tx, p.actor(r), p.conf.OrgID(r), r.Values[proposalName], signature)
	})
	if err != nil {
		return "", err
	}
	// What fails here is repeated by the loop of package approver.
	if err := p.conf.Approvers.FinishRule(r.Context(), r.Values[proposalName]); err != nil {
		p.log().Warn("the signer has not answered about a rule; it is asked again",
			"proposal", r.Values[proposalName], "error", err)
	}
	return path, nil
}

func (p *Pages) withdrawRule(r *pages.Request) (string, error) {
	return p.changeRule(r, func(ctx context.Context, tx pg.Tx) error {
		return p.conf.Approvers.WithdrawProposal(ctx, tx, p.actor(r), p.conf.OrgID(r), r.Values[proposalName])
	})
}

// ruleTexts say what a rule asks for.
func (p *Pages) ruleTexts(rule *signer.ApprovalRule, mints mint.Catalogue) []string {
	if rule == nil || rule.Quorum == 0 {
		return []string{p.conf.Words.NoRule}
	}
	texts := []string{fmt.Sprintf("Version %d. ", rule.Version) + p.conf.Words.RuleText(rule.Quorum)}
	if p.conf.Assets == nil {
		return texts
	}
	for _, a := range rule.Assets {
		name := string(a.Contract)
		threshold, dayMax := a.Threshold.String()+" atomic units", a.DayMax.String()+" atomic units"
		if m, ok := mints.ByContract(a.Chain, a.Contract); ok {
			name = ui.EscapeForeign(m.Symbol)
			threshold, dayMax = a.Threshold.Decimal(m.Decimals), a.DayMax.Decimal(m.Decimals)
		}
		texts = append(texts, fmt.Sprintf("Of %s on %s, payments below %s need none, up to %s in a day.",
			name, p.conf.Assets.NetworkName(a.Chain), threshold, dayMax))
	}
	if rule.OwnPayments {
		texts = append(texts, "Own withdrawals need them at any amount.")
	}
	if rule.Returns {
		texts = append(texts, "Returns of flagged deposits need them at any amount.")
	}
	return texts
}
