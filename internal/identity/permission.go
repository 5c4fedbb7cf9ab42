package identity

import "slices"

// Scope says what an API key may do.
type Scope string

// The scopes of keys, and ScopeMainKey for what only the main key may do.
const (
	ScopeRead       Scope = "READ"
	ScopeNoMoneyOut Scope = "NO_MONEY_OUT"
	ScopeFull       Scope = "FULL"
	ScopeMainKey    Scope = "MAIN_KEY"
)

// Scopes are the scopes that a key can have. Each includes those before it.
var Scopes = []Scope{ScopeRead, ScopeNoMoneyOut, ScopeFull}

// Role is a role of a member in the organization. A member may have several.
type Role string

// The roles.
const (
	Owner     Role = "OWNER"
	Admin     Role = "ADMIN"
	Approver  Role = "APPROVER"
	Finance   Role = "FINANCE"
	Developer Role = "DEVELOPER"
	Viewer    Role = "VIEWER"
)

// Roles are the roles of members, in the order in which pages show them.
var Roles = []Role{Owner, Admin, Approver, Finance, Developer, Viewer}

// OperatorRole is the role of a person who operates the installation.
type OperatorRole string

// The roles of operators. An auditor reads and changes nothing. Rule ROLE-5.
const (
	FullOperator OperatorRole = "OPERATOR"
	Auditor      OperatorRole = "AUDITOR"
)

// StepUp says which second factor a person gives for an action, in addition to being signed in.
// Rule ROLE-2.
type StepUp string

// The factors. A later one is stricter.
const (
	NoFactor   StepUp = ""
	SudoFactor StepUp = "SUDO" // one within the last ten minutes
	ActFactor  StepUp = "ACT"  // one with the act itself, for that act alone
)

// Action is something that a caller does and that not every caller may do.
type Action string

// What an organization does with its API keys, and its members.
const (
	ReadOrganization     Action = "organization.read"
	CreateDepositAddress Action = "deposit_address.create"
	QuoteWithdrawal      Action = "withdrawal.quote"
	RequestWithdrawal    Action = "withdrawal.request"
	CancelWithdrawal     Action = "withdrawal.cancel"
	DecideWithdrawal     Action = "withdrawal.decide" // approve or remove a held one, also a swap of own money
	WithdrawOwnMoney     Action = "withdrawal.own"    // of the organization's own balance, also by a swap
	Transfer             Action = "transfer.request"
	QuoteSwap            Action = "swap.quote"
	RequestSwap          Action = "swap.request"
	RestoreSwap          Action = "swap.restore"
	UpdateCustomer       Action = "customer.update"
	SetCustomerEmail     Action = "customer.set_email"
	FreezeCustomer       Action = "customer.freeze"
	UnfreezeCustomer     Action = "customer.unfreeze" // lift the organization's own freeze
	ManageProducts       Action = "product.manage"    // products and payment links: create, change, archive or end
	ManageCheckouts      Action = "checkout.manage"   // create, open an option, cancel
	DecideCheckout       Action = "checkout.decide"   // accept what was paid, assign an unmatched payment
	RefundCheckout       Action = "checkout.refund"   // also an unmatched payment, and give a refund another claim key
	CancelRefund         Action = "refund.cancel"
	ManageBatchPayouts   Action = "batch_payout.manage" // make, submit, resume, make one of the unpaid rows
	StopBatchPayout      Action = "batch_payout.stop"   // pause, or cancel before its approval
	ManageWebhooks       Action = "webhook.manage"
	ReplaceWebhookSecret Action = "webhook.replace_secret"
	ManageKeys           Action = "api_key.manage"
)

// What only the members of an organization do.
const (
	ChangeControls    Action = "settings.change_controls"  // thresholds, approval allowlist, quorum
	ChangeCheckouts   Action = "settings.change_checkouts" // how pages of checkouts look, and their tolerance
	ResendEvents      Action = "webhook.resend"
	InviteMember      Action = "member.invite"
	ChangeMemberRoles Action = "member.change_roles"
	EndMemberAccess   Action = "member.end_access" // and end the member's sessions
	ExportRecords     Action = "records.export"
	ReadAuditLog      Action = "audit.read"
)

