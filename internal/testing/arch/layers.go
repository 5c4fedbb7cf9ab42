package arch

// layer is a layer of the architecture. Code may use the layers below its own, never those above,
// and packages of its own layer only where neighbourImports says so.
type layer int

const (
	public      layer = iota // what integrators import; independent of the service
	words                    // values and vocabulary, pure
	foundations              // I/O that is independent of deposits and payments
	core                     // used by every feature
	transport                // http/kernel: what every HTTP surface needs; it knows no feature and no surface
	gates                    // the only ways in and out
	features                 // the features of the business
	reporting                // above the features, reading only; wire turns what they return into objects
	assembly                 // service: builds the features and their loops from parts, so it knows no adapter
	adapters                 // implementations of a port in the parent package
	resources                // http/resource: bodies and texts that several surfaces have
	kit                      // http/pages: what surfaces of pages share, with its components
	surfaces                 // translate and decide nothing
	wiring                   // app: gives service its parts
	world                    // the local world, which runs app
	commands                 // the subcommands, above wiring and world
	program                  // main
	watch                    // this package: above everything, imported by nothing
)

var layerNames = [...]string{
	"public", "words", "foundations", "core", "transport", "gates", "features", "reporting", "assembly", "adapters",
	"resources", "kit", "surfaces", "wiring", "world", "commands", "program", "watch",
}

func (f layer) String() string { return layerNames[f] }

// neighbourImports says in which layers a package may import packages of the same layer. In the
// other layers every package must stay replaceable and readable by itself. Two features that need
// each other meet through a one-method interface that app wires.
var neighbourImports = map[layer]bool{
	public: true, words: true, foundations: true, core: true, kit: true, world: true, watch: true,
}

// capability lets a package do what its layer may not.
type capability uint

const (
	mayHTTP  capability = 1 << iota // import net/http
	mayFloat                        // use floating point, for display or metrics, never for money
	mayKeys                         // hold private keys of chains, or sign with them
	mayRand                         // import math/rand, for jitter or scripted chaos, never for ids or secrets
	testOnly                        // only tests may import it
)

// httpLayers may import net/http without a capability: they communicate with the outside.
var httpLayers = map[layer]bool{
	public: true, adapters: true, kit: true, surfaces: true, wiring: true, world: true, commands: true,
}

// anyName stands for the last name of a folder. Such a line is for every folder that has no line of
// its own: a further provider needs none.
const anyName = "*"

// pkg is one package: its folder under the module root, its layer, and what it may do in addition.
type pkg struct {
	dir          string
	layer        layer
	capabilities capability
}

