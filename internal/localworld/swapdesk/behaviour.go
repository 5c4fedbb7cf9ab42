package swapdesk

import (
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// Mode is a way in which the desk departs from what a provider should do.
type Mode string

// The modes of a swap. A firm quote binds one, and its swap keeps it.
const (
	ModeNone           Mode = "none"            // does what it promised
	ModeRefund         Mode = "refund"          // sends the deposit back, less the refund fee, and reports REFUNDED
	ModeFail           Mode = "fail"            // keeps the deposit, sends nothing and reports FAILED
	ModeStall          Mode = "stall"           // keeps the deposit in PROCESSING until it is released
	ModeShort          Mode = "short"           // delivers nine tenths of the minimum and reports SUCCESS
	ModeSplit          Mode = "split"           // delivers in two payments
	ModeDouble         Mode = "double"          // delivers the whole amount twice
	ModeOver           Mode = "over"            // delivers a fifth more than it quoted
	ModeLate           Mode = "late"            // reports FAILED and delivers after a delay, or when released
	ModeOtherToken     Mode = "other-token"     // delivers the value in another asset of the destination chain
	ModeOtherChain     Mode = "other-chain"     // delivers the value on another chain, to an address of the buyer
	ModeLieSuccess     Mode = "lie-success"     // reports SUCCESS and sends nothing
	ModeLieRefunded    Mode = "lie-refunded"    // reports REFUNDED and sends nothing
	ModeRefundOther    Mode = "refund-other"    // refunds the value in another asset of the origin chain
	ModeBadSignature   Mode = "bad-signature"   // a key of a stranger signs the quote
	ModeOtherRecipient Mode = "other-recipient" // signs a genuine quote that pays a third party
	ModeOurAddress     Mode = "our-address"     // signs a quote whose deposit address is the buyer's refund address
	ModePrice          Mode = "price"           // quotes a fifth less in the firm quote than in the dry one
)

// The modes of the API. They take effect at the calls that Behaviour selects; deposits are served as usual.
const (
	ModeReject  Mode = "reject"  // refuses quotes with 400 and a message
	ModeDown    Mode = "down"    // ends connections without an answer
	ModeSlow    Mode = "slow"    // answers after a delay
	ModeGarbage Mode = "garbage" // answers what is no answer of the API, as Behaviour.Form says
)

// call is a call of the API that a behaviour may select.
type call string

const (
	callTokens call = "tokens"
	callDry    call = "dry"
	callFirm   call = "firm"
	callSubmit call = "submit"
	callStatus call = "status"
)

// The forms of ModeGarbage.
const (
	formHTML    = "html"    // a page with 200
	formHuge    = "huge"    // ten megabytes of JSON
	formHalf    = "half"    // JSON that ends in the middle
	formUnknown = "unknown" // JSON with a status and members that the API does not have
)

const (
	usualLateDelay = 2 * time.Minute
	usualSlowDelay = 10 * time.Second
	delayMax       = 24 * time.Hour
)

var (
	swapModes = []Mode{
		ModeRefund, ModeFail, ModeStall, ModeShort, ModeSplit, ModeDouble, ModeOver, ModeLate, ModeOtherToken,
		ModeOtherChain, ModeLieSuccess, ModeLieRefunded,
		ModeRefundOther, ModeBadSignature, ModeOtherRecipient, ModeOurAddress, ModePrice,
	}
	callModes = []Mode{ModeReject, ModeDown, ModeSlow, ModeGarbage}
	calls     = []call{callTokens, callDry, callFirm, callSubmit, callStatus}
	forms     = []string{formHTML, formHuge, formHalf, formUnknown}
)

// ListModes returns every mode: None, those of a swap, and those of the API.
func ListModes() []Mode { return slices.Concat([]Mode{ModeNone}, swapModes, callModes) }

// Behaviour says how the desk departs, and where. The zero value departs nowhere.
type Behaviour struct {
	Mode Mode `json:"mode"`
	// Remaining is how many firm quotes, or calls for the modes of the API, have the mode; then it ends. Zero:
	// all of them, until the behaviour is replaced.
	Remaining int `json:"next,omitempty"`
	// Mint restricts the mode to quotes from or to one mint of the service's catalogue.
	Mint int `json:"mint,omitempty"`
	// Asset restricts the mode to quotes from or to one asset, which the service's catalogue may not have.
	Asset string `json:"asset,omitempty"`
	// Call restricts a mode of the API to one call: tokens, dry, firm, submit or status.
	Call call `json:"call,omitempty"`
	// Delay is that of ModeLate and ModeSlow, such as "90s".
	Delay duration `json:"delay,omitempty"`
	// Form is that of ModeGarbage: html, huge, half or unknown.
	Form string `json:"form,omitempty"`
	// Message is that of ModeReject.
	Message string `json:"message,omitempty"`
	// DepositAddress changes the mode of one swap that has no deposit yet, and no other.
	DepositAddress string `json:"depositAddress,omitempty"`
}

// duration is a time.Duration that JSON has as Go writes it.
type duration time.Duration

// MarshalText formats the duration.
func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText parses the duration.
func (d *duration) UnmarshalText(text []byte) error {
	value, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	if value < 0 || value > delayMax {
		return fmt.Errorf("a delay of %s", value)
	}
	*d = duration(value)
	return nil
}

// orUsual returns the duration, or the usual one where it is zero.
func (d duration) orUsual(usual time.Duration) time.Duration {
	if d == 0 {
		return usual
	}
	return time.Duration(d)
}

// matches reports whether a behaviour applies to a call about some assets.
func (b Behaviour) matches(c call, assets ...Asset) bool {
	isOfMint, isOfAsset := b.Mint == 0, b.Asset == ""
	for _, a := range assets {
		isOfMint = isOfMint || b.Mint == a.Mint
		isOfAsset = isOfAsset || b.Asset == a.ID()
	}
	return isOfMint && isOfAsset && (b.Call == "" || b.Call == c)
}

// takeBehaviour returns the behaviour for a call if it has one of the modes, and counts it. The caller holds
// the lock.
func (d *Server) takeBehaviour(modes []Mode, c call, assets ...Asset) (Behaviour, error) {
	b := d.settings.Behaviour
	isOfModes := false
	for _, mode := range modes {
		isOfModes = isOfModes || mode == b.Mode
	}
	if !isOfModes || !b.matches(c, assets...) {
		return Behaviour{Mode: ModeNone}, nil
	}
	if b.Remaining > 0 {
		if d.settings.Behaviour.Remaining--; d.settings.Behaviour.Remaining == 0 {
			d.settings.Behaviour = Behaviour{Mode: ModeNone}
		}
		if err := d.store.appendRecords(record{Settings: &d.settings}); err != nil {
			return b, err
		}
	}
	return b, nil
}

// settings are what the control listener sets.
type settings struct {
	Behaviour Behaviour            `json:"behaviour"`
	Prices    map[string]money.USD `json:"prices,omitempty"` // by asset, instead of the usual ones
	// DepositWindow is Config.DepositWindow of later quotes; nil: the usual one.
	DepositWindow *duration `json:"depositWindow,omitempty"`
}