// What organizations and operators decide about flagged deposits.
const (
	DecideFlaggedDeposit   Action = "deposit.decide" // approve or reject
	RedirectFlaggedDeposit Action = "deposit.redirect"
	CompleteResolution     Action = "deposit.complete"
	RescreenSender         Action = "deposit.rescreen"
)

// What operators do at their interface, and at the terminal.
const (
	ReadInstallation       Action = "installation.read"
	CreateOrganization     Action = "organization.create"
	ReplaceOrganizationKey Action = "api_key.replace" // roll the main key, revoke any
	ChangeSettings         Action = "settings.change"
	AddWhitelistEntry      Action = "whitelist.add"
	RemoveWhitelistEntry   Action = "whitelist.remove"
	RequestChange          Action = "change.request"
	ApproveChange          Action = "change.approve"
	RetractChange          Action = "change.retract"
	FreezePayments         Action = "freeze.create"
	LiftFreeze             Action = "freeze.lift" // every freeze except an organization's own
	EditLocalRisk          Action = "local_risk.edit"
	LookAtSwap             Action = "swap.look" // have the worker look at it at once
	FailSwap               Action = "swap.fail"
	WriteOffSwap           Action = "swap.write_off" // give up what a provider owes
	DecideSwapArrival      Action = "swap.decide_arrival"
	ManageSwapProviders    Action = "swap_provider.manage" // suspend or resume
	ChangeBillingTerms     Action = "billing.terms"        // what invoices print, their tax and series
	IssueInvoices          Action = "billing.run"          // of a month that is over
	MarkInvoicePaid        Action = "billing.paid"
	CreditInvoice          Action = "billing.credit"
	AddPriceMark           Action = "billing.mark" // state a price for a moment without one
)

// What operators do on their pages alone.
const (
	AdvanceOrder Action = "order.advance" // raise a fee, or resolve a stuck order by what the chain proves
	ManageJobs   Action = "job.manage"    // repeat or cancel
	// SignAsOperator makes, admits and retires passkeys of operators, changes their rule, and signs what it asks for.
	SignAsOperator Action = "operator.sign"
)

// What only the terminal of the installation does. Rule OP-12.
const (
	ManageOperatorKeys  Action = "operator_key.manage"
	SteerOrders         Action = "order.steer" // raise a fee, end an order, resolve a stuck one, sweep now
	QuarantineMint      Action = "mint.quarantine"
	DecideFinality      Action = "finality.decide"
	ImportSanctions     Action = "sanctions.import"
	RestartAuditLog     Action = "audit.restart"
	RunInstallation     Action = "installation.run" // its processes, key files, schema and journal
	UseDevelopmentWorld Action = "development.use"
)

// Permission says who may take an action. A caller needs one of the four ways.
type Permission struct {
	Key      Scope  // the least scope of an API key; "" means no key
	Roles    []Role // of a member of the organization
	Operator bool   // an operator who presents a key, at the operators' interface or at the terminal
	Terminal bool   // the terminal of the installation, which has no key

	OwnRoles         []Role // of a member, for what concerns the member's own acts alone
	MemberAtTerminal bool   // a command takes it for a member
	Auditor          bool   // an operator who only reads may take it
	StepUp           StepUp // of a member or an operator who is signed in

	// SecondOperator says that dual control applies to it: what loosens a control waits for another
	// operator. Rule OP-7.
	SecondOperator bool
	Rules          []string // of docs/rules.md
}

// AtTerminal reports whether a command may offer the action: to the terminal itself, to an operator
// who names a key file, or to a member.
func (p Permission) AtTerminal() bool { return p.Terminal || p.Operator || p.MemberAtTerminal }

// AllowsOperator reports whether an operator with that role may take the action. Rule ROLE-5.
func (p Permission) AllowsOperator(role OperatorRole) bool {
	return p.Operator && (role == FullOperator || role == Auditor && p.Auditor)
}