// packages lists every folder with Go files once, by its name or as one of the folders beside it.
var packages = []pkg{
	{"webhook", public, 0},
	{"client", public, mayRand},

	{"docs", words, 0},
	{"internal/money", words, 0},
	{"internal/fault", words, 0},
	{"internal/platform/id", words, 0},
	{"internal/platform/id/idtest", words, testOnly},
	{"internal/platform/csvcell", words, 0},
	{"internal/platform/pagination", words, 0},
	{"internal/chain", words, 0},
	{"internal/platform/failpoint", words, 0},
	{"internal/platform/config", words, 0},
	{"internal/swap/signedquote", words, 0},
	{"internal/swap/signedquote/quotetest", words, testOnly | mayKeys}, // of a solver
	{"internal/chain/quorum", words, 0},
	{"internal/chain/fifo", words, 0},
	{"internal/chain/chaintest", words, testOnly},
	{"internal/testing/contract", words, testOnly},
	{"internal/testing/part", words, testOnly},
	{"internal/chain/evm/evmtx", words, 0},
	{"internal/chain/evm/payoutcontract", words, 0},
	{"internal/chain/solana/solanatx", words, 0},
	{"internal/chain/bitcoin/bitcointx", words, mayKeys},  // public ones: taproot addresses are points of the curve
	{"internal/chain/bitcoin/coinselect", words, mayRand}, // for draws of coins, seeded by the order
	{"internal/chain/catalogue", words, 0},
	{"internal/billing/document", words, mayFloat}, // coordinates on a page
	{"internal/checkout/payuri", words, 0},
	{"internal/checkout/receipt", words, 0},
	{"internal/checkout/capability", words, 0},
	{"internal/checkout/payerproof", words, 0},
	{"internal/checkout/pricing", words, 0},
	{"internal/checkout/outcome", words, 0},
	{"internal/payout/contenthash", words, 0},

	{"schema", foundations, 0},
	{"migrations", foundations, 0},
	{"internal/platform/pg", foundations, mayRand},
	{"internal/platform/freeport", foundations, mayRand},
	{"internal/platform/pg/local", foundations, 0},
	{"internal/platform/pg/lockorder", foundations, testOnly},
	{"internal/platform/pg/pgtest", foundations, testOnly},
	{"internal/testing/statediagram", foundations, testOnly},
	{"internal/platform/jobs", foundations, 0},
	{"internal/platform/seal", foundations, 0},
	{"internal/platform/groupcommit", foundations, 0},
	{"internal/platform/trace", foundations, 0},
	{"internal/platform/inbound", foundations, 0},
	{"internal/platform/mail", foundations, mayRand},
	{"internal/platform/httpjson", foundations, mayHTTP},
	{"internal/platform/outbound", foundations, mayHTTP},
	{"internal/chain/endpoint", foundations, mayHTTP},
	{"internal/chain/endpoint/fakerpc", foundations, testOnly | mayHTTP},
	{"internal/localworld/tied", foundations, 0},
	{"internal/localworld/anvil", foundations, mayHTTP | mayKeys},
	{"internal/localworld/anvil/anviltest", foundations, testOnly | mayKeys},
	{"internal/localworld/evmtoken", foundations, 0},
	{"internal/localworld/surfpool", foundations, mayHTTP | mayKeys},
	{"internal/localworld/surfpool/surfpooltest", foundations, testOnly | mayKeys},
	{"internal/localworld/banktest", foundations, testOnly},
	{"internal/localworld/btcd", foundations, mayHTTP | mayKeys},
	{"internal/localworld/btcd/btcdtest", foundations, testOnly | mayKeys},

	{"internal/mint", core, 0},
	{"internal/identity/org", core, 0},
	{"internal/identity", core, 0},
	{"internal/identity/apikey", core, 0},
	{"internal/identity/operator", core, 0},
	{"internal/identity/changerequest", core, 0},
	{"internal/identity/member", core, 0},
	{"internal/identity/memberchange", core, 0},
	{"internal/identity/password", core, 0},
	{"internal/identity/account", core, 0},
	{"internal/identity/session", core, 0},
	{"internal/identity/invitation", core, 0},
	{"internal/identity/signin", core, 0},
	{"internal/customer", core, 0},
	{"internal/ledger", core, 0},
	{"internal/ledger/ledgertest", core, testOnly},
	{"internal/webhooks/event", core, 0},
	{"internal/control/audit", core, 0},
	{"internal/control/audit/audittest", core, testOnly},
	{"internal/price", core, 0},
	{"internal/fee", core, 0},
	{"internal/risk", core, 0},
	{"internal/swap/provider", core, 0},
	{"internal/swap/provider/providertest", core, testOnly},
	{"internal/swap/swaptest", core, testOnly},
	{"internal/swap/turn", core, 0},
	{"internal/wallet", core, 0},
	{"internal/utxo", core, 0},
	{"internal/control/approver", core, 0},
	{"internal/control/whitelist", core, 0},
	{"internal/signer", core, 0},
	{"internal/signer/keys", core, mayKeys},
	{"internal/signer/rules", core, mayKeys},
	{"internal/signer/txcodec", core, 0},
	{"internal/signer/signpolicy", core, 0},
	{"internal/signer/syntax", core, 0},
	{"internal/signer/endorse", core, 0},
	{"internal/signer/assertion", core, mayKeys}, // public ones
	{"internal/signer/approvers", core, 0},
	{"internal/signer/hostorders", core, 0},
	{"internal/signer/changewallet", core, 0},
	{"internal/signer/limits", core, 0},
	{"internal/signer/swapterms", core, 0},
	{"internal/signer/payouts", core, 0},
	{"internal/signer/refunds", core, 0},
	{"internal/signer/batches", core, 0},
	{"internal/signer/ownaccounts", core, 0},
	{"internal/signer/window", core, 0},
	{"internal/signer/clock", core, 0},
	{"internal/signer/journalfile", core, 0},
	{"internal/signer/anchor", core, 0},
	{"internal/signer/adopt", core, 0},
	{"internal/signer/signertest", core, testOnly | mayKeys},
	{"internal/journal", core, 0},
	{"internal/control/freeze", core, 0},
	{"internal/request", core, 0},
	{"internal/policy", core, 0},
	{"internal/payout/rowfile", core, 0},
	{"internal/control/finality", core, 0},
	{"internal/control/jobcontrol", core, 0},

	{"internal/scan", gates, 0},
	{"internal/dispatch", gates, 0},
	{"internal/webhooks/delivery", gates, mayHTTP | mayRand},

	{"internal/deposit", features, 0},
	{"internal/withdrawal", features, 0},
	{"internal/sweep", features, 0},
	{"internal/transfer", features, 0},
	{"internal/swap", features, 0},
	{"internal/depositswap", features, 0},
	{"internal/checkout", features, 0},
	{"internal/billing", features, 0},
	{"internal/payout", features, 0},
	{"internal/rescue", features, 0},

	{"internal/verify", reporting, 0},
	{"internal/report", reporting, 0},
	{"internal/wire", reporting, 0},
	{"internal/billing/billingtest", reporting, testOnly},

	{"internal/service", assembly, 0},
	{"internal/service/servicetest", surfaces, testOnly},

	{"internal/chain/evm", adapters, 0},
	{"internal/chain/bitcoin", adapters, 0},
	{"internal/chain/sim", adapters, mayRand},
	{"internal/chain/solana", adapters, 0},
	{"internal/signer/local", adapters, 0},
	{"internal/signer/remote", adapters, 0},
	{"internal/platform/trace/otlp", adapters, mayFloat},
	{"internal/risk/" + anyName, adapters, 0},
	{"internal/risk/risktest", adapters, testOnly},
	{"internal/price/" + anyName, adapters, 0},
	{"internal/swap/provider/" + anyName, adapters, 0},
	{"internal/signer/remote/remotetest", surfaces, testOnly | mayKeys},

	{"internal/http/kernel", transport, mayHTTP},
	{"internal/http/resource", resources, 0},
	{"internal/http/pages", kit, 0},
	{"internal/http/pages/ui", kit, 0},
	{"internal/http/signinpages", kit, 0},
	{"internal/http/approverpages", kit, 0},
	{"internal/http/dashboard", surfaces, 0},
	{"internal/http/console", surfaces, 0},
	{"internal/http/api", surfaces, 0},
	{"internal/http/operatorapi", surfaces, 0},
	{"internal/http/payerpages", surfaces, 0},
	{"internal/http/surfacetest", watch, testOnly},
	{"internal/ops", surfaces, mayFloat},

	{"internal/app", wiring, mayFloat},
	{"internal/localworld/tour", world, 0},
	{"internal/localworld/caller", core, testOnly},
	{"internal/localworld/swapdesk", world, mayKeys},
	{"internal/localworld", world, mayFloat | mayKeys},
	{"internal/cli", commands, mayFloat},
	{"cmd/coffer", program, 0},
	{"internal/testing/trial/browser", foundations, testOnly | mayFloat},
	{"internal/testing/trial/pagematrix", surfaces, testOnly},
	{"internal/testing/trial/population", foundations, testOnly},
	{"internal/testing/trial/pageset", watch, testOnly | mayHTTP},
	{"internal/testing/trial/harness", world, testOnly},
	{"internal/testing/trial/binary", foundations, testOnly},
	{"internal/testing/trial/forks", watch, testOnly | mayKeys | mayRand},
	{"internal/testing/trial/flagged", watch, testOnly | mayKeys},
	{"internal/testing/trial/utxo", watch, testOnly},
	{"internal/testing/trial/refunds", watch, testOnly},
	{"internal/testing/trial/checkouts", watch, testOnly},
	{"internal/testing/trial/swaps", watch, testOnly},
	{"internal/testing/trial/race", world, testOnly},
	{"internal/testing/trial/nonceaccounts", watch, testOnly | mayKeys},
	{"internal/testing/trial/tokens", world, testOnly},
	{"internal/testing/trial/soak", world, testOnly | mayKeys},
	{"internal/testing/trial/bench", watch, testOnly | mayHTTP | mayFloat | mayRand},
	{"internal/testing/trial/integrate", watch, testOnly | mayHTTP},
	{"internal/testing/trial/payers", watch, testOnly | mayHTTP},
	{"internal/testing/trial/stories", watch, testOnly | mayHTTP},
	{"internal/testing/trial/commit", foundations, testOnly},
	{"internal/testing/trial/mutants", watch, testOnly},
	{"internal/testing/trial/trials", watch, testOnly},
	{"internal/testing/trial/gate", watch, testOnly | mayFloat},
	{"internal/testing/trial/oracle", watch, mayHTTP},
	{"internal/testing/trial/roles", watch, testOnly | mayHTTP},
	{"internal/testing/trial/signing", world, testOnly},
	{"internal/testing/trial/upgrade", watch, testOnly | mayHTTP | mayFloat},
	{"internal/testing/trial/payouts", watch, testOnly | mayHTTP | mayKeys | mayRand},
	{"internal/testing/trial/crashes", watch, testOnly | mayHTTP | mayKeys | mayFloat},
	{"internal/testing/trial/crashes/run", watch, testOnly},
	{"internal/testing/trial/drill", watch, testOnly | mayHTTP | mayFloat},
	{"internal/testing/trial/drill/run", watch, testOnly},
	{"internal/testing/arch", watch, 0},
}

