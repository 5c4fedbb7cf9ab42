package identity

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

// Action is something that a caller does and that not every caller may do.
type Action string

// What an organization does with its API keys, and its members at the terminal.
const (
	ReadOrganization     Action = "organization.read"
	CreateDepositAddress Action = "deposit_address.create"
	QuoteWithdrawal      Action = "withdrawal.quote"
	RequestWithdrawal    Action = "withdrawal.request"
	CancelWithdrawal     Action = "withdrawal.cancel"
	DecideWithdrawal     Action = "withdrawal.decide" // approve or remove a held one
	WithdrawOwnMoney     Action = "withdrawal.own"    // of the organization's own balance
	Transfer             Action = "transfer.request"
	UpdateCustomer       Action = "customer.update"
	SetCustomerEmail     Action = "customer.set_email"
	FreezeCustomer       Action = "customer.freeze"
	UnfreezeCustomer     Action = "customer.unfreeze" // lift the organization's own freeze
	ManageWebhooks       Action = "webhook.manage"
	ReplaceWebhookSecret Action = "webhook.replace_secret"
	ManageKeys           Action = "api_key.manage"
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

	// SecondOperator says that dual control applies to it: what loosens a control waits for another
	// operator. Rule OP-7.
	SecondOperator bool
	Rules          []string // of docs/rules.md
}

// AtTerminal reports whether a command may offer the action: to the terminal itself, to an operator
// who names a key file, or to a member.
func (p Permission) AtTerminal() bool { return p.Terminal || p.Operator || len(p.Roles) > 0 }

// everyone is every role: each person of an organization sees its balances and payments.
var everyone = []Role{Owner, Admin, Approver, Finance, Developer, Viewer}

// deciders are the roles that decide about payments and deposits that wait for a person.
var deciders = []Role{Owner, Admin, Approver}

// permissions is the whole table. The scope, the role or the operator's key is only the first
// condition: settings, approvals and the state of the thing decide further.
var permissions = map[Action]Permission{
	ReadOrganization:     {Key: ScopeRead, Roles: everyone, Rules: []string{"KEY-2", "AUTH-2"}},
	CreateDepositAddress: {Key: ScopeNoMoneyOut, Rules: []string{"KEY-2"}},
	QuoteWithdrawal:      {Key: ScopeNoMoneyOut, Rules: []string{"KEY-2"}},
	RequestWithdrawal:    {Key: ScopeFull, Rules: []string{"KEY-2"}},
	CancelWithdrawal:     {Key: ScopeNoMoneyOut, Rules: []string{"KEY-2", "WD-56"}},
	DecideWithdrawal:     {Roles: deciders, Rules: []string{"WD-56", "OW-7"}},
	WithdrawOwnMoney:     {Roles: []Role{Owner, Admin, Finance}, Rules: []string{"OW-1", "OW-7"}},
	Transfer:             {Key: ScopeFull, Rules: []string{"KEY-2"}},
	UpdateCustomer:       {Key: ScopeNoMoneyOut, Rules: []string{"KEY-2"}},
	SetCustomerEmail:     {Key: ScopeFull, Rules: []string{"KEY-2", "KEY-10"}},
	FreezeCustomer:       {Key: ScopeNoMoneyOut, Rules: []string{"KEY-2", "CUS-6"}},
	UnfreezeCustomer:     {Key: ScopeFull, Rules: []string{"KEY-2", "CUS-6", "OP-5"}},
	ManageWebhooks:       {Key: ScopeNoMoneyOut, Rules: []string{"KEY-2"}},
	ReplaceWebhookSecret: {Key: ScopeFull, Rules: []string{"KEY-2"}},
	ManageKeys:           {Key: ScopeMainKey, Rules: []string{"KEY-2", "KEY-3"}},

	DecideFlaggedDeposit: {
		Key: ScopeFull, Roles: deciders, Operator: true, Terminal: true,
		Rules: []string{"KEY-2", "DEP-33", "DEP-55"},
	},
	RedirectFlaggedDeposit: {Operator: true, Terminal: true, Rules: []string{"DEP-33", "DEP-55"}},
	CompleteResolution:     {Operator: true, Terminal: true, Rules: []string{"DEP-55"}},
	RescreenSender:         {Operator: true, Terminal: true, Rules: []string{"DEP-55"}},

	ReadInstallation:       {Operator: true, Terminal: true, Rules: []string{"OP-1", "OP-6"}},
	CreateOrganization:     {Operator: true, Terminal: true, Rules: []string{"OP-1"}},
	ReplaceOrganizationKey: {Operator: true, Terminal: true, Rules: []string{"KEY-5", "KEY-6"}},
	ChangeSettings: {
		Operator: true, Terminal: true, SecondOperator: true, Rules: []string{"OP-4", "OP-7", "OP-10"},
	},
	AddWhitelistEntry: {
		Operator: true, Terminal: true, SecondOperator: true, Rules: []string{"OP-7", "OP-8", "OP-11"},
	},
	RemoveWhitelistEntry: {Operator: true, Terminal: true, Rules: []string{"OP-8", "OP-11"}},
	RequestChange:        {Operator: true, Rules: []string{"OP-9"}},
	ApproveChange:        {Operator: true, Rules: []string{"OP-9"}},
	RetractChange:        {Operator: true, Rules: []string{"OP-9"}},
	FreezePayments:       {Operator: true, Terminal: true, Rules: []string{"OP-5"}},
	LiftFreeze:           {Operator: true, Terminal: true, Rules: []string{"OP-5"}},
	EditLocalRisk:        {Operator: true, Terminal: true, Rules: []string{"RISK-10"}},

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