// CanManageMember reports whether a member with some roles may change another one from its roles to
// others. No roles before mean an invitation, none afterwards mean the end of the access. An OWNER
// manages every member; an ADMIN manages no OWNER and no ADMIN, and makes none. The caller checks
// that no member manages itself. Rule ROLE-3.
func CanManageMember(manager, before, after []Role) bool {
	if slices.Contains(manager, Owner) {
		return true
	}
	isSenior := func(r Role) bool { return r == Owner || r == Admin }
	return slices.Contains(manager, Admin) && !slices.ContainsFunc(before, isSenior) &&
		!slices.ContainsFunc(after, isSenior)
}

// deciders are the roles that decide about payments and deposits that wait for a person.
var deciders = []Role{Owner, Admin, Approver}

// managers are the roles that manage the organization. Rule ROLE-4.
var managers = []Role{Owner, Admin}

// permissions is the whole table. Rule ROLE-1. The scope, the role or the operator's key is only the first
// condition: settings, approvals and the state of the thing decide further.
var permissions = map[Action]Permission{
	ReadOrganization:     {Key: ScopeRead, Roles: Roles, Rules: []string{"KEY-2", "AUTH-2", "ROLE-1"}},
	CreateDepositAddress: {Key: ScopeNoMoneyOut, Rules: []string{"KEY-2"}},
	QuoteWithdrawal:      {Key: ScopeNoMoneyOut, Rules: []string{"KEY-2"}},
	RequestWithdrawal:    {Key: ScopeFull, Rules: []string{"KEY-2"}},
	CancelWithdrawal:     {Key: ScopeNoMoneyOut, Rules: []string{"KEY-2", "WD-56"}},
	DecideWithdrawal: {
		Roles: deciders, MemberAtTerminal: true, StepUp: ActFactor,
		Rules: []string{"WD-56", "OW-7", "SWAP-35", "ROLE-2"},
	},
	WithdrawOwnMoney: {
		Roles: []Role{Owner, Admin, Finance}, MemberAtTerminal: true, StepUp: ActFactor,
		Rules: []string{"OW-1", "OW-7", "SWAP-35", "ROLE-2"},
	},
	Transfer: {
		Key: ScopeFull, Roles: []Role{Owner, Admin, Finance}, StepUp: ActFactor, Rules: []string{"KEY-2", "ROLE-2"},
	},
	QuoteSwap:   {Key: ScopeNoMoneyOut, Rules: []string{"KEY-2"}},
	RequestSwap: {Key: ScopeFull, Rules: []string{"KEY-2"}},
	RestoreSwap: {
		Key: ScopeNoMoneyOut, Roles: []Role{Owner, Admin, Finance}, StepUp: ActFactor,
		Rules: []string{"KEY-2", "ROLE-2"},
	},
	UpdateCustomer: {Key: ScopeNoMoneyOut, Rules: []string{"KEY-2"}},
	SetCustomerEmail: {
		Key: ScopeFull, Roles: managers, StepUp: SudoFactor, Rules: []string{"KEY-2", "KEY-10", "ROLE-2"},
	},
	FreezeCustomer: {
		Key: ScopeNoMoneyOut, Roles: []Role{Owner, Admin, Approver, Finance}, StepUp: ActFactor,
		Rules: []string{"KEY-2", "CUS-6", "ROLE-2"},
	},
	UnfreezeCustomer: {
		Key: ScopeFull, Roles: deciders, StepUp: ActFactor, Rules: []string{"KEY-2", "CUS-6", "OP-5", "ROLE-2"},
	},
	ManageProducts: {
		Key: ScopeNoMoneyOut, Roles: []Role{Owner, Admin, Developer}, StepUp: SudoFactor,
		Rules: []string{"KEY-2", "PROD-11", "ROLE-2"},
	},
	ManageCheckouts: {
		Key: ScopeNoMoneyOut, Roles: []Role{Owner, Admin, Developer}, StepUp: SudoFactor,
		Rules: []string{"KEY-2", "CO-28", "ROLE-2"},
	},
	DecideCheckout: {
		Key: ScopeNoMoneyOut, Roles: []Role{Owner, Admin, Finance}, StepUp: ActFactor,
		Rules: []string{"KEY-2", "CO-28", "ROLE-2"},
	},
	RefundCheckout: {
		Key: ScopeFull, Roles: []Role{Owner, Admin, Finance}, StepUp: ActFactor,
		Rules: []string{"KEY-2", "CO-90", "ROLE-2"},
	},
	CancelRefund: {
		Key: ScopeNoMoneyOut, Roles: []Role{Owner, Admin, Finance}, StepUp: ActFactor,
		Rules: []string{"KEY-2", "CO-91", "ROLE-2"},
	},
	ManageBatchPayouts: {
		Key: ScopeFull, Roles: []Role{Owner, Admin, Finance}, StepUp: ActFactor,
		Rules: []string{"KEY-2", "BP-16", "ROLE-2"},
	},
	StopBatchPayout: {
		Key: ScopeNoMoneyOut, Roles: []Role{Owner, Admin, Approver, Finance}, StepUp: ActFactor,
		Rules: []string{"KEY-2", "BP-16", "ROLE-2"},
	},
	ManageWebhooks: {
		Key: ScopeNoMoneyOut, Roles: []Role{Owner, Admin, Developer}, StepUp: SudoFactor,
		Rules: []string{"KEY-2", "ROLE-2"},
	},
	ReplaceWebhookSecret: {
		Key: ScopeFull, Roles: []Role{Owner, Admin, Developer}, StepUp: SudoFactor, Rules: []string{"KEY-2", "ROLE-2"},
	},
	ManageKeys: {
		Key: ScopeMainKey, Roles: managers, StepUp: SudoFactor, Rules: []string{"KEY-2", "KEY-3", "ROLE-2"},
	},

	ChangeControls:  {Roles: managers, StepUp: SudoFactor, Rules: []string{"ROLE-2", "ROLE-4"}},
	ChangeCheckouts: {Roles: managers, StepUp: SudoFactor, Rules: []string{"PAGE-87", "ROLE-2"}},
	ResendEvents:    {Roles: []Role{Owner, Admin, Developer}, Rules: []string{"ROLE-1"}},
	InviteMember: {
		Roles: managers, Terminal: true, StepUp: SudoFactor, Rules: []string{"ROLE-2", "ROLE-3", "ROLE-6"},
	},
	ChangeMemberRoles: {Roles: managers, StepUp: SudoFactor, Rules: []string{"ROLE-2", "ROLE-3"}},
	EndMemberAccess:   {Roles: managers, StepUp: SudoFactor, Rules: []string{"ROLE-2", "ROLE-3"}},
	ExportRecords: {
		Roles: []Role{Owner, Admin, Approver, Finance}, OwnRoles: []Role{Developer}, Rules: []string{"ROLE-1"},
	},
	ReadAuditLog: {
		Roles: managers, OwnRoles: []Role{Approver, Finance, Developer, Viewer}, Rules: []string{"ROLE-1"},
	},

	DecideFlaggedDeposit: {
		Key: ScopeFull, Roles: deciders, MemberAtTerminal: true, Operator: true, Terminal: true, StepUp: ActFactor,
		Rules: []string{"KEY-2", "DEP-33", "DEP-55", "ROLE-2"},
	},
	RedirectFlaggedDeposit: {
		Operator: true, Terminal: true, StepUp: ActFactor, Rules: []string{"DEP-33", "DEP-55", "ROLE-2"},
	},
	CompleteResolution: {Operator: true, Terminal: true, StepUp: ActFactor, Rules: []string{"DEP-55", "ROLE-2"}},
	RescreenSender:     {Operator: true, Terminal: true, StepUp: SudoFactor, Rules: []string{"DEP-55", "ROLE-2"}},

	ReadInstallation: {
		Operator: true, Terminal: true, Auditor: true, Rules: []string{"OP-1", "OP-6", "ROLE-5"},
	},
	CreateOrganization: {Operator: true, Terminal: true, StepUp: SudoFactor, Rules: []string{"OP-1", "ROLE-2"}},
	ReplaceOrganizationKey: {
		Operator: true, Terminal: true, StepUp: SudoFactor, Rules: []string{"KEY-5", "KEY-6", "ROLE-2"},
	},
	ChangeSettings: {
		Operator: true, Terminal: true, SecondOperator: true, StepUp: SudoFactor,
		Rules: []string{"OP-4", "OP-7", "OP-10", "ROLE-2"},
	},
	AddWhitelistEntry: {
		Operator: true, Terminal: true, SecondOperator: true, StepUp: SudoFactor,
		Rules: []string{"OP-7", "OP-8", "OP-11", "ROLE-2"},
	},
	RemoveWhitelistEntry: {
		Operator: true, Terminal: true, StepUp: SudoFactor, Rules: []string{"OP-8", "OP-11", "ROLE-2"},
	},
	RequestChange:  {Operator: true, StepUp: SudoFactor, Rules: []string{"OP-9", "ROLE-2"}},
	ApproveChange:  {Operator: true, StepUp: SudoFactor, Rules: []string{"OP-9", "ROLE-2"}},
	RetractChange:  {Operator: true, StepUp: SudoFactor, Rules: []string{"OP-9", "ROLE-2"}},
	FreezePayments: {Operator: true, Terminal: true, StepUp: ActFactor, Rules: []string{"OP-5", "ROLE-2"}},
	LiftFreeze:     {Operator: true, Terminal: true, StepUp: ActFactor, Rules: []string{"OP-5", "ROLE-2"}},
	EditLocalRisk:  {Operator: true, Terminal: true, StepUp: SudoFactor, Rules: []string{"RISK-10", "ROLE-2"}},
	LookAtSwap:     {Operator: true, Terminal: true, StepUp: SudoFactor, Rules: []string{"SWAP-27", "ROLE-2"}},
	FailSwap:       {Operator: true, Terminal: true, StepUp: ActFactor, Rules: []string{"SWAP-24", "ROLE-2"}},
	WriteOffSwap: {
		Operator: true, Terminal: true, SecondOperator: true, StepUp: ActFactor,
		Rules: []string{"OP-7", "SWAP-25", "ROLE-2"},
	},
	DecideSwapArrival: {Operator: true, Terminal: true, StepUp: ActFactor, Rules: []string{"SWAP-26", "ROLE-2"}},
	ManageSwapProviders: {
		Operator: true, Terminal: true, StepUp: SudoFactor, Rules: []string{"SWAP-28", "ROLE-2"},
	},
	ChangeBillingTerms: {
		Operator: true, Terminal: true, SecondOperator: true, StepUp: SudoFactor,
		Rules: []string{"BI-15", "OP-7", "ROLE-2"},
	},
	IssueInvoices:   {Operator: true, Terminal: true, StepUp: SudoFactor, Rules: []string{"BI-7", "ROLE-2"}},
	MarkInvoicePaid: {Operator: true, Terminal: true, StepUp: ActFactor, Rules: []string{"BI-11", "ROLE-2"}},
	CreditInvoice:   {Operator: true, Terminal: true, StepUp: ActFactor, Rules: []string{"BI-13", "ROLE-2"}},
	AddPriceMark:    {Operator: true, Terminal: true, StepUp: ActFactor, Rules: []string{"BI-5", "ROLE-2"}},
	AdvanceOrder:    {Operator: true, StepUp: ActFactor, Rules: []string{"OP-12", "PAGE-43", "ROLE-2"}},
	ManageJobs:      {Operator: true, StepUp: SudoFactor, Rules: []string{"PAGE-44", "ROLE-2"}},
	SignAsOperator:  {Operator: true, StepUp: SudoFactor, Rules: []string{"PAGE-114", "PAGE-115", "ROLE-2"}},

	ManageOperatorKeys:  {Terminal: true, Rules: []string{"OP-12"}},
	SteerOrders:         {Terminal: true, Rules: []string{"OP-12", "WD-43"}},
	QuarantineMint:      {Terminal: true, Rules: []string{"OP-12"}},
	DecideFinality:      {Terminal: true, Rules: []string{"OP-12"}},
	ImportSanctions:     {Terminal: true, Rules: []string{"OP-12"}},
	RestartAuditLog:     {Terminal: true, Rules: []string{"OP-12", "AUDIT-4"}},
	RunInstallation:     {Terminal: true, Rules: []string{"OP-12"}},
	UseDevelopmentWorld: {Terminal: true, Rules: []string{"OP-12"}},
}

// PermissionOf returns the row of an action. An action without a row allows no caller.
func PermissionOf(action Action) Permission { return permissions[action] }