// exception is a justified import that the layers forbid. An exception that no code uses any more
// fails the test.
type exception struct{ from, to, reason string }

var exceptions = []exception{
	{"internal/wire", "webhook", "it makes the objects that leave the installation"},
	{"internal/webhooks/event", "webhook", "the types of events and the envelope, whose bytes are frozen and signed"},
	{"internal/webhooks/delivery", "webhook", "it signs what it posts, and posts samples"},
}

// importers names the only packages whose code, except for tests, may import the ones on the left.
// Adapters need no line here: only app imports them.
var importers = map[string][]string{
	// What decides about signatures, and what it stands on, is reached through the port alone.
	"internal/signer/rules": {"internal/signer/local"},
	"internal/signer/txcodec": {
		"internal/signer/ownaccounts", "internal/signer/rules", "internal/signer/signpolicy", "internal/signer/syntax",
	},
	"internal/signer/endorse":      {"internal/signer/rules"},
	"internal/signer/approvers":    {"internal/signer/local", "internal/signer/rules"},
	"internal/signer/hostorders":   {"internal/app", "internal/signer/local"},
	"internal/signer/changewallet": {"internal/signer/rules"},
	"internal/signer/limits":       {"internal/signer/approvers", "internal/signer/rules"},
	"internal/signer/swapterms":    {"internal/signer/rules"},
	"internal/signer/payouts":      {"internal/signer/rules"},
	"internal/signer/refunds":      {"internal/signer/rules"},
	"internal/signer/ownaccounts":  {"internal/signer/rules"},
	"internal/signer/window": {
		"internal/signer/approvers", "internal/signer/limits", "internal/signer/rules", "internal/signer/signpolicy",
		"internal/signer/txcodec",
	},
	"internal/signer/syntax": {
		"internal/signer/adopt", "internal/signer/anchor", "internal/signer/hostorders", "internal/signer/local",
	},
	"internal/signer/journalfile": {"internal/signer/adopt", "internal/signer/local"},
	"internal/signer/clock":       {"internal/app", "internal/signer/local"},
	"internal/signer/anchor":      {"internal/signer/local"},
	"internal/signer/adopt":       {"internal/app", "internal/signer/local"},

	"internal/service": {"internal/app", "internal/cli"},
	"internal/localworld/anvil": {
		"internal/localworld", "internal/localworld/anvil/anviltest", "internal/testing/trial/bench",
		"internal/testing/trial/crashes", "internal/testing/trial/forks",
	},
	"internal/localworld/btcd": {
		"internal/localworld", "internal/localworld/btcd/btcdtest", "internal/localworld/swapdesk",
		"internal/testing/trial/bench",
	},
	"internal/localworld/swapdesk": {"internal/localworld"},
	"internal/localworld/evmtoken": {
		"internal/localworld", "internal/localworld/anvil", "internal/localworld/swapdesk", "internal/localworld/tour",
		"internal/testing/trial/crashes", "internal/testing/trial/forks",
	},
}
